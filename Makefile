# SPDX-License-Identifier: MIT
# Coffer's front door; CMake and CTest do the work. `make help` says what there is.
# Every goal installs what it needs and is missing (Debian 12, Ubuntu 24.04; see tools/setup.sh), and does nothing
# twice.
PRESET ?= release
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
# Of `make bench`: QUICK=1, SCALE=0.1, BENCH_OPTIONS="--only larson --rounds 3" (coffer bench --help).
QUICK ?=
SCALE ?=
BENCH_OPTIONS ?=
# Of `make figures`: SAMPLES=build/bench/results/quick.jsonl (default: the latest run), FIGURES_OPTIONS="--clock wall".
SAMPLES ?=
FIGURES_OPTIONS ?=
# Of `make hw-report`: --calls 20000 --accesses 2000 (hw/report/report.py --help).
REPORT_OPTIONS ?=
# Of `make trial`: the seed of the first world (else one is drawn), and for how long, or how many worlds; LENGTH="3000
# 16000": operations drawn for a world at most, of several in turn; REPORT=1: the table, too.
# `make soak` has HOURS and REPORT, too, and options: "--programs redis,nginx --together" (bench/soak/__main__.py).
SEED ?=
HOURS ?=
WORLDS ?=
LENGTH ?=
REPORT ?=
SOAK_OPTIONS ?=
# Of `make outside`: --suites glibc jemalloc --allocators glibc coffer (test/outside/run.py --help).
OUTSIDE_OPTIONS ?=
# Of `make test-arch`: aarch64, riscv64 or x86_64, or one C library of it as aarch64-musl.
ARCH ?= aarch64

build_dir = $(if $(filter release,$(PRESET)),build,build-$(PRESET))

# The sets of tools/setup.sh that every build needs.
build_sets = build $(if $(findstring clang,$(PRESET)),clang)

.DEFAULT_GOAL := build
.PHONY: build tools run test test-long test-rt test-tools test-hw hw-report models bench figures bench-quick bench-memory bench-index bench-sweep bench-policy traces format lint install dist deb wheel wheels test-packages uninstall clean help setup mutants trial soak outside test-arch
.NOTPARALLEL:

help:  ## this list
	@echo "make [PRESET=release|debug|asan|tsan|release-clang|...] [JOBS=n] goal"
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

build:  ## the libraries, in build/lib
	@tools/setup.sh $(build_sets)
	@tools/build.sh $(PRESET) $(JOBS) coffer_libraries

tools:  ## the coffer command: build/bin/coffer
	@tools/setup.sh $(build_sets) tools
	@tools/build.sh $(PRESET) $(JOBS) coffer_libraries coffer_command

run:  ## a real program under Coffer and under glibc: time and memory
	@tools/setup.sh $(build_sets) run
	@tools/build.sh $(PRESET) $(JOBS) coffer_libraries
	@python3 tools/demo.py --library $(build_dir)/lib/libcoffer.so

test:  ## every test, then those marked tsan under ThreadSanitizer, then the fuzzing targets for some seconds
	@tools/setup.sh build test models hw clang
	@tools/run_tests.sh $(JOBS)

.PHONY: check
check:  ## for a change in progress: units, promises, misuse, faults, text; under five minutes once it is built
	@tools/setup.sh build test
	@tools/run_tests.sh --check $(JOBS)

test-long:  ## what only explores longer: fuzzing for a minute each, all mutants, all seeded bugs, trials for HOURS (0.5)
	@tools/setup.sh build tools test models clang arch
	@HOURS=$(HOURS) tools/run_long.sh $(JOBS)

test-arch:  ## the tests on ARCH=aarch64, riscv64 or x86_64, with glibc and musl, by qemu-user: a quarter of an hour each
	@tools/setup.sh build test arch
	@python3 -B tools/test_arch.py run $(ARCH) --jobs $(JOBS)

