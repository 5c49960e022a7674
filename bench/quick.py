#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A short comparison of Coffer with the allocators that Debian has, and of two builds of Coffer with each other.

Every row runs under every allocator once a round, in an order shuffled anew for each row; figures are medians over the
rounds. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import instructions
from coffer_bench import tables as report
from coffer_bench.allocators import NAMES, OURS, TOP, Allocator, BenchError, describe, find, machine_facts, run
from coffer_bench.callgrind import require_tools
from coffer_bench.rows import ROWS, Row

# A busy machine takes longer: after LEAST_ROUNDS no further one begins that would end later than this.
LEAST_ROUNDS = 5
LIMIT_SECONDS = 165
DEFAULT_NAMES = [name for name in NAMES if name != "nocheck"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--rounds", type=int, help="default 7, with --vs 15")
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains one of these, separated by commas")
    parser.add_argument("--peers", metavar="NAMES", default=",".join(DEFAULT_NAMES), help="default %(default)s")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=OPTIONS",
                        help="Coffer with these options, as an allocator of its own; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every sample, with facts of the machine")
    parser.add_argument("--vs", type=Path, metavar="OTHER.so", help="compare with another build, fast-path rows")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time (busy machine)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the operations of each run")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (15 if arguments.vs else 7)
    return arguments


def choose_rows(arguments: argparse.Namespace) -> list[Row]:
    rows = [row for row in ROWS if row.fast or not arguments.vs]
    if arguments.only:
        wanted = arguments.only.split(",")
        rows = [row for row in ROWS if any(text in row.name for text in wanted)]
    if not rows:
        raise BenchError("no row has such a name; there are: " + "; ".join(row.name for row in ROWS))
    return rows


def choose_allocators(arguments: argparse.Namespace) -> list[Allocator]:
    if not arguments.vs:
        return [*find(arguments.peers.split(","), arguments.build_dir), *variants(arguments)]
    if not arguments.vs.exists():
        raise BenchError(f"{arguments.vs} is missing")
    (this,) = find(["coffer"], arguments.build_dir)
    return [Allocator("this", this.library), Allocator("other", arguments.vs.resolve())]


def variants(arguments: argparse.Namespace) -> list[Allocator]:
    if not arguments.variant:
        return []
    (coffer,) = find(["coffer"], arguments.build_dir)
    result = []
    for text in arguments.variant:
        name, equals, options = text.partition("=")
        if not name or not equals or not options:
            raise BenchError(f"--variant {text}: not NAME=OPTIONS")
        result.append(Allocator(name, coffer.library, f"{options},strict:true"))
    return result


def measure_once(allocator: Allocator, row: Row, arguments: argparse.Namespace) -> dict[str, float]:
    programs = str(arguments.build_dir.resolve() / "bench")
    command = row.command(programs, arguments.scale)
    starts_others = row.program == "launch"
    if starts_others:
        command += [f"program={programs}/nothing", f"preload={allocator.library or ''}"]
    return {key: float(value) for key, value in run(allocator, command, preload=not starts_others).items()}


def measure(
    allocators: list[Allocator], rows: list[Row], arguments: argparse.Namespace
) -> tuple[report.Samples, list[str]]:
    """All samples, and what failed. A failure is Coffer's or a peer's: the others' figures stay of use."""
    samples: report.Samples = {row.name: {allocator.name: [] for allocator in allocators} for row in rows}
    failures: dict[tuple[str, str], str] = {}
    shuffle = random.Random(1)
    started = time.monotonic()
    for number in range(arguments.rounds):
        taken = time.monotonic() - started
        if number >= LEAST_ROUNDS and taken * (number + 1) / number > LIMIT_SECONDS:
            break
        for row in rows:
            progress(f"round {number + 1} of {arguments.rounds}: {row.name}")
            for allocator in shuffle.sample(allocators, len(allocators)):
                if (row.name, allocator.name) in failures:
                    continue
                try:
                    samples[row.name][allocator.name].append(measure_once(allocator, row, arguments))
                except BenchError as error:
                    failures[row.name, allocator.name] = str(error)
                    samples[row.name][allocator.name] = []
    progress("")
    return samples, list(failures.values())


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def print_peers(samples: report.Samples, rows: list[Row], names: list[str], time_figure: str) -> None:
    names = sorted(names, key=lambda name: name not in ("coffer", "nocheck"))
    memory_rows = [row for row in rows if row.memory]
    if "coffer" in names and len(names) > 1:
        print(report.losses(samples, rows, time_figure, "Time"))
        print(report.losses(samples, memory_rows, "peak_kib", "Peak memory"))
        print()
    print("Time of an operation, ratio to the best of the row")
    print(report.figure_table(samples, rows, names, time_figure, "best ns"))
    print("\nPeak of resident memory and page tables, ratio to the leanest of the row")
    print(report.figure_table(samples, memory_rows, names, "peak_kib", "least KiB"))
    print("\nResident memory and page tables when all is freed, ratio to the leanest of the row")
    print(report.figure_table(samples, memory_rows, names, "end_kib", "least KiB"))


def print_instructions(names: list[str], build_dir: Path) -> None:
    """The pair and the batch by callgrind, with Coffer's build without checks beside it if there is one."""
    if "coffer" in names and (build_dir / OURS["nocheck"]).exists():
        names = [*names, "nocheck"]
    cases = [case for case in instructions.CASES if case.name.startswith(("malloc(64) + free", "batch"))]
    try:
        require_tools()
        counts = instructions.count_cases(cases, find(names, build_dir), build_dir.resolve() / "bench", 2)
    except BenchError as error:
        print(f"\nNo instructions counted: {error}")
        return
    print("\nInstructions inside malloc and free (more: bench/instructions.py)")
    print(report.format_table(*instructions.table(counts, cases, names)))


def write_json(path: Path, samples: report.Samples, facts: dict[str, object], rows: list[Row], scale: float) -> None:
    content = {
        "machine": facts,
        "scale": scale,
        "rows": {row.name: {"program": row.program, "arguments": row.arguments, "operations": row.operations,
                            "samples": samples[row.name]} for row in rows},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> int:
    arguments = parse_arguments()
    rows = choose_rows(arguments)
    allocators = choose_allocators(arguments)
    facts = machine_facts(allocators)
    print(describe(facts))
    started = time.monotonic()
    samples, failures = measure(allocators, rows, arguments)
    if arguments.json:
        write_json(arguments.json, samples, facts, rows, arguments.scale)
    for failure in failures:
        print(f"FAILED: {failure}")
    # The rows of --vs have one thread, whose processor time says the same and hears less of the neighbours.
    time_figure = "cpu_ns_per_op" if arguments.cpu or arguments.vs else "ns_per_op"
    if arguments.vs:
        if failures:
            return 1
        print(report.comparison_table(samples, rows, time_figure))
    else:
        names = [allocator.name for allocator in allocators]
        print_peers(samples, rows, names, time_figure)
        if not arguments.only and not arguments.variant and not failures:
            print_instructions(names, arguments.build_dir)
    taken = time.monotonic() - started
    rounds = max(len(runs) for by_allocator in samples.values() for runs in by_allocator.values())
    print(f"\n{rounds} rounds in {taken:.0f} s. +-: half the distance of the quartiles, of the worst column.")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
