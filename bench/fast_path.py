#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows the instructions that a malloc and free really run, and asserts that none of them is atomic.

Callgrind says how often each instruction of each library ran; the difference of two runs leaves out the start. What ran
in at least half of the rounds is the fast path, whatever functions and jumps it goes through.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from coffer_bench.allocators import NAMES, TOP, Allocator, BenchError, find
from coffer_bench.callgrind import count_by_address, disassemble, require_tools
from coffer_bench.counts import CASES, ROUNDS, Case

# Read-modify-write in one step, and the full fence, which costs as much. An xchg with memory locks without saying so;
# one between registers is a filler.
ATOMIC = re.compile(
    r"^(?:lock\b|xchg\b.*\(|mfence\b"
    r"|(?:ldxr|ldaxr|stxr|stlxr|cas[alp]*|swp[al]*|ld(?:add|set|clr|eor)[al]*|dmb|dsb)[bh]?\b)"
)
# The cases whose every free is local.
LOCAL = [case for case in CASES if case.name.startswith(("malloc(64) + free", "window", "batch", "replace"))]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default="coffer", help=f"of {' '.join(NAMES)}")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--all", action="store_true", help="show slow paths too")
    parser.add_argument("--assert", dest="strict", action="store_true", help="exit 1 if the fast path has an atomic")
    return parser.parse_args()


def executions(allocator: Allocator, program: Path, case: Case) -> dict[str, dict[int, float]]:
    """Executions of each instruction in a round, by library and address; the program's own are left out."""
    once, twice = (
        count_by_address(allocator, [str(program), *case.arguments, f"rounds={n}"]) for n in (ROUNDS, 2 * ROUNDS)
    )
    result: dict[str, dict[int, float]] = {}
    for (file, address), count in twice.items():
        more = (count - once[file, address]) / ROUNDS
        if more > 0 and Path(file).name != program.name:
            result.setdefault(file, {})[address] = more
    return result


def show(counts: dict[str, dict[int, float]], least: float) -> list[str]:
    """Prints the path; returns its atomic instructions."""
    atomics = []
    for file, by_address in counts.items():
        hot = {address: count for address, count in sorted(by_address.items()) if count >= least}
        if not hot:
            continue
        if not Path(file).exists():
            raise BenchError(f"callgrind does not know the library of {len(hot)} instructions")
        text = disassemble(file)
        print(f"  {Path(file).name}")
        previous = None
        for address, count in hot.items():
            # Instructions are at most 15 bytes long: a larger gap was jumped over.
            if previous is not None and address - previous > 15:
                print("        ...")
            previous = address
            instruction = text.get(address, "unknown")
            print(f"  {count:8.3f}  {address:8x}  {instruction}")
            if count >= 0.5 and ATOMIC.search(instruction):
                atomics.append(f"{Path(file).name}: {address:x}: {instruction}")
    return atomics


def main() -> int:
    arguments = parse_arguments()
    require_tools()
    cases = [case for case in (CASES if arguments.only else LOCAL) if arguments.only in case.name]
    if not cases:
        raise BenchError("no case has such a name")
    found = []
    for allocator in find(arguments.peers.split(","), arguments.build_dir):
        for case in cases:
            print(f"{allocator.name}: {case.name}: executions in a round, address, instruction")
            counts = executions(allocator, arguments.build_dir.resolve() / "bench" / "instructions", case)
            if not any(count >= 0.5 for by_address in counts.values() for count in by_address.values()):
                raise BenchError("no fast path was seen")
            found += show(counts, 0.001 if arguments.all else 0.5)
    for atomic in found:
        print(f"ATOMIC: {atomic}")
    return 1 if arguments.strict and found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
