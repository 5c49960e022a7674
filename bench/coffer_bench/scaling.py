# SPDX-License-Identifier: MIT
"""The simulation of 1 to 128 cores (docs/design/simulation.md): runs build/libexec/coffer/simulate_ALLOCATOR, and says
what came out as tables. Its figures depend on no clock: the same seed gives the same figures on every machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from coffer_bench import processes, stats
from coffer_bench.errors import BenchError
from coffer_bench.samples import Record
from coffer_bench.stats import ByRound, Estimate
from coffer_bench.summary import OURS

# Each experiment with the row of a real run that it simulates.
WORKLOADS = {
    "threadtest": "threadtest 8",
    "threadtest-64": "threadtest 64",
    "threadtest-256": "",
    "larson": "larson 10-100",
    "larson-start": "",
    "larson-paper": "larson 10-100",
    "active-false": "active-false",
    "passive-false": "passive-false",
    "producer-consumer": "producer-consumer",
}
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
SIMULATORS = "libexec/coffer/simulate_"
SECONDS = 600.0
LEAST_SCALE = 0.001
SHOWN_LINES = 6
# The allocator that is there to fail waits so much that a twentieth of the work says all of it.
BASELINE, BASELINE_SCALE = "one-lock", 0.05
# In a whole run: on more cores it, and the papers' allocators where their locks are fought for, would take minutes.
OTHERS_CORES = 16


class Point(NamedTuple):
    allocator: str
    workload: str
    cores: int


def available(build_dir: Path) -> list[str]:
    """The allocators with a simulator, Coffer first and the one that is there to fail last."""
    found = [path.name.removeprefix("simulate_") for path in (build_dir / "libexec" / "coffer").glob("simulate_*")]
    return sorted(found, key=lambda name: (name != "coffer", name == BASELINE, name))


def choose(text: str, known: Sequence[str], what: str) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text else list(known)
    for name in names:
        if name not in known:
            raise BenchError(f"no {what} {name!r}; there are {', '.join(known) or 'none'}")
    return names


def choose_cores(text: str) -> list[int]:
    """1,2,8 or 1..128: the powers of two in between; and always one core, which the others' speed-up is over."""
    low, dots, high = text.partition("..")
    try:
        wanted = [int(part) for part in ((low, high) if dots else text.split(","))]
    except ValueError as error:
        raise BenchError(f"--cores {text}: numbers like 1,2,8, or 1..128") from error
    found = [cores for cores in CORES if wanted[0] <= cores <= wanted[-1]] if dots else wanted
    if not found or any(cores not in CORES for cores in found):
        raise BenchError(f"--cores {text}: powers of two from {CORES[0]} to {CORES[-1]}")
    return sorted({1, *found})


def simulate(point: Point, build_dir: Path, seed: int, scale: float) -> Record:
    path = build_dir / f"{SIMULATORS}{point.allocator}"
    if point.allocator == BASELINE:
        scale = max(LEAST_SCALE, scale * BASELINE_SCALE)
    command = [str(path), f"workload={point.workload}", f"cores={point.cores}", f"seed={seed}", f"scale={scale:g}"]
    if not path.is_file():
        raise BenchError(f"{path} is missing: cmake --build {build_dir} --target coffer_simulators")
    done = processes.execute(command, os.environ, timeout=SECONDS)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise BenchError(f"{' '.join(command)}: {error}") from error


