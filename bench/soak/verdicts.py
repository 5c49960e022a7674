# SPDX-License-Identifier: MIT
"""What the results say of each program, by the rule: nothing went wrong, memory does not grow beyond the error of its
slope, and neither p99 nor p99.9 is worse than glibc's by 5 %."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy
from coffer_bench.samples import Record, Results
from coffer_bench.stats import Estimate, estimate, ratios, trimmed_mean

from soak import latency
from soak.trend import GROWS, SHORT, STEADY, Sample, Trend, trend

OURS, STANDARD = "coffer", "glibc"
WORSE = 1.05
FEWEST_ROUNDS = 6
HOLDS, FAILS, OPEN = "holds", "fails", "open"


def of(results: Results, kind: str, program: str, allocator: str | None = None) -> list[Record]:
    return [one for one in results.of(kind)
            if one["program"] == program and allocator in (None, one["allocator"])]


def judge_ratio(found: Estimate | None) -> str:
    """By its interval. Of five rounds all lie on one side of the median once in sixteen times: too often."""
    if found is None or math.isnan(found.low) or found.count < FEWEST_ROUNDS:
        return OPEN
    if found.low > WORSE:
        return FAILS
    return HOLDS if found.high <= WORSE else OPEN


def memory_trend(records: list[Record]) -> Trend:
    return trend([
        Sample(one["seconds"], one["own"] + one["tables"], (one["life"], one["setting"], one["huge"]))
        for one in records if one["settled"]
    ])


@dataclass
class Latency:
    """Of one program and percentile."""

    by_round: dict[str, dict[int, float]] = field(default_factory=dict)  # microseconds, by allocator

    def median(self, allocator: str) -> float:
        found = list(self.by_round.get(allocator, {}).values())
        return float(numpy.median(found)) if found else math.nan

    @property
    def versus(self) -> Estimate | None:
        """Of many rounds a median tells as much as a trimmed mean of two thirds of them."""
        return estimate(ratios(self.by_round.get(OURS, {}), self.by_round.get(STANDARD, {})), trimmed_mean)


def latencies(results: Results, program: str) -> dict[str, Latency]:
    found = {name: Latency() for name in latency.PERCENTILES}
    for turn in of(results, "turn", program):
        for name, value in turn["us"].items():
            if latency.is_shown(turn["count"], name):
                found[name].by_round.setdefault(turn["allocator"], {})[turn["round"]] = value
    return found


@dataclass
class Verdict:
    program: str
    trends: dict[str, Trend]  # by allocator; no entry: memory was not watched
    latencies: dict[str, Latency]
    faults: list[Record]  # of Coffer's runs
    others: list[Record]  # of those of other allocators
    lives: int
    checks: int
    rss: dict[str, float] = field(default_factory=dict)  # KiB, the median, by allocator

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """Each condition, and what became of it."""
        grown = self.trends[OURS].verdict if OURS in self.trends else SHORT
        found = [("faults", FAILS if self.faults else HOLDS),
                 ("memory", {GROWS: FAILS, STEADY: HOLDS, SHORT: OPEN}[grown])]
        found += [(name, judge_ratio(self.latencies[name].versus)) for name in latency.JUDGED]
        return found

    @property
    def word(self) -> str:
        said = [word for _, word in self.reasons]
        return FAILS if FAILS in said else OPEN if OPEN in said else HOLDS

    def __str__(self) -> str:
        if self.word == HOLDS:
            return HOLDS
        return f"{self.word}: " + ", ".join(name for name, word in self.reasons if word == self.word)


def verdicts(results: Results) -> list[Verdict]:
    found = []
    for name in results.plan["programs"]:
        allocators = dict.fromkeys(one["allocator"] for one in of(results, "memory", name))
        faults = of(results, "fault", name)
        found.append(Verdict(
            name,
            {allocator: memory_trend(of(results, "memory", name, allocator)) for allocator in allocators},
            latencies(results, name),
            [one for one in faults if one["allocator"] == OURS],
            [one for one in faults if one["allocator"] != OURS],
            max((one["life"] for one in of(results, "memory", name, OURS)), default=0),
            len(of(results, "check", name)),
            {allocator: float(numpy.median([one["rss"] for one in of(results, "memory", name, allocator)]))
             for allocator in allocators},
        ))
    return found
