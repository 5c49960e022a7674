# SPDX-License-Identifier: MIT
"""The statistics of `coffer bench`: ratios taken within a round, their median and its bootstrap interval, geometric
means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 20
TRIMMED = 0.1

ByRound = Mapping[int, float]  # a figure of one workload under one allocator


@dataclass(frozen=True)
class Estimate:
    """A middle ratio with its interval; low and high are nan where one sample cannot say."""

    value: float
    low: float = math.nan
    high: float = math.nan
    count: int = 1

    @property
    def above(self) -> bool:
        return self.low > 1

    @property
    def below(self) -> bool:
        return self.high < 1

    def __str__(self) -> str:
        return f"{self.value:.3f}" + ("" if math.isnan(self.low) else f" ({self.low:.3f} to {self.high:.3f})")


def ratios(ours: ByRound, others: ByRound) -> list[float]:
    """Of the rounds that both have: what slows a machine for a while slows both."""
    return [
        ours[number] / others[number]
        for number in sorted(ours.keys() & others.keys())
        if ours[number] > 0 and others[number] > 0
    ]


def trimmed_mean(values: Any, axis: int = -1) -> Any:
    """The geometric mean without the tenth that lies lowest and the tenth that lies highest."""
    import scipy.stats  # as in estimate()

    return numpy.exp(scipy.stats.trim_mean(numpy.log(values), TRIMMED, axis=axis))


def estimate(values: Sequence[float], middle_of: Callable[..., Any] = numpy.median) -> Estimate | None:
    """The median, and the interval that a bootstrap of it gives; or another middle, which numpy takes along an axis."""
    if not values:
        return None
    middle = float(middle_of(numpy.asarray(values)))
    if len(values) == 1:
        return Estimate(middle)
    if len(set(values)) == 1:
        return Estimate(middle, middle, middle, len(values))
    import scipy.stats  # takes half a second, which commands without statistics need not wait for

    found = scipy.stats.bootstrap(
        (numpy.asarray(values),),
        middle_of,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=numpy.random.default_rng(SEED),
    )
    low, high = found.confidence_interval
    return Estimate(middle, float(low), float(high), len(values))


def geometric_mean(values: Sequence[float]) -> float:
    return float(numpy.exp(numpy.mean(numpy.log(values)))) if len(values) else math.nan


def mean_of_rows(rows: Sequence[Sequence[float]]) -> Estimate | None:
    """The geometric mean over rows of each row's median ratio. The interval comes from a bootstrap of the rounds of
    each row: it says how well this machine could measure these rows, not how other rows would do."""
    rows = [row for row in rows if len(row)]
    if not rows:
        return None
    middle = geometric_mean([float(numpy.median(row)) for row in rows])
    if all(len(row) == 1 for row in rows):
        return Estimate(middle, count=len(rows))
    chance = numpy.random.default_rng(SEED)
    total = numpy.zeros(RESAMPLES)
    for row in rows:
        drawn = chance.choice(numpy.asarray(row), size=(RESAMPLES, len(row)))
        total += numpy.log(numpy.median(drawn, axis=1))
    means = numpy.exp(total / len(rows))
    tail = (1 - CONFIDENCE) / 2
    low, high = numpy.quantile(means, [tail, 1 - tail])
    return Estimate(middle, float(low), float(high), len(rows))
