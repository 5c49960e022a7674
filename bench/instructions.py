#!/usr/bin/env python3
"""Instructions inside malloc and free by callgrind, their slow paths included, without the loop and the calls.

A count is (run of 2N rounds - run of N rounds) / N, minus the same difference of a program that calls stubs in the same
way, plus the stubs' own instructions. It is the same on every run. See bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from allocators import NAMES, TOP, Allocator, BenchError, find
from callgrind import count_all, function_length, require_tools
from report import format_table

# A multiple of everything that recurs in workloads/instructions.cpp: batches, windows, orders of freeing.
ROUNDS = 32_000


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[str, ...]
    allocation: str = "malloc"


CASES = [
    Case("malloc(64) + free", ("what=pair", "size=64")),
    Case("malloc(1024) + free", ("what=pair", "size=1024")),
    Case("malloc(16..512) + free", ("what=mixed",)),
    Case("calloc(64) + free", ("what=calloc", "size=64"), "calloc"),
    Case("window of 100, 64 B", ("what=window", "size=64")),
    Case("batch of 1,000, random order, 64 B", ("what=batch", "size=64")),
    Case("replace in 1,000, 16..512 B", ("what=replace",)),
    Case("malloc(64), free by another thread", ("what=remote", "size=64")),
]

Counts = dict[tuple[str, str], float]  # by case and allocator

# Limits, by case and library; see docs/architecture.md.
BUDGETS = {
    ("malloc(64) + free", "coffer"): 42.0,
    ("malloc(64) + free", "nocheck"): 36.0,
    ("batch of 1,000, random order, 64 B", "nocheck"): 44.0,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default=",".join(NAMES), help="default %(default)s")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--assert", dest="strict", action="store_true", help="only cases with a budget; exit 1 if over")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def count_rounds(allocator: Allocator, program: Path, case: Case) -> float:
    """Instructions of a round of the program, after everything that happens only at the start."""
    once, twice = (count_all(allocator, [str(program), *case.arguments, f"rounds={n}"]) for n in (ROUNDS, 2 * ROUNDS))
    return (twice - once) / ROUNDS


def count_cases(cases: list[Case], allocators: list[Allocator], programs: Path, jobs: int) -> Counts:
    stub_library = programs / "libbench_stub.so"
    stubs = {name: function_length(stub_library, f"bench_stub_{name}") for name in ("malloc", "calloc", "free")}
    glibc = Allocator("glibc", None)
    with ThreadPoolExecutor(jobs) as pool:
        empty = {case.name: pool.submit(count_rounds, glibc, programs / "instructions_stub", case) for case in cases}
        full = {
            (case.name, allocator.name): pool.submit(count_rounds, allocator, programs / "instructions", case)
            for case in cases
            for allocator in allocators
        }
        return {
            (case.name, allocator.name): full[case.name, allocator.name].result() - empty[case.name].result()
            + stubs[case.allocation] + stubs["free"]
            for case in cases
            for allocator in allocators
        }


def print_table(counts: Counts, cases: list[Case], names: list[str]) -> None:
    lines = []
    for case in cases:
        limits = [f"{name} {limit:.0f}" for (of, name), limit in BUDGETS.items() if of == case.name and name in names]
        lines.append([case.name, *(f"{counts[case.name, name]:.1f}" for name in names), ", ".join(limits)])
    print(format_table(["instructions", *names, "budget"], lines))


def over_budget(counts: Counts) -> list[str]:
    return [
        f"OVER BUDGET: {case} with {name}: {counts[case, name]:.1f} instructions, budget {limit:.0f}"
        for (case, name), limit in BUDGETS.items()
        if (case, name) in counts and round(counts[case, name], 1) > limit
    ]


def main() -> int:
    arguments = parse_arguments()
    require_tools()
    budgeted = {case for case, _ in BUDGETS}
    cases = [
        case for case in CASES if arguments.only in case.name and (case.name in budgeted or not arguments.strict)
    ]
    allocators = find(arguments.peers.split(","), arguments.build_dir)
    if not cases:
        raise BenchError("no case has such a name")
    counts = count_cases(cases, allocators, arguments.build_dir.resolve() / "bench", arguments.jobs)
    print_table(counts, cases, [allocator.name for allocator in allocators])
    over = over_budget(counts)
    print(*over, sep="\n", end="\n" if over else "")
    checked = [limit for limit in BUDGETS if limit in counts]
    if arguments.strict and not checked:
        raise BenchError("nothing was counted that has a budget")
    return 1 if arguments.strict and over else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
