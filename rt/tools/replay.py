#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program's calls under each policy: replay.py [--calls N] [--short NEW] FILE...

FILE is of rt/traces, or what `coffer trace export -f rt --policy knuth` makes of any trace. Told are the instructions
of each call on rv32im (mean, 99.9th percentile, maximum), as qemu's processor counts them, and the fragmentation: the
smallest region in which the policy serves every request, by the most bytes that were live at a time. The instructions
are counted in a region in which each policy serves everything. `--short NEW` writes the calls as rt/traces has them.

One line is one call: `a SIZE` asks for a block, `f N` gives back that of request N, counted from 0. In vectors
(rt/vectors/README.md) a request has its answer behind it, and blocks are known by it.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

RT = Path(__file__).resolve().parent.parent
SOURCES = sorted((RT / "src").glob("*.c"))
RISCV = ["riscv64-unknown-elf-gcc", "-march=rv32im", "-misa-spec=2.2", "-mabi=ilp32", "-std=gnu11", "-ffreestanding",
         "-O2", "-DRT_NO_LIBC", "-DCOFFER_RT_MARKS=1", "-nostdlib", "-static", "-Wl,--no-warn-rwx-segments", "-T",
         RT / "example/virt.ld"]
POLICIES = ["coffer-rt", "Knuth", "Estranged", "first fit", "coffer-rt, lists"]
FREE = 1 << 31
MACHINE_BYTES = 96 << 20


class Counts(NamedTuple):
    """Instructions of one kind of call."""

    mean: float
    p999: int
    most: int


class Result(NamedTuple):
    alloc: Counts
    free: Counts
    region: int  # bytes: the smallest one in which nothing fails
    live: int  # bytes: the most that the program had at a time


def read(path: Path, most: int | None = None) -> list[int]:
    """The calls of a file: the bytes of a request, or FREE + the number of the request whose block is freed."""
    calls: list[int] = []
    block_of: dict[str, int] = {}
    requests = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match line.split():
            case ["a", size, *answer] if size.isdigit() and int(size) < FREE:
                calls.append(int(size))
                block_of[answer[0] if answer else str(requests)] = requests
                requests += 1
            case ["f", block] if block in block_of:
                calls.append(FREE + block_of.pop(block))
            case ["#" | "policy" | "heap" | "min" | "h", *_]:
                pass
            case _:
                sys.exit(f"replay: {path}:{number}: no call, or a free of no live block: {line[:60]}")
        if len(calls) == most:
            break
    return calls


def short(calls: list[int], comment: str) -> str:
    rows = [f"f {call - FREE}" if call >= FREE else f"a {call}" for call in calls]
    return "\n".join([f"# {comment}", *rows, ""])


def build(compiler: list, calls: Path, program: Path) -> Path:
    subprocess.run([*compiler, f'-DRT_CALLS="{calls}"', f"-I{RT.parent / 'include'}", f"-I{RT / 'test'}",
                    RT / "tools/replay.c", *SOURCES, *([] if compiler[0] == "gcc" else ["-lgcc"]), "-o", program],
                   check=True)
    return program


def numbers(command: list, **more: int) -> list[list[int]]:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, **more)
    if done.returncode != 0:
        sys.exit(f"replay: {Path(command[0]).name}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return [[int(word) for word in row.split()] for row in done.stdout.splitlines()]


def counted(calls: Path, region: int, folder: Path) -> dict[int, tuple[Counts, Counts]]:
    program = folder / "counting.elf"
    build([*RISCV, f"-DRT_REGION={region}U", RT / "test/bare.c"], calls, program)
    return run_counting(program)


def run_counting(program: Path) -> dict[int, tuple[Counts, Counts]]:
    # icount: one instruction is one tick, so the processor's count of instructions is exact.
    rows = numbers(["qemu-system-riscv32", "-machine", "virt", "-m", str(MACHINE_BYTES >> 20), "-bios", "none",
                    "-nographic", "-icount", "shift=0", "-kernel", program])
    return {row[0]: (Counts(row[1] / 10, *row[2:4]), Counts(row[4] / 10, *row[5:7])) for row in rows}


def measure(calls: list[int]) -> dict[str, Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packed = folder / "calls"
        packed.write_bytes(struct.pack(f"<{len(calls)}I", *calls))
        [live], *regions = numbers([build(["gcc", "-std=gnu11", "-O2"], packed, folder / "regions")])
        # Blocks are as large on both machines; what is beside them is larger on the one of 64 bits.
        counts = counted(packed, (max(bytes_ for _, bytes_ in regions) * 5 // 4 + 4095) // 4096 * 4096, folder)
        return {POLICIES[policy]: Result(*counts[policy], bytes_, live) for policy, bytes_ in regions}


def table(name: str, results: dict[str, Result]) -> str:
    rows = []
    for policy, result in results.items():
        cells = [f"{each.mean:.1f} | {each.p999} | {each.most:,}" for each in (result.alloc, result.free)]
        rows.append(f"| {name} | {policy} | {cells[0]} | {cells[1]} | {result.region / result.live:.2f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, help="only the first so many")
    parser.add_argument("--short", type=Path, metavar="NEW", help="write the calls of one FILE, and nothing else")
    parser.add_argument("file", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.short:
        [path] = arguments.file
        calls = read(path, arguments.calls)
        arguments.short.write_text(short(calls, f"{path.stem}: {len(calls)} calls"), encoding="utf-8")
        return
    print("| program | policy | alloc mean | p99.9 | max | free mean | p99.9 | max | region by live bytes |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for path in arguments.file:
        print(table(path.stem, measure(read(path, arguments.calls))), flush=True)


if __name__ == "__main__":
    main()