def simulate_all(
    points: Iterable[Point], build_dir: Path, seed: int, scale: float, said: Callable[[Record], None]
) -> list[Record]:
    """As many at a time as there are processors: they count cycles, not time."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, processes.together():
        futures = [pool.submit(simulate, point, build_dir, seed, scale) for point in points]
        found = []
        try:
            for future in futures:
                found.append(future.result())
                said(found[-1])
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return found


# What a curve says.


def cycles(record: Record) -> float:
    """Of one operation, on the clock of the whole machine."""
    return record["cycles"] / record["operations"]


def by_cores(records: Iterable[Record], workload: str, allocator: str) -> dict[int, Record]:
    return {
        record["cores"]: record
        for record in records
        if record["simulated"] == workload and record["allocator"] == allocator
    }


def speed_ups(curve: dict[int, Record]) -> dict[int, float]:
    """Over the same allocator on one core; none if that was not simulated."""
    if 1 not in curve:
        return {}
    return {cores: cycles(curve[1]) / cycles(record) for cores, record in sorted(curve.items())}


def in_calls(record: Record, key: str) -> float:
    """Of malloc and free together, an operation."""
    return sum(record["calls"][call][key] for call in ("malloc", "free")) / record["operations"]


def hot_lines(record: Record) -> list[str]:
    """Where the cores wait for each other, most first; of the timed part, and what of it is in malloc and free. Records
    of before had one count, with the ends of threads that came after."""

    def text(counts: Record) -> str:
        return f"{counts['transfers']:,} transfers, {counts['waited']:,} cycles waited, {counts['failed']:,} failed"

    return [
        f"{line['name']}: {text(line)}" + (f" (in calls: {text(line['in_calls'])})" if "in_calls" in line else "")
        for line in record["lines"][:SHOWN_LINES]
        if line["transfers"] + line["waited"] > 0
    ]


def point_name(point: Point) -> str:
    return f"{point.workload} on {point.cores} simulated core{'s' if point.cores != 1 else ''}"


def mark(record: Record) -> Record:
    """As it stands among the samples."""
    point = Point(record["allocator"], record["workload"], record["cores"])
    return {"kind": "scaling", "simulated": point.workload, **record, "workload": point_name(point)}


# In a whole run of `coffer bench`.


def points_of(real: Iterable[str], allocators: Iterable[str], build_dir: Path) -> list[Point]:
    """What is simulated beside these real rows, of these allocators and the one that is there to fail."""
    rows, wanted = list(real), {*allocators, BASELINE}
    return [
        Point(name, workload, cores)
        for workload, row in WORKLOADS.items()
        if row and any(is_of(one, row) for one in rows)
        for name in available(build_dir)
        if name in wanted
        for cores in CORES
        if name == OURS or cores <= OTHERS_CORES
    ]


def is_of(name: str, row: str) -> bool:
    """Whether a row is this one, on any number of threads."""
    return name == row or name.startswith(f"{row}, ")


def real_speed_up(times: Mapping[str, ByRound], row: str, threads: int, factor: float = 1.0) -> Estimate | None:
    """Of Coffer: the median over the rounds, with its interval. All threads' operations count in the time of one; of
    processor time, which is that of all threads together, `factor` is their number."""
    one, several = times.get(f"{row}, 1 thread", {}), times.get(f"{row}, {threads} threads", {})
    return stats.estimate([factor * ratio for ratio in stats.ratios(one, several)])


def agreement(simulated: float, real: Estimate) -> str:
    """How far the simulation is from this machine, as a factor; with the interval of what was measured."""
    return str(Estimate(simulated / real.value, simulated / real.high, simulated / real.low, real.count))


def tables(records: Sequence[Record], walls: Mapping[str, ByRound], cpus: Mapping[str, ByRound]) -> list[dict]:
    """Coffer's time of an operation in the real rows, by round. Agreement is with processor time: what others do on the
    machine, or a processor that is not there, is not in it."""
    result = []
    for workload, row in WORKLOADS.items():
        names = list(dict.fromkeys(one["allocator"] for one in records if one["simulated"] == workload))
        if not names:
            continue
        curves = {name: speed_ups(by_cores(records, workload, name)) for name in names}
        counts = sorted({cores for curve in curves.values() for cores in curve})
        several = [cores for cores in counts if cores > 1]
        real = {cores: found for cores in several if (found := real_speed_up(walls, row, cores))}
        busy = {cores: found for cores in several if (found := real_speed_up(cpus, row, cores, cores))}
        own = curves.get(OURS, {})
        hottest = by_cores(records, workload, names[0])
        result.append(
            {
                "title": workload,
                "row": row,
                "names": names,
                "lines": [
                    {
                        "name": str(cores),
                        "cells": [f"{curves[name][cores]:.2f}" if cores in curves[name] else "-" for name in names],
                        "real": str(real[cores]) if cores in real else "-",
                        "busy": str(busy[cores]) if cores in busy else "-",
                        "agreement": agreement(own[cores], busy[cores]) if cores in busy and cores in own else "-",
                    }
                    for cores in counts
                ],
                "curves": curves,
                "real": real,
                "hot": hot_lines(hottest[max(hottest)]) if hottest else [],
            }
        )
    return result


def print_curve(curve: dict[int, Record], console: Console, lines: bool) -> None:
    first = next(iter(curve.values()))
    console.print(f"\n{first['simulated']}, {first['allocator']}", style="bold")
    table = Table(
        "cores", "speed-up", "cycles an operation", "malloc", "free", "transfers", "failed CAS", "waited", box=None
    )
    ups = speed_ups(curve)
    for cores, record in sorted(curve.items()):
        both = [record["calls"][call] for call in ("malloc", "free")]
        calls = [one["cycles"] / max(1, one["calls"]) for one in both]
        table.add_row(
            str(cores),
            f"{ups[cores]:.2f}" if cores in ups else "-",
            f"{cycles(record) * cores:,.1f}",
            *(f"{one:,.0f}" for one in calls),
            *(f"{in_calls(record, key):.3f}" for key in ("transfers", "failed")),
            f"{in_calls(record, 'waited'):,.1f}",
        )
    console.print(table)
    if lines:
        console.print(
            f"  Lines of memory on {max(curve)} cores, of the timed part; in calls: of malloc and free alone, without "
            "the starts and ends of threads:"
        )
        for text in hot_lines(curve[max(curve)]):
            console.print(f"    {text}", markup=False)


def run(
    allocators: str,
    workloads: str,
    cores: str,
    seed: int,
    scale: float,
    as_json: bool,
    build_dir: Path,
    console: Console,
) -> None:
    build_dir = build_dir.resolve()
    known = available(build_dir)
    if not known:
        raise BenchError(f"no simulators in {build_dir}: cmake --build {build_dir} --target coffer_simulators")
    names = choose(allocators, known, "simulator of")
    chosen = choose(workloads, list(WORKLOADS), "workload")
    counts = choose_cores(cores)
    points = [Point(name, workload, count) for workload in chosen for name in names for count in counts]
    said = (lambda record: print(json.dumps(record), flush=True)) if as_json else (lambda record: None)
    records = [mark(record) for record in simulate_all(points, build_dir, seed, scale, said)]
    if as_json:
        return
    console.print(
        "Cycles of a simulated machine. An operation is a malloc with its free (false sharing: a write); its cycles "
        "are those of all cores together; transfers, failed CASes and waiting are of malloc and free, an operation.",
        markup=False,
    )
    for workload in chosen:
        for name in names:
            print_curve(by_cores(records, workload, name), console, lines=True)
