# SPDX-License-Identifier: MIT
"""One page that needs nothing but itself: flame graph, icicle and treemap of every view, searched and zoomed, and what
was live over time."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from pathlib import Path

from coffer.files import whole
from coffer.heap.exports import weighted
from coffer.heap.sites import LIVE, Measure, sites
from coffer.heap.stacks import Heap, Place
from coffer.trace.symbols import without_arguments
from coffer.trace.tables import size

HERE = Path(__file__).resolve().parent
LEAST = 0.0005  # of the whole: smaller parts cannot be seen, and leave a gap
MOST_LINES = 8  # in the picture over time


@dataclass
class Part:
    bytes: int = 0
    place: Place | None = None
    below: dict[tuple[str, str, int], Part] = field(default_factory=dict)


def tree_of(heap: Heap, measure: Measure) -> Part:
    """From the outermost functions on."""
    root = Part()
    for places, weight in weighted(heap, measure):
        root.bytes += weight
        part = root
        for place in places:
            part = part.below.setdefault((place.function, place.file or place.module, place.line), Part(place=place))
            part.bytes += weight
    return root


def plain(text: str) -> str:
    """plotly takes some tags in its texts for its own."""
    return html.escape(text, quote=False)


def columns(heap: Heap, measure: Measure, name: str) -> dict[str, list]:
    """As plotly takes a hierarchy."""
    root = tree_of(heap, measure)
    made: dict[str, list] = {"ids": ["0"], "parents": [""], "labels": [plain(f"{name}: {size(root.bytes)}")],
                             "values": [root.bytes], "names": [""], "source": [""], "module": [""],
                             "bytes": [size(root.bytes)]}
    waiting = [("0", root)]
    while waiting:
        parent, part = waiting.pop()
        for one in sorted(part.below.values(), key=lambda below: -below.bytes):
            if one.bytes < LEAST * root.bytes or one.place is None:
                continue
            identity = str(len(made["ids"]))
            place = one.place
            for key, value in (("ids", identity), ("parents", parent), ("values", one.bytes),
                               ("labels", plain(without_arguments(place.function))), ("names", plain(place.function)),
                               ("source", plain(place.source)), ("module", place.module),
                               ("bytes", size(one.bytes))):
                made[key].append(value)
            waiting.append((identity, one))
    return made


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


def safe(data: object) -> str:
    """Inside a script element."""
    return json.dumps(data).replace("<", "\\u003c")


def write(path: Path, heap: Heap, verdicts: list[str], views: list[tuple[str, Heap, Measure]],
          moments: list[Heap]) -> None:
    import jinja2  # here, for these take a second to load
    import plotly.offline

    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(HERE),
                                     undefined=jinja2.StrictUndefined)
    shown = {name: columns(one, measure, name) for name, one, measure in views}
    text = environment.get_template("page.html.j2").render(
        program=heap.program, verdicts=verdicts, plotly=plotly.offline.get_plotlyjs(),
        data=safe({"views": shown, "time": over_time(moments)}), names=list(shown))
    with whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
