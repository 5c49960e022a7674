# SPDX-License-Identifier: MIT
"""Resident memory over time, a panel a program."""

from __future__ import annotations

from pathlib import Path

from coffer_bench.samples import Record, Results

from soak.verdicts import OURS, of

COLOURS = {"coffer": "#1f5fa8", "glibc": "#9aa5b1", "jemalloc": "#e08e0b", "mimalloc3": "#2e8b57"}
OTHER = "#8e44ad"
WIDTH, HEIGHT = 8.0, 2.0  # inches, of a panel
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(events: list[Record]) -> dict[str, str]:
    """A letter for each thing that was done, in the order of its first time."""
    names = dict.fromkeys(one["what"] for one in sorted(events, key=lambda one: one["seconds"]) if one.get("begins"))
    return dict(zip(names, LETTERS, strict=False))


def events_of(results: Results, program: str) -> list[Record]:
    """With those of the whole machine."""
    return [one for one in results.of("event")
            if one["program"] in (program, "") and one["allocator"] in (OURS, "") and one.get("begins") is not None]


def pieces(records: list[Record]) -> list[list[Record]]:
    """Cut where a process was replaced by another."""
    found: list[list[Record]] = []
    for one in records:
        if not found or found[-1][-1]["life"] != one["life"]:
            found.append([])
        found[-1].append(one)
    return found


def draw(results: Results, path: Path) -> dict[str, str]:
    """Writes it, and gives the letters that stand above the lines."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "soak", "font.size": 8, "svg.fonttype": "none"})
    from matplotlib import pyplot

    programs = [name for name in results.plan["programs"] if of(results, "memory", name)]
    named = letters(results.of("event"))
    if not programs:
        return named
    figure, panels = pyplot.subplots(len(programs), 1, figsize=(WIDTH, HEIGHT * len(programs)), squeeze=False,
                                     layout="constrained")
    for panel, name in zip(panels[:, 0], programs, strict=True):
        draw_panel(panel, results, name, named)
    panels[-1, 0].set_xlabel("minutes")
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition("\n")
    path.write_text(f"{head}\n<!-- SPDX-License-Identifier: MIT -->\n{rest}", encoding="utf-8")
    return named


def draw_panel(panel: object, results: Results, name: str, named: dict[str, str]) -> None:
    allocators = list(dict.fromkeys(one["allocator"] for one in of(results, "memory", name)))
    for allocator in allocators:
        for number, piece in enumerate(pieces(of(results, "memory", name, allocator))):
            panel.plot([one["seconds"] / 60 for one in piece], [(one["own"] + one["tables"]) / 1024 for one in piece],
                       color=COLOURS.get(allocator, OTHER), linewidth=0.9, label=None if number else allocator)
    for one in events_of(results, name):
        panel.axvline(one["seconds"] / 60, color="#c0392b" if one["begins"] else "#bbbbbb", linewidth=0.5)
        if one["begins"]:
            panel.text(one["seconds"] / 60, 1.0, named.get(one["what"], "?"), transform=panel.get_xaxis_transform(),
                       va="bottom", ha="center", fontsize=7, color="#c0392b")
    panel.set_ylim(bottom=0)
    panel.set_ylabel(f"{name}, MiB")
    if len(allocators) > 1:
        panel.legend(loc="lower right", fontsize=7)
