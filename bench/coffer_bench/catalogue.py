# SPDX-License-Identifier: MIT
"""Every workload of `coffer bench`: the papers' experiments, memory patterns and others of suite/suite.json, the fast
paths of rows.py, placement on cache indices, and real programs."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Iterable
from pathlib import Path

from coffer_bench import allocators, index_rows, rows
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.programs import PROGRAMS, Program
from coffer_bench.programs.base import INPUTS, digest
from coffer_bench.suite import suite_workloads
from coffer_bench.workload import FAST, GROUPS, INDEX, REAL, Figures, Settings, Workload

# They take seconds.
PROGRAM_ROUNDS, QUICK_PROGRAM_ROUNDS = 4, 2

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
        with_papers=True,
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
    if settings.with_papers:
        found = [dataclasses.replace(workload, with_papers=True) for workload in found]
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
