# SPDX-License-Identifier: MIT
"""What the Python tests of rt/ share: where things are, which compilers there are, how to run a command."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
RT = HERE.parent
ROOT = RT.parent
SOURCES = sorted((RT / "src").glob("*.c"))
INCLUDE = f"-I{ROOT / 'include'}"
STRICT = ["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]

RISCV_GCC = ["riscv64-unknown-elf-gcc", "-march=rv32im", "-misa-spec=2.2", "-mabi=ilp32"]
RISCV64_GCC = [RISCV_GCC[0], "-march=rv64imac", "-misa-spec=2.2", "-mabi=lp64", "-mcmodel=medany"]
# Big-endian, 32 bits, clang, and the C library's headers out of reach.
S390X_CLANG = ["clang-19", "--target=s390x-linux-gnu", "-fno-pic", "-fno-builtin", "-nostdlibinc"]  # the same, 64 bits
POWERPC_CLANG = ["clang-19", "--target=powerpc-linux-gnu", "-fno-pic", "-fno-builtin", "-nostdlibinc"]


def run(command: list, timeout: int = 600) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def link_alone(compiler: list[str], flags: list[str], marks: int, output: Path) -> None:
    """All of coffer-rt linked to fixed addresses, for counting its instructions; nothing else in it."""
    run([*compiler, "-std=c11", "-ffreestanding", f"-DCOFFER_RT_MARKS={marks}", *flags, INCLUDE, *SOURCES, "-nostdlib",
         "-static", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-e,coffer_rt_alloc", "-o", output])
