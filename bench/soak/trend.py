# SPDX-License-Identifier: MIT
"""The slope of resident memory over time, and what it says.

Samples fall into groups: one life of the process under one setting. Each group has a level of its own, all have the
slope in common. Neighbouring samples are alike, so they say less than their number: the number that counts is
n (1 - r) / (1 + r), where r is the correlation of the residuals of neighbours.

Memory that moves in steps, or that comes to rest slowly, is so much like itself that nothing of n is left. Then the
differences of neighbours are taken, which are nearly independent of each other: their mean is the slope."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy

CONFIDENCE = 0.95
FEWEST_OF_GROUP = 4
FEWEST = 12
FEWEST_FREE = 6  # degrees of freedom of the line
GROWS, STEADY, SHORT = "grows", "does not grow", "too short to say"


@dataclass(frozen=True)
class Sample:
    seconds: float
    kib: float
    group: Hashable


@dataclass(frozen=True)
class Trend:
    """KiB an hour, with the ends of its interval; nan where the samples are too few."""

    slope: float
    low: float
    high: float
    samples: int
    effective: float  # samples, as if none told what another one tells
    groups: int
    level: float  # KiB, the median
    by_steps: bool = False

    @property
    def verdict(self) -> str:
        if math.isnan(self.low):
            return SHORT
        return GROWS if self.low > 0 else STEADY


def correlation(residuals: Sequence[numpy.ndarray]) -> float:
    """Of neighbours in the same group, not below 0."""
    above = sum(float(numpy.sum(one[1:] * one[:-1])) for one in residuals)
    below = sum(float(numpy.sum(one * one)) for one in residuals)
    return min(0.999, max(0.0, above / below)) if below > 0 else 0.0


def steps(groups: Sequence[Sequence[Sample]], so_far: Trend) -> Trend:
    """The mean of the differences of neighbours."""
    from scipy import stats

    pairs = [pair for found in groups for pair in zip(found, found[1:], strict=False)]
    differences = [after.kib - before.kib for before, after in pairs]
    hours = sum(after.seconds - before.seconds for before, after in pairs) / 3600
    if len(pairs) < FEWEST or hours <= 0:
        return so_far
    factor = len(pairs) / hours
    if len(set(differences)) == 1:
        return replace(so_far, **dict.fromkeys(("slope", "low", "high"), differences[0] * factor))
    ends = stats.ttest_1samp(differences, 0).confidence_interval(CONFIDENCE)
    return replace(so_far, slope=float(numpy.mean(differences)) * factor, low=float(ends.low) * factor,
                   high=float(ends.high) * factor)


def trend(samples: Sequence[Sample]) -> Trend:
    from scipy import stats  # takes half a second

    by_group: dict[Hashable, list[Sample]] = defaultdict(list)
    for one in samples:
        by_group[one.group].append(one)
    groups = [found for found in by_group.values() if len(found) >= FEWEST_OF_GROUP]
    count = sum(map(len, groups))
    level = float(numpy.median([one.kib for one in samples])) if samples else math.nan
    nothing = Trend(math.nan, math.nan, math.nan, count, math.nan, len(groups), level)
    if count < FEWEST:
        return nothing
    times, values = [], []
    for found in groups:
        hours = numpy.array([one.seconds for one in found]) / 3600
        kib = numpy.array([one.kib for one in found])
        times.append(hours - hours.mean())
        values.append(kib - kib.mean())
    line = stats.linregress(numpy.concatenate(times), numpy.concatenate(values))
    residuals = [kib - line.slope * hours for hours, kib in zip(times, values, strict=True)]
    r = correlation(residuals)
    effective = count * (1 - r) / (1 + r)
    freedom = effective - len(groups) - 1
    if freedom < FEWEST_FREE:
        return steps(groups, Trend(math.nan, math.nan, math.nan, count, effective, len(groups), level, True))
    squares = sum(float(numpy.sum(one * one)) for one in residuals)
    spread = sum(float(numpy.sum(one * one)) for one in times)
    error = math.sqrt(squares / freedom / spread) * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return Trend(float(line.slope), float(line.slope) - error, float(line.slope) + error, count, effective, len(groups),
                 level)
