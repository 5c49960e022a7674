# SPDX-License-Identifier: MIT
"""The first screen: verdicts in sentences, then the tree of callers."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from coffer.heap import owners
from coffer.heap.sites import Growth, Measure, Node, Site, groups, whole
from coffer.heap.stacks import Heap, Place, Sum, error_of, is_exact
from coffer.trace.symbols import middle
from coffer.trace.tables import size

NAME = 70  # characters of a function
ALL = 0.99  # of the bytes: nothing else is worth a word
MOST_SAID = 0.8  # of the bytes: the sites that a verdict names have so much, if three do
LEAST_CALLER = 0.02  # of a site's bytes: callers with less are left out


def count(blocks: float, what: str = "block") -> str:
    number = max(1, round(blocks))
    return f"{number:,} {what}" + ("s" if number != 1 else "")


def share(part: float, of: float, digits: int = 0) -> str:
    return f"{part / of if of > 0 else 0:.{digits}%}"


def by_function(callers: list[Node]) -> list[tuple[float, list[Node]]]:
    """One that calls at several lines is one caller. With the bytes, the most first."""
    found: dict[tuple[str, str], list[Node]] = {}
    for one in callers:
        found.setdefault((one.place.function, one.place.file or one.place.module), []).append(one)
    return sorted(((sum(one.sum.bytes for one in same), same) for same in found.values()), key=lambda one: -one[0])


def caller_of(site: Site) -> str:
    """`, called by X`: the nearest caller that is the program's, if most comes by it."""
    nodes: list[Node] = [site]
    while True:
        callers = by_function([caller for node in nodes for caller in node.callers.values()])
        if not callers:
            return ""
        size_of, nodes = callers[0]
        place = nodes[0].place
        if size_of < ALL * site.sum.bytes and len(callers) > 1:
            return (f", called by {middle(place.function, NAME)} ({share(size_of, site.sum.bytes)})"
                    f" and {count(len(callers) - 1, 'other')}")
        if owners.C_RUNTIME.match(place.module) or place.function in owners.BEGINNING:
            return ""
        if owners.is_library(place) or owners.is_engine(place):
            continue
        if not owners.passes_on([place], 0) and place.function != site.place.function:
            return f", called by {middle(place.function, NAME)}"


def name_of(site: Site) -> str:
    source = f", {site.source}" if site.source else ""
    return f"{middle(site.place.function, NAME)}{source}{caller_of(site)}"


def from_whom(found: list[Site]) -> str:
    """`all from X, called by Y`, or the largest of several."""
    in_all = whole(found).bytes
    parts, said = [], 0.0
    for site in found[:3]:
        parts.append(name_of(site))
        said += site.sum.bytes
        if len(parts) == 1 and said >= ALL * in_all:
            return f"all from {parts[0]}"
        parts[-1] = f"{share(site.sum.bytes, in_all)} from {parts[-1]}"
        if said >= MOST_SAID * in_all:
            break
    rest = len(found) - len(parts)
    return "; ".join(parts) + (f"; the rest from {count(rest, 'other place')}" if rest > 0 else "")


def amount(figure: Sum) -> str:
    """The sampled ones with their error."""
    if is_exact(figure):
        return f"{size(figure.bytes)} in {count(figure.blocks)}"
    return f"{size(figure.bytes)} (±{min(1, error_of(figure)):.0%}) in about {count(figure.blocks)}"


def sentence(found: list[Site], what: str, nothing: str) -> str:
    if not found:
        return nothing
    return f"{amount(whole(found))} {what}, {from_whom(found)}."


def apart(heap: Heap, measure: Measure, what: str) -> list[str]:
    """What is the C library's or an interpreter's, and no fault of the program."""
    return [f"Besides: {amount(figure)} {what} by {group}." for group, figure in groups(heap, measure).items()]


def growth_sentence(found: list[Growth]) -> str:
    first = found[0]
    text = f"Growing all the time: {name_of(first.site)}: by {size(first.bytes)}, {size(first.per_second)} a second"
    return text + (f"; and {count(len(found) - 1, 'other place')}." if len(found) > 1 else ".")


def line(place: Place, site: Site | None = None) -> Text:
    source = site.source if site else place.source
    text = Text(middle(place.function, NAME), style="bold" if site else "")
    if source:
        text.append(f"  {source}", style="cyan")
    if place.inlined:
        text.append("  (inlined)", style="dim")
    return text


