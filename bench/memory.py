#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory of Coffer and of other allocators in patterns that make many of them hold far more than is live.

Every pattern runs under every allocator several times; figures are medians. See bench/README.md, which also says what
each figure means.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from coffer_bench import peers
from coffer_bench.allocators import (
    CRATES,
    NAMES,
    TOP,
    Allocator,
    BenchError,
    describe,
    find,
    first_match,
    machine_facts,
    read,
)
from coffer_bench.patterns import (
    BOUND_RUNS,
    KIB,
    LEAST_STARTS,
    ROWS,
    STARTUP_TARGET,
    Row,
    Run,
    Sample,
    bound_limit,
    value_of,
)
from coffer_bench.tables import format_table, markdown_page, markdown_table

# Under some allocators a process of the widest pattern takes 6 GB: as many of those at a time as fit in half of the
# memory that is free. The kernel takes these processes first if that was too many.
WIDE_KIB = 14 << 20
# A busy machine takes longer: after LEAST_RUNS no further one begins that would end later than this.
LEAST_RUNS = 3
LIMIT_SECONDS = 270
DEFAULT_NAMES = [name for name in NAMES if name != "nocheck"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains one of these, separated by commas")
    default = f"default {','.join(DEFAULT_NAMES)}, and those of bench/peers that can be built"
    parser.add_argument("--peers", metavar="NAMES", help=default)
    parser.add_argument("--jobs", type=int, default=2 * len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every sample, with facts of the machine")
    parser.add_argument("--report", type=Path, metavar="FILE", help="writes the table there, as Markdown")
    parser.add_argument("--assert", dest="strict", action="store_true", help="exit 1 if Coffer misses a target")
    return parser.parse_args()


def choose_rows(only: str | None) -> list[Row]:
    rows = [row for row in ROWS if not only or any(text in row.name for text in only.split(","))]
    if not rows:
        raise BenchError("no row has such a name; there are: " + "; ".join(dict.fromkeys(row.name for row in ROWS)))
    return rows


def choose_allocators(names: str | None, build_dir: Path) -> list[Allocator]:
    """By default also the peers from crates, as far as they can be built here."""
    if names:
        if any(name in CRATES for name in names.split(",")):
            peers.build(build_dir)
        return find(names.split(","), build_dir)
    built, missing = peers.build(build_dir)
    if missing:
        print(f"Peers that are left out: {missing}")
    return find([*DEFAULT_NAMES, *built], build_dir)


def wide_at_a_time() -> int:
    available = int(first_match(r"^MemAvailable:\s*(\d+)", read(Path("/proc/meminfo"))))
    return max(1, available // WIDE_KIB)


Samples = dict[str, dict[str, list[Sample]]]  # by run, by allocator


def measure(
    allocators: list[Allocator], runs: list[Run], programs: Path, count: int, jobs: int
) -> tuple[Samples, list[str]]:
    """All samples, and what failed. Most of the time is spent asleep, so that there may be more processes than
    processors."""
    samples: Samples = {what.key: {allocator.name: [] for allocator in allocators} for what in runs}
    failures: list[str] = []
    wide = threading.Semaphore(wide_at_a_time())

    def measure_once(allocator: Allocator, what: Run) -> Sample:
        with wide if what.wide else contextlib.nullcontext():
            return what.measure(allocator, programs)

    started = time.monotonic()
    for number in range(count):
        taken = time.monotonic() - started
        if number >= LEAST_RUNS and taken * (number + 1) / number > LIMIT_SECONDS:
            break
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            # One allocator's runs after the other's, so that the wide ones are apart and nobody waits for them.
            futures = {
                pool.submit(measure_once, allocator, what): (what.key, allocator.name)
                for allocator in allocators
                for what in runs
            }
            for future in as_completed(futures):
                key, name = futures[future]
                try:
                    samples[key][name].append(future.result())
                except BenchError as error:
                    failures.append(str(error))
    return samples, failures


def median_of(row: Row, taken: list[Sample]) -> float:
    return statistics.median(value_of(row, sample) for sample in taken)


def show(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def cell(row: Row, taken: list[Sample]) -> str:
    """A run that is stuck has no figure: its threads wait for one that never runs again."""
    if not taken:
        return "failed"
    stuck = sum(1 for sample in taken if sample.get("stuck"))
    return f"stuck {stuck}/{len(taken)}" if stuck else show(median_of(row, taken))


def start_up(samples: Samples, name: str) -> float:
    """KiB before the first allocation: mean over all runs, since it is a mix of a few values."""
    starts = [sample["start_kib"] for by_allocator in samples.values() for sample in by_allocator.get(name, [])]
    return statistics.fmean(starts) if starts else float("nan")


def table(samples: Samples, rows: list[Row], names: list[str]) -> tuple[list[str], list[list[str]]]:
    lines = []
    for row in rows:
        target = f"<= {row.target:g}" if row.target is not None else ""
        lines.append([row.name, row.unit, target, *(cell(row, samples[row.run.key][name]) for name in names)])
    if "glibc" in names:
        base = start_up(samples, "glibc")
        cells = [f"{start_up(samples, name) - base:+,.0f}" for name in names]
        lines.append(["start-up over glibc's", "KiB", f"<= {STARTUP_TARGET}", *cells])
    return ["row", "figure", "Coffer's target", *names], lines


def missed(samples: Samples, rows: list[Row], name: str = "coffer") -> list[str]:
    """The targets that Coffer does not reach, as lines."""
    result = []
    for row in rows:
        taken = samples[row.run.key].get(name, [])
        if row.target is None or not taken:
            continue
        if any(sample.get("stuck") for sample in taken):
            result.append(f"{row.name}: stuck")
        elif (value := median_of(row, taken)) > row.target:
            result.append(f"{row.name}: {show(value)} {row.unit}, target {row.target:g}")
    starts = sum(len(by_allocator.get(name, [])) for by_allocator in samples.values())
    above = start_up(samples, name) - start_up(samples, "glibc")
    if starts >= LEAST_STARTS and above > STARTUP_TARGET:
        result.append(f"start-up: {above:.0f} KiB over glibc's, target {STARTUP_TARGET}")
    return result


def bounds(samples: Samples, name: str = "coffer") -> list[str]:
    """Coffer's own bound against its limit, one line a pattern. Nothing where the library does not compute it."""
    result = []
    for what in BOUND_RUNS:
        taken = [sample for sample in samples.get(what.key, {}).get(name, []) if sample.get("bound_kib")]
        if not taken:
            continue
        worst = max(taken, key=lambda sample: sample["bound_kib"] / bound_limit(sample))
        limit = bound_limit(worst)
        verdict = "" if worst["bound_kib"] <= limit else "  OVER"
        beyond = max(sample.get("beyond_bound", 0) for sample in taken)
        held = f"  BROKEN: {beyond:.0f} bytes more were held" if beyond else ""
        result.append(f"{what.key}: bound {worst['bound_kib'] / KIB:.1f} MiB, may be {limit / KIB:.1f}{verdict}{held}")
    return result


def main() -> int:
    arguments = parse_arguments()
    rows = choose_rows(arguments.only)
    allocators = choose_allocators(arguments.peers, arguments.build_dir)
    programs = arguments.build_dir.resolve() / "bench" / "patterns"
    facts = machine_facts(allocators)
    print(describe(facts), flush=True)
    started = time.monotonic()
    runs = list({row.run.key: row.run for row in rows}.values())
    samples, failures = measure(allocators, runs, programs, arguments.runs, arguments.jobs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": facts, "samples": samples}, indent=1) + "\n")
    for failure in failures:
        print(f"FAILED: {failure}")
    names = sorted((allocator.name for allocator in allocators), key=lambda name: name not in ("coffer", "nocheck"))
    head, lines = table(samples, rows, names)
    print(format_table(head, lines))
    misses = missed(samples, rows) if "coffer" in names else []
    for line in misses:
        print(f"MISSED: {line}")
    for line in (own := bounds(samples)):
        print(line)
    if "coffer" in names and not own:
        print("This Coffer computes no bound.")
    count = max(len(taken) for by_allocator in samples.values() for taken in by_allocator.values())
    print(f"\nMedians of {count} runs, {time.monotonic() - started:.0f} s.")
    if arguments.report:
        explained = (
            f"Medians of {count} runs. [What each row does](../../bench/README.md#memorypy). *peak/live*: the most "
            "memory over the most bytes that the program has asked for and not freed. Less is better."
        )
        lines_behind = [line.replace(f"{TOP}/", "") for line in [*misses, *failures]]
        behind = "\n".join(f"- {line}" for line in lines_behind)
        parts = [explained, markdown_table(head, lines), behind and f"Coffer misses its target in:\n\n{behind}"]
        command = "python3 bench/memory.py --report FILE"
        arguments.report.write_text(
            markdown_page("Memory in bad patterns", command, f"{describe(facts)}.", parts)
        )
    over = any("OVER" in line or "BROKEN" in line for line in own)
    return 1 if failures or (arguments.strict and (misses or over)) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
