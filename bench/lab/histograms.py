#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sizes of real programs for the patterns drawn at random: writes bench/patterns/drawn_histograms.inc from the traces
that are committed. Run it by the command's Python: build/venv/bin/python bench/lab/histograms.py"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tools")]

from coffer.trace.reader import ALLOCATIONS, FAILED, Op, Trace

TRACES = TOP / "test" / "tools" / "traces"
OUTPUT = TOP / "bench" / "patterns" / "drawn_histograms.inc"
# A size that is rarer than one in so many is left out: kEntries of drawn_plan.hpp.
QUANTILES = 4096
WIDTH = 120
HEAD = """\
// SPDX-License-Identifier: MIT
// Made by bench/lab/histograms.py from test/tools/traces: sizes, and how many of 4,096 blocks have each.
"""


def sizes_of(path: Path) -> np.ndarray:
    """Of every allocation that succeeded, in ascending order; what realloc asked for counts, too."""
    asked = [*ALLOCATIONS, Op.REALLOC]
    with Trace(path) as trace:
        parts = [part["size"][np.isin(part["op"], asked) & (part["flags"] & FAILED == 0)] for part in trace]
    return np.sort(np.concatenate(parts))


def histogram(sizes: np.ndarray) -> list[tuple[int, int]]:
    """By the sizes in the midst of QUANTILES equal parts of all blocks; none is 0."""
    places = (np.arange(QUANTILES) * 2 + 1) * len(sizes) // (2 * QUANTILES)
    values, counts = np.unique(np.maximum(sizes[places], 1), return_counts=True)
    return list(zip(values.tolist(), counts.tolist()))


def wrap(words: list[str]) -> str:
    lines = ["   "]
    for word in words:
        if len(lines[-1]) + len(word) + 2 > WIDTH:
            lines.append("   ")
        lines[-1] += f" {word},"
    return "\n".join(lines)


def make() -> str:
    parts, rows = [HEAD], []
    for path in sorted(TRACES.glob("*.trace")):
        pairs = [f"{{{size}, {count}}}" for size, count in histogram(sizes_of(path))]
        parts.append(f"inline constexpr Part k_{path.stem}[] = {{\n{wrap(pairs)}\n}};\n")
        rows.append(f'    {{"{path.stem}", k_{path.stem}}},\n')
    return "".join([*parts, "inline constexpr Trace kTraces[] = {\n", *rows, "};\n"])


if __name__ == "__main__":
    OUTPUT.write_text(make())