def figures_of(node: Node, of: float) -> Text:
    return Text.assemble((f"{size(node.sum.bytes):>10} {share(node.sum.bytes, of, 1):>6} ", "green"),
                         f"{count(node.sum.blocks):>14}  ")


def grow(tree: Tree, node: Node, site: Site, depth: int, in_all: float) -> None:
    """Callers that are alone stand below each other; where they part, each has its figures."""
    while depth > 0 and node.callers:
        callers = [one for one in node.sorted_callers() if one.sum.bytes >= LEAST_CALLER * site.sum.bytes]
        if len(node.callers) > 1:
            for one in callers:
                branch = tree.add(Text.assemble("← ", figures_of(one, in_all), line(one.place)))
                grow(branch, one, site, depth - 1, in_all)
            left = len(node.callers) - len(callers)
            if left > 0:
                tree.add(Text(f"{count(left, 'caller')} with less", style="dim"))
            return
        node = callers[0] if callers else node.sorted_callers()[0]
        if node.place.function in owners.BEGINNING or owners.C_RUNTIME.match(node.place.module):
            return
        tree.add(Text.assemble("← ", line(node.place)))
        depth -= 1
    if node.callers:
        tree.add(Text("…", style="dim"))


def tree_of(found: list[Site], title: str, most: int, depth: int) -> Tree:
    in_all = max(1.0, whole(found).bytes)
    tree = Tree(Text(title, style="bold"), guide_style="dim")
    for site in found[:most]:
        branch = tree.add(Text.assemble(figures_of(site, in_all), line(site.place, site)))
        grow(branch, site, site, depth, in_all)
    if len(found) > most:
        rest = whole(found[most:])
        tree.add(Text(f"{size(rest.bytes):>10} {share(rest.bytes, in_all, 1):>6} {count(rest.blocks):>14}  "
                      f"{count(len(found) - most, 'other place')} (--top)", style="dim"))
    return tree


def as_json(found: list[Site], depth: int) -> list[dict]:
    def node(one: Node, left: int) -> dict:
        place = one.place
        return {"function": place.function, "file": place.file, "line": place.line, "module": place.module,
                "inlined": place.inlined, "bytes": round(one.sum.bytes), "blocks": round(one.sum.blocks),
                "error": round(error_of(one.sum), 4),
                "callers": [node(caller, left - 1) for caller in one.sorted_callers()] if left > 0 else []}

    return [node(site, depth) for site in found]


def notes_on(heap: Heap, found: list[Site]) -> list[str]:
    """Why names or lines are missing, and what can be done."""
    notes = []
    if heap.is_unnamed_python:
        notes.append("No Python functions are in the profile, only what the interpreter does for them: their names are"
                     " known of CPython 3.11 to 3.13.")
    if heap.others:
        notes.append(f"Built anew since it ran, so without lines: {', '.join(heap.others[:3])}.")
    explained = {"", *heap.others, owners.COMPILED, owners.UNMAPPED, owners.ANONYMOUS}
    modules = {site.place.module for site in found[:3] if not site.place.file}
    if owners.UNMAPPED in modules:
        notes.append("Code that is not mapped any more has no name, such as that of a library that was unloaded: coffer"
                     " heap and coffer leaks have its name if they run the program.")
    if owners.ANONYMOUS in modules:
        notes.append("Code made at run time has names where its maker writes /tmp/perf-PID.map.")
    # A file may have debug information of a part.
    explained |= {place.module for stack in heap.stacks for place in stack.places if place.file}
    bare = sorted(modules - explained)
    if bare:
        notes.append(f"No lines of {', '.join(bare)}: it has no debug information here. Compile with -g, install its"
                     " package of debug symbols, or set DEBUGINFOD_URLS.")
    return notes


def show(console: Console, verdicts: Iterable[str], notes: Iterable[str], tree: Tree | None) -> None:
    for number, verdict in enumerate(verdicts):
        console.print(Text(verdict, style="bold" if number == 0 else ""), soft_wrap=not console.is_terminal)
    for note in notes:
        console.print(Text(note, style="dim"), soft_wrap=not console.is_terminal)
    if tree is not None:
        console.print()
        console.print(tree, soft_wrap=False, no_wrap=True, overflow="ellipsis")


__all__ = ["amount", "apart", "as_json", "count", "growth_sentence", "notes_on", "sentence", "show", "tree_of"]
