# SPDX-License-Identifier: MIT
"""coffer-rt under both compilers, with 32 and 64 bits, both byte orders, with and without bit instructions: no warning,
nothing needed but memcpy (and the memset that compilers put in by themselves), and the tests pass there too (in qemu,
without a C library)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolbox import HERE, INCLUDE, POWERPC_CLANG, RISCV64_GCC, RISCV_GCC, S390X_CLANG, SOURCES, STRICT, run

NATIVE = {
    "gcc": ["gcc"],
    "gcc-portable": ["gcc", "-DCOFFER_RT_PORTABLE_BITS"],
    "clang": ["clang-19"],
    "gcc-unchecked": ["gcc", "-DCOFFER_RT_UNCHECKED"],
    "gcc-radix4": ["gcc", "-DCOFFER_RT_RADIX_LOG2=2"],
}
CROSS = {
    "rv64": (RISCV64_GCC, ["-nostdlib", "-static"], ["-lgcc"], "qemu-riscv64"),
    "rv32": (RISCV_GCC, ["-nostdlib", "-static"], ["-lgcc"], "qemu-riscv32"),
    "powerpc": (POWERPC_CLANG, ["-nostdlib", "-static", "-fuse-ld=lld-19"], [], "qemu-ppc"),
    "s390x": (S390X_CLANG, ["-nostdlib", "-static", "-fuse-ld=lld-19"], [], "qemu-s390x"),
}


@pytest.mark.parametrize(("name", "level"), [*((name, "-O2") for name in [*NATIVE, *CROSS]), ("gcc", "-Os"),
                                             ("rv32", "-Os")])
def test_no_warning_and_nothing_needed(tmp_path: Path, name: str, level: str) -> None:
    compiler = NATIVE[name] if name in NATIVE else CROSS[name][0]
    defined, needed = set(), set()
    for source in SOURCES:
        made = tmp_path / f"{source.stem}.o"
        run([*compiler, *STRICT, level, INCLUDE, "-c", source, "-o", made])
        for line in run(["nm", "--format=posix", made]).splitlines():
            symbol, kind = line.split()[:2]
            (needed if kind == "U" else defined).add(symbol)
    # Arithmetic of 64 bits on machines of 32, for coffer_rt_region_bytes alone, is the compiler's own.
    foreign = {symbol for symbol in needed - defined if not re.fullmatch(r"__\w+di3", symbol)}
    assert foreign <= {"memcpy", "memset"}
    assert {symbol for symbol in defined if symbol.startswith("coffer_rt_")}


# The small radix makes trees too large for these; exhaustive.c is about it.
@pytest.mark.parametrize(("name", "test"), [(name, test) for name in NATIVE for test in ("api.c", "random.c")
                                            if name != "gcc-radix4" and (name, test) != ("gcc-unchecked", "api.c")])
def test_native(tmp_path: Path, name: str, test: str) -> None:
    program = tmp_path / "program"
    run([*NATIVE[name], "-std=c11", "-O2", INCLUDE, HERE / test, *SOURCES, "-o", program])
    run([program, "1000000"])


# The exhaustive ones take minutes where there are 64 bits.
@pytest.mark.parametrize(("name", "test"), [(name, test) for name in CROSS for test in
                                            ("api.c", "random.c", "exhaustive.c", "lists.c", "size.c")
                                            if name not in {"rv64", "s390x"} or test in {"api.c", "random.c"}])
def test_in_qemu(tmp_path: Path, name: str, test: str) -> None:
    compiler, flags, libraries, qemu = CROSS[name]
    program = tmp_path / "program"
    sources = [] if test in {"exhaustive.c", "lists.c", "size.c"} else SOURCES
    run([*compiler, "-std=c11", "-ffreestanding", "-O2", "-DRT_NO_LIBC", *flags, INCLUDE, HERE / test,
         HERE / "start.c", *sources, *libraries, "-o", program])
    run([qemu, program, *(["300000"] if test == "random.c" else [])])
