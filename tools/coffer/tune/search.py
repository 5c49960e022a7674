# SPDX-License-Identifier: MIT
"""The search: each option alone, the good ones together, and fewer of them with every rung (successive halving); then
a judgement on parts that the search did not see."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from coffer.tune import space
from coffer.tune.space import AGAIN, Configuration
from coffer.tune.trial import MEASURES, Trial
from coffer_bench.stats import Estimate

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of time, against peak memory
# Of the search: what share of the time each rung may have used when it ends, and how many of the best it takes on.
ALONE, TOGETHER, RUNGS = 0.2, 0.35, ((0.5, 16), (0.6, 8))
RUNG_ROUNDS = 6  # at most
FINALISTS = 6
DRAWN = 12  # combinations by chance
JUDGE_SHARE = 0.85  # the rest confirms
# At least and at most. The time of a replay varies by a tenth to a fifth, so that the median of 15 is known to 7 %.
JUDGE_ROUNDS, MOST_JUDGE_ROUNDS = 5, 60
LEAST_GAIN = 0.01  # that each option must bring


@dataclass
class Budget:
    seconds: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def is_left(self, share: float) -> bool:
        return self.clock() - self.began < share * self.seconds


@dataclass
class Judged:
    """A configuration where it was chosen, and where it is judged."""

    configuration: Configuration
    chosen: dict[str, Estimate]
    judged: dict[str, Estimate]
    confirmed: dict[str, Estimate] = field(default_factory=dict)
    gains: list[str] = field(default_factory=list)  # measures that are better, and stay so
    losses: list[str] = field(default_factory=list)
    why_not: str = ""  # empty: it holds

    @property
    def is_free(self) -> bool:
        return not self.why_not and not self.losses


def score(trial: Trial, parts: Sequence[str], weight: float, one: Configuration) -> float:
    """Below 1: better than the defaults, by what its options must bring."""
    peak, spent = (trial.ratio(parts, one, measure) for measure in ("peak", "time"))
    if not (0 < peak < math.inf and 0 < spent < math.inf):
        return math.inf
    options = math.log(1 + LEAST_GAIN) * len(one.values)
    return math.exp((1 - weight) * math.log(peak) + weight * math.log(spent) + options)


def scores(trial: Trial, parts: Sequence[str]) -> list[Callable[[Configuration], float]]:
    return [partial(score, trial, parts, weight) for weight in WEIGHTS]


def best(trial: Trial, parts: Sequence[str], pool: Iterable[Configuration], count: int) -> list[Configuration]:
    """The best for memory, for time, and between them, by turns."""
    alive = [one for one in pool if one not in trial.failed]
    chosen: dict[Configuration, None] = {}
    orders = [sorted(alive, key=one) for one in scores(trial, parts)]
    for place in range(len(alive)):
        for order in orders:
            if len(chosen) < count:
                chosen[order[place]] = None
    return list(chosen)


def search(trial: Trial, parts: Sequence[str], threads: int, budget: Budget) -> list[Configuration]:
    """The finalists. Time that runs out leaves rounds out, then rungs, but never each option alone."""
    def rounds(pool: Sequence[Configuration], share: float) -> None:
        for number in range(RUNG_ROUNDS):
            if number == 0 or budget.is_left(share):
                trial.take_round(parts, pool)

    pool = space.singles(threads)
    rounds(pool, ALONE)
    more = space.together(pool, scores(trial, parts), 1, trial.chance, DRAWN)
    if more and budget.is_left(TOGETHER):
        rounds(more, TOGETHER)
        pool += more
    for share, width in RUNGS:
        pool = best(trial, parts, pool, width)
        if budget.is_left(share):
            rounds(pool, share)
    return best(trial, parts, pool, FINALISTS)


def is_gain(found: Estimate, noise: Estimate) -> bool:
    """By more than the least worth it, surely below 1, and below all that the defaults differ from themselves by."""
    return found.high < 1 and found.value <= min(1 - LEAST_GAIN, noise.low)


def is_loss(found: Estimate) -> bool:
    """Sooner told than a gain: what it costs must not hide in the noise."""
    return found.low > 1 and found.value >= 1 + LEAST_GAIN


def is_confirmed(found: Estimate) -> bool:
    """The judgement is made; this must agree with it."""
    return found.high < 1 and found.value <= 1 - LEAST_GAIN


def estimates(trial: Trial, parts: Sequence[str], one: Configuration) -> dict[str, Estimate]:
    return {measure: trial.estimate(parts, one, measure) for measure in MEASURES}


def decide(one: Judged, noise: dict[str, Estimate]) -> None:
    """What is better, what is worse, and whether the one is worth the other. Peak memory and time are aims; mean memory
    and processor time, where the cost of page faults shows, may only count against."""
    one.losses = [measure for measure in MEASURES if is_loss(one.judged[measure])]
    aims = [measure for measure in ("peak", "time") if is_gain(one.judged[measure], noise[measure])]
    against = {"peak": "mean", "time": "processor"}
    one.gains = [measure for measure in aims if against[measure] not in one.losses]
    if not one.gains:
        one.why_not = (f"{' and '.join(aims)} better, {' and '.join(against[aim] for aim in aims)} worse" if aims
                       else "no gain where it was judged")
        return
    if one.confirmed:
        worse = [measure for measure in MEASURES if is_loss(one.confirmed[measure])]
        one.losses += [measure for measure in worse if measure not in one.losses]
        one.gains = [measure for measure in one.gains if is_confirmed(one.confirmed[measure])
                     and against[measure] not in worse]
        if not one.gains:
            one.why_not = "no gain over the whole trace"


def judge(trial: Trial, finalists: Sequence[Configuration], choose: Sequence[str], parts: Sequence[str],
          confirm: Sequence[str], budget: Budget) -> tuple[list[Judged], dict[str, Estimate]]:
    """All finalists and the defaults again; that one's distance from the defaults is the noise."""
    for number in range(MOST_JUDGE_ROUNDS):
        if number < JUDGE_ROUNDS or budget.is_left(JUDGE_SHARE):
            trial.take_round(parts, [*finalists, AGAIN])
    noise = estimates(trial, parts, AGAIN)
    found = [Judged(one, estimates(trial, choose, one), estimates(trial, parts, one))
             for one in finalists if one not in trial.failed]
    for one in found:
        decide(one, noise)
    held = [one for one in found if not one.why_not]
    if confirm and held:
        for number in range(MOST_JUDGE_ROUNDS):
            if number < JUDGE_ROUNDS or budget.is_left(1):
                trial.take_round(confirm, [one.configuration for one in held])
        for one in held:
            if one.configuration in trial.failed:
                one.why_not = "the replay failed"
                continue
            one.confirmed = estimates(trial, confirm, one.configuration)
            decide(one, noise)
    return sorted(found, key=lambda one: one.judged["peak"].value), noise


def front(found: Sequence[Judged], noise: dict[str, Estimate]) -> list[Judged]:
    """Of those that hold, the ones that no other beats in memory and time. Fewest options first: one with more, or a
    worse one with as many, must be better than each before it, in one of the two, by more than the noise."""
    near = {measure: max(LEAST_GAIN, noise[measure].high - 1, 1 - noise[measure].low) for measure in ("peak", "time")}

    def values(one: Judged) -> list[float]:
        return [one.judged[measure].value for measure in near]

    def is_new(one: Judged, other: Judged) -> bool:
        return any(mine < its * (1 - width) for mine, its, width in zip(values(one), values(other), near.values()))

    def beats(other: Judged, one: Judged) -> bool:
        return all(mine <= its for mine, its in zip(values(other), values(one))) and is_new(other, one)

    kept: list[Judged] = []
    for one in sorted((one for one in found if not one.why_not),
                      key=lambda one: (len(one.configuration.values), math.prod(values(one)))):
        if all(is_new(one, other) for other in kept):
            kept.append(one)
    return [one for one in found if one in kept and not any(beats(other, one) for other in kept)]
