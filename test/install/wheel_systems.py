# SPDX-License-Identifier: MIT
"""Systems that the wheels are for, and what of a wheel runs there: Debian 11 (glibc 2.31, the oldest that Debian's
archive still has) and Alpine's layout (test/platforms/alpine.py) in chroots, aarch64 by qemu-user.

qemu-user does not run programs that an emulated one executes, so what is recorded there is qemu with the program: the
loader of this machine passes over the recorder, that of the program takes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from releases import BUILD_DIR, ROOT, run

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test" / "platforms")]
import arch_debian  # noqa: E402

# QEMU before version 8 keeps a record of each page, of which Coffer reserves fewer under a limit.
EMULATED = ("prlimit", "--as=17179869184", "qemu-aarch64", "-L")
BOX = "coffer/box"


class System(NamedTuple):
    arch: str
    musl: bool
    root: Path  # what runs there sees as /, or under qemu, before its own /

    @property
    def emulated(self) -> bool:
        return self.arch != "x86_64"

    def path(self, path: str) -> str:
        """Of a file in it, as its programs name it."""
        return f"{self.root}/{path}" if self.emulated else f"/{path}"

    def run(self, program: str, *words: str, **variables: str) -> str:
        """What a program of it prints. This machine's own loader says of each library that it is not for it."""
        if self.emulated:
            given = (word for name, value in variables.items() for word in ("-E", f"{name}={value}"))
            said = run(*EMULATED, self.root, *given, self.path(program), *words, limit=300)
        else:
            script = 'mkdir -p "$1/proc" "$1/tmp" && mount --bind /proc "$1/proc" && exec chroot "$@"'
            said = run("unshare", "--mount", "sh", "-c", script, "-", self.root, self.path(program), *words,
                       limit=300, **variables)
        return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("ERROR: ld.so: object"))

    def started(self, program: str) -> list[str]:
        """The command by which a program of it starts another."""
        if self.emulated:
            return [shutil.which(EMULATED[2]) or "", "-L", str(self.root), self.path(program)]
        return [self.path(program)]


def debian_package(arch: str, name: str, suite: str) -> Path:
    folder = arch_debian.unpacked(arch, f"^{name}$", ROOT / "build-arch/debian" / f"{suite}-{name}-{arch}", suite=suite)
    if folder is None:
        pytest.skip(f"{name} of {suite} is not to be had")
    return folder


def base(arch: str, musl: bool, root: Path) -> None:
    if not musl:
        shutil.copytree(debian_package(arch, "libc6", "bullseye"), root, symlinks=True)
        return
    name = f"ld-musl-{arch}.so.1"
    (root / "lib").mkdir(parents=True)
    libc = next(debian_package(arch, "musl", arch_debian.SUITE).rglob(f"{arch}-linux-musl/libc.so"))
    shutil.copy(libc, root / "lib" / name)
    (root / "lib" / f"libc.musl-{arch}.so.1").symlink_to(name)


def system(tag: str, wheel: Path, root: Path) -> System:
    """With the wheel's files and the program of threads.c."""
    arch, musl = ("x86_64" if tag.endswith("x86_64") else "aarch64"), tag.startswith("musl")
    if arch == "x86_64" and os.geteuid() != 0:
        pytest.skip("chroots need root")
    base(arch, musl, root)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(root)
    for program in (root / BOX / "libexec/coffer").iterdir():
        program.chmod(0o755)
    target = f"{arch}-linux-musl" if musl else f"{arch}-linux-gnu.2.28"
    cache = str(BUILD_DIR / "wheels/zig-cache" / target)
    (zig,) = (BUILD_DIR / "venv-packages").glob("lib/python3*/site-packages/ziglang/zig")
    run(zig, "cc", "-target", target, *(("-dynamic", "-fPIE", "-pie") if musl else ("-lpthread", "-ldl")), "-O1",
        Path(__file__).with_name("threads.c"), "-o", root / "threads", ZIG_GLOBAL_CACHE_DIR=cache,
        ZIG_LOCAL_CACHE_DIR=cache)
    return System(arch, musl, root)


def dynamic_section(file: Path) -> list[str]:
    """Libraries that an ELF file needs."""
    said = subprocess.run(["readelf", "--dynamic", "--wide", file], capture_output=True, text=True).stdout
    return [line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line]


def needed_symbols(file: Path) -> set[str]:
    """Undefined ones, with versions as name@version."""
    said = subprocess.run(["readelf", "--dyn-syms", "--wide", file], capture_output=True, text=True).stdout
    return {words[7] for words in map(str.split, said.splitlines())
            if len(words) > 7 and words[6] == "UND" and words[4] != "WEAK"}
