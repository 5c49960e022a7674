# SPDX-License-Identifier: MIT
"""What stands beside the axes of all pictures: every label is written from the value at which it stands, whole, since
plotly's own labels leave out the decade (3 where 0.3 is meant) and write thousands of KiB as k."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

MOST_TICKS = 9
# Within a decade, from many ticks to few.
STEPS = (
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)
BYTE_UNITS = ("B", "KiB", "MiB", "GiB")  # as coffer.trace.tables.size has them
# The layout of a picture whose legend is above it: what is below belongs to the axis, whose names may be turned.
LAYOUT = {
    "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
    "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
}
# An axis that is not logarithmic writes 20,000, not 20k.
WHOLE = {"exponentformat": "none", "separatethousands": True}


class Ticks(NamedTuple):
    values: list[float]
    labels: list[str]

    @property
    def axis(self) -> dict:
        """As plotly's update_xaxes and update_yaxes take it."""
        return {"tickmode": "array", "tickvals": self.values, "ticktext": self.labels}


def label(value: float) -> str:
    """Never in powers of ten, with as many digits as it has and no more than six."""
    digits = max(0, 5 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def logarithmic(values: Sequence[float]) -> Ticks:
    """Of an axis that goes over these values, of which those above zero are shown."""
    shown = [value for value in values if value > 0]
    if not shown:
        return Ticks([], [])
    low, high = min(shown) / 1.3, max(shown) * 1.3  # plotly leaves room at the ends
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in STEPS:
        found = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(found) <= MOST_TICKS:
            break
    found = found[:: max(1, math.ceil(len(found) / MOST_TICKS))]
    return Ticks(found, [label(value) for value in found])


def of_bytes(values: Sequence[float]) -> Ticks:
    """Of an axis from 0 on, in the units that tables have; at least two of a unit, since 1 of 1.5 MiB says little."""
    high = max([2.0, *values])
    place = min(int(math.log2(high / 2) // 10), len(BYTE_UNITS) - 1)
    unit = 1024.0**place
    step = next(one for power in itertools.count() for one in (10**power, 2 * 10**power, 5 * 10**power)
                if one * unit * (MOST_TICKS - 3) >= high)
    counts = range(0, int(high / unit) + step + 1, step)
    return Ticks([count * unit for count in counts], [f"{count:,} {BYTE_UNITS[place]}" for count in counts])
