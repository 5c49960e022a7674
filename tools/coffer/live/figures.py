# SPDX-License-Identifier: MIT
"""What is shown of a reading, and of two of them: one source for lines, JSON and Prometheus."""

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


# Name, of figures, kind, what it is.
METRICS = [
    ("live_bytes", "live", "gauge", "Usable bytes of blocks that the program holds."),
    ("held_bytes", "held", "gauge", "Bytes of spans and large blocks."),
    ("resident_bytes", "resident", "gauge", "Bytes of blocks' memory that may be backed by physical memory."),
    ("free_resident_bytes", "free_resident", "gauge", "The part of resident that belongs to no span and no block."),
    ("bound_bytes", "bound", "gauge", "What held, free and metadata together are expected to stay within."),
    ("limit_bytes", "limit", "gauge", "The limit on what may be resident; 0: none."),
    ("committed_bytes", "committed", "gauge", "Bytes of the arenas made writable."),
    ("metadata_bytes", "metadata", "gauge", "Bytes of metadata made writable."),
    ("large_bytes", "large", "gauge", "Bytes of live blocks over 64 KiB."),
    ("large_blocks", "large_blocks", "gauge", "Live blocks over 64 KiB."),
    ("mixed_held_bytes", "mixed_held", "gauge", "Bytes of spans with blocks of any size."),
    ("heaps", "heaps", "gauge", "Heaps that threads use."),
    ("spans", "spans", "gauge", "Spans in use."),
    ("allocated_bytes_total", "allocated_bytes", "counter", "Bytes allocated since the page was asked for."),
    ("allocated_blocks_total", "allocated_blocks", "counter", "Blocks allocated since the page was asked for."),
    ("purges_total", "purges", "counter", "Calls that gave pages back."),
    ("purged_bytes_total", "purged_bytes", "counter", "Bytes given back."),
    ("system_calls_total", "system_calls", "counter", "Calls to the kernel for memory."),
]
CLASS_METRICS = [("class_held_bytes", "held", "Bytes of the spans of a size class."),
                 ("class_live_bytes", "live", "Bytes of the live blocks of a size class.")]


def label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def as_prometheus(pid: int, reading: Reading) -> str:
    common = f'pid="{pid}",program="{label(reading.program)}"'
    lines = []

    def head(name: str, kind: str, text: str) -> None:
        lines.extend([f"# HELP coffer_{name} {text}", f"# TYPE coffer_{name} {kind}"])

    for name, field, kind, text in METRICS:
        head(name, kind, text)
        lines.append(f"coffer_{name}{{{common}}} {reading.figures[field]}")
    if reading.rss is not None:
        head("rss_bytes", "gauge", "Bytes of the whole process that the kernel counts as resident.")
        lines.append(f"coffer_rss_bytes{{{common}}} {reading.rss}")
    head("figures_age_seconds", "gauge", "Seconds since the figures that take a walk were taken.")
    lines.append(f"coffer_figures_age_seconds{{{common}}} {reading.age:.3f}")
    for name, field, text in CLASS_METRICS:
        head(name, "gauge", text)
        # Several classes may have blocks of one size (twins, which are for alignments).
        sums: dict[int, int] = {}
        for one in reading.classes:
            if one["spans"]:
                sums[one["block_bytes"]] = sums.get(one["block_bytes"], 0) + one[field]
        lines.extend(f'coffer_{name}{{{common},block_bytes="{size}"}} {value}' for size, value in sorted(sums.items()))
    return "\n".join(lines) + "\n"
