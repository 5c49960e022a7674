# SPDX-License-Identifier: MIT
"""The tables of coffer trace info and frag."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from coffer import patience
from coffer.index.report import make_table
from coffer.trace.symbols import Symbols, middle

TOP = 15
SEPARATOR, EDGES = 3, 2  # characters between two columns, and around all
LEAST_NAME = 48  # where less is left beside the figures, the name has a line of its own
INDENT = 4  # of that line


@lru_cache(maxsize=4)
def describe(path: Path) -> dict[str, Any]:
    """Head, footer, modules and stacks; these need the whole trace read."""
    from coffer.trace.reader import Trace  # here, since numpy takes a while to load

    with Trace(path) as trace, patience.counted(f"reading {path.name}", "records") as tell:
        expected, done = trace.describe()["footer"].get("records"), 0
        for events in trace:
            done += len(events)
            tell(done, int(expected) if expected else None)
        return trace.describe()


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def duration(ns: float) -> str:
    for limit, unit, divisor in ((1e3, "ns", 1), (1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{ns / divisor:.0f} {unit}" if divisor == 1 else f"{ns / divisor:.1f} {unit}"
    return f"{ns / 1e9:.2f} s"


def lifetime(site: dict[str, Any]) -> str:
    """Of the blocks of a call site. Those that a realloc elsewhere has taken over end there."""
    if site["mean_lifetime_ns"] is None:
        return "never freed" if site["live_at_end"] else "-"
    # Records that follow each other may have one time; the clock is read for each 31st, and after 5 ms.
    return duration(site["mean_lifetime_ns"]) if site["mean_lifetime_ns"] else "< 5 ms"


def command_line(information: dict[str, str]) -> str:
    arguments = [part for part in information.get("arguments", "").split("\0") if part]
    text = " ".join(arguments) or information.get("program", "unknown")
    return " ".join(text.split())


def notes(description: dict[str, Any]) -> list[str]:
    summary = description["summary"]
    texts = []
    if description["shortfall"]:
        texts.append(description["shortfall"])
    if summary["lost"]:
        texts.append(f"the recorder lost {summary['lost']} records")
    if summary["unknown_frees"]:
        texts.append(f"{summary['unknown_frees']} frees were of blocks from before the recording")
    if summary["implied_frees"]:
        texts.append(f"{summary['implied_frees']} frees were not recorded, but must have been")
    return texts


CALLS = ("malloc", "calloc", "aligned", "realloc", "free")


def has_calls(found: dict[str, Any]) -> bool:
    return any(found["operations"].get(name) for name in CALLS)


def facts(description: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str]]:
    """What there is to say of the whole, as name and text."""
    information, footer = description["information"], description["footer"]
    operations = found["operations"]
    calls = sum(operations.get(name, 0) for name in CALLS)
    lines = [
        ("program", command_line(information)),
        ("allocator", " ".join(filter(None, (information.get("allocator", ""),
                                             information.get("allocator_version", ""))))),
        ("machine", ", ".join(filter(None, (information.get(key, "") for key in ("cpu", "system"))))),
        ("made by", information.get("made_by", "")),
        ("end", f"{footer['end']} {footer.get('status', '')}" if "end" in footer else ""),
        ("time", duration(found["duration_ns"])),
        ("threads", str(len(found["threads"]))),
        ("calls", f"{calls}: " + ", ".join(f"{count} {name}" for name, count in operations.items()
                                           if name in CALLS)),
        ("most live", f"{size(found['peak_bytes'])} at {duration(found['peak_ns'])}"),
        ("live at end", f"{size(found['end_bytes'])} in {found['end_blocks']} blocks"),
    ]
    return [(name, text) for name, text in lines if text]


def sites_of(found: dict[str, Any], description: dict[str, Any], key: str, count: int) -> list[tuple[str, dict]]:
    sites = sorted(found["sites"], key=lambda site: -site[key])[:count]
    symbols = Symbols(description)
    symbols.resolve([site["stack"] for site in sites])
    return [(symbols.name(site["stack"]), site) for site in sites]


def show_info(console: Console, path: Path, description: dict[str, Any], found: dict[str, Any]) -> None:
    console.print(f"{path}: {size(description['bytes'])}, format {description['version']}", markup=False)
    for name, text in facts(description, found):
        console.print(f"  {name:12}{text}", markup=False)
    for text in notes(description):
        console.print(f"note: {text}", markup=False)
    if not has_calls(found):
        console.print("nothing was recorded: the trace has no allocation and no free", markup=False)
        return
    if not found["sizes"]:
        return
    classes = sorted(found["sizes"], key=lambda one: -one["requested"])[:TOP]
    console.print(make_table("Size classes that most bytes were asked of", ["class", "calls", "asked for", "rounding",
                                                                            "most live"],
                  [[str(one["class"]), str(one["count"]), size(one["requested"]),
                    f"{one['rounded'] / max(1, one['requested']) - 1:.1%}", str(one["most_live"])]
                   for one in classes]))
    console.print(make_table("Threads", ["thread", "calls", "asked for", "frees", "of other threads' blocks"],
                  [[str(one["thread"]), str(one["allocations"]), size(one["bytes"]), str(one["frees"]),
                    str(one["remote_frees"])] for one in found["threads"][:TOP]]))
    lines = [[str(site["stack"]), str(site["allocations"]), size(site["bytes"]), size(site["most_live"]),
              lifetime(site), size(site["live_at_end"]), name]
             for name, site in sites_of(found, description, "bytes", TOP)]
    figures_first(console, "Call sites that asked for most", ["stack", "calls", "asked for", "most live",
                                                              "mean lifetime", "live at end", "function"], lines)


def figures_first(console: Console, title: str, head: list[str], lines: list[list[str]]) -> None:
    """A table whose last column is names, which can be hundreds of characters long: what is too long is cut in the
    middle, and no figure is."""
    widths = [max(map(len, column)) for column in zip(head, *lines)][:-1]
    room = console.width - sum(widths) - SEPARATOR * len(widths) - EDGES
    if room >= LEAST_NAME:
        cut = [[*map(escape, line[:-1]), escape(middle(line[-1], room))] for line in lines]
        console.print(make_table(title, head, cut, names=len(head) - 1))
        return
    console.print(f"[bold]{escape(title)}[/bold]")
    for line in (head, *lines):
        console.print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)), markup=False)
        console.print(" " * INDENT + middle(line[-1], console.width - INDENT), markup=False)


def show_stacks(console: Console, description: dict[str, Any], numbers: list[int]) -> None:
    """Whole: nothing is left out, and nothing is cut."""
    symbols = Symbols(description)
    symbols.resolve(numbers)
    for number in numbers:
        console.print(f"stack {number}, innermost first", markup=False)
        for frame in symbols.whole(number):
            for function, line in frame.places or [("?", "")]:
                where = "" if line.startswith("?") or not line else f" ({line.partition(' ')[0]})"
                console.print(f"  {frame.place}  {function}{where}", markup=False)


def show_frag(console: Console, found: dict[str, Any], description: dict[str, Any], top: int) -> None:
    moment = found.get("at_worst")
    for text in notes(description):
        console.print(f"note: {text}", markup=False)
    if not moment:
        console.print("nothing was ever live")
        return
    where = "addresses as recorded" if moment["addresses"] == "recorded" else (
        "the trace has no addresses: blocks laid out as a plain allocator would")
    gap = size(moment["used"] - moment["live"])
    console.print(f"At {duration(moment['time_ns'])} {size(moment['live'])} live were in {size(moment['used'])} of "
                  f"windows of {size(moment['window'])}: {gap} could not be given back ({where}).", markup=False)
    console.print(f"{moment['half_empty']} of {moment['windows']} windows were less than half full; "
                  f"{size(moment['pinned'])} were pinned in them.", markup=False)
    symbols = Symbols(description)
    stacks = sorted(moment["by_stack"], key=lambda one: -one["pinned"])[:top]
    symbols.resolve([one["stack"] for one in stacks])
    pinned = max(1, moment["pinned"])
    head = ["pinned", "share", "by blocks", "live there"]

    def line(one: dict) -> list[str]:
        return [size(one["pinned"]), f"{one['pinned'] / pinned:.1%}", str(one["pinning"]), size(one["live"])]

    figures_first(console, "Who pins it: call sites", [*head, "stack", "function"],
                  [[*line(one), str(one["stack"]), symbols.name(one["stack"])] for one in stacks])
    for key, title in (("by_class", "class"), ("by_thread", "thread")):
        ordered = sorted(moment[key], key=lambda one: -one["pinned"])[:top]
        console.print(make_table(f"By {title}", ["", *head],
                                 [[f"{title} {one[title]}", *line(one)] for one in ordered]))
