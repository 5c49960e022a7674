# SPDX-License-Identifier: MIT
"""Where the programs and libraries are: in a build directory, or installed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from pathlib import Path

from coffer import signals
from coffer.errors import CofferError


# Where an installed command has its programs and libraries (make install, the wheel), as a build directory has them.
INSTALLED = Path(__file__).resolve().parent / "box"


def build_dir() -> Path:
    """lib/ and libexec/coffer/ are below it."""
    given = os.environ.get("COFFER_BUILD_DIR")
    if given:
        return Path(given)
    return INSTALLED if INSTALLED.is_dir() else Path(__file__).resolve().parents[2] / "build"


def missing(path: Path, target: str) -> CofferError:
    if path.is_relative_to(INSTALLED):
        return CofferError(f"{path} is missing: install Coffer anew")
    return CofferError(f"{path} is missing: cmake --build {build_dir()} --target {target}")


def version() -> str:
    try:
        return (build_dir() / "version").read_text().strip()
    except OSError as error:
        raise missing(build_dir() / "version", "coffer_command") from error


def program(name: str) -> Path:
    """A C++ program that the command starts."""
    path = build_dir() / "libexec" / "coffer" / name
    if not path.exists():
        raise missing(path, "coffer_tools")
    return path


# The allocators of this build: Coffer, and those of the papers (docs/papers.md).
OURS = ("coffer", "hoard", "scalloc", "cif")
HARDENED = "coffer_hardened"  # Coffer's other build (docs/guide/hardened.md)


def library(name: str = "coffer") -> Path:
    """One of them, of this build. Coffer itself, without a build: where `make install` has put it, beside a coffer-run
    in PATH or in the system's usual places."""
    file = f"lib{name}.so"
    built = build_dir() / "lib" / file
    if built.exists():
        return built
    installed = [Path("/usr/local/lib"), Path("/usr/lib")] if name in ("coffer", HARDENED) else []
    if installed and (runner := shutil.which("coffer-run")):
        installed.insert(0, Path(runner).resolve().parents[1] / "lib")
    for folder in installed:
        for path in (folder / file, *sorted(folder.glob(f"*-linux-gnu/{file}"))):
            if path.exists():
                return path
    raise CofferError(f"{built} is missing: build it first{' (or make install)' if installed else ''}")


def shared_library(name: str) -> Path:
    """One that is preloaded besides Coffer."""
    path = build_dir() / "lib" / name
    if not path.exists():
        raise missing(path, "coffer_tools")
    return path


def preload(*libraries: str) -> str:
    """A value of LD_PRELOAD, which cannot have every path. Those that are several already are left as they are."""
    for path in libraries:
        if Path(path).exists() and any(character in path for character in ": "):
            raise CofferError(f"cannot preload {path}: its path has a space or a colon")
    return ":".join(libraries)


# Options under which samples are taken, whose stacks are to have the functions of Python.
SAMPLES = re.compile(r"\b(profile|leaks)\s*:\s*true\b|\bprofile_signal\s*:")


def environment(first: str | None = None, last: str | None = None, hardened: bool = False) -> dict[str, str]:
    """For a program under Coffer: this process's, with options of Coffer before and after those of COFFER_CONF."""
    others = os.environ.get("LD_PRELOAD")
    chosen = str(library(HARDENED if hardened else "coffer"))
    made = {**os.environ, "LD_PRELOAD": preload(chosen, *([others] if others else []))}
    if conf := ",".join(filter(None, [first, os.environ.get("COFFER_CONF"), last])):
        made["COFFER_CONF"] = conf
    if SAMPLES.search(conf) and (names := build_dir() / "lib" / "libcoffer_python.so").exists():
        made["LD_PRELOAD"] = preload(*made["LD_PRELOAD"].split(":"), str(names))
    return made


def become(path: str, arguments: list[str]) -> None:
    """Executes a program in this process's place, with the signals that Python ignores as they were. One that has come
    until then still ends the command."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signals.by_default()
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)  # Python has another word for it
    try:
        os.execvp(path, arguments)
    except OSError as error:
        # A script without a first line that names its interpreter is the shell's, as for execvp in C.
        found = shutil.which(path)
        if error.errno != errno.ENOEXEC or found is None:
            raise
        os.execv("/bin/sh", ["sh", found, *arguments[1:]])
