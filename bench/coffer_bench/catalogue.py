"""Every workload of `coffer bench`: the papers' experiments, memory patterns and others of suite/suite.json, the fast
paths of rows.py, placement on cache indices, and real programs. All give figures of the same names:

time_ns   of an operation, by the workload's own metric (wall time where nothing else is said)
cpu_ns    of an operation, over all threads
peak_kib  the most resident memory plus page tables; end_kib: when all is freed
faults    page faults
digest    of what was computed: the same under every allocator
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from coffer_bench import allocators, index_rows, rows
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.errors import BenchError
from coffer_bench.programs import PROGRAMS, Program
from coffer_bench.programs.base import INPUTS, digest

Figures = dict[str, float | str]

SUITE = TOP / "bench" / "suite" / "suite.json"
PAPERS, FAST, PATTERNS, INDEX, PLAIN, REAL = (
    "papers",
    "fast paths",
    "memory patterns",
    "cache indices",
    "other",
    "real programs",
)
GROUPS = {
    PAPERS: "the papers' experiments",
    REAL: "programs that people use, from Debian's packages",
    PLAIN: "asymmetric frees, realloc growth, large blocks, calloc, start-up, a server",
    FAST: "one malloc and free after the other",
    PATTERNS: "what makes many allocators hold more than is live",
    INDEX: "programs whose time depends on where blocks lie in the cache",
}


@dataclass(frozen=True)
class Workload:
    name: str
    group: str
    run: Callable[[Allocator], Figures]
    unit: str = "ns"
    timed: bool = True
    memory: bool = True
    threads: int = 1
    paper: str = ""
    figure: str = ""
    # A run that records the latency of each call into a file; its other figures are not to be used.
    latency: Callable[[Allocator, Path], object] | None = None
    # For the simulated caches: the row whose addresses of a lap are listed, or a command for cachegrind.
    row: index_rows.Row | None = None
    traced: tuple[str, ...] = ()
    what: str = ""
    prepare: Callable[[], None] | None = None
    # Uses no allocator: stands beside the others in the paper's figure, and in no mean.
    baseline: bool = False
    most_rounds: int = 1000  # more would say little for the time that they take


@dataclass(frozen=True)
class Settings:
    build_dir: Path
    quick: bool = False
    scale: float = 1.0  # of everything, beyond what quick does
    threads: tuple[int, ...] = ()  # empty: what each workload says, as far as there are processors
    timeout: float = 90.0

    @property
    def bench_dir(self) -> Path:
        return self.build_dir.resolve() / "bench"

    def choose_threads(self, listed: Iterable[int]) -> list[int]:
        """1, 2, 4 … as far as there are processors; quick: the most of them."""
        listed = list(listed)
        if not listed:
            return [0]
        if self.threads:
            return list(self.threads)
        most = len(os.sched_getaffinity(0))
        if listed == [1, 2]:
            listed += [1 << power for power in range(2, 10)]
        fit = [count for count in listed if count <= most] or [min(listed)]
        return fit[-1:] if self.quick else fit


def pairs(arguments: dict[str, object]) -> list[str]:
    return [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in arguments.items()]


# The suite.


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
    if "cpu_ns" in found and "operations" in found:
        found["cpu_ns"] = float(found["cpu_ns"]) / max(1.0, float(found["operations"]))
    return found


def pattern_figures(entry: dict, figures: Figures, allocator: Allocator) -> Figures:
    """What a library costs by itself is in the row start-up and nowhere else: memory is above that of the process
    before its first allocation."""
    if figures.get("stuck"):
        raise BenchError(f"{entry['name']} under {allocator.name}: threads wait for ever")
    start = number(figures, "start_kib", entry["name"])
    return {
        **figures,
        "peak_kib": float(figures["peak_kib"]) - start,
        "whole_peak_kib": figures["peak_kib"],
        "end_kib": max(0.0, float(figures["end_kib"]) - start),
    }


# What takes seconds and differs little from round to round.
PATTERN_ROUNDS, PROGRAM_ROUNDS, QUICK_PROGRAM_ROUNDS = 3, 4, 2


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
        timed=not is_pattern,
        most_rounds=PATTERN_ROUNDS if is_pattern else 1000,
        memory=bool(entry.get("memory", True)),
        threads=max(1, threads),
        paper=paper,
        figure=entry.get("figure", ""),
        latency=(lambda allocator, path: text(allocator, f"latency={path}")) if entry.get("latency") else None,
        traced=traced_command(entry, settings),
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


def suite_workloads(settings: Settings) -> list[Workload]:
    return [
        suite_workload(entry, threads, settings)
        for entry in read_suite()
        for threads in settings.choose_threads(entry.get("threads", []))
    ]


# The fast paths: the rows of rows.py whose like the suite has not.

IN_SUITE = ("larson", "zeroed", "grow", "large", "launch")


def fast_workload(row: rows.Row, settings: Settings) -> Workload:
    command = row.command(str(settings.bench_dir), settings.scale * (0.25 if settings.quick else 1))

    def run(allocator: Allocator) -> Figures:
        figures = {
            key: float(value) for key, value in allocators.run(allocator, command, True, settings.timeout).items()
        }
        return {**figures, "time_ns": figures.pop("ns_per_op"), "cpu_ns": figures.pop("cpu_ns_per_op")}

    return Workload(
        row.name,
        FAST,
        run,
        "ns an operation",
        memory=row.memory,
        threads=int(row.arguments.get("threads", 1)),
        what=" ".join(command[:1]).rpartition("/")[2],
    )


def index_workload(row: index_rows.Row, settings: Settings) -> Workload:
    command = row.command(settings.bench_dir / "index", settings.scale * (0.1 if settings.quick else 0.5))

    def run(allocator: Allocator) -> Figures:
        figures = {
            key: float(value) for key, value in allocators.run(allocator, command, True, settings.timeout).items()
        }
        # A walk has no system calls, and its own memory decides what it costs.
        return {"time_ns": figures["cpu_ns_per_op"], "cpu_ns": figures["cpu_ns_per_op"]}

    figure = {"mcache": "figure 2", "llubenchmark": "figure 6", "mmicro": "figure 5"}.get(row.program, "")
    return Workload(
        row.name,
        INDEX,
        run,
        "ns a step",
        memory=False,
        paper="CIF 6" if figure else "",
        figure=figure,
        threads=int(row.arguments.get("threads", 1)),
        row=row if row.steps else None,
        what=row.program,
    )


QUICK_INDEX = ("ring of 256, 1024, random", "ring of 256, 4096, random", "llubenchmark, 1000", "stdmap", "many sizes")


def index_workloads(settings: Settings) -> list[Workload]:
    chosen = [
        row
        for row in index_rows.ROWS
        if row.processes == 1 and row.program != "mmicro" and "MiB" not in row.name and not ("ring of 512" in row.name)
    ]
    return [
        index_workload(row, settings)
        for row in chosen
        if not settings.quick or row.name in QUICK_INDEX
        if (settings.bench_dir / "index" / row.program).exists() or row.program != "xml"
    ]


# Real programs.


@functools.cache
def inputs_version() -> str:
    """Of what makes the inputs: when that changes, they are made anew."""
    sources = [
        *(Path(__file__).parent / "programs").glob("*.py"),
        *(path for path in INPUTS.iterdir() if path.is_file()),
    ]
    return digest(*(path.read_bytes() for path in sorted(sources)))[:8]


def program_workload(program: Program, settings: Settings) -> Workload:
    size = "quick" if settings.quick else "full"
    inputs = settings.bench_dir / "inputs" / f"{program.name}-{size}-{inputs_version()}"

    def prepare() -> None:
        """Once; a run that was interrupted here begins again."""
        if (inputs / "complete").exists():
            return
        for other in inputs.parent.glob(f"{program.name}-{size}-*"):
            shutil.rmtree(other, ignore_errors=True)
        inputs.mkdir(parents=True, exist_ok=True)
        program.prepare(inputs, settings.quick)
        (inputs / "complete").touch()

    def run(allocator: Allocator) -> Figures:
        figures = program.run(allocator, inputs, settings.quick)
        operations = max(1.0, float(figures["operations"]))
        return {
            **figures,
            "time_ns": float(figures["wall_ns"]) / operations,
            "cpu_ns": float(figures["cpu_ns"]) / operations,
        }

    return Workload(
        program.name,
        REAL,
        run,
        "ns",
        what=program.what,
        prepare=prepare,
        most_rounds=QUICK_PROGRAM_ROUNDS if settings.quick else PROGRAM_ROUNDS,
    )


def available_programs(names: Iterable[str] = ()) -> tuple[list[Program], dict[str, str]]:
    """Those that can be run here, and why the others cannot."""
    there, missing = [], {}
    for program in PROGRAMS:
        try:
            program.require()
            there.append(program)
        except BenchError as error:
            missing[program.name] = str(error)
    return there, missing


def choose(settings: Settings, only: str = "", groups: str = "") -> tuple[list[Workload], dict[str, str]]:
    """The workloads, those of all groups mixed so that a run that ends early has some of each; and what is left out,
    with the reason."""
    programs, skipped = available_programs()
    suite = suite_workloads(settings)
    fast = [row for row in rows.ROWS if row.program not in IN_SUITE]
    if settings.quick:
        fast = [row for row in fast if not row.name.startswith(("pair 1024", "pair 4096", "pair 32768"))]
    found = [
        *suite,
        *(program_workload(program, settings) for program in programs),
        *(fast_workload(row, settings) for row in fast),
        *index_workloads(settings),
    ]
    wanted_groups = [group.strip() for group in groups.split(",") if group.strip()]
    for group in wanted_groups:
        if group not in GROUPS:
            raise BenchError(f"no group is called {group}; there are: {', '.join(GROUPS)}")
    texts = [text.strip() for text in only.split(";") if text.strip()]
    found = [
        workload
        for workload in found
        if (not wanted_groups or workload.group in wanted_groups)
        and (not texts or any(text in workload.name for text in texts))
    ]
    if not found:
        raise BenchError("no workload has such a name; `coffer bench list` shows them")
    names = [workload.name for workload in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BenchError(f"two workloads are called {', '.join(sorted(twice))}")
    return spread_groups(found), skipped


def spread_groups(workloads: list[Workload]) -> list[Workload]:
    """By the place that each has in its group, from 0 to 1."""
    by_group: dict[str, list[Workload]] = {}
    for workload in workloads:
        by_group.setdefault(workload.group, []).append(workload)
    placed = [
        ((index + 0.5) / len(members), order, workload)
        for order, members in enumerate(by_group.values())
        for index, workload in enumerate(members)
    ]
    return [workload for _, _, workload in sorted(placed, key=lambda entry: entry[:2])]
