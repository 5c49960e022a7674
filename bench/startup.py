#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What an allocator costs a process that allocates nothing: resident memory and page tables, above the C library's.

Measured with huge pages as the system sets them, and, when run as root, with `always` (the setting is restored).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from coffer_bench.allocators import (
    NAMES,
    THP_SETTING,
    TOP,
    Allocator,
    BenchError,
    describe,
    find,
    huge_pages,
    machine_facts,
    run,
)
from coffer_bench.tables import format_table, markdown_page, markdown_table

# KiB above glibc's; see docs/architecture.md.
BUDGET = 200
FIGURES = ["resident_kib", "anonymous_kib", "huge_kib", "page_tables_kib", "peak_kib"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default=",".join(NAMES), help="default %(default)s")
    # Many: how much of the C library a fault brings in depends on where the kernel put it.
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--assert", dest="strict", action="store_true", help="exit 1 if Coffer is over its budget")
    parser.add_argument("--report", metavar="FILE", type=Path, help="writes the tables there, as Markdown")
    return parser.parse_args()


@contextlib.contextmanager
def huge_pages_always() -> Iterator[bool]:
    """Sets huge pages to `always` and puts the old setting back, also when interrupted. False: not allowed to."""
    old = huge_pages()
    if os.geteuid() != 0 or old == "unknown":
        yield False
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        THP_SETTING.write_text("always")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        THP_SETTING.write_text(old)


def measure(allocators: list[Allocator], program: Path, runs: int) -> dict[str, dict[str, float]]:
    """Means of each figure, by allocator. Means, since the figures are a mix of a few values."""
    samples: dict[str, list[dict[str, str]]] = {allocator.name: [] for allocator in allocators}
    for _ in range(runs):
        for allocator in allocators:
            samples[allocator.name].append(run(allocator, [str(program)]))
    return {
        name: {figure: statistics.fmean(int(sample[figure]) for sample in taken) for figure in FIGURES}
        for name, taken in samples.items()
    }


def table(figures: dict[str, dict[str, float]]) -> tuple[list[str], list[list[str]]]:
    base = figures["glibc"]["peak_kib"]
    lines = [
        [name, *(f"{by_figure[figure]:,.0f}" for figure in FIGURES), f"{by_figure['peak_kib'] - base:+,.0f}"]
        for name, by_figure in figures.items()
    ]
    return ["KiB", "resident", "anonymous", "huge", "page tables", "sum", "above glibc"], lines


def over_budget(figures: dict[str, dict[str, float]], setting: str) -> list[str]:
    result = []
    for name in ("coffer", "nocheck"):
        if name in figures and (above := figures[name]["peak_kib"] - figures["glibc"]["peak_kib"]) > BUDGET:
            result.append(f"OVER BUDGET: {name}, huge pages {setting}: {above:.0f} KiB above glibc, budget {BUDGET}")
    return result


def main() -> int:
    arguments = parse_arguments()
    allocators = find(arguments.peers.split(","), arguments.build_dir)
    names = [allocator.name for allocator in allocators]
    if "glibc" not in names or (arguments.strict and "coffer" not in names):
        raise BenchError("glibc, and coffer with --assert, must be among the allocators")
    program = arguments.build_dir.resolve() / "bench" / "nothing"
    facts = describe(machine_facts(allocators))
    print(facts)
    setting = huge_pages()
    print(f"\nHuge pages as set: {setting}")
    figures = measure(allocators, program, arguments.runs)
    print(format_table(*table(figures)))
    parts = [f"## Huge pages: {setting}", markdown_table(*table(figures))]
    over = over_budget(figures, setting)
    with huge_pages_always() as allowed:
        figures = measure(allocators, program, arguments.runs) if allowed and setting != "always" else {}
    if figures:
        print("\nHuge pages: always")
        print(format_table(*table(figures)))
        parts += ["## Huge pages: always", markdown_table(*table(figures))]
        over += over_budget(figures, "always")
    elif setting != "always":
        print("\nHuge pages: always: not measured, since only root may set them")
    print(*over, sep="\n", end="\n" if over else "")
    if arguments.report:
        explained = f"A process that allocates nothing, in KiB; means of {arguments.runs} runs."
        command = "python3 bench/startup.py --report FILE"
        arguments.report.write_text(markdown_page("Memory of a process that allocates nothing", command, f"{facts}.",
                                                  [explained, *parts]))
    return 1 if arguments.strict and over else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
