# SPDX-License-Identifier: MIT
"""A heap for other programs: stacks collapsed for flamegraph.pl and its like, and speedscope's own form."""

from __future__ import annotations

import json
from pathlib import Path

from coffer.files import whole
from coffer.heap.sites import Measure
from coffer.heap.stacks import Heap, Place

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def weighted(heap: Heap, measure: Measure) -> list[tuple[tuple[Place, ...], int]]:
    """Stacks, the outermost function first, with their bytes."""
    found: dict[tuple[Place, ...], int] = {}
    for stack in heap.stacks:
        weight = round(measure(stack).bytes)
        if weight > 0:
            outermost_first = stack.places[::-1] or (Place("(no call stack)", "", 0, ""),)
            found[outermost_first] = found.get(outermost_first, 0) + weight
    return sorted(found.items(), key=lambda one: [place.function for place in one[0]])


def write_collapsed(path: Path, heap: Heap, measure: Measure) -> None:
    """A line a stack: functions parted by semicolons, then the bytes."""
    with whole(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        for places, weight in weighted(heap, measure):
            names = (place.function.replace(";", ":").replace("\n", " ") for place in places)
            file.write(f"{';'.join(names)} {weight}\n")


def speedscope(heap: Heap, views: list[tuple[str, Heap, Measure]]) -> dict:
    """One file with a profile for each view."""
    frames: dict[tuple[str, str, int], int] = {}
    profiles = []
    for name, one, measure in views:
        samples, weights = [], []
        for places, weight in weighted(one, measure):
            samples.append([frames.setdefault((place.function, place.file or place.module, place.line), len(frames))
                            for place in places])
            weights.append(weight)
        profiles.append({"type": "sampled", "name": f"{heap.program}: {name}", "unit": "bytes", "startValue": 0,
                         "endValue": sum(weights), "samples": samples, "weights": weights})
    shared = [{"name": function, "file": file, **({"line": line} if line else {})} for function, file, line in frames]
    return {"$schema": SCHEMA, "exporter": "coffer", "name": heap.program, "activeProfileIndex": 0,
            "shared": {"frames": shared}, "profiles": profiles}


def write_speedscope(path: Path, heap: Heap, views: list[tuple[str, Heap, Measure]]) -> None:
    with whole(path) as unfinished:
        unfinished.write_text(json.dumps(speedscope(heap, views)), encoding="utf-8")
