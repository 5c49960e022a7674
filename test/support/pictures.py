# SPDX-License-Identifier: MIT
"""Looks at plotly's pictures of a page that a browser has drawn (playwright)."""

from __future__ import annotations

from typing import Any

# What stands at each tick of a logarithmic axis, beside the value there; and which of a picture's texts overlap.
_LOOK = """() => Array.from(document.querySelectorAll('.js-plotly-plot')).map((plot, number) => {
  const axes = [plot._fullLayout.xaxis, plot._fullLayout.yaxis].filter(axis => axis && axis.type === 'log');
  const ticks = axes.flatMap(axis => axis._vals.map(tick => [10 ** tick.x, tick.text]));
  const boxes = (selector, name) => Array.from(plot.querySelectorAll(selector), found => {
    const box = found.getBoundingClientRect();
    return [name, found.textContent, box.left, box.top, box.right, box.bottom];
  });
  return {number, log: axes.length, ticks, labels: boxes('.xtick text, .ytick text', 'label'),
    titles: boxes('.xtitle, .ytitle', 'title'), legends: boxes('.legend', 'legend')};
})"""


def overlap(one: list[Any], other: list[Any]) -> bool:
    (_, _, left, top, right, bottom), (_, _, other_left, other_top, other_right, other_bottom) = one, other
    return min(right, other_right) - max(left, other_left) > 1 and min(bottom, other_bottom) - max(top, other_top) > 1


def faults(page: Any) -> list[str]:
    """Labels of logarithmic axes that are not their value, and titles, labels and legends over each other. That there
    are pictures with such axes and with legends is part of it."""
    found = page.evaluate(_LOOK)
    result = []
    if not any(one["log"] for one in found) or not any(one["legends"] for one in found):
        result.append("no picture has a logarithmic axis, or none a legend")
    for one in found:
        for value, text in one["ticks"]:
            try:
                written = float(text.replace(",", ""))
            except ValueError:
                written = 0.0
            if abs(written / value - 1) > 0.01:
                result.append(f"picture {one['number']}: {text!r} stands at {value:g}")
        if one["log"] and len(one["ticks"]) < 2:
            result.append(f"picture {one['number']}: {len(one['ticks'])} labels")
        for this, others in ((one["legends"], one["titles"] + one["labels"]), (one["titles"], one["labels"])):
            for first in this:
                for second in others:
                    if overlap(first, second):
                        result.append(f"picture {one['number']}: {first[0]} over the {second[0]} {second[1]!r}")
    return result
