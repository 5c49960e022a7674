# SPDX-License-Identifier: MIT
"""What is tried: values of the options that change time or memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

# Beside the default of each. What a replay cannot judge is not here: `reclaimer` acts when a program is quiet, `limit`
# and `cgroup` belong to the machine, `arena` costs nothing.
VALUES = {
    "mixed": ("never", "always"),
    "empty_fraction": ("1/2", "1/8", "1/16"),
    "slack": ("0", "16K", "256K", "1M"),
    "free_limit": ("0", "1M", "64M", "1G"),
    "span": ("64K", "128K"),
    "huge": ("never", "always"),
    "placement": ("flat",),
    "align": ("all",),
    "colour": ("false",),
}
OF_THREADS = {"shards": ("1", "4", "16")}  # where there are several


@dataclass(frozen=True)
class Configuration:
    """Options that are not the default's. `again`: the default once more, whose distance from itself is the noise."""

    values: tuple[tuple[str, str], ...] = ()
    again: bool = False

    @property
    def conf(self) -> str:
        return ",".join(f"{name}:{value}" for name, value in self.values)

    def __str__(self) -> str:
        return self.conf or ("the defaults again" if self.again else "the defaults")


DEFAULT = Configuration()
AGAIN = Configuration(again=True)


def singles(threads: int) -> list[Configuration]:
    """One option changed."""
    options = {**VALUES, **(OF_THREADS if threads > 1 else {})}
    return [Configuration(((name, value),)) for name, values in options.items() for value in values]


def best_values(ordered: Iterable[Configuration]) -> Iterator[tuple[str, str]]:
    """The first value of each option."""
    seen: set[str] = set()
    for one in ordered:
        (name, value), = one.values
        if name not in seen:
            seen.add(name)
            yield name, value


def together(tried: Sequence[Configuration], scores: Sequence[Callable[[Configuration], float]], below: float,
             chance: random.Random, drawn: int) -> list[Configuration]:
    """Several options at once. For each score the best value of the best option with that of the second, then the
    third's too, and so on, of those below `below`; and some drawn by chance from all that were good for any score."""
    made: dict[Configuration, None] = {}
    good: dict[tuple[str, str], None] = {}
    for score in scores:
        chosen = list(best_values(sorted((one for one in tried if score(one) < below), key=score)))
        good.update(dict.fromkeys(chosen))
        for count in range(2, len(chosen) + 1):
            made[Configuration(tuple(sorted(chosen[:count])))] = None
    options: dict[str, list[str]] = {}
    for name, value in good:
        options.setdefault(name, []).append(value)
    if len(options) > 1:
        for _ in range(drawn):
            names = chance.sample(sorted(options), chance.randint(2, min(4, len(options))))
            made[Configuration(tuple(sorted((name, chance.choice(options[name])) for name in names)))] = None
    return list(made)
