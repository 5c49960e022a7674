# SPDX-License-Identifier: MIT
"""What the stacks say together: sites that allocate, and the tree of who calls them."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

from coffer.heap.owners import PROGRAM
from coffer.heap.stacks import Heap, Place, Stack, Sum, error_of, total

Measure = Callable[[Stack], Sum]
LIVE: Measure = lambda stack: stack.live
PEAK: Measure = lambda stack: stack.peak
TEMPORARY: Measure = lambda stack: stack.temporary
ALLOCATED: Measure = lambda stack: stack.allocated
NO_STACK = Place("(no call stack)", "", 0, "")


@dataclass
class Node:
    """A function at a line, and below it those that call it, with the part that comes by each."""

    place: Place
    sum: Sum = field(default_factory=Sum)
    callers: dict[tuple[str, str, int], Node] = field(default_factory=dict)

    def caller(self, place: Place) -> Node:
        key = (place.function, place.file, place.line)
        node = self.callers.get(key)
        if node is None:
            node = self.callers[key] = Node(place)
        return node

    def sorted_callers(self) -> list[Node]:
        return sorted(self.callers.values(), key=lambda node: (-node.sum.bytes, node.place.function))


@dataclass
class Site(Node):
    """A function that allocates. Its lines are the nodes' own; those of one function are one site."""

    lines: dict[int, float] = field(default_factory=dict)  # with the bytes of each

    @property
    def source(self) -> str:
        if not self.place.file:
            return self.place.source
        shown = sorted(self.lines, key=lambda line: -self.lines[line])
        return f"{self.place.source.rpartition(':')[0]}:" + ",".join(map(str, sorted(shown[:3]))) + (
            ",…" if len(shown) > 3 else "")

    @property
    def key(self) -> tuple[str, str]:
        """Of all moments and profiles."""
        return self.place.function, self.place.file

    @property
    def title(self) -> str:
        return f"{self.place.function}, {self.source}" if self.source else self.place.function


def site_of(stack: Stack) -> Place:
    return stack.places[stack.site] if stack.places else NO_STACK


def sites(heap: Heap, measure: Measure, group: str = PROGRAM, with_callers: bool = True) -> list[Site]:
    """Those with most bytes first."""
    found: dict[tuple[str, str, str], Site] = {}
    for stack in heap.stacks:
        figure = measure(stack)
        if stack.group != group or not figure.is_some:
            continue
        place = site_of(stack)
        site = found.setdefault((place.function, place.file, place.module), Site(place))
        site.sum += figure
        site.lines[place.line] = site.lines.get(place.line, 0) + figure.bytes
        node: Node = site
        for caller in stack.places[stack.site + 1:] if with_callers else ():
            node = node.caller(caller)
            node.sum += figure
    return sorted(found.values(), key=lambda site: (-site.sum.bytes, site.place.function))


def groups(heap: Heap, measure: Measure) -> dict[str, Sum]:
    """What is not the program's."""
    result: dict[str, Sum] = {}
    for stack in heap.stacks:
        figure = measure(stack)
        if stack.group != PROGRAM and figure.is_some:
            result[stack.group] = result.get(stack.group, Sum()) + figure
    return result


def whole(found: list[Site]) -> Sum:
    return total(site.sum for site in found)


@dataclass(frozen=True)
class Growth:
    """Of one site, over the moments of a process."""

    site: Site
    bytes: float  # from the first moment to the last
    per_second: float
    last: int  # index of that moment


FALLS_BACK = 0.25  # of what it grew by in all: then it breathes
GOES_ON = 0.2  # of what it grew by came in the second half: else it has only been filled
LEAST_GROWTH = 16 * 1024
SURE = 3  # deviations
ENDING = 0.25  # of the moments, one at least: how many a program may spend on giving back what it has, at its end


def last_before_the_end(values: list[float]) -> int:
    """The index of the highest, if few come after it: there a program that ended gave back what it had."""
    last = len(values) - 1
    highest = max(range(len(values)), key=values.__getitem__)
    return highest if last - highest <= max(1, ENDING * len(values)) else last


def growing(moments: list[Heap], is_end: bool = False) -> list[Growth]:
    """Sites whose live bytes go up and up. Less than three moments show no growth. `is_end`: the program ended."""
    if len(moments) < 3:
        return []
    series: dict[tuple[str, str], list[float]] = {}
    for index, moment in enumerate(moments):
        for site in sites(moment, LIVE, with_callers=False):
            series.setdefault(site.key, [0.0] * len(moments))[index] += site.sum.bytes
    times = [moment.time_ns for moment in moments]
    found = []
    for key, values in series.items():
        last = last_before_the_end(values) if is_end else len(values) - 1
        net = values[last] - values[0]
        back = sum(max(0.0, before - after) for before, after in zip(values, values[1:last + 1]))
        half = bisect.bisect_right(times, (times[0] + times[last]) / 2) - 1
        if net < LEAST_GROWTH or back > FALLS_BACK * net or values[last] - values[half] < GOES_ON * net:
            continue
        (site,) = (one for one in sites(moments[last], LIVE) if one.key == key)
        if net >= SURE * error_of(site.sum) * site.sum.bytes:
            found.append(Growth(site, net, net / max(1e-9, (times[last] - times[0]) / 1e9), last))
    return sorted(found, key=lambda one: -one.bytes)


def changes(before: Heap, after: Heap, measure: Measure) -> tuple[Heap, Heap]:
    """What grew and what shrank from one profile to another, as heaps whose stacks have the difference."""
    def by_places(heap: Heap) -> dict[tuple, tuple[Stack, Sum]]:
        found: dict[tuple, tuple[Stack, Sum]] = {}
        for stack in heap.stacks:
            key = (tuple((place.function, place.file, place.line) for place in stack.places), stack.group)
            have = found.get(key)
            found[key] = (stack, measure(stack) + (have[1] if have else Sum()))
        return found

    one, other = by_places(before), by_places(after)
    grown, shrunk = (Heap(after.program, after.period, after.time_ns, after.duration_ns) for _ in range(2))
    for key in one.keys() | other.keys():
        stack = (other.get(key) or one[key])[0]
        old, new = one.get(key, (stack, Sum()))[1], other.get(key, (stack, Sum()))[1]
        if new.bytes == old.bytes:
            continue
        target, sign = (grown, 1) if new.bytes > old.bytes else (shrunk, -1)
        # What samples stand behind a difference are those of both.
        exact = new.samples >= new.blocks * 0.999 and old.samples >= old.blocks * 0.999
        blocks = max(1.0, sign * (new.blocks - old.blocks))
        samples = blocks if exact else (new.bytes - old.bytes) ** 2 / max(
            1.0, new.bytes ** 2 / max(1.0, new.samples) + old.bytes ** 2 / max(1.0, old.samples))
        figure = Sum(blocks, sign * (new.bytes - old.bytes), samples)
        target.stacks.append(Stack(stack.places, stack.group, stack.site, figure, figure))
    return grown, shrunk
