# SPDX-License-Identifier: MIT
"""The pictures: interactive ones for the page (plotly), and one as PNG for the README (matplotlib)."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as graph
from coffer import axes

from coffer_bench import summary as sums
from coffer_bench.stats import Estimate
from coffer_bench.summary import OURS, Row, Summary

BLUE, RED, GREY, GREEN = "#1f5fa8", "#c0392b", "#9aa5b1", "#2e8b57"
COLOURS = [
    "#1f5fa8",
    "#9aa5b1",
    "#e08e0b",
    "#2e8b57",
    "#8e44ad",
    "#16a085",
    "#d35475",
    "#7f6000",
    "#5d6d7e",
    "#b03a2e",
    "#117864",
    "#6c3483",
    "#0e6655",
    "#ca6f1e",
    "#2e4053",
]
# Where figures of a picture are further apart, their scale is logarithmic.
WIDE = 30
NAME_WIDTH = 22  # letters of a group's name, in the narrowest picture of four groups
FONT = {"family": "system-ui, sans-serif", "size": 12}


def colour(names: Sequence[str], name: str) -> str:
    ordered = [OURS, *(one for one in names if one != OURS)]
    return COLOURS[ordered.index(name) % len(COLOURS)]


def fragment(figure: graph.Figure, height: int, title: str = "") -> str:
    """Of a page that has plotly's own script once. Titles stand in the page, legends alone above the axes: plotly makes
    room for each side of a picture, not for two things on one side."""
    figure.update_layout(height=height, font=FONT, template="plotly_white", **axes.LAYOUT)
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True, **axes.WHOLE)
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    return (f'<h4 class="chart">{html.escape(title)}</h4>' if title else "") + drawn


def ends(found: Estimate) -> list[float]:
    return [value for value in (found.low, found.value, found.high) if not math.isnan(value)]


def rows_chart(rows: Sequence[Row]) -> str:
    """Every row's ratio to the best other, worst above."""
    shown = [row for row in reversed(sums.ordered(rows)) if row.versus_best]
    if not shown:
        return ""
    values = [row.versus_best.value for row in shown]
    highs = [
        max(0.0, row.versus_best.high - row.versus_best.value) if not math.isnan(row.versus_best.high) else 0
        for row in shown
    ]
    lows = [
        max(0.0, row.versus_best.value - row.versus_best.low) if not math.isnan(row.versus_best.low) else 0
        for row in shown
    ]
    colours = {"lost": RED, "won": GREEN, "even": GREY}
    figure = graph.Figure(
        graph.Bar(
            base=1,
            x=[value - 1 for value in values],
            y=[row.name for row in shown],
            orientation="h",
            marker={"color": [colours.get(row.verdict, GREY) for row in shown]},
            error_x={
                "type": "data",
                "array": highs,
                "arrayminus": lows,
                "thickness": 1,
                "width": 0,
                "color": "#555555",
            },
            hovertext=[f"{row.versus_best} times {row.best}" for row in shown],
            hoverinfo="y+text",
        )
    )
    figure.add_vline(x=1, line={"color": "#333333", "width": 1})
    ticks = axes.logarithmic([1, *(end for row in shown for end in ends(row.versus_best))])
    figure.update_xaxes(
        type="log", title="Coffer over the best other (log scale); right of 1: Coffer is behind", **ticks.axis
    )
    figure.update_yaxes(tickfont={"size": 10})
    return fragment(figure, 120 + 16 * len(shown))


def versus_chart(rows: Sequence[Row], allocators: Sequence[str], title: str) -> str:
    """Bars of some rows, a colour an allocator."""
    figure = graph.Figure()
    unit = sums.common_unit(rows)
    names = [wrapped(sums.with_rest(row.name, row, unit)) for row in rows]
    for name in allocators:
        values = [row.median(name) for row in rows]
        if all(math.isnan(value) for value in values):
            continue
        figure.add_bar(name=name, x=names, y=values, marker={"color": colour(allocators, name)})
    figure.update_layout(barmode="group")
    shown = [row.median(name) for row in rows for name in row.measured if row.median(name) > 0]
    if shown and max(shown) > WIDE * min(shown):
        figure.update_yaxes(type="log", title=f"{unit}, log scale", **axes.logarithmic(shown).axis)
    else:
        figure.update_yaxes(rangemode="tozero", title=unit)
    return fragment(figure, 340, title)


