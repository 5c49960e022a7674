# SPDX-License-Identifier: MIT
"""Tables as text, for the scripts beside this package: medians, ratios to the best of each row, geometric means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from coffer_bench.rows import Row

Samples = dict[str, dict[str, list[dict[str, float]]]]  # by row, by allocator

# A difference below this is within what two runs of the same library differ by on a quiet machine.
DRAW = 0.05


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def medians(samples: Samples, row: Row, figure: str) -> dict[str, float]:
    """Allocators that failed in this row are left out."""
    by_allocator = samples.get(row.name, {})
    return {
        name: statistics.median(sample[figure] for sample in taken) for name, taken in by_allocator.items() if taken
    }


def spread(values: list[float]) -> float:
    """Half the distance of the quartiles over the median."""
    if len(values) < 3:
        return math.nan
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle if middle else math.nan


def ratios_to_best(figures: dict[str, float]) -> dict[str, float]:
    best = min(figures.values())
    return {name: figure / best if best else math.nan for name, figure in figures.items()}


def format_table(head: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def layout(line: list[str]) -> str:
        return "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])

    return "\n".join(layout(line) for line in [head, *lines])


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    escape = lambda text: str(text).replace("|", "\\|")  # noqa: E731
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(map(escape, line)) + " |" for line in [head, rule, *lines])


def markdown_page(title: str, command: str, facts: str, parts: Sequence[str]) -> str:
    """A page of docs/results: what wrote it, on which machine, and its tables and texts."""
    written = f"Written by `{command}`, and not by hand. {facts}"
    return "\n\n".join([f"# {title}", written, *filter(None, parts)]) + "\n"


def figure_table(samples: Samples, rows: list[Row], names: list[str], figure: str, unit: str) -> str:
    """One line a row: the best figure, then each allocator's ratio to it, then how far samples of a row spread."""
    lines = []
    all_ratios: dict[str, list[float]] = {name: [] for name in names}
    for row in rows:
        figures = medians(samples, row, figure)
        if not figures:
            continue
        ratios = ratios_to_best(figures)
        for name, ratio in ratios.items():
            all_ratios[name].append(ratio)
        spreads = [spread([sample[figure] for sample in samples[row.name][name]]) for name in figures]
        best = min(figures.values())
        cells = [f"{ratios[name]:.2f}" if name in ratios else "failed" for name in names]
        noise = max(spreads)
        lines.append([row.name, f"{best:,.1f}" if best < 1000 else f"{best:,.0f}", *cells,
                      "" if math.isnan(noise) else f"{noise:.0%}"])
    means = [f"{geometric_mean(all_ratios[name]):.2f}" if all_ratios[name] else "-" for name in names]
    lines.append(["geometric mean", "", *means, ""])
    return format_table(["row", unit, *names, "+-"], lines)


def losses(samples: Samples, rows: list[Row], figure: str, what: str, name: str = "coffer") -> str:
    """Where the allocator is behind the best of the others, worst first, and how often it is ahead."""
    lost, drawn, won = [], 0, 0
    for row in rows:
        figures = medians(samples, row, figure)
        others = {other: value for other, value in figures.items() if other != name}
        if name not in figures or not others:
            continue
        best = min(others, key=others.__getitem__)
        ratio = figures[name] / others[best]
        if ratio > 1 + DRAW:
            lost.append((ratio, f"  {row.name}: {ratio:.2f} times {best}"))
        elif ratio < 1 - DRAW:
            won += 1
        else:
            drawn += 1
    head = f"{what}: {name} is behind the best other in {len(lost)} rows, within {DRAW:.0%} in {drawn}, ahead in {won}."
    return "\n".join([head, *(text for _, text in sorted(lost, reverse=True))])


def comparison_table(samples: Samples, rows: list[Row], figure: str) -> str:
    """Two builds: ratio of medians, and the quartiles of the ratios taken round by round. A difference counts when
    both quartiles are on one side of 1."""
    lines, all_ratios = [], []
    for row in rows:
        figures = medians(samples, row, figure)
        this, other = (samples[row.name][name] for name in ("this", "other"))
        ratio = figures["this"] / figures["other"]
        all_ratios.append(ratio)
        by_round = [a[figure] / b[figure] for a, b in zip(this, other)]
        low, _, high = statistics.quantiles(by_round, n=4, method="inclusive")
        verdict = "slower" if low > 1 and ratio > 1.02 else "faster" if high < 1 and ratio < 0.98 else ""
        lines.append([row.name, f"{figures['this']:.2f}", f"{figures['other']:.2f}", f"{ratio:.3f}",
                      f"{low:.3f}-{high:.3f}", verdict])
    lines.append(["geometric mean", "", "", f"{geometric_mean(all_ratios):.3f}", "", ""])
    return format_table(["row", "this ns", "other ns", "this/other", "quartiles", ""], lines)
