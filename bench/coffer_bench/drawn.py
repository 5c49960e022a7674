# SPDX-License-Identifier: MIT
"""Memory patterns drawn at random: programs that a seed decides (bench/patterns/drawn.cpp), of which half may be looked
at when something is tuned, and the other half judges."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from coffer_bench import allocators, processes
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.tables import geometric_mean

TUNING, JUDGING = range(1, 101), range(101, 201)
HALVES = {"judge": JUDGING, "tune": TUNING, "all": range(1, 201)}
# The rows of `coffer bench` and memory.py: some of those that judge.
IN_BENCH, IN_QUICK = tuple(JUDGING[::10]), tuple(JUDGING[::50])
AIM_MEAN, AIM_WORST = 1.15, 1.5
# A seed runs for a second; machines that others use may stop it meanwhile.
SECONDS = 300.0
# A machine that is short of memory ends the patterns first (pattern.hpp), and one that others use may stop them.
# Neither says anything about an allocator, so such a run is made again.
NO_FAULT = re.compile(r"status -9:|not done in")
TRIES = 3
# What is the same under every allocator and in every run.
FIXED = ("calls", "digest", "live_kib")

Figures = dict[str, float]
Plan = dict  # as describe=1 prints it
Taken = dict[str, dict[int, list[Figures]]]  # by allocator and seed, of each run
Ratios = dict[str, dict[int, float]]  # peak over live, by allocator and seed


def command(programs: Path, seed: int, *more: str) -> list[str]:
    return [str(programs / "drawn"), f"seed={seed}", *more]


def describe(programs: Path, seed: int) -> Plan:
    printed = processes.execute(command(programs, seed, "describe=1"), {}, timeout=SECONDS).stdout
    return json.loads(printed)


def choose_seeds(half: str, text: str = "") -> list[int]:
    """Of a half, or those of a list like 3,17,40..50."""
    if not text:
        return list(HALVES[half])
    found: list[int] = []
    for part in text.split(","):
        low, dots, high = part.partition("..")
        try:
            first, last = int(low), int(high) if dots else int(low)
        except ValueError as error:
            raise BenchError(f"--seeds {text}: numbers like 3,17,40..50") from error
        if not 1 <= first <= last:
            raise BenchError(f"--seeds {text}: from 1 on, the lower one first")
        found += range(first, last + 1)
    return sorted(set(found))


def say_seeds(seeds: Sequence[int]) -> str:
    """Which ones, and whose: nobody shall tune on those that judge without knowing."""
    for half, members in (("judging", JUDGING), ("tuning", TUNING)):
        if list(seeds) == list(members):
            return f"the {half} half, seeds {members[0]} to {members[-1]}"
    judging, tuning = sum(seed in JUDGING for seed in seeds), sum(seed in TUNING for seed in seeds)
    other = len(seeds) - judging - tuning
    parts = [(judging, "of the judging half"), (tuning, "of the tuning half"), (other, "of neither half")]
    return f"{len(seeds)} seeds: " + ", ".join(f"{count} {what}" for count, what in parts if count)


def combine(samples: Sequence[Figures]) -> Figures:
    """Of several seeds as if they were one pattern: geometric means, above the start."""
    start = statistics.fmean(sample["start_kib"] for sample in samples)

    def above(key: str) -> float:
        return start + geometric_mean(max(1.0, sample[key] - sample["start_kib"]) for sample in samples)

    return {
        "start_kib": start,
        "peak_kib": above("peak_kib"),
        "end_kib": above("end_kib"),
        "live_kib": geometric_mean(sample["live_kib"] for sample in samples),
        "ratio": geometric_mean(sample["ratio"] for sample in samples),
        "cpu_ms": sum(sample["cpu_ms"] for sample in samples),
    }


def run_one(allocator: Allocator, programs: Path, seed: int) -> Figures:
    for _ in range(TRIES - 1):
        try:
            return allocators.run_json(allocator, command(programs, seed), SECONDS)
        except BenchError as error:
            if not NO_FAULT.search(str(error)):
                raise
    return allocators.run_json(allocator, command(programs, seed), SECONDS)


def run_seeds(allocator: Allocator, programs: Path, seeds: Iterable[int]) -> Figures:
    return combine([run_one(allocator, programs, seed) for seed in seeds])


def measure(
    chosen: Sequence[Allocator], seeds: Sequence[int], programs: Path, runs: int, jobs: int
) -> tuple[Taken, list[str]]:
    """All samples, and what failed. Several processes at a time: a peak does not suffer from a busy machine."""
    taken: Taken = {allocator.name: {seed: [] for seed in seeds} for allocator in chosen}
    failures: list[str] = []
    with processes.together(), ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            pool.submit(run_one, allocator, programs, seed): (allocator.name, seed)
            for _ in range(runs)
            for seed in seeds
            for allocator in chosen
        }
        for future in as_completed(futures):
            name, seed = futures[future]
            try:
                taken[name][seed].append(future.result())
            except BenchError as error:
                failures.append(str(error))
    return taken, failures + differences(taken, seeds)


def differences(taken: Taken, seeds: Iterable[int]) -> list[str]:
    """Seeds that were not the same program under all allocators: their ratios compare nothing."""
    found = []
    for seed in seeds:
        seen = {
            tuple(sample[key] for key in FIXED): name for name, by_seed in taken.items() for sample in by_seed[seed]
        }
        if len(seen) > 1:
            found.append(f"seed {seed} was not the same program under {' and '.join(sorted(seen.values()))}")
    return found


def ratios_of(taken: Taken) -> Ratios:
    """Medians of the runs. An allocator that failed in a seed has no figure there."""
    return {
        name: {seed: statistics.median(one["ratio"] for one in samples) for seed, samples in by_seed.items() if samples}
        for name, by_seed in taken.items()
    }


def over_best(ratios: Ratios, name: str) -> dict[int, float]:
    """By seed: its peak over that of the best other allocator that people use. What is live is the same."""
    found = {}
    for seed, ratio in ratios[name].items():
        others = [
            by_seed[seed] for other, by_seed in ratios.items()
            if other != name and allocators.is_used(other) and seed in by_seed
        ]
        if others:
            found[seed] = ratio / min(others)
    return found


@dataclass(frozen=True)
class Standing:
    """One allocator over all seeds."""

    name: str
    mean: float  # of its peak over the best other's: geometric
    worst: float
    worst_seed: int
    ratio: float  # peak over live: geometric mean
    best_in: int  # seeds
    seeds: int
    cpu_ms: float  # of all seeds that it has; of the program, too


def standing(taken: Taken, ratios: Ratios, name: str) -> Standing:
    over = over_best(ratios, name)
    worst_seed = max(over, key=lambda seed: over[seed])
    cpu = [statistics.median(one["cpu_ms"] for one in samples) for samples in taken[name].values() if samples]
    return Standing(
        name=name,
        mean=geometric_mean(over.values()),
        worst=over[worst_seed],
        worst_seed=worst_seed,
        ratio=geometric_mean(ratios[name].values()),
        best_in=sum(value <= 1 for value in over.values()),
        seeds=len(over),
        cpu_ms=sum(cpu),
    )


def standings(taken: Taken, ratios: Ratios) -> list[Standing]:
    """The least mean first. Who has nobody to be compared with in any seed has none."""
    found = [standing(taken, ratios, name) for name in ratios if over_best(ratios, name)]
    return sorted(found, key=lambda one: one.mean)


def mean_size(plan: Plan) -> float:
    return geometric_mean(phase["mean"] for phase in plan["sizes"])


# What was drawn, in groups: where an allocator is good or bad. Each group has a name and its highest value.
GROUPS: Mapping[str, tuple[Callable[[Plan], float], dict[str, float]]] = {
    "threads": (lambda plan: plan["threads"], {"1": 1, "2 to 7": 7, "8 to 23": 23, "24 to 64": math.inf}),
    "live, MB": (lambda plan: plan["bytes"] / 1e6, {"to 16": 16, "16 to 50": 50, "above 50": math.inf}),
    "mean block, bytes": (mean_size, {"to 128": 128, "128 to 1,024": 1024, "above 1,024": math.inf}),
    "handed over": (lambda plan: plan["handover"], {"nothing": 0, "a part": 0.999, "all": math.inf}),
    "survival": (lambda plan: plan["survival"], {"to 2 %": 0.02, "2 to 8 %": 0.08, "above 8 %": math.inf}),
}


def by_group(plans: Mapping[int, Plan], seeds: Iterable[int]) -> list[tuple[str, str, list[int]]]:
    """What was drawn, the group's name, and the seeds in it."""
    rows = []
    for what, (value, groups) in GROUPS.items():
        left = list(seeds)
        for name, highest in groups.items():
            members = [seed for seed in left if value(plans[seed]) <= highest]
            left = [seed for seed in left if seed not in members]
            if members:
                rows.append((what, name, members))
    return rows


