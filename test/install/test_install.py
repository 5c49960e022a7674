# SPDX-License-Identifier: MIT
"""`make install`, then programs built and run against the installed tree: preloaded, linked, static, by pkg-config and
by CMake. Each must find Coffer's malloc under itself.

COFFER_BUILD_DIR is the build to install from; CC and CXX are the compilers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

BUILD_DIR = Path(os.environ["COFFER_BUILD_DIR"])
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", "c++")
OURS = "malloc is coffer, counted yes\n"


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """Standard output of a command that must succeed and say nothing to standard error."""
    inherited = {key: value for key, value in os.environ.items() if key not in {"DESTDIR", "MAKEFLAGS", "LD_PRELOAD"}}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240,
                          env=inherited | (environment or {}))
    assert done.returncode == 0 and done.stderr == "", f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("destination")
    run("cmake", "--install", BUILD_DIR, "--prefix", "/opt/coffer", environment={"DESTDIR": str(destination)})
    assert [path.name for path in destination.iterdir()] == ["opt"], "DESTDIR was not respected"
    return destination / "opt/coffer"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The Python packages of the build directory, where `coffer setup` would put them."""
    data = tmp_path_factory.mktemp("data")
    (data / "coffer").mkdir()
    (data / "coffer" / (BUILD_DIR / "version").read_text().strip()).symlink_to(BUILD_DIR.resolve() / "venv")
    return {"XDG_DATA_HOME": str(data)}


@pytest.fixture(scope="session")
def lib(prefix: Path) -> Path:
    return next(prefix.rglob("libcoffer.so")).parent


def build(folder: Path, compiler: str, source: str, *flags: str | Path) -> Path:
    program = folder / "program"
    run(compiler, "-O2", HERE / source, "-o", program, *flags, "-pthread")
    return program


def needed(program: Path) -> str:
    return run("readelf", "--dynamic", "--wide", program)


PROBES = [(CC, "probe.c"), (CXX, "probe.cpp")]
languages = pytest.mark.parametrize("compiler,source", PROBES, ids=["c", "c++"])


def test_installed_files(prefix: Path) -> None:
    names = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    for wanted in ("bin/coffer-run", "bin/coffer", "include/coffer/coffer.h", "include/coffer/coffer_rt.h",
                   "share/doc/coffer/LICENSE", "share/doc/coffer/installed",
                   "share/man/man1/coffer-record.1", "share/bash-completion/completions/coffer",
                   "share/zsh/site-functions/_coffer", "share/fish/vendor_completions.d/coffer.fish"):
        assert wanted in names
    for wanted in ("libcoffer.so", "libcoffer.so.0", "libcoffer.a", "libcoffer_core.a", "libcoffer_rt.a",
                   "libcoffer_hardened.so", "libcoffer_hardened.so.0", "libcoffer_hardened.a",
                   "pkgconfig/coffer.pc", "cmake/Coffer/CofferConfig.cmake"):
        assert any(name.endswith("/" + wanted) for name in names), wanted
    assert not any("nocheck" in name or name.endswith((".cpp", ".hpp.in")) for name in names)
    assert not any(Path(name).name.startswith(".") for name in names)


def test_installed_text_has_no_build_paths(prefix: Path) -> None:
    for path in prefix.rglob("*"):
        if path.is_file() and path.suffix in {".cmake", ".pc", ".h", ".1", ""}:
            data = path.read_bytes()
            if not data.startswith(b"\x7fELF"):  # programs name their sources for debuggers
                assert str(ROOT).encode() not in data and str(BUILD_DIR).encode() not in data, path


def test_the_licence_is_installed_whole(prefix: Path) -> None:
    assert (prefix / "share/doc/coffer/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def uninstall(prefix: str, destination: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-C", str(ROOT), "uninstall", f"PREFIX={prefix}", f"DESTDIR={destination}"],
                          capture_output=True, text=True)


