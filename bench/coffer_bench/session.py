# SPDX-License-Identifier: MIT
"""A whole run of `coffer bench`, from the choice of allocators to the last line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from coffer_bench import allocators, catalogue, passes, peers
from coffer_bench.allocators import CRATES, PAPERS, PEERS, TOP, Allocator
from coffer_bench.errors import BenchError
from coffer_bench.runner import Limits, Run
from coffer_bench.samples import FORMAT, Record, Writer
from coffer_bench.workload import GROUPS, Settings, Workload

if TYPE_CHECKING:
    from coffer_bench.cli import Options

ALL_NAMES = ["coffer", "glibc", *PEERS, *CRATES, *PAPERS]
# Of a run's time, that may go into what is measured once.
PASSES_SHARE = 0.35


def choose_allocators(names: str, build_dir: Path, console: Console) -> list[Allocator]:
    """Those asked for, where a missing one is an error; else all that are installed."""
    if names:
        return allocators.find([name.strip() for name in names.split(",")], build_dir)
    found = []
    for name in ALL_NAMES:
        try:
            found += allocators.find([name], build_dir)
        except BenchError as error:
            if name in ("coffer", "glibc"):
                raise
            console.print(f"left out: {name}: {error}")
    return found


def describe_workload(workload: Workload) -> Record:
    return {
        "name": workload.name,
        "group": workload.group,
        "unit": workload.unit,
        "timed": workload.timed,
        "single": workload.single,
        "memory": workload.memory,
        "threads": workload.threads,
        "paper": workload.paper,
        "figure": workload.figure,
        "what": workload.what,
        "baseline": workload.baseline,
    }


def make_header(
    options: Options, chosen: list[Allocator], workloads: list[Workload], skipped: dict[str, str]
) -> Record:
    facts = allocators.machine_facts(chosen)
    plan = {
        "quick": options.quick,
        "scale": options.scale,
        "seed": options.seed,
        "rounds": options.rounds,
        "allocators": [one.name for one in chosen],
        "workloads": [workload.name for workload in workloads],
        # Another library is another run.
        "libraries": {name: library["sha256"] for name, library in facts["libraries"].items()},
        "coffer_conf": facts["coffer_conf"],
    }
    versions = {one.name: peers.version(one, options.build_dir) for one in chosen}
    return {
        "kind": "header",
        "format": FORMAT,
        "plan": plan,
        "machine": facts,
        "versions": versions,
        "workloads": [describe_workload(workload) for workload in workloads],
        "skipped": skipped,
    }


def bar(console: Console) -> Progress:
    """As wide as the terminal: the name and the bar share what the figures leave."""
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=2, no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        expand=True,
        disable=not console.is_terminal,
    )


def run(options: Options, console: Console) -> None:
    from coffer_bench import report, summary

    settings = Settings(
        options.build_dir.resolve(),
        options.quick,
        options.scale,
        options.threads,
        with_papers=any(name.strip() in PAPERS for name in options.names.split(",")),
    )
    require_programs(settings)
    chosen = choose_allocators(options.names, options.build_dir, console)
    for allocator in chosen:
        peers.verify(allocator, settings.bench_dir)
    workloads, skipped = catalogue.choose(settings, options.only, options.groups)
    for name, reason in skipped.items():
        console.print(f"left out: {name}: {reason}")
    header = make_header(options, chosen, workloads, skipped)
    console.print(allocators.describe(header["machine"]))
    writer = Writer(options.results)
    try:
        records, said = writer.begin(header, options.fresh)
        if said:
            console.print(said)
        measure(options, settings, chosen, workloads, writer, records, console)
    finally:
        writer.close()
    report.write(options.results, options.report, options.clock)
    found = summary.read(options.results, options.clock)
    report.print_tables(found, console)
    console.print(f"samples: {options.results}\nreport: {options.report / 'index.html'}")
    print(summary.last_line(found))


def measure(
    options: Options,
    settings: Settings,
    chosen: list[Allocator],
    workloads: list[Workload],
    writer: Writer,
    records: list[Record],
    console: Console,
) -> None:
    """A first round, so that there is something of all; what is measured once; then rounds while there is time."""
    state = Run(chosen, workloads, writer, Limits(options.rounds, options.minutes * 60), options.seed)
    state.take_over(records)
    with bar(console) as progress:
        for number in range(1, options.rounds + 1):
            left = state.plan_round(number)
            task = progress.add_task(f"round {number} of {options.rounds}", total=len(left))
            for _ in state.run_round(number, lambda text: progress.update(task, description=text)):
                progress.advance(task)
            progress.update(task, description=f"round {number} of {options.rounds}")
            if number == 1 and options.passes:
                run_passes(options, settings, chosen, workloads, writer, records, state, progress)
            if state.limits.left() <= 0:
                break
    writer.append({"kind": "end", "cut": sorted(state.cut)})


def run_passes(
    options: Options,
    settings: Settings,
    chosen: list[Allocator],
    workloads: list[Workload],
    writer: Writer,
    records: list[Record],
    state: Run,
    progress: Progress,
) -> None:
    done = {
        (record.get("pass", record["kind"]), record["workload"], record["allocator"])
        for record in records
        if record["kind"] in ("instructions", "misses", "latency", "scaling", "failure")
    }
    wanted = [
        task
        for task in passes.tasks(chosen, workloads, settings)
        if (task.kind, task.of, task.allocator) not in done and (task.of, task.allocator) not in state.failed
    ]
    until = state.limits.left() * (1 - PASSES_SHARE)
    task = progress.add_task("latencies, instructions, misses, simulated cores", total=len(wanted))
    jobs = len(os.sched_getaffinity(0))
    for record in passes.run_tasks(wanted, jobs, lambda: state.limits.left() < until):
        writer.append(record)
        progress.advance(task)


def require_programs(settings: Settings) -> None:
    if not (settings.bench_dir / "nothing").exists():
        raise BenchError(
            f"{settings.bench_dir} has no programs: make bench builds them (or cmake --build "
            f"{settings.build_dir} --target bench_programs)"
        )


def show_list(quick: bool, build_dir: Path, console: Console) -> None:
    workloads, skipped = catalogue.choose(Settings(build_dir.resolve(), quick))
    for group, what in GROUPS.items():
        members = [workload for workload in workloads if workload.group == group]
        if not members:
            continue
        console.print(f"\n{group}: {what}", style="bold")
        for workload in members:
            paper = f"  [{workload.paper}, {workload.figure}]" if workload.paper else ""
            console.print(f"  {workload.name}{paper}  {workload.what}", markup=False)
    for name, reason in skipped.items():
        console.print(f"left out: {name}: {reason}")
    console.print(f"\nallocators: {', '.join(ALL_NAMES)}")


def show_peers(check: bool, build_dir: Path, console: Console) -> None:
    """Every peer is tried; one that is missing or not loaded is an error in the end."""
    require_programs(Settings(build_dir.resolve()))
    if not check:
        install("peers")
        built, missing = peers.build(build_dir)
        if missing:
            console.print(f"not built: {missing}", markup=False)
    table = Table("allocator", "version", "library", "", box=None)
    problems = []
    for name in ALL_NAMES:
        try:
            (allocator,) = allocators.find([name], build_dir)
            peers.verify(allocator, build_dir.resolve() / "bench")
            table.add_row(name, peers.version(allocator, build_dir), str(allocator.library or "-"), "loaded")
        except BenchError as error:
            problems.append(f"{name}: {error}")
            table.add_row(name, "", "", "MISSING")
    console.print(table)
    if problems:
        raise BenchError("; ".join(problems))


def show_programs(check: bool, console: Console) -> None:
    if not check:
        install("programs")
    there, missing = catalogue.available_programs()
    for program in there:
        console.print(f"{program.name}: {program.what}", markup=False)
    for reason in missing.values():
        console.print(reason, markup=False)
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}")


def install(what: str) -> None:
    if subprocess.run([str(TOP / "tools" / "setup.sh"), what]).returncode != 0:
        raise BenchError(f"tools/setup.sh {what} failed")
