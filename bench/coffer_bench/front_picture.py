# SPDX-License-Identifier: MIT
"""The picture of README.md: time against memory, each allocator a point, as SVG for light and for dark pages. The same
data gives the same file."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from coffer.axes import logarithmic

from coffer_bench.summary import OURS

THEMES = {
    "light": {"text": "#1f2328", "grid": "#d8dee4", "point": "#6e7781", "ours": "#0969da"},
    "dark": {"text": "#e6edf3", "grid": "#30363d", "point": "#8d96a0", "ours": "#4493f8"},
}
CLOCKS = {"cpu": "processor time", "wall": "wall time"}
# Where a name may stand beside its point, in points, and how it is aligned there; the first that is free is taken.
PLACES = [(7, 0, "left", "center"), (-7, 0, "right", "center"), (0, 8, "center", "bottom"), (0, -8, "center", "top"),
          (6, 8, "left", "bottom"), (6, -8, "left", "top"), (-6, 8, "right", "bottom"), (-6, -8, "right", "top")]
POINT = 6  # pixels around a point that a name must leave free


def overlaps(box: Bbox, others: Sequence[Bbox]) -> bool:
    return any(box.overlaps(other) for other in others)


def label(axes: Axes, points: dict[str, tuple[float, float]], colours: dict[str, str]) -> list[Bbox]:
    """Puts a name beside each point, none over another one or over a point if there is such a place. Their boxes."""
    renderer = axes.figure.canvas.get_renderer()
    centres = {name: axes.transData.transform(at) for name, at in points.items()}
    taken = [Bbox.from_extents(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in centres.values()]
    boxes = []
    for name in sorted(points, key=lambda one: (one != OURS, one)):
        own = colours["ours" if name == OURS else "text"]
        for x, y, across, up in PLACES:
            text = axes.annotate(name, points[name], (x, y), textcoords="offset points", ha=across, va=up, color=own,
                                 fontsize=10, fontweight="bold" if name == OURS else "normal")
            box = text.get_window_extent(renderer)
            if not overlaps(box, [*taken, *boxes]):
                break
            if (x, y, across, up) != PLACES[-1]:
                text.remove()
        boxes.append(box)
    return boxes


def prepare(axes: Axes, data: dict[str, Any], colours: dict[str, str]) -> None:
    for axis, what, text in ((axes.xaxis, "time", CLOCKS[data["clock"]]), (axes.yaxis, "memory", "peak memory")):
        values = [mean[what] for mean in data["means"].values()]
        getattr(axes, "set_xscale" if what == "time" else "set_yscale")("log")
        low, high = 0.94 * min(values), 1.16 * max(values)
        marks = logarithmic(values)
        ticks = [(at, text) for at, text in zip(marks.values, marks.labels) if low <= at <= high]
        axis.set_major_locator(FixedLocator([at for at, _ in ticks]))
        axis.set_major_formatter(FixedFormatter([text for _, text in ticks]))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        axis.set_label_text(f"{text} over the best of each row ({len(data['rows'][what])} rows)", color=colours["text"])
        (axes.set_xlim if what == "time" else axes.set_ylim)(low, high)
    axes.tick_params(colors=colours["text"], which="both", length=0)
    axes.grid(color=colours["grid"], linewidth=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_color(colours["grid"])


def figure(data: dict[str, Any], theme: str) -> tuple[pyplot.Figure, list[Bbox]]:
    colours = THEMES[theme]
    made, axes = pyplot.subplots(figsize=(7.2, 4.2), constrained_layout=True)
    prepare(axes, data, colours)
    points = {name: (mean["time"], mean["memory"]) for name, mean in data["means"].items()}
    for name, (time, memory) in points.items():
        axes.scatter(time, memory, s=64 if name == OURS else 30, color=colours["ours" if name == OURS else "point"])
    axes.set_title("Time against memory: left and below is better", fontsize=11, color=colours["text"], loc="left")
    made.canvas.draw()
    return made, label(axes, points, colours)


def draw(data: dict[str, Any], theme: str) -> str:
    """The picture as SVG, with text as text."""
    settings = {"svg.hashsalt": "coffer", "svg.fonttype": "none", "font.size": 9,
                "font.sans-serif": ["DejaVu Sans"], "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        made, _ = figure(data, theme)
        drawn = io.StringIO()
        made.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(made)
    return re.sub(r"[ \t]+$", "", drawn.getvalue(), flags=re.MULTILINE)
