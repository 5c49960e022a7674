#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions inside malloc and free by callgrind, their slow paths included, without the loop and the calls.

A count is (run of 2N rounds - run of N rounds) / N, minus the same difference of a program that calls stubs in the same
way, plus the stubs' own instructions. It is the same on every run. See bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from coffer_bench.allocators import NAMES, TOP, BenchError, find
from coffer_bench.callgrind import require_tools
from coffer_bench.counts import BUDGETS, CASES, Case, Counts, count_cases
from coffer_bench.tables import format_table

def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default=",".join(NAMES), help="default %(default)s")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--assert", dest="strict", action="store_true", help="only cases with a budget; exit 1 if over")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


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
