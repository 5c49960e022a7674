# SPDX-License-Identifier: MIT
"""What is shown of a reading, and of two of them, as lines and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coffer.live.page import NO_OWNER, STATES, Reading


@dataclass(frozen=True)
class Rates:
    """Per second, between two readings; 0 where nothing came by in between."""

    bytes: float = 0.0
    blocks: float = 0.0
    purges: float = 0.0
    purged_bytes: float = 0.0


def per_second(before: int, after: int, nanoseconds: int) -> float:
    return max(0, after - before) * 1e9 / nanoseconds if nanoseconds > 0 else 0.0


def rates_between(before: Reading | None, after: Reading) -> Rates:
    if before is None:
        return Rates()
    walked = after.figures["taken_ns"] - before.figures["taken_ns"]
    return Rates(
        per_second(before.figures["allocated_bytes"], after.figures["allocated_bytes"], walked),
        per_second(before.figures["allocated_blocks"], after.figures["allocated_blocks"], walked),
        per_second(before.figures["purges"], after.figures["purges"], walked),
        per_second(before.figures["purged_bytes"], after.figures["purged_bytes"], walked),
    )


def size(value: float) -> str:
    """In five columns: 1023B, 12.3K, 456M ..."""
    for suffix in "BKMGT":
        if value < 1000 or suffix == "T":
            return f"{value:.0f}{suffix}" if value >= 100 or suffix == "B" else f"{value:.1f}{suffix}"
        value /= 1024
    raise AssertionError


def number(value: float) -> str:
    for suffix in ("", "k", "M", "G"):
        if value < 1000 or suffix == "G":
            return f"{value:.0f}{suffix}" if value >= 100 or not suffix else f"{value:.1f}{suffix}"
        value /= 1000
    raise AssertionError


def state_of(span: dict[str, int]) -> str:
    return STATES[span["state"]] if span["state"] < len(STATES) else "?"


def age(reading: Reading) -> str:
    return f"stale, {reading.age:.0f} s" if reading.is_stale else f"{reading.age:.1f}s"


COLUMNS = [("live", 7), ("held", 7), ("resident", 9), ("rss", 7), ("bound", 7), ("alloc/s", 8), ("blocks/s", 9),
           ("purged/s", 9), ("purges/s", 9), ("age", 6)]
HEADING = "".join(name.rjust(width) for name, width in COLUMNS)


def line(reading: Reading, rates: Rates) -> str:
    figures = reading.figures
    values = [size(figures["live"]), size(reading.held), size(figures["resident"]),
              "-" if reading.rss is None else size(reading.rss), size(figures["bound"]),
              size(rates.bytes), number(rates.blocks), size(rates.purged_bytes), number(rates.purges), age(reading)]
    # A stale age is wider than its column and comes after the others.
    return "".join(text.rjust(width) if len(text) < width else "  " + text
                   for text, (_, width) in zip(values, COLUMNS))


def as_json(reading: Reading, rates: Rates) -> dict[str, Any]:
    figures = {name: value for name, value in reading.figures.items() if name not in {"taken_ns", "walk_ns"}}
    now = {name: value for name, value in reading.now.items() if name not in {"now_ns", "asked_ns"}}
    return {
        "pid": reading.process,
        "program": reading.program,
        "age_seconds": round(reading.age, 3),
        "stale": reading.is_stale,
        "rss": reading.rss,
        "walk_seconds": reading.figures["walk_ns"] / 1e9,
        "now": now,
        "figures": figures,
        "rates": {"allocated_bytes": rates.bytes, "allocated_blocks": rates.blocks, "purges": rates.purges,
                  "purged_bytes": rates.purged_bytes},
        "classes": reading.classes,
        "heaps": reading.heaps,
        "spans": [{**one, "state": state_of(one), "owner": None if one["owner"] == NO_OWNER else one["owner"]}
                  for one in reading.spans],
    }