def test_uninstall_leaves_what_was_there(tmp_path: Path, prefix: Path) -> None:
    """Issue 16: there was none. Of folders, those that were there before stay, and those with a file of others."""
    copy = tmp_path / "opt/coffer"
    copy.parent.mkdir()
    run("cp", "-al", prefix, copy)
    (copy / "include/coffer/others.h").touch()
    done = uninstall("/opt/coffer", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree(copy) == {"include", "include/coffer", "include/coffer/others.h"}
    done = uninstall("/opt/coffer", tmp_path)
    assert done.returncode != 0 and "No Coffer is installed" in done.stderr


def test_a_damaged_list_removes_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "p/share/doc/coffer").mkdir(parents=True)
    (tmp_path / "kept").touch()
    for line in ("../kept", f"{tmp_path}/kept", "share/../../kept", ".."):
        (tmp_path / "p/share/doc/coffer/installed").write_text(f"{line}\n")
        done = uninstall("/p", tmp_path)
        assert done.returncode != 0 and "is damaged" in done.stderr and (tmp_path / "kept").exists()


def installed_with(folder: Path, known: str, destination: str | None = None) -> tuple[str, list[str]]:
    """What an installation into the folder says, where the loader knows of another one, and what it asks ldconfig."""
    called = folder / "called"
    tools = folder / "tools"
    tools.mkdir()
    (tools / "ldconfig").write_text(f'#!/bin/sh\necho "$*" >>{called}\necho "{known}: (from somewhere)"\n')
    (tools / "ldconfig").chmod(0o755)
    # Not the command, whose thousands of files are in the other tests.
    script = f'set(CMAKE_INSTALL_PREFIX "{folder}/prefix")\nset(CMAKE_INSTALL_MANIFEST_FILES' \
             f' "{folder}/prefix/lib/libcoffer.so")\n' \
             f'include("{BUILD_DIR}/CofferNoteFolders.cmake")\ninclude("{BUILD_DIR}/CofferNoteInstalled.cmake")\n'
    (folder / "script.cmake").write_text(script)
    where = {"PATH": f"{tools}:{os.environ['PATH']}"} | ({"DESTDIR": destination} if destination else {})
    told = run("cmake", "-P", folder / "script.cmake", environment=where)
    return told, called.read_text().splitlines()


@pytest.mark.parametrize("case", ["known", "unknown", "staged"])
def test_the_loader_is_told(tmp_path: Path, case: str) -> None:
    """Issue 16: a program linked with -lcoffer did not start after `make install` to the default prefix."""
    lib = next(line for line in (BUILD_DIR / "CMakeCache.txt").read_text().splitlines()
               if line.startswith("CMAKE_INSTALL_LIBDIR:")).partition("=")[2]
    (tmp_path / "prefix" / lib).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "prefix")  # the loader's names may lead through links
    known = tmp_path / ("elsewhere" if case == "unknown" else "link") / lib
    told, called = installed_with(tmp_path, str(known), str(tmp_path / "staged") if case == "staged" else None)
    if case == "known" and os.geteuid() == 0:
        assert called == ["-v -N -X", ""] and told == ""
        return
    assert called == ["-v -N -X"]
    asked = {"known": "run: sudo ldconfig\n", "staged": "run ldconfig where this is unpacked\n",
             "unknown": f"link with -Wl,-rpath,{tmp_path}/prefix/{lib}, or set LD_LIBRARY_PATH\n"}[case]
    assert told.endswith(asked) and told.count("\n") == 1


@languages
def test_foreign_malloc_is_told_apart(tmp_path: Path, compiler: str, source: str) -> None:
    assert run(build(tmp_path, compiler, source)).startswith("malloc is foreign")


@languages
def test_preload(tmp_path: Path, prefix: Path, lib: Path, compiler: str, source: str) -> None:
    program = build(tmp_path, compiler, source)
    assert run(program, environment={"LD_PRELOAD": str(lib / "libcoffer.so")}) == OURS
    assert run(prefix / "bin/coffer-run", program) == OURS
    maps = run(prefix / "bin/coffer-run", "--hardened", "cat", "/proc/self/maps")
    assert "/libcoffer_hardened.so.0" in maps and "/libcoffer.so" not in maps