def in_words(plan: Plan) -> str:
    """A plan in a line."""
    kinds = list(dict.fromkeys(phase["kind"] for phase in plan["sizes"]))
    means = [phase["mean"] for phase in plan["sizes"]]
    sizes = f"{min(means):,.0f}" if min(means) * 1.05 > max(means) else f"{min(means):,.0f} to {max(means):,.0f}"
    threads = "1 thread" if plan["threads"] == 1 else f"{plan['threads']} threads"
    words = [
        threads + (" anew in each phase" if plan["renewed"] else ""),
        f"{plan['phases']} phases",
        f"{plan['bytes'] / 1e6:.0f} MB",
        f"{'/'.join(kinds) if len(kinds) < 4 else f'{len(kinds)} kinds of sizes'}, mean {sizes} ({plan['shift']})",
        f"{plan['survival'] * 100:.1f} % survive" + (f" in runs of {plan['run']}" if plan["run"] > 1 else "")
        + f" for {plan['life']} phases",
        f"freed {plan['order']}",
    ]
    if plan["handover"]:
        words.append(f"{plan['handover'] * 100:.0f} % handed {'to one' if plan['to_one'] else 'on'}")
    if plan["churn"]:
        words.append(f"{plan['churn'] * 100:.0f} % replaced")
    if plan["pause_ms"]:
        words.append(f"{plan['pause_ms']} ms of rest")
    return ", ".join(words)


def workload_name(seeds: Sequence[int]) -> str:
    return f"drawn at random, {len(seeds)} seeds"
