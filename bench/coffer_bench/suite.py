# SPDX-License-Identifier: MIT
"""The experiments and memory patterns of suite/suite.json as workloads."""

from __future__ import annotations

import json
from pathlib import Path

from coffer_bench import allocators, drawn
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.errors import BenchError
from coffer_bench.workload import PAPERS, PATTERNS, PLAIN, Figures, Settings, Workload

SUITE = TOP / "bench" / "suite" / "suite.json"


def pairs(arguments: dict[str, object]) -> list[str]:
    return [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in arguments.items()]


def read_suite(path: Path = SUITE) -> list[dict]:
    """Empty where there is none."""
    try:
        entries = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BenchError(f"{path}: {error}") from error
    for entry in entries:
        for key in ("name", "program", "output", "metric"):
            if key not in entry:
                raise BenchError(f"{path}: an entry has no {key}: {json.dumps(entry)[:200]}")
    return entries


def parse_suite(output: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def number(results: dict, key: str, where: str) -> float:
    try:
        return float(results[key])
    except (KeyError, ValueError) as error:
        raise BenchError(f"{where}: no figure {key}") from error


NAMED = {"rss_peak_kib": "peak_kib", "rss_end_kib": "end_kib", "rss_start_kib": "start_kib"}


def suite_figures(entry: dict, results: dict[str, str]) -> Figures:
    """Of what a program of the suite, or a memory pattern, has printed."""
    where, metric = entry["name"], entry["metric"]
    found: Figures = {}
    for key, value in results.items():
        if key == "checksum":
            found["digest"] = str(value)
        elif not key.startswith(("argument.", "program", "library", "latency.")):
            try:
                found[NAMED.get(key, key)] = float(value)
            except (TypeError, ValueError):
                continue
    found["time_ns"] = number(found, metric["key"], where)
    if metric.get("per"):
        found["time_ns"] /= number(found, metric["per"], where)
    # Processor time of what the metric is of, where the program says it; else of the whole measured part.
    own = metric["key"].removesuffix("_ns") + "_cpu_ns"
    if own in found:
        found["cpu_ns"] = float(found[own]) / (number(found, metric["per"], where) if metric.get("per") else 1.0)
    elif "cpu_ns" in found and "operations" in found:
        found["cpu_ns"] = float(found["cpu_ns"]) / max(1.0, float(found["operations"]))
    return found


def pattern_figures(entry: dict, figures: Figures, allocator: Allocator) -> Figures:
    """Memory is that of the process as a whole, as for all programs: some libraries take at load what others take
    with the first allocations."""
    if figures.get("stuck"):
        raise BenchError(f"{entry['name']} under {allocator.name}: threads wait for ever")
    return figures


# What takes seconds and differs little from round to round.
PATTERN_ROUNDS = 3


def scaled(entry: dict, settings: Settings) -> dict[str, object]:
    arguments = {**entry.get("arguments", {}), **entry.get("quick" if settings.quick else "full", {})}
    if settings.scale != 1.0 and entry["output"] == "suite":
        arguments["scale"] = round(float(arguments.get("scale", 1)) * settings.scale, 6)
    return arguments


def suite_workload(entry: dict, threads: int, settings: Settings) -> Workload:
    arguments = {**scaled(entry, settings), **({"threads": threads} if threads else {})}
    command = [str(settings.bench_dir / entry["program"]), *pairs(arguments)]
    is_pattern = entry["output"] == "json"

    def text(allocator: Allocator, *more: str) -> str:
        return allocators.run_text(allocator, [*command, *more], timeout=settings.timeout)

    def run(allocator: Allocator) -> Figures:
        if is_pattern:
            return pattern_figures(entry, allocators.run_json(allocator, command, settings.timeout), allocator)
        results = parse_suite(text(allocator))
        allocators.verify_library(allocator, results.get("library", "nothing"))
        return suite_figures(entry, results)

    several = len(entry.get("threads", [])) > 1
    paper = "" if entry.get("paper", "none") == "none" else entry["paper"]
    return Workload(
        name=entry["name"] + (f", {threads} threads" if threads > 1 and several else ", 1 thread" if several else ""),
        group=PAPERS if paper and not is_pattern else PATTERNS if is_pattern else PLAIN,
        run=run,
        unit=entry.get("unit", "ns"),
        timed=not is_pattern and not entry.get("single"),
        single=bool(entry.get("single")),
        most_rounds=PATTERN_ROUNDS if is_pattern else 1000,
        memory=bool(entry.get("memory", True)),
        threads=max(1, threads),
        paper=paper,
        figure=entry.get("figure", ""),
        latency=(lambda allocator, path: text(allocator, f"latency={path}")) if entry.get("latency") else None,
        traced=traced_command(entry, settings),
        without=tuple(entry.get("without", ())),
        baseline="compact" in entry.get("arguments", {}),
        what=" ".join([entry["program"], *pairs(arguments)]),
    )


# Programs whose time is that of reading what was allocated, and the arguments that make a run under valgrind short.
TRACED = {"suite/locality": {"scale": 0.005, "cycles": 2}, "patterns/ring": {"threads": 4, "bytes": 1_000_000}}


def traced_command(entry: dict, settings: Settings) -> tuple[str, ...]:
    if entry["program"] not in TRACED:
        return ()
    arguments = {**entry.get("arguments", {}), **TRACED[entry["program"]]}
    return str(settings.bench_dir / entry["program"]), *pairs(arguments)


def drawn_workload(settings: Settings) -> Workload:
    """Some of the programs drawn at random, as one row: `coffer bench drawn` has them all."""
    seeds = drawn.IN_QUICK if settings.quick else drawn.IN_BENCH
    entry = {"name": drawn.workload_name(seeds)}

    def run(allocator: Allocator) -> Figures:
        figures = drawn.run_seeds(allocator, settings.bench_dir / "patterns", seeds)
        return {**pattern_figures(entry, figures, allocator), "time_ns": figures["ratio"]}

    return Workload(
        name=entry["name"],
        group=PATTERNS,
        run=run,
        unit="peak/live",
        timed=False,
        most_rounds=PATTERN_ROUNDS,
        what=f"patterns/drawn seed={','.join(map(str, seeds))}",
    )


def suite_workloads(settings: Settings) -> list[Workload]:
    of_suite = [
        suite_workload(entry, threads, settings)
        for entry in read_suite()
        for threads in settings.choose_threads(entry.get("threads", []))
    ]
    return [*of_suite, drawn_workload(settings)]
