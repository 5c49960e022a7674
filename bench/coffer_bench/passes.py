# SPDX-License-Identifier: MIT
"""What is measured once and not in rounds: latencies of single calls, and counts that are the same on every run:
instructions by callgrind, misses and pages by cachegrind and by Coffer's own simulator, scaling on simulated cores."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from coffer_bench import counts, processes, scaling, simulate
from coffer_bench.allocators import PAPERS, TOP, Allocator
from coffer_bench.callgrind import require_countable, require_tools
from coffer_bench.workload import Settings, Workload
from coffer_bench.errors import BenchError
from coffer_bench.samples import Record

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
# Up to an hour, to three digits.
HIGHEST_NS, DIGITS = 3_600_000_000_000, 3
QUICK_LATENCIES = ("threadtest 8", "larson 10-100", "server")
QUICK_CASES = ("malloc(64) + free", "batch of 1,000, random order, 64 B")
VALGRIND_SECONDS = 180.0

# A data cache that is a TLB: 64 entries of 4,096 bytes, each at any place; and behind it one so large that it misses
# each page once.
TLB_OPTIONS = ["--I1=32768,8,64", "--D1=262144,64,4096", "--LL=1073741824,16,4096"]
CACHE_OPTIONS = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"]


class Task(NamedTuple):
    kind: str
    of: str
    allocator: str
    action: Callable[[], Record]
    valgrind: bool = False


# Latencies.


def parse_latencies(text: str) -> dict[str, list[tuple[float, int]]]:
    """By kind of call: (nanoseconds, how often)."""
    found: dict[str, list[tuple[float, int]]] = {}
    kind = ""
    for line in text.splitlines():
        if match := re.match(r"# calls=(\w+)", line):
            kind = match[1]
            found[kind] = []
        elif line and not line.startswith("#"):
            value, _, count = line.partition(" ")
            try:
                found[kind].append((float(value), int(count)))
            except (KeyError, ValueError) as error:
                raise BenchError(f"a line of latencies is wrong: {line!r}") from error
    if not any(found.values()):
        raise BenchError("no latencies were recorded")
    return found


def latency_record(values: list[tuple[float, int]]) -> Record:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, HIGHEST_NS, DIGITS)
    for value, count in values:
        histogram.record_value(max(1, min(HIGHEST_NS, round(value))), count)
    found: Record = {f"p{percentile:g}": histogram.get_value_at_percentile(percentile) for percentile in PERCENTILES}
    found |= {"max": histogram.get_max_value(), "count": histogram.get_total_count()}
    found["histogram"] = histogram.encode().decode()
    return found


def take_latencies(workload: Workload, allocator: Allocator) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "latencies"
        workload.latency(allocator, path)
        try:
            text = path.read_text()
        except OSError as error:
            raise BenchError(f"{workload.name} under {allocator.name} wrote no latencies") from error
    return {"calls": {kind: latency_record(values) for kind, values in parse_latencies(text).items() if values}}


# Counts.


def take_instructions(case: counts.Case, allocator: Allocator, settings: Settings) -> Record:
    found = counts.count_cases([case], [allocator], settings.bench_dir, 1)
    return {"instructions": round(found[case.name, allocator.name], 2)}


def cachegrind(command: tuple[str, ...], allocator: Allocator, options: list[str]) -> dict[str, int]:
    require_countable(allocator)
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", *options]
    done = processes.execute(
        [*valgrind, *command], allocator.environment(), timeout=VALGRIND_SECONDS, name=f"{allocator.name} and valgrind"
    )
    return parse_cachegrind(done.stderr.decode(errors="replace"))


def parse_cachegrind(text: str) -> dict[str, int]:
    found = {}
    for key, name in (
        ("instructions", "I +refs"),
        ("accesses", "D +refs"),
        ("first", "D1 +misses"),
        ("last", "LLd misses"),
    ):
        match = re.search(rf"{name}: +([\d,]+)", text)
        if not match:
            raise BenchError(f"cachegrind says nothing of {name.replace(' +', ' ')}")
        found[key] = int(match[1].replace(",", ""))
    return found


def take_misses(workload: Workload, allocator: Allocator) -> Record:
    caches = cachegrind(workload.traced, allocator, CACHE_OPTIONS)
    pages = cachegrind(workload.traced, allocator, TLB_OPTIONS)
    return {
        "l1_misses": caches["first"],
        "ll_misses": caches["last"],
        "accesses": caches["accesses"],
        "tlb_misses": pages["first"],
        "pages": pages["last"],
        "of": "run",
    }


def take_simulated(workload: Workload, allocator: Allocator, settings: Settings) -> Record:
    sys.path.insert(0, str(TOP / "tools"))
    from coffer.index import geometry

    text = simulate.list_accesses(allocator, workload.row, settings.bench_dir / "index")
    found = simulate.simulate(text, settings.build_dir, workload.row.cores, geometry.MACHINES["common"], l2=True)
    return {
        "l1_misses": found["l1"],
        "ll_misses": found["l2"],
        "tlb_misses": found["tlb"],
        "pages": found["pages"],
        "of": "100 accesses",
    }


SIMULATED_SEED = 1
QUICK_SIMULATED = 0.25


def take_scaling(point: scaling.Point, settings: Settings) -> Record:
    scale = max(scaling.LEAST_SCALE, settings.scale * (QUICK_SIMULATED if settings.quick else 1.0))
    return scaling.mark(scaling.simulate(point, settings.build_dir, SIMULATED_SEED, scale))


def tasks(allocators: list[Allocator], workloads: list[Workload], settings: Settings) -> Iterator[Task]:
    """In the order of what is missed most where time runs out."""
    try:
        require_tools()
        valgrind = True
    except BenchError:
        valgrind = False
    for case in counts.CASES if valgrind else ():
        for one in allocators:
            if one.name in PAPERS and not settings.with_papers:
                continue
            if not settings.quick or case.name in QUICK_CASES:
                yield Task("instructions", case.name, one.name, partial(take_instructions, case, one, settings), True)
    for workload in workloads:
        for one in filter(workload.takes, allocators):
            if workload.row and simulate.can_simulate(workload.row):
                yield Task("misses", workload.name, one.name, partial(take_simulated, workload, one, settings))
    for workload in workloads:
        wanted = not settings.quick or workload.name.startswith(QUICK_LATENCIES)
        for one in filter(workload.takes, allocators):
            if workload.latency and wanted:
                yield Task("latency", workload.name, one.name, partial(take_latencies, workload, one))
    names = [one.name for one in allocators]
    for point in scaling.points_of([workload.name for workload in workloads], names, settings.build_dir):
        yield Task("scaling", scaling.point_name(point), point.allocator, partial(take_scaling, point, settings))
    for workload in workloads if valgrind else ():
        for one in filter(workload.takes, allocators):
            if workload.traced and not settings.quick:
                yield Task("misses", workload.name, one.name, partial(take_misses, workload, one), True)


def run_tasks(chosen: list[Task], jobs: int, out_of_time: Callable[[], bool]) -> Iterator[Record]:
    """The records, as they come. Latencies are taken one at a time, and the counts, which depend on no clock, as many
    as there are processors. What fails is recorded, and the rest goes on."""

    # Run under valgrind: it has no room for what some allocators reserve, or not what they need of the kernel.
    cannot: set[str] = set()

    def do(task: Task) -> Record | None:
        if out_of_time() or task.valgrind and task.allocator in cannot:
            return None
        record = {"workload": task.of, "allocator": task.allocator}
        began = time.monotonic()
        try:
            found = {"kind": task.kind, **record, **task.action()}
        except BenchError as error:
            if task.valgrind:
                cannot.add(task.allocator)
            found = {"kind": "failure", "pass": task.kind, **record, "message": str(error)}
        # Of the whole run's time, when it goes on after an interruption: `together` of them ran at once.
        return {**found, "seconds": round((time.monotonic() - began) / together, 4)}

    for group in (
        [task for task in chosen if task.kind != "latency"],
        [task for task in chosen if task.kind == "latency"],
    ):
        together = jobs if group and group[0].kind != "latency" else 1
        with ThreadPoolExecutor(together) as pool, processes.together():
            futures = [pool.submit(do, task) for task in group]
            try:
                for future in futures:
                    if record := future.result():
                        yield record
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
