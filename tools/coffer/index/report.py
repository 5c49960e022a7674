# SPDX-License-Identifier: MIT
"""The tables of coffer index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich import box
from rich.table import Table

from coffer.index.figures import cost, ranges, share, summary, waste
from coffer.index.survey import Result

TENTHS = [f"{low / 10:.1f}" for low in range(10)] + ["1"]


def make_table(title: str, head: list[str], lines: list[list[str]], names: int = 0) -> Table:
    """`names`: the column that is text; the others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="", box=box.SIMPLE_HEAD,
                  pad_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == names else "right", no_wrap=number == names)
    for line in lines:
        table.add_row(*line)
    return table


SUMMARY_HEAD = ["", "mean share", "least", "at size", "sizes < 0.9", "conflicts", "cycles", "L2 mean", "L2 least",
                "L2 conflicts", "on a line", "lines / fewest"]


def summary_line(name: str, figures: dict[str, float]) -> list[str]:
    return [name, f"{figures['mean_share']:.3f}", f"{figures['least_share']:.3f}", f"{figures['least_size']:.0f}",
            f"{figures['under_0.9']:.0f} of {figures['sizes']:.0f}", f"{figures['conflicts']:.1f}",
            f"{figures['cost_cycles']:.2f}", f"{figures['l2_mean_share']:.3f}", f"{figures['l2_least_share']:.3f}",
            f"{figures['l2_conflicts']:.1f}", f"{figures['on_line']:.0%}", f"{figures['lines_over']:.3f}"]


def summary_tables(results: list[Result]) -> list[Table]:
    tables = []
    for low, high in ranges(results):
        lines = [summary_line(result.name, figures) for result in results if (figures := summary(result, low, high))]
        tables.append(make_table(f"Sizes {low} to {high}", SUMMARY_HEAD, lines))
    return tables


def histogram_table(results: list[Result]) -> Table:
    """How many sizes have which share."""
    lines = []
    for result in results:
        counts = [0] * len(TENTHS)
        for figures in result.sizes:
            counts[min(10, int(share(figures) * 10 + 1e-9))] += 1
        lines.append([result.name, *(str(count) if count else "" for count in counts)])
    return make_table("Sizes by their share of the ideal spread, from ... on", ["", *TENTHS], lines)


def worst_table(results: list[Result], count: int) -> Table:
    """The sizes that cost most, of each allocator; neighbours with the same figures are one line."""
    lines = []
    for result in results:
        for first, last, figures in list(runs(result.sizes, worst_first=True))[:count]:
            l1 = figures["l1"]
            lines.append([result.name, str(first) if first == last else f"{first}-{last}",
                          f"{l1['distinct']} of {l1['attainable']}", str(l1["heaviest"]), f"{l1['conflicts']:.0f}",
                          f"{share(figures, 'l2'):.2f}", f"{cost(figures):.1f}", str(figures["stride"])])
    head = ["", "sizes", "indices", "most on one", "conflicts", "L2 share", "cycles", "distance"]
    return make_table("Worst sizes", head, lines)


def runs(sizes: list[dict], worst_first: bool) -> Iterable[tuple[int, int, dict]]:
    """Neighbouring sizes whose blocks lie alike, as (first, last, figures)."""
    found: list[tuple[int, int, dict]] = []
    key: Callable[[dict], tuple] = lambda figures: (
        figures["l1"]["distinct"], figures["l1"]["heaviest"], figures["stride"])
    previous = None
    for figures in sizes:
        if previous is not None and key(previous) == key(figures):
            found[-1] = (found[-1][0], figures["size"], found[-1][2])
        else:
            found.append((figures["size"], figures["size"], figures))
        previous = figures
    return sorted(found, key=lambda run: (share(run[2]), -cost(run[2]))) if worst_first else found


def index_table(result: Result, size: int) -> Table:
    """How many blocks of one size start on each index."""
    figures = next(figures for figures in result.sizes if figures["size"] == size)
    loads = figures["l1"]["loads"]
    lines = [[str(start), *(str(load) if load else "." for load in loads[start : start + 16])]
             for start in range(0, len(loads), 16)]
    title = f"{result.name}: blocks of {size} bytes on each L{figures.get('level', 1)} index"
    return make_table(title, ["index", *map(str, range(16))], lines)


def aligned_cell(figures: dict | None) -> str:
    if figures is None:
        return "-"
    return "NOT ALIGNED" if figures["misaligned"] else f"{waste(figures):+.1%}"


def aligned_table(results: list[Result]) -> Table | None:
    kept = [result for result in results if result.aligned]
    if not kept:
        return None
    sizes = [figures["size"] for figures in kept[0].aligned]
    lines = []
    for result in kept:
        by_size = {figures["size"]: figures for figures in result.aligned}
        lines.append([result.name, *(aligned_cell(by_size.get(size)) for size in sizes)])
    return make_table("Aligned requests, aligned_alloc(n, n): memory held beyond n", ["", *map(str, sizes)], lines)