def wrapped(text: str) -> str:
    """For a group of bars, so that its name need not be turned."""
    return "<br>".join(textwrap.wrap(text, NAME_WIDTH))


def latency_chart(record_by_allocator: dict[str, dict], allocators: Sequence[str], title: str) -> str:
    figure = graph.Figure()
    percentiles = ["p50", "p90", "p99", "p99.9", "p99.99", "max"]
    for name in allocators:
        if found := record_by_allocator.get(name):
            figure.add_scatter(
                name=name,
                x=percentiles,
                y=[found[key] for key in percentiles],
                mode="lines+markers",
                line={"color": colour(allocators, name), "width": 3 if name == OURS else 1.5},
            )
    shown = [found[key] for found in record_by_allocator.values() for key in percentiles]
    figure.update_yaxes(type="log", title=f"{sums.LATENCY_UNIT}, log scale", **axes.logarithmic(shown).axis)
    return fragment(figure, 340, title)


def scaling_chart(curves: dict[str, dict[int, float]], real: dict[int, Estimate]) -> str:
    """Speed-up by cores, both axes logarithmic; what real threads reached is a mark."""
    figure = graph.Figure()
    for name, curve in curves.items():
        figure.add_scatter(
            name=name,
            x=list(curve),
            y=list(curve.values()),
            mode="lines+markers",
            line={"color": colour(list(curves), name), "width": 3 if name == OURS else 1.5},
        )
    counts = sorted({cores for curve in curves.values() for cores in curve})
    figure.add_scatter(name="linear", x=counts, y=counts, mode="lines", line={"color": "#cccccc", "dash": "dot"})
    if real:
        counted, found = list(real), list(real.values())
        figure.add_scatter(
            name="coffer, real threads",
            x=counted,
            y=[one.value for one in found],
            error_y={
                "type": "data",
                "array": [0 if math.isnan(one.high) else max(0.0, one.high - one.value) for one in found],
                "arrayminus": [0 if math.isnan(one.low) else max(0.0, one.value - one.low) for one in found],
                "width": 4,
            },
            mode="markers",
            marker={"symbol": "x", "size": 11, "color": RED},
        )
    shown = [value for curve in curves.values() for value in curve.values()]
    shown += [*counts, *(end for one in real.values() for end in ends(one))]
    figure.update_xaxes(type="log", title="cores", tickvals=counts)
    figure.update_yaxes(type="log", title="speed-up, log scale", **axes.logarithmic(shown).axis)
    return fragment(figure, 360)


def overview(found: Summary, path: Path) -> None:
    """One picture: Coffer against each other allocator, and against the best of each row; time and memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 0.36 * len(found.used) + 1.9), constrained_layout=True)
    for panel, rows, what in ((panels[0], found.time, "time"), (panels[1], found.memory, "peak memory")):
        bars = [(peer, sums.mean_versus(rows, peer)) for peer in found.used]
        bars = sorted(((peer, mean) for peer, mean in bars if mean), key=lambda bar: bar[1].value)
        if best := sums.mean_versus_best(rows):
            bars.append(("best of each row", best))
        for place, (_, mean) in enumerate(bars):
            panel.barh(place, mean.value - 1, left=1, color=GREEN if mean.value <= 1 else RED)
            if not math.isnan(mean.low):
                panel.plot([mean.low, mean.high], [place, place], color="black", linewidth=1)
            panel.text(
                mean.value,
                place,
                f" {mean.value:.2f} ",
                va="center",
                ha="right" if mean.value <= 1 else "left",
                fontsize=9,
            )
        panel.set_yticks(range(len(bars)), [name for name, _ in bars])
        panel.axvline(1, color="black", linewidth=0.8)
        panel.margins(x=0.18)
        panel.set_title(f"Coffer's {what} over that of ...\n({len(rows)} rows, geometric mean)", fontsize=10)
        panel.set_xlabel("left of 1: Coffer takes less")
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)
