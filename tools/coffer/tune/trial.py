# SPDX-License-Identifier: MIT
"""Measurements: rounds in which each configuration takes its turn beside the defaults, and ratios within a round."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from coffer.errors import CofferError
from coffer.replay.play import ReplayFailed
from coffer.tune.space import DEFAULT, Configuration
from coffer_bench import stats
from coffer_bench.stats import Estimate


@dataclass(frozen=True)
class Figures:
    """Of one replay of one part."""

    peak: float  # KiB resident and in page tables, at most
    mean: float  # the same, the mean over the part's operations
    time: float  # ns in calls, of all threads
    processor: float  # ns of the whole replay, page faults and the allocator's own threads too


MEASURES = ("peak", "mean", "time", "processor")
Play = Callable[[str, Configuration], Figures]  # of a part, under a configuration


@dataclass
class Trial:
    play: Play
    chance: random.Random
    jobs: int = 1
    step: Callable[[str], None] = lambda text: None  # after each replay
    failed: dict[Configuration, str] = field(default_factory=dict)
    plays: int = 0
    # By part, by configuration, by round.
    taken: dict[str, dict[Configuration, dict[int, Figures]]] = field(default_factory=dict)
    _round: int = 0

    def take_round(self, parts: Sequence[str], chosen: Sequence[Configuration]) -> None:
        """All of `chosen`, and the defaults, on each part, in an order that chance makes."""
        self._round += 1
        for part in parts:
            order = [DEFAULT, *(one for one in chosen if one not in self.failed)]
            self.chance.shuffle(order)
            for one, found in zip(order, self._plays(part, order)):
                self._keep(part, one, found)

    def _plays(self, part: str, order: Sequence[Configuration]) -> Iterator[Figures | str]:
        if self.jobs == 1:
            yield from (self._try(part, one) for one in order)  # a signal ends it at once
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                yield from pool.map(lambda one: self._try(part, one), order)
            finally:
                pool.shutdown(cancel_futures=True)

    def _try(self, part: str, one: Configuration) -> Figures | str:
        try:
            return self.play(part, one)
        except ReplayFailed as error:
            return str(error)

    def _keep(self, part: str, one: Configuration, found: Figures | str) -> None:
        self.plays += 1
        self.step(one.conf)
        if isinstance(found, str):
            if one == DEFAULT:
                raise CofferError(f"the replay under Coffer's defaults failed: {found}")
            self.failed[one] = found
            return
        self.taken.setdefault(part, {}).setdefault(one, {})[self._round] = found

    def tried(self) -> set[Configuration]:
        return {one for by_configuration in self.taken.values() for one in by_configuration}

    def ratios(self, part: str, one: Configuration, measure: str) -> list[float]:
        by_round = [{number: getattr(figures, measure) for number, figures in self.taken[part].get(of, {}).items()}
                    for of in (one, DEFAULT)]
        return stats.ratios(*by_round)

    def rows(self, parts: Sequence[str], one: Configuration, measure: str) -> list[list[float]]:
        return [row for part in parts if (row := self.ratios(part, one, measure))]

    def ratio(self, parts: Sequence[str], one: Configuration, measure: str) -> float:
        """Over the defaults: medians of the rounds, and of the parts the geometric mean. inf where a replay failed."""
        if one in self.failed:
            return math.inf
        middles = [median(row) for row in self.rows(parts, one, measure)]
        return stats.geometric_mean(middles) if middles else math.nan

    def estimate(self, parts: Sequence[str], one: Configuration, measure: str) -> Estimate:
        """The same with its interval."""
        return stats.mean_of_rows(self.rows(parts, one, measure)) or Estimate(math.nan)

    def defaults(self, parts: Sequence[str], measure: str) -> list[float]:
        """Of the defaults, in their own unit, by part."""
        return [median([getattr(one, measure) for one in self.taken[part][DEFAULT].values()]) for part in parts]
