# Coffer's front door; CMake and CTest do the work. `make help` says what there is.
# Every goal installs what it needs and is missing (Debian 12, Ubuntu 24.04; see tools/setup.sh), and does nothing
# twice.
PRESET ?= release
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)

build_dir = $(if $(filter release,$(PRESET)),build,build-$(PRESET))
inputs = CMakePresets.json

.DEFAULT_GOAL := build
.PHONY: build run test bench-quick format lint install clean help setup setup-build setup-test setup-lint

help:  ## this list
	@echo "make [PRESET=release|debug|asan|tsan|release-clang|...] [JOBS=n] goal"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

build: setup-build $(build_dir)/build.ninja  ## the libraries, in build/lib
	@cmake --build $(build_dir) --parallel $(JOBS) --target coffer_libraries

run: setup-test build  ## a real program under Coffer and under glibc: time and memory
	@python3 tools/run_comparison.py --library $(build_dir)/lib/libcoffer.so

test: setup-test  ## every test, then those marked tsan under ThreadSanitizer
	@tools/run_tests.sh $(JOBS)

bench-quick: setup-test $(build_dir)/build.ninja  ## Coffer beside glibc and the allocators that Debian has
	@cmake --build $(build_dir) --parallel $(JOBS)
	@python3 bench/quick.py --build-dir $(build_dir)

format: setup-lint  ## rewrites the C++ files by .clang-format
	@tools/lint.sh format

lint: setup-test setup-lint build/build.ninja  ## format, clang-tidy and the tidy test, without changing anything
	@tools/lint.sh check $(JOBS)

install: build  ## into $(DESTDIR)$(PREFIX)
	@DESTDIR="$(DESTDIR)" cmake --install $(build_dir) --prefix "$(PREFIX)"

clean:  ## removes every build directory
	rm -rf build build-*

setup: setup-build setup-test setup-lint  ## installs everything that any goal needs

setup-build setup-test setup-lint: setup-%:
	@tools/setup.sh $*

# Ninja runs CMake again by itself when a CMakeLists.txt changes; it does not know the presets.
build/build.ninja: $(inputs)
	@cmake --preset release
	@touch $@

build-%/build.ninja: $(inputs)
	@cmake --preset $*
	@touch $@