test-rt:  ## the real-time heap's tests; RT_LONG=1: the long ones too
	@tools/setup.sh build test
	@tools/build.sh --tests release $(JOBS) coffer_rt_tests
	@ctest --test-dir build -L '^rt$$' --output-on-failure --parallel $(JOBS)

test-hw:  ## the hardware's tests: unit benches, traces, seeded faults
	@tools/setup.sh build test hw
	@tools/build.sh --tests release $(JOBS) coffer_hw_tests
	@ctest --test-dir build -L '^hw$$' --output-on-failure --parallel $(JOBS)

hw-report:  ## the thesis's tables and plots from traces of real programs, in build/hw/report
	@tools/setup.sh build tools hw
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_hw_answers coffer_hw_marks coffer_hw_accesses coffer_python
	@COFFER_HW_BUILD=$(build_dir)/hw $(build_dir)/venv/bin/python -B hw/report/report.py --jobs $(JOBS) $(REPORT_OPTIONS)

test-tools:  ## the tests of the coffer command and its programs alone; part of `make test`
	@tools/setup.sh build tools test
	@tools/build.sh --tests release $(JOBS) coffer_tool_tests coffer_command
	@ctest --test-dir build -L '^tools$$' --output-on-failure --parallel $(JOBS)

models:  ## explores every model of models/ whole, and finds the faults seeded in them
	@tools/setup.sh models
	@python3 models/run.py --deep --jobs $(JOBS)

mutants:  ## makes every mutant of test/mutants, sees that a test finds it, and writes the table
	@tools/setup.sh build test
	@tools/build.sh --tests release $(JOBS) mutant_programs
	@python3 test/mutants/run.py --write --jobs $(JOBS)

trial:  ## worlds with faults, each from a seed, for HOURS (0.1), or WORLDS: docs/design/trial.md; REPORT=1 writes docs/results/trial.md, REPORT=worlds a part
	@tools/setup.sh build test
	@tools/build.sh --tests release $(JOBS) trial
	@python3 test/trial/run.py --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(HOURS),--hours $(HOURS)) $(if $(WORLDS),--worlds $(WORLDS)) $(if $(LENGTH),--length $(LENGTH)) $(if $(REPORT),--report $(REPORT))

soak:  ## real programs under Coffer, disturbed, for HOURS (1): memory, latencies; docs/design/soak.md; REPORT=1 writes docs/results/soak.md
	@tools/setup.sh $(build_sets) tools soak
	@tools/build.sh $(PRESET) $(JOBS) coffer_libraries coffer_bench
	@PYTHONPATH=bench:tools $(build_dir)/venv/bin/python -B -m soak --build-dir $(build_dir) $(if $(HOURS),--hours $(HOURS)) $(if $(REPORT),--report) $(SOAK_OPTIONS)

outside:  ## malloc tests that packages bring, under Coffer and its peers, and docs/results/outside.md: half an hour
	@tools/setup.sh $(build_sets) outside
	@tools/build.sh $(PRESET) $(JOBS) coffer_libraries
	@python3 -B test/outside/run.py --build-dir $(build_dir) --jobs $(JOBS) --build-peers --write $(OUTSIDE_OPTIONS)

bench:  ## Coffer beside all others, on the papers' experiments and real programs: under an hour (QUICK=1: 5 minutes)
	@tools/setup.sh $(build_sets) tools test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_variants bench_programs coffer_bench
	@$(build_dir)/bin/coffer bench peers || echo "going on without what is missing"
	@$(build_dir)/bin/coffer bench $(if $(QUICK),--quick) $(if $(SCALE),--scale $(SCALE)) $(BENCH_OPTIONS)