@languages
def test_shared(tmp_path: Path, prefix: Path, lib: Path, compiler: str, source: str) -> None:
    program = build(tmp_path, compiler, source, f"-I{prefix}/include", f"-L{lib}", "-lcoffer", f"-Wl,-rpath,{lib}")
    assert "libcoffer.so.0" in needed(program)
    assert run(program) == OURS


@languages
def test_static_library_in_a_dynamic_program(tmp_path: Path, lib: Path, compiler: str, source: str) -> None:
    program = build(tmp_path, compiler, source, lib / "libcoffer.a")
    assert "libcoffer" not in needed(program)
    assert run(program) == OURS


@languages
def test_fully_static_program(tmp_path: Path, lib: Path, compiler: str, source: str) -> None:
    program = build(tmp_path, compiler, source, "-static", f"-L{lib}", "-lcoffer")
    assert "no dynamic section" in needed(program)
    assert run(program) == OURS


@languages
def test_pkg_config(tmp_path: Path, lib: Path, compiler: str, source: str) -> None:
    where = {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}
    version = run("pkg-config", "--modversion", "coffer", environment=where).strip()
    assert f"libcoffer.so.{version}" in {path.name for path in lib.iterdir()}
    flags = run("pkg-config", "--cflags", "--libs", "coffer", environment=where).split()
    program = build(tmp_path, compiler, source, *flags, "-Wl,--as-needed", f"-Wl,-rpath,{lib}")
    assert run(program) == OURS
    static = build(tmp_path, compiler, source, "-static", *flags)
    assert run(static) == OURS


def test_program_that_only_its_libraries_make_allocate(tmp_path: Path, lib: Path) -> None:
    """The flags of pkg-config link Coffer even if the program itself never calls malloc, under --as-needed too."""
    flags = run("pkg-config", "--libs", "coffer", environment={"PKG_CONFIG_PATH": str(lib / "pkgconfig")}).split()
    source = tmp_path / "quiet.c"
    source.write_text("int main(void) { return 0; }\n")
    run(CC, "-Wl,--as-needed", source, "-o", tmp_path / "quiet", *flags)
    assert "libcoffer.so.0" in needed(tmp_path / "quiet")


def test_moved_tree(tmp_path: Path, prefix: Path, lib: Path, packages: dict[str, str]) -> None:
    """Nothing that is installed knows where it was installed."""
    moved = tmp_path / "moved"
    run("cp", "-al", prefix, moved)
    assert run(moved / "bin/coffer-run", build(tmp_path, CC, "probe.c")) == OURS
    assert run(moved / "bin/coffer", "run", "--", tmp_path / "program", environment=packages) == OURS
    place = moved / lib.relative_to(prefix) / "pkgconfig"
    flags = run("pkg-config", "--cflags", "coffer", environment={"PKG_CONFIG_PATH": str(place)})
    assert str(moved.resolve()) in os.path.realpath(flags.strip().removeprefix("-I"))


def test_place_that_cannot_be_preloaded(tmp_path: Path, prefix: Path) -> None:
    """The dynamic linker splits LD_PRELOAD at spaces and colons; nothing can quote them."""
    odd = tmp_path / "a place"
    run("cp", "-al", prefix, odd)
    done = subprocess.run([odd / "bin/coffer-run", "true"], capture_output=True, text=True)
    assert done.returncode == 127 and "space or a colon" in done.stderr


def test_coffer_run_reports(prefix: Path) -> None:
    done = subprocess.run([prefix / "bin/coffer-run"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout.startswith("usage: coffer-run")
    assert run(prefix / "bin/coffer-run", "--help").startswith("usage: coffer-run")


def test_command(tmp_path: Path, prefix: Path, packages: dict[str, str]) -> None:
    """The coffer command, by a link too, in a folder whose modules have names that Python's own have."""
    link = tmp_path / "coffer"
    link.symlink_to(prefix / "bin/coffer")
    (tmp_path / "typing.py").write_text("raise SystemExit('the wrong module')\n")
    program = build(tmp_path, CC, "probe.c")

    def coffer(*words: str | Path) -> str:
        done = subprocess.run([str(link), *map(str, words)], capture_output=True, text=True, cwd=tmp_path,
                              env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)} | packages)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert coffer("run", "--", program) == OURS
    assert coffer("record", "-o", "program.trace", "--", program) == OURS
    assert "coffer" in coffer("replay", "program.trace", "-a", "coffer,glibc")
    assert coffer("--version").startswith("coffer 0.")


