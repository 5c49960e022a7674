# SPDX-License-Identifier: MIT
"""The pictures of the page."""

from __future__ import annotations

import html
from typing import Any

import plotly.graph_objects as graph

from coffer import axes
from coffer.replay.play import Result
from coffer.trace.tables import size

COLOURS = ["#1f5fa8", "#e08e0b", "#c0392b", "#8e44ad", "#16a085", "#d35475", "#7f6000", "#5d6d7e"]
LIVE = "#2e8b57"
MATRIX_THREADS = 24


def fragment(figure: graph.Figure, height: int, title: str = "") -> str:
    """Of a page that has plotly's own script once. Titles stand in the page, legends alone above the axes: plotly makes
    room for each side of a picture, not for two things on one side."""
    # The page's script gives colours, for it knows whether the page is dark.
    figure.update_layout(height=height, template="none", font={"family": "system-ui, sans-serif", "size": 12},
                         paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", **axes.LAYOUT)
    figure.update_xaxes(automargin=True, **axes.WHOLE)
    figure.update_yaxes(automargin=True, **axes.WHOLE)
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    return (f'<h4 class="chart">{html.escape(title)}</h4>' if title else "") + drawn


def waste(found: dict[str, Any]) -> str:
    """What rounding to size classes cost in each class's fullest moment."""
    rows = [(one["class"], one["most_live"] * one["class"] - one["requested_at_most"], one["requested_at_most"])
            for one in found["sizes"]]
    rows = sorted(sorted(rows, key=lambda row: -row[1])[:30])
    figure = graph.Figure()
    figure.add_bar(x=[str(row[0]) for row in rows], y=[row[1] for row in rows], marker={"color": COLOURS[5]},
                   hovertext=[f"{size(row[1])} beside {size(row[2])} asked for" for row in rows], hoverinfo="x+text")
    figure.update_xaxes(type="category", title="size class, bytes")
    figure.update_yaxes(title="lost to rounding", rangemode="tozero", **axes.of_bytes([row[1] for row in rows]).axis)
    return fragment(figure, 340, "Size classes: what rounding costs")


def remote(found: dict[str, Any]) -> str:
    """Who frees whose blocks; the threads with most frees."""
    frees: dict[int, int] = {}
    for maker, freer, count, _ in found["remote"]:
        frees[maker] = frees.get(maker, 0) + count
        frees[freer] = frees.get(freer, 0) + count
    shown = sorted(sorted(frees, key=lambda thread: -frees[thread])[:MATRIX_THREADS])
    place = {thread: number for number, thread in enumerate(shown)}
    cells = [[0] * len(shown) for _ in shown]
    for maker, freer, count, _ in found["remote"]:
        if maker in place and freer in place:
            cells[place[maker]][place[freer]] = count
    if not shown:
        return ""
    names = [f"thread {thread}" for thread in shown]
    figure = graph.Figure(graph.Heatmap(
        z=[[count or None for count in line] for line in cells], x=names, y=names, colorscale="Blues", showscale=False,
        text=[[str(count) if count else "" for count in line] for line in cells],
        texttemplate="%{text}" if len(shown) <= 12 else "",
        hovertemplate="allocated by %{y}, freed by %{x}: %{z}<extra></extra>", xgap=1, ygap=1))
    figure.update_xaxes(title="freed by", type="category")
    figure.update_yaxes(title="allocated by", type="category", autorange="reversed")
    return fragment(figure, 160 + 26 * len(shown) + 60, "")


def replays(results: list[Result]) -> str:
    """Memory along the trace under each allocator, beside what was live."""
    done = [result for result in results if not result.failure]
    if not done:
        return ""
    figure = graph.Figure()
    samples = done[0].figures["samples"]
    figure.add_scatter(name="live", x=[one[0] for one in samples], y=[one[3] for one in samples], mode="lines",
                       fill="tozeroy", line={"color": LIVE, "width": 1})
    for number, result in enumerate(done):
        samples = sorted(result.figures["samples"])
        figure.add_scatter(name=result.name, x=[one[0] for one in samples], y=[one[2] * 1024 for one in samples],
                           mode="lines", line={"color": COLOURS[number % len(COLOURS)], "width": 2})
    figure.update_xaxes(title="operations of the trace")
    shown = [value for result in done for one in result.figures["samples"] for value in (one[2] * 1024, one[3])]
    figure.update_yaxes(title="resident and page tables", rangemode="tozero", **axes.of_bytes(shown).axis)
    return fragment(figure, 380, "Memory")


def latencies(results: list[Result]) -> str:
    done = [result for result in results if not result.failure]
    if not done:
        return ""
    percentiles = ["p50", "p90", "p99", "p99.9", "max"]
    figure = graph.Figure()
    for number, result in enumerate(done):
        calls = result.figures["calls"]["all"]
        figure.add_scatter(name=result.name, x=percentiles, y=[calls[key] for key in percentiles],
                           mode="lines+markers", line={"color": COLOURS[number % len(COLOURS)], "width": 2})
    shown = [result.figures["calls"]["all"][key] for result in done for key in percentiles]
    figure.update_yaxes(type="log", title="ns a call, log scale", **axes.logarithmic(shown).axis)
    return fragment(figure, 380, "Latency")