figures:  ## the picture, tables and README figures of the last `make bench`, in docs/results: ten minutes
	@tools/setup.sh $(build_sets) tools test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_variants bench_programs coffer_bench
	@$(build_dir)/bin/coffer bench figures $(FIGURES_OPTIONS) $(SAMPLES)
	@python3 bench/instructions.py --build-dir $(build_dir) --report docs/results/instructions.md
	@python3 bench/startup.py --build-dir $(build_dir) --report docs/results/startup.md
	@python3 tools/demo.py --library $(build_dir)/lib/libcoffer.so --report docs/results/demo.md
	@python3 bench/memory.py --build-dir $(build_dir) --report docs/results/memory.md

bench-quick:  ## Coffer beside glibc and the allocators that Debian has
	@tools/setup.sh $(build_sets) test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_variants bench_programs
	@python3 bench/quick.py --build-dir $(build_dir)

bench-memory:  ## memory in patterns that make allocators hold more than is live
	@tools/setup.sh $(build_sets) test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries bench_programs
	@python3 bench/memory.py --build-dir $(build_dir)

bench-index:  ## placement on cache indices: survey, benchmarks and simulator of paper 3
	@tools/setup.sh $(build_sets) test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_tools bench_programs
	@python3 bench/index.py --build-dir $(build_dir)

bench-sweep:  ## what the options slack, empty_fraction and span cost and save
	@tools/setup.sh $(build_sets) test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries bench_programs
	@python3 bench/lab/sweep.py --build-dir $(build_dir)

bench-policy:  ## what half and twice of each policy constant would cost
	@tools/setup.sh $(build_sets) test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_simulators bench_programs
	@python3 bench/policy_sweep.py --build-dir $(build_dir)

traces:  ## the library of traces, recorded from real programs, in build/traces: two minutes
	@tools/setup.sh $(build_sets) tools test
	@tools/build.sh --tests $(PRESET) $(JOBS) coffer_libraries coffer_command bench_suite
	@python3 tools/traces/make.py --build-dir $(build_dir)

format:  ## rewrites the C and C++ files by .clang-format
	@tools/setup.sh lint
	@tools/lint.sh format

lint:  ## format, clang-tidy and the tidy test; changes nothing
	@tools/setup.sh build lint
	@tools/build.sh release $(JOBS) coffer_libraries
	@tools/lint.sh check $(JOBS)

install: tools  ## libraries, the coffer command, its manual and shell completions, into $(DESTDIR)$(PREFIX)
	@DESTDIR="$(DESTDIR)" cmake --install $(build_dir) --prefix "$(PREFIX)"

dist:  ## the release, build/dist/coffer-VERSION.tar.xz
	@tools/setup.sh $(build_sets) tools
	@tools/build.sh $(PRESET) $(JOBS) coffer_manual
	@tools/dist.sh $(build_dir) $(build_dir)/dist

deb wheel: dist  ## the Debian packages, the wheel; in build/dist
	@tools/setup.sh packages
	@tools/package.sh $@ $(build_dir) $(build_dir)/dist

wheels: dist  ## wheels for glibc 2.28 and musl, x86-64 and aarch64; in build/dist: a quarter of an hour
	@tools/setup.sh packages arch
	@tools/package.sh wheels $(build_dir) $(build_dir)/dist --jobs $(JOBS)

test-packages:  ## builds every package as a user does, and runs programs under each: some minutes
	@tools/setup.sh build tools test packages arch
	@tools/build.sh --tests release $(JOBS) coffer_libraries coffer_command
	@COFFER_LONG=1 COFFER_BUILD_DIR=build $(firstword $(wildcard /usr/bin/python3) python3) -B -m pytest -p no:cacheprovider test/install

uninstall:  ## removes what `make install` put into $(DESTDIR)$(PREFIX)
	@DESTDIR="$(DESTDIR)" cmake -DPREFIX="$(PREFIX)" -P cmake/CofferUninstall.cmake

clean:  ## removes every build directory
	rm -rf build build-*

setup:  ## installs everything that any goal needs
	@tools/setup.sh build tools run test models hw packages lint clang soak outside
