# SPDX-License-Identifier: MIT
"""The page of coffer heap: flame graph, icicle and treemap of every view, searched and zoomed, and what was live over
time."""

from __future__ import annotations

from pathlib import Path

from coffer.files import whole
from coffer.heap.sites import LIVE, Measure, sites
from coffer.heap.stacks import Heap
from coffer.page import render
from coffer.page.forest import Forest, plain

HERE = Path(__file__).resolve().parent
MOST_LINES = 8  # in the picture over time


def over_time(moments: list[Heap]) -> dict[str, list]:
    """Live bytes of the largest sites, at each moment."""
    if len(moments) < 2:
        return {"seconds": [], "lines": []}
    begin = moments[0].time_ns - moments[0].duration_ns
    by_site: dict[str, list[float]] = {}
    for index, moment in enumerate(moments):
        for site in sites(moment, LIVE, with_callers=False):
            by_site.setdefault(site.title, [0.0] * len(moments))[index] += site.sum.bytes
    largest = sorted(by_site, key=lambda name: -max(by_site[name]))[:MOST_LINES]
    return {"seconds": [(moment.time_ns - begin) / 1e9 for moment in moments],
            "lines": [{"name": plain(name), "bytes": by_site[name]} for name in largest]}


def write(path: Path, heap: Heap, verdicts: list[str], views: list[tuple[str, Heap, Measure]],
          moments: list[Heap]) -> None:
    forest = Forest()
    shown = {name: [(forest.add(stack.places), bytes_of) for stack in one.stacks
                    if (bytes_of := round(measure(stack).bytes)) > 0] for name, one, measure in views}
    text = render.page(HERE / "page.html.j2", program=heap.program, verdicts=verdicts, names=list(shown),
                       data=render.safe({"tree": forest.data(), "views": shown, "time": over_time(moments)}))
    with whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
