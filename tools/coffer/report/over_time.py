# SPDX-License-Identifier: MIT
"""What the page needs to show any stretch of a trace's time: the tree of call stacks, and what each of them allocates
and frees in each part of the time."""

from __future__ import annotations

from typing import Any

import numpy as np

from coffer import axes
from coffer.heap.owners import PROGRAM
from coffer.heap.sites import Site, site_of
from coffer.heap.stacks import Heap, Place, Stack
from coffer.page.forest import Forest, plain
from coffer.profile.of_trace import Flows
from coffer.trace.symbols import middle

MOST_STACKS = 2000  # that the page shows by themselves; a page of a million stacks is none
NAME = 80  # characters beside the figures; the picture has it whole
FIGURES = {"resident": "resident (the process)", "held": "held (the allocator says)",
           "allocator_resident": "resident (the allocator says)", "bound": "bound"}


def weights(flows: Flows) -> np.ndarray:
    """Of each stack: its largest share in what lives at any time, in the highest moment, and in what was allocated."""
    live = np.zeros((len(flows.stacks), flows.parts))
    peak, allocated = np.zeros(len(flows.stacks)), np.zeros(len(flows.stacks))
    for index, stack in enumerate(flows.stacks):
        peak[index] = stack["at_peak"][0]
        for part, more, _, less, *_ in stack["flows"]:
            live[index, part] = more - less
            allocated[index] += more
    live = live.cumsum(axis=1)
    shares = [live / np.maximum(1, live.sum(axis=0)), *(one[:, None] / max(1, one.sum()) for one in (peak, allocated))]
    return np.hstack(shares).max(axis=1, initial=0)


def merged(rows_of_all: list[list[list[int]]]) -> list[list[int]]:
    sums: dict[int, list[int]] = {}
    for rows in rows_of_all:
        for part, *figures in rows:
            sums[part] = [one + other for one, other in zip(sums.get(part, [0] * len(figures)), figures)]
    return [[part, *sums[part]] for part in sorted(sums)]


def title(stack: Stack) -> str:
    place = site_of(stack)
    name = middle(Site(place, lines={place.line: 0}).title, NAME)
    return name if stack.group == PROGRAM or not stack.places else f"{name} ({stack.group})"


def stacks_of(flows: Flows, heap: Heap) -> dict[str, Any]:
    order = np.argsort(-weights(flows), kind="stable")
    forest, titles = Forest(), {}
    shown: dict[str, Any] = {"leaves": [], "sites": [], "at_peak": [], "flows": []}

    def put(leaf: int, site: str, at_peak: list[int], rows: list[list[int]]) -> None:
        for key, value in (("leaves", leaf), ("sites", titles.setdefault(site, len(titles))), ("at_peak", at_peak),
                           ("flows", rows)):
            shown[key].append(value)

    for index in order[:MOST_STACKS]:
        stack, found = heap.stacks[index], flows.stacks[index]
        put(forest.add(stack.places), title(stack), found["at_peak"], found["flows"])
    if rest := [flows.stacks[index] for index in order[MOST_STACKS:]]:
        name = f"({len(rest)} smaller stacks)"
        put(forest.add([Place(name, "", 0, "")]), name,
            [sum(one["at_peak"][at] for one in rest) for at in (0, 1)], merged([one["flows"] for one in rest]))
    return {"tree": forest.data(), "titles": [plain(one) for one in titles], **shown}


def timeline(found: dict[str, Any]) -> dict[str, Any]:
    """What was live, and what was held where the recording says. Seconds and bytes."""
    points = found["timeline"]
    lines = [{"name": "live", "kind": "live", "x": [p[0] / 1e9 for p in points], "y": [p[1] for p in points]},
             {"name": "most live in between", "kind": "most", "x": [p[0] / 1e9 for p in points],
              "y": [p[3] for p in points]}]
    lines += [{"name": name, "kind": key, "x": [p[0] / 1e9 for p in series], "y": [p[1] for p in series]}
              for key, name in FIGURES.items() if (series := found["figures"].get(key))]
    return {"lines": lines, "ticks": axes.of_bytes([value for line in lines for value in line["y"]]).axis}


def data(found: dict[str, Any], flows: Flows, heap: Heap) -> dict[str, Any]:
    last = flows.parts - 1
    return {**stacks_of(flows, heap), "time": timeline(found), "sizes": flows.sizes, "lifetimes": flows.lifetimes,
            "parts": flows.parts, "width": flows.width_ns / 1e9, "duration": found["duration_ns"] / 1e9,
            "peak": {"seconds": found["peak_ns"] / 1e9, "part": min(last, found["peak_ns"] // flows.width_ns)}}
