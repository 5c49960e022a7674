# SPDX-License-Identifier: MIT
"""The report of the patterns drawn at random, as Markdown, and the run that makes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from coffer_bench import drawn, peers, session
from coffer_bench.allocators import Allocator, describe, machine_facts
from coffer_bench.drawn import AIM_MEAN, AIM_WORST, Plan, Ratios, Taken
from coffer_bench.errors import BenchError
from coffer_bench.tables import geometric_mean

WORST_SHOWN = 10


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """The first `texts` columns are left-aligned, the others are figures."""
    marks = ["---" if place < texts else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, marks, *rows]) + "\n"


def aim_line(one: drawn.Standing) -> str:
    def verdict(value: float, aim: float) -> str:
        return "reached" if value <= aim else "missed"

    return (
        f"{one.name}: {one.mean:.3f} of the best other as a geometric mean, {one.worst:.2f} at worst (seed "
        f"{one.worst_seed}). The aim is {AIM_MEAN} ({verdict(one.mean, AIM_MEAN)}) and {AIM_WORST} "
        f"({verdict(one.worst, AIM_WORST)})."
    )


def standings_table(found: Sequence[drawn.Standing]) -> str:
    glibc = next((one.cpu_ms for one in found if one.name == "glibc"), 0.0)
    head = ["allocator", "over the best other", "at worst", "its seed", "peak over live", "best in", "processor time"]
    return table(head, [
        [one.name, f"{one.mean:.3f}", f"{one.worst:.2f}", str(one.worst_seed), f"{one.ratio:.3f}",
         f"{one.best_in} of {one.seeds}", f"{one.cpu_ms / glibc:.2f}" if glibc else "-"]
        for one in found
    ])


def groups_table(plans: Mapping[int, Plan], ratios: Ratios, name: str) -> str:
    over = drawn.over_best(ratios, name)
    others = [other for other in ratios if other != name]
    rows = []
    for what, which, members in drawn.by_group(plans, over):
        means = [
            geometric_mean(ratios[one][seed] for seed in members if seed in ratios[one]) for one in (name, *others)
        ]
        rows.append([what, which, str(len(members)), f"{geometric_mean(over[seed] for seed in members):.2f}",
                     f"{max(over[seed] for seed in members):.2f}", *(f"{mean:.2f}" for mean in means)])
    return table(["drawn", "", "seeds", "over the best other", "at worst", name, *others], rows, texts=2)


def seeds_table(plans: Mapping[int, Plan], ratios: Ratios, name: str, seeds: Sequence[int], words: bool) -> str:
    over = drawn.over_best(ratios, name)
    names = [name, *(other for other in ratios if other != name)]
    rows = [
        [str(seed), f"{over[seed]:.2f}" if seed in over else "-",
         *(f"{ratios[one][seed]:.2f}" if seed in ratios[one] else "failed" for one in names),
         *([drawn.in_words(plans[seed])] if words else [])]
        for seed in seeds
    ]
    return table(["seed", "over the best other", *names, *(["program"] if words else [])], rows, texts=0)


@dataclass(frozen=True)
class Outcome:
    """Of a run: all that the report says."""

    seeds: list[int]
    runs: int
    machine: dict
    versions: dict[str, str]
    plans: dict[int, Plan]
    taken: Taken
    failures: list[str]


def own_standing(found: Sequence[drawn.Standing], name: str) -> drawn.Standing:
    for one in found:
        if one.name == name:
            return one
    raise BenchError(f"{name}: no seed ran under it and under another allocator")


def write(outcome: Outcome, name: str = "coffer") -> str:
    """The whole report, about this allocator beside all others."""
    ratios = drawn.ratios_of(outcome.taken)
    found = drawn.standings(outcome.taken, ratios)
    own = own_standing(found, name)
    over = drawn.over_best(ratios, name)
    worst = sorted(over, key=lambda seed: -over[seed])[:WORST_SHOWN]
    versions = ", ".join(f"{one} {version}" for one, version in outcome.versions.items() if version)
    runs = "one run of each" if outcome.runs == 1 else f"medians of {outcome.runs} runs"
    parts = [
        "# Patterns drawn at random\n",
        f"{say(outcome)}, {runs}, by `coffer bench drawn`. Commit {outcome.machine['commit']}. "
        f"{describe(outcome.machine)}.\n",
        f"Allocators: {versions}.\n",
        "Each seed is a program of its own ([what is drawn](../../bench/README.md#drawnpy)). *Peak* is resident memory "
        "and page tables above what the process held before its first allocation, *live* the bytes that the program "
        "had asked for at most, the same under all. *Over the best other*: the peak over the least one of all other "
        "allocators that people use, seed by seed, as a geometric mean. Processor time is that of the whole programs, "
        "which write and read each block whole, over glibc's; a busy machine changes it.\n",
        f"{aim_line(own)}\n",
        standings_table(found),
        f"## By what was drawn\n\nPeak over live, geometric means.\n\n{groups_table(outcome.plans, ratios, name)}",
        f"## Where {name} is furthest from the best\n\nPeak over live.\n\n"
        f"{seeds_table(outcome.plans, ratios, name, worst, words=True)}",
        f"## Every seed\n\nPeak over live.\n\n"
        f"{seeds_table(outcome.plans, ratios, name, outcome.seeds, words=False)}",
    ]
    if outcome.failures:
        parts.insert(5, "".join(f"- FAILED: {failure}\n" for failure in outcome.failures))
    return "\n".join(parts)


def say(outcome: Outcome) -> str:
    text = drawn.say_seeds(outcome.seeds)
    return text[0].upper() + text[1:]


@dataclass(frozen=True)
class Options:
    half: str
    seeds: str
    names: str
    runs: int
    jobs: int
    results: Path | None
    report: Path | None
    build_dir: Path


def choose(options: Options, console: Console) -> list[Allocator]:
    """By default those of people, and Coffer: the papers' own are no part of this."""
    names = options.names or ",".join(
        one.name for one in session.choose_allocators("", options.build_dir, console) if one.name not in session.PAPERS
    )
    chosen = session.choose_allocators(names, options.build_dir, console)
    if len(chosen) < 2:
        raise BenchError("two allocators at least: a peak is compared with the best other's")
    return chosen


