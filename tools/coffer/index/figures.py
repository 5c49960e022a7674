# SPDX-License-Identifier: MIT
"""What is computed from the figures of a survey: means, the worst, costs. No table knows how."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from coffer.index.survey import Result

# Steps of the ring that miss the L1, or the L2, take this many cycles more: what machines of today need, about.
L1_MISS_CYCLES = 10
L2_MISS_CYCLES = 35
PAPER = (64, 8192)  # the sizes of paper 3's figure 1


def share(figures: dict, level: str = "l1") -> float:
    return figures[level]["share"]


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def summary(result: Result, low: int, high: int) -> dict[str, float] | None:
    """Figures of all sizes in a range; None if there are none."""
    chosen = result.between(low, high)
    if not chosen:
        return None
    worst = min(chosen, key=share)
    return {
        "sizes": len(chosen),
        "mean_share": mean(map(share, chosen)),
        "least_share": share(worst),
        "least_size": worst["size"],
        "under_0.9": sum(1 for figures in chosen if share(figures) < 0.9),
        "conflicts": mean(figures["l1"]["conflicts"] for figures in chosen),
        "cost_cycles": mean(map(cost, chosen)),
        "l2_mean_share": mean(share(figures, "l2") for figures in chosen),
        "l2_least_share": min(share(figures, "l2") for figures in chosen),
        "l2_conflicts": mean(figures["l2"]["conflicts"] for figures in chosen),
        "on_line": mean(figures["on_line"] for figures in chosen),
        "lines_over": mean(figures["lines"] / figures["fewest_lines"] for figures in chosen),
    }


def ranges(results: list[Result]) -> list[tuple[int, int]]:
    """All sizes, and before them those of the paper if they are a part of them."""
    sizes = [figures["size"] for result in results for figures in result.sizes]
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    return [PAPER, (low, high)] if low <= PAPER[0] and high > PAPER[1] else [(low, high)]


def cost(figures: dict) -> float:
    """Cycles that a step of a walk round the blocks takes longer than on blocks spread evenly."""
    over = [max(0.0, figures[level]["conflicts"] - figures[level]["ideal_conflicts"]) / 100 for level in ("l1", "l2")]
    first = L1_MISS_CYCLES if figures.get("level", 1) == 1 else 0  # where both are the second level, it counts once
    return over[0] * first + over[1] * L2_MISS_CYCLES


def waste(figures: dict) -> float:
    """Of aligned requests: memory held beyond what was asked for, as a share of that."""
    return figures.get("resident", figures["stride"]) / figures["size"] - 1
