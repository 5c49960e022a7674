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

from coffer_bench.allocators import NAMES, TOP, BenchError, describe, find, machine_facts
from coffer_bench.callgrind import require_tools
from coffer_bench.counts import BUDGETS, CASES, Case, Counts, count_cases
from coffer_bench.tables import format_table, markdown_page, markdown_table

def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default=",".join(NAMES), help="default %(default)s")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--assert", dest="strict", action="store_true", help="only cases with a budget; exit 1 if over")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--report", metavar="FILE", type=Path, help="writes the table there, as Markdown")
    return parser.parse_args()


def table(counts: Counts, cases: list[Case], names: list[str]) -> tuple[list[str], list[list[str]]]:
    lines = []
    for case in cases:
        limits = [f"{name} {limit:.0f}" for (of, name), limit in BUDGETS.items() if of == case.name and name in names]
        lines.append([case.name, *(f"{counts[case.name, name]:.1f}" for name in names), ", ".join(limits)])
    return ["instructions", *names, "budget"], lines


def page(head: list[str], lines: list[list[str]], facts: str) -> str:
    explained = (
        "Instructions inside `malloc` and `free` for one pair, slow paths included, counted by callgrind; with "
        "`colour:false` for Coffer, so that they are the same on every run. `nocheck` is Coffer without its checks for "
        "bad pointers; it is built for this comparison and never installed. Instructions are not time."
    )
    return markdown_page("Instructions of malloc and free", "python3 bench/instructions.py --report FILE",
                         f"{facts}.", [explained, markdown_table(head, lines)])


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
    head, lines = table(counts, cases, [allocator.name for allocator in allocators])
    print(format_table(head, lines))
    if arguments.report:
        arguments.report.write_text(page(head, lines, describe(machine_facts(allocators))))
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
