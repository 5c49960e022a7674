# SPDX-License-Identifier: MIT
"""The picture of coffer index: distinct indices and conflict cost by size, the histogram of shares, and where blocks
of the worst sizes lie."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from coffer.errors import CofferError
from coffer.files import whole
from coffer.index.figures import cost, share
from coffer.index.geometry import Machine
from coffer.index.survey import Result

SUFFIXES = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """What can be known before a survey that takes a minute."""
    if path.suffix not in SUFFIXES:
        raise CofferError(f"{path}: a picture ends in {', '.join(SUFFIXES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise CofferError(f"--plot needs matplotlib, which {sys.executable} has not: make tools installs it")


def plot(results: list[Result], machine: Machine, path: Path) -> None:
    import matplotlib  # here, since it takes a second that no other use of the command shall wait

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "coffer"  # the same figures give the same file
    import matplotlib.pyplot as pyplot

    figure, ((by_size, histogram), (by_cost, loads)) = pyplot.subplots(2, 2, figsize=(15, 9), constrained_layout=True)
    figure.suptitle(f"Indices that blocks start on. {machine.describe()}", fontsize=10)
    for result in results:
        sizes = [figures["size"] for figures in result.sizes]
        by_size.plot(sizes, [figures["l1"]["distinct"] for figures in result.sizes], label=result.name, linewidth=1)
        by_cost.plot(sizes, [cost(figures) for figures in result.sizes], label=result.name, linewidth=1)
    indices = f"distinct L{machine.level} indices"
    by_size.set(xlabel="bytes asked for", ylabel=indices, ylim=(0, None), title="Indices reached")
    by_cost.set(xlabel="bytes asked for", ylabel="cycles a step", title="Expected cost of conflicts on a ring")
    for axes in (by_size, by_cost):
        axes.set_xscale("log", base=2)
        axes.legend(fontsize=8)

    names = [result.name for result in results]
    shares = [[share(figures) for figures in result.sizes] for result in results]
    histogram.hist(shares, bins=[low / 10 for low in range(11)], label=names)
    histogram.set(xlabel="share of the ideal spread", ylabel="sizes", title="Sizes by their share")
    histogram.legend(fontsize=8)

    for number, result in enumerate(results):
        worst = min(result.sizes, key=share)
        places = [index + number / len(results) for index in range(len(worst["l1"]["loads"]))]
        label = f"{result.name}, {worst['size']} bytes"
        loads.bar(places, worst["l1"]["loads"], width=1 / len(results), align="edge", label=label)
    loads.set(xlabel=f"L{machine.level} index", ylabel="blocks", title="Worst size of each")
    loads.legend(fontsize=8)
    try:
        with whole(path) as unfinished:
            figure.savefig(unfinished, format=path.suffix[1:],
                           metadata={"Date": None} if path.suffix == ".svg" else None)
    finally:
        pyplot.close(figure)
