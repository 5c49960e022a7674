# SPDX-License-Identifier: MIT
"""The plots of the report, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import thesis
from tables import UNITS, Tables, average, thesis_setup, ways


def draw(tables: Tables, depths: Sequence[tuple[int, float, float]], folder: Path) -> list[Path]:
    import matplotlib

    matplotlib.use("svg")
    # The same figures are the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "coffer", "font.size": 9, "axes.spines.top": False,
                                "axes.spines.right": False})
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    made = []

    def save(figure, name: str) -> None:
        figure.tight_layout()
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
        made.append(path)

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, (kind, title, published) in zip(axes, (("a", "allocation, mark-sweep", thesis.ALLOCATION),
                                                     ("f", "free, mark-sweep", thesis.DEALLOCATION)), strict=True):
        for place, unit in enumerate(UNITS):
            least, mean, most = average(tables.times(unit, "msa", kind, "total"))
            axis.plot([place, place], [least, most], color="tab:blue", linewidth=5, alpha=0.35)
            axis.plot([place], [mean], "o", color="tab:blue", label="here" if place == 0 else None)
            figures = published.get((unit, "msa"))
            if figures:
                low, middle, high = figures[-1] if kind == "a" else figures
                axis.plot([place + 0.2] * 2, [low, high], color="tab:orange", linewidth=5, alpha=0.35)
                axis.plot([place + 0.2], [middle], "s", color="tab:orange",
                          label="thesis" if unit == "ohebs" else None)
        axis.set_xticks(range(len(UNITS)), list(UNITS.values()))
        axis.set_yscale("log")
        axis.set_title(title)
    axes[0].set_ylabel("ns: least, mean, most")
    axes[1].legend(frameon=False)
    save(figure, "hardware-times")

    figure, axis = pyplot.subplots(figsize=(6, 2.6))
    names = [one.name for one in tables.programs]
    counts = [ways(tables.runs.one(one.trace, thesis_setup("ohebs"))) for one in tables.programs]
    left = [0.0] * len(names)
    for index, way in enumerate(("direct", "pair", "decompositional")):
        part = [count[index] / sum(count) for count in counts]
        axis.barh(names, part, left=left, label=way)
        left = [a + b for a, b in zip(left, part, strict=True)]
    axis.invert_yaxis()
    axis.set_xlabel("share of allocations")
    axis.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.2))
    save(figure, "hardware-ways")

    figure, axis = pyplot.subplots(figsize=(5, 2.6))
    axis.plot([one[0] for one in depths], [one[1] for one in depths], "o-", label="allocation")
    axis.plot([one[0] for one in depths], [one[2] for one in depths], "s-", label="free")
    axis.set_xscale("log", base=2)
    axis.set_xticks([one[0] for one in depths], [str(one[0]) for one in depths])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("places of each buffer")
    axis.set_ylabel("mean, ns")
    axis.legend(frameon=False)
    save(figure, "hardware-buffers")
    return made
