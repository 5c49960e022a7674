"""The simulation of 1 to 128 cores (docs/design/simulation.md): runs build/libexec/coffer/simulate_ALLOCATOR, and says
what came out as tables. Its figures depend on no clock: the same seed gives the same figures on every machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from coffer_bench.errors import BenchError
from coffer_bench.samples import Record

# Each experiment with the row of a real run that it simulates.
WORKLOADS = {
    "threadtest": "threadtest 8",
    "threadtest-64": "threadtest 64",
    "larson": "larson 10-100",
    "larson-start": "",
    "active-false": "active-false",
    "passive-false": "passive-false",
    "producer-consumer": "producer-consumer",
}
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
SIMULATORS = "libexec/coffer/simulate_"
SECONDS = 600.0
SHOWN_LINES = 6
# The allocator that is there to fail waits so much that a twentieth of the work says all of it.
BASELINE, BASELINE_SCALE = "one-lock", 0.05


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
        scale = max(0.001, scale * BASELINE_SCALE)
    command = [str(path), f"workload={point.workload}", f"cores={point.cores}", f"seed={seed}", f"scale={scale:g}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except FileNotFoundError as error:
        raise BenchError(f"{path} is missing: cmake --build {build_dir} --target coffer_simulators") from error
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{' '.join(command)}: not done in {SECONDS:.0f} s") from error
    except (OSError, ValueError) as error:
        raise BenchError(f"{' '.join(command)}: {error}") from error
    if found is None:
        raise BenchError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return found


def simulate_all(
    points: Iterable[Point], build_dir: Path, seed: int, scale: float, said: Callable[[Record], None]
) -> list[Record]:
    """As many at a time as there are processors: they count cycles, not time."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
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
    """Where the cores wait for each other, most first."""
    return [
        f"{line['name']}: {line['transfers']:,} transfers, {line['waited']:,} cycles waited, {line['failed']:,} failed"
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


def points_of(real: Iterable[str], build_dir: Path) -> list[Point]:
    """What is simulated beside these real rows."""
    rows = list(real)
    return [
        Point(name, workload, cores)
        for workload, row in WORKLOADS.items()
        if row and any(one.startswith(row) for one in rows)
        for name in available(build_dir)
        for cores in CORES
    ]


def real_speed_up(medians: dict[str, float], row: str, threads: int) -> float | None:
    """Of rows whose figure is the time of an operation, all threads' operations counted."""
    one, several = medians.get(f"{row}, 1 thread"), medians.get(f"{row}, {threads} threads")
    return one / several if one and several else None


def tables(records: Sequence[Record], medians: dict[str, float]) -> list[dict]:
    """`medians`: Coffer's time in the real rows."""
    result = []
    for workload, row in WORKLOADS.items():
        names = list(dict.fromkeys(one["allocator"] for one in records if one["simulated"] == workload))
        if not names:
            continue
        curves = {name: speed_ups(by_cores(records, workload, name)) for name in names}
        counts = sorted({cores for curve in curves.values() for cores in curve})
        real = {cores: real_speed_up(medians, row, cores) if cores > 1 else 1.0 for cores in counts}
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
                        "real": f"{real[cores]:.2f}" if real[cores] else "-",
                    }
                    for cores in counts
                ],
                "curves": curves,
                "real": {cores: value for cores, value in real.items() if value},
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
        console.print(f"  Lines of memory on {max(curve)} cores, of the whole run, threads' starts and ends included:")
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
