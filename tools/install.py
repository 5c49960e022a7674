#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs the coffer command for `make install`; run by CMake (cmake/CofferInstallCommand.cmake.in) in build/venv,
whose packages go along: PREFIX/bin/coffer, LIBRARIES/coffer, and the manual and completions below PREFIX/share.

Prints the path of each file, without the root (DESTDIR). What is there of an earlier installation is removed first.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAPERS = ["libhoard.so", "libscalloc.so", "libcif.so"]
TESTS_ONLY = {"trace_sample"}
SHARED = ["man", "bash-completion", "zsh", "fish"]
# Of packages, what nobody runs.
LEFT_OUT = re.compile(r"(^|/)(tests?|include|src)/|\.(pyx|pxd|pxi|h|hpp|a)$|^\.\./")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("build-dir", "prefix", "libraries", "programs", "data"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--root", default="", help="DESTDIR")
    return parser.parse_args()


class Target:
    """Where files go: the same paths below the root."""

    def __init__(self, root: str, prefix: Path) -> None:
        self.root = root
        self.prefix = prefix

    def real(self, path: Path) -> Path:
        return Path(self.root + str(path)) if self.root else path

    def place(self, path: Path) -> Path:
        """For a file that is to be made; says that it is installed."""
        real = self.real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        real.unlink(missing_ok=True)
        print(path)
        return real

    def copy(self, source: Path, path: Path, mode: int = 0o644) -> None:
        real = self.place(path)
        shutil.copy2(source, real)
        real.chmod(mode)


def needed_files() -> Iterator[tuple[Path, str]]:
    """Of the packages of requirements.txt: what is installed here, and its path from there."""
    names = re.findall(r"^([\w-]+)==", (ROOT / "tools" / "requirements.txt").read_text(), re.MULTILINE)
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or []:
            source = Path(str(distribution.locate_file(file)))
            if not LEFT_OUT.search(str(file)) and source.is_file():
                yield source, str(file)


def install_command(build: Path, libraries: Path, target: Target) -> None:
    home = libraries / "coffer"
    shutil.rmtree(target.real(home), ignore_errors=True)
    packages = home / "python"
    for folder in (ROOT / "tools" / "coffer", ROOT / "bench" / "coffer_bench"):
        for source in sorted(folder.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                target.copy(source, packages / folder.name / source.relative_to(folder))
    for source, name in needed_files():
        target.copy(source, packages / "needed" / name, 0o755 if ".so" in source.name else 0o644)
    box = packages / "coffer" / "box"
    programs = build / "libexec" / "coffer"
    for program in sorted(programs.rglob("*")):
        if program.is_file() and program.name not in TESTS_ONLY:
            target.copy(program, box / "libexec" / "coffer" / program.relative_to(programs), 0o755)
    for library in (*sorted((build / "lib").glob("libcoffer_record*.so")), *(build / "lib" / one for one in PAPERS)):
        target.copy(library, box / "lib" / library.name, 0o755)
    link = target.place(box / "lib" / "libcoffer.so")
    link.symlink_to(os.path.relpath(libraries / "libcoffer.so", box / "lib"))
    target.copy(build / "version", box / "version")


def install_launcher(programs: Path, libraries: Path, target: Target) -> None:
    text = (ROOT / "tools" / "coffer-installed.in").read_text()
    # The packages have parts that only this version of Python loads.
    text = text.replace("@coffer_python@", f"python{sys.version_info.major}.{sys.version_info.minor}")
    text = text.replace("@coffer_bin_to_command@", os.path.relpath(libraries / "coffer", programs))
    launcher = target.place(programs / "coffer")
    launcher.write_text(text)
    launcher.chmod(0o755)


def main() -> None:
    options = arguments()
    target = Target(options.root, options.prefix)
    libraries, programs, data = (options.prefix / one for one in (options.libraries, options.programs, options.data))
    install_command(options.build_dir, libraries, target)
    install_launcher(programs, libraries, target)
    for name in SHARED:
        for source in sorted((options.build_dir / "share" / name).rglob("*")):
            if source.is_file():
                target.copy(source, data / name / source.relative_to(options.build_dir / "share" / name))


try:
    main()
except OSError as error:
    sys.exit(f"install: {error}")
