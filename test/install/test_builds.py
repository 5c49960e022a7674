# SPDX-License-Identifier: MIT
"""Coffer in projects of other build systems, each from a clean directory: CMake's FetchContent, Meson, Conan, vcpkg."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from releases import BUILD_DIR, ROOT, VERSION, files, long, run, unpacked_release


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_release(tmp_path_factory.mktemp("release"))


def test_a_part_of_a_project_configures_alone(tmp_path: Path) -> None:
    """It brings targets and nothing else: no flags, no tests, nothing to install."""
    run("cmake", "-S", ROOT / "examples/subdirectory", "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Release")
    cache = (tmp_path / "CMakeCache.txt").read_text()
    assert "CMAKE_CXX_FLAGS_RELEASE:STRING=-O3 -DNDEBUG\n" in cache
    assert "COFFER_WERROR" in cache and "GTest_DIR" not in cache and "Python3" not in cache
    run("cmake", "--install", tmp_path, "--prefix", tmp_path / "prefix")
    assert not (tmp_path / "prefix").exists() or files(tmp_path / "prefix") == set()


@long
def test_fetch_content(release: Path, tmp_path: Path) -> None:
    run("cmake", "-S", release / "examples/subdirectory", "-B", tmp_path)
    run("cmake", "--build", tmp_path, "--parallel", os.cpu_count())  # Makefiles, as by default
    for kind in ("coffer", "static"):
        assert f"Coffer {VERSION} holds" in run(tmp_path / f"example_{kind}")
    assert "from coffer_malloc, from malloc" in run(tmp_path / "example_core")
    assert "libcoffer" not in run("readelf", "--dynamic", "--wide", tmp_path / "example_static")


@pytest.mark.skipif(not shutil.which("meson"), reason="meson is missing")
def test_meson(tmp_path: Path) -> None:
    run("cmake", "--install", BUILD_DIR, "--prefix", tmp_path / "prefix")
    (place,) = tmp_path.glob("prefix/lib*/**/pkgconfig")
    run("meson", "setup", tmp_path / "build", ROOT / "examples/meson", PKG_CONFIG_PATH=str(place))
    run("meson", "compile", "-C", tmp_path / "build")
    assert "libcoffer.so.0" in run("readelf", "--dynamic", "--wide", tmp_path / "build/example")
    assert f"Coffer {VERSION} holds" in run(tmp_path / "build/example", LD_LIBRARY_PATH=str(place.parent))


@long
@pytest.mark.parametrize("shared", [True, False])
def test_conan(release: Path, tmp_path: Path, shared: bool) -> None:
    """The recipe's own test program runs under the package."""
    pinned = next(line for line in (ROOT / "tools/requirements-packages.txt").read_text().splitlines()
                  if line.startswith("conan=="))
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", pinned)
    conan = [tmp_path / "venv/bin/conan"]
    # Without CC and CXX: its profile knows compilers by name, and of CC=cc it finds none.
    home = {"CONAN_HOME": str(tmp_path / "home"), "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()),
            "CC": "", "CXX": ""}
    run(*conan, "profile", "detect", **home)
    said = run(*conan, "create", release / "packaging/conan", "-o", f"coffer/*:shared={shared}", **home)
    assert f"malloc is coffer, version {VERSION}" in said
    (include,) = (tmp_path / "home").glob("p/b/coffe*/p/include/coffer/coffer.h")
    package = include.parents[2]
    kept = {path.name for path in (package / "lib").iterdir()}
    ends = ("so", "so.0", f"so.{VERSION}") if shared else ("a",)
    assert kept == {"libcoffer_core.a", "libcoffer_rt.a"} | {
        f"{name}.{end}" for name in ("libcoffer", "libcoffer_hardened") for end in ends}
    assert (package / "licenses/LICENSE").exists()


# What vcpkg's own scripts do for a port, as far as this port asks for it. vcpkg itself is no package of a registry.
VCPKG = """
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND cmake -S ${arg_SOURCE_PATH} -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib ${arg_OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_build)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "")
  execute_process(COMMAND cmake --build ${WORK} --target ${arg_TARGET} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND cmake --install ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  file(GLOB found ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/${arg_PACKAGE_NAME}Config.cmake)
  if(NOT found)
    message(FATAL_ERROR "no ${arg_PACKAGE_NAME}Config.cmake in ${arg_CONFIG_PATH}")
  endif()
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(INSTALL ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/coffer RENAME copyright)
endfunction()
include(${CURRENT_PORT_DIR}/portfile.cmake)
"""


@long
def test_vcpkg(release: Path, tmp_path: Path) -> None:
    (tmp_path / "vcpkg.cmake").write_text(VCPKG)
    packages = tmp_path / "packages"
    run("cmake", f"-DCURRENT_PORT_DIR={release}/packaging/vcpkg/coffer", f"-DCURRENT_PACKAGES_DIR={packages}",
        f"-DWORK={tmp_path}/work", "-P", tmp_path / "vcpkg.cmake")
    assert {"include/coffer/coffer.h", "lib/libcoffer.a", "lib/libcoffer.so.0", "lib/pkgconfig/coffer.pc",
            "share/coffer/copyright"} <= files(packages)
    assert not (packages / "bin").exists() and not (packages / "share/man").exists()
    run("cmake", "-S", release / "examples/cmake", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={packages}")
    run("cmake", "--build", tmp_path / "build")
    assert f"Coffer {VERSION} holds" in run(tmp_path / "build/example_static")