def test_command_without_its_packages(tmp_path: Path, prefix: Path) -> None:
    """Programs run all the same; for the rest it is said what to do."""
    nowhere = {"PATH": os.environ["PATH"], "XDG_DATA_HOME": str(tmp_path / "data")}
    coffer = str(prefix / "bin/coffer")
    program = build(tmp_path, CC, "probe.c")
    assert subprocess.check_output([coffer, "run", "--", program], text=True, env=nowhere) == OURS
    assert subprocess.check_output([coffer, "run", "--hardened", "--", program], text=True, env=nowhere) == OURS
    version = subprocess.check_output([coffer, "--version"], text=True, env=nowhere)
    assert version == f"coffer {(BUILD_DIR / 'version').read_text()}"
    done = subprocess.run([coffer, "record", "--", program], capture_output=True, text=True, env=nowhere)
    assert done.returncode == 127 and done.stdout == "" and "coffer setup" in done.stderr


def test_setup(tmp_path: Path, prefix: Path) -> None:
    """pip is asked for what the command was tested with; what fails leaves nothing, as does --remove."""
    tools, data = tmp_path / "tools", tmp_path / "data"
    tools.mkdir()
    data.mkdir()
    pip = f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexit $(cat {tmp_path}/status)\n'
    (tmp_path / "pip").write_text(pip)
    (tools / "python3").write_text(f'#!/bin/sh\nmkdir -p "$3/bin" && install -m 755 {tmp_path}/pip "$3/bin/python"\n')
    (tools / "python3").chmod(0o755)
    where = {"PATH": f"{tools}:{os.environ['PATH']}", "XDG_DATA_HOME": str(data)}
    for status in (1, 0):
        (tmp_path / "status").write_text(str(status))
        done = subprocess.run([prefix / "bin/coffer", "setup"], capture_output=True, text=True, env=where)
        assert done.returncode == status and ("python3-venv" in done.stderr) == bool(status)
        assert [path.name for path in data.rglob("bin")] == ["bin"] * (1 - status)
    *_, asked = (tmp_path / "asked").read_text().splitlines()
    requirements = Path(asked.split()[-1])
    assert requirements.read_bytes() == (ROOT / "tools/requirements.txt").read_bytes()
    subprocess.run([prefix / "bin/coffer", "setup", "--remove"], check=True, env=where)
    assert list(data.iterdir()) == []


def test_size(prefix: Path) -> None:
    """Issue 21: 461 MB and 9,039 files before."""
    files = [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < 12 << 20 and 100 < len(files) < 250
    compiled = [path for path in files if path.suffix in {".a", ".so"} or path.read_bytes()[:4] == b"\x7fELF"]
    assert len(compiled) > 15
    for path in compiled:
        assert ".debug_info" not in run("readelf", "--wide", "--sections", path), path
    assert ".debug_info" in run("readelf", "--wide", "--sections", BUILD_DIR / "lib/libcoffer.so")


def cmake_example(prefix: Path, folder: Path, *options: str) -> Sequence[Path]:
    run("cmake", "-S", ROOT / "examples/cmake", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", *options)
    run("cmake", "--build", folder)
    return [folder / f"example_{kind}" for kind in ("shared", "static", "core")]


def test_cmake_package(tmp_path: Path, prefix: Path) -> None:
    shared, static, core = cmake_example(prefix, tmp_path / "build")
    assert "libcoffer.so.0" in needed(shared)
    assert "libcoffer" not in needed(static) and "libcoffer" not in needed(core)
    for program in (shared, static):
        assert "bytes for 10000 strings" in run(program)
    assert "from coffer_malloc, from malloc" in run(core)