def run(options: Options, console: Console) -> None:
    seeds = drawn.choose_seeds(options.half, options.seeds)
    console.print(f"Running {drawn.say_seeds(seeds)}.")
    build_dir = options.build_dir.resolve()
    programs = build_dir / "bench" / "patterns"
    if not (programs / "drawn").exists():
        raise BenchError(f"{programs / 'drawn'} is missing: make bench builds it")
    chosen = choose(options, console)
    for allocator in chosen:
        peers.verify(allocator, build_dir / "bench")
    name = "coffer" if any(one.name == "coffer" for one in chosen) else chosen[0].name
    plans = {seed: drawn.describe(programs, seed) for seed in seeds}
    machine = machine_facts(chosen)
    versions = {one.name: peers.version(one, options.build_dir) for one in chosen}
    taken, failures = drawn.measure(chosen, seeds, programs, options.runs, options.jobs)
    outcome = Outcome(seeds, options.runs, machine, versions, plans, taken, failures)
    results = options.results or build_dir / "bench" / "results" / f"drawn-{options.half}.json"
    report = options.report or results.with_suffix(".md")
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps({"machine": machine, "versions": versions, "plans": plans, "samples": taken}) + "\n")
    report.write_text(write(outcome, name))
    ratios = drawn.ratios_of(taken)
    found = drawn.standings(taken, ratios)
    console.print(standings_table(found), markup=False)
    for failure in failures:
        console.print(f"FAILED: {failure}", markup=False)
    console.print(f"samples: {results}\nreport: {report}", markup=False)
    print(aim_line(own_standing(found, name)))
    if failures:
        raise BenchError(f"{len(failures)} runs failed")
