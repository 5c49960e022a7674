# SPDX-License-Identifier: MIT
"""The first screen: what keeps most alive, in a sentence, and the tree below."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from coffer.heap.show import ALL, NAME, count, share
from coffer.retainers.tree import Holder, Node, Result, sites_of
from coffer.trace.symbols import middle
from coffer.trace.tables import size

LEAST = 0.01  # of a holder's bytes: what keeps less is left out
SLOW_MS = 1000  # a stop that is worth a word


def amount(node: Node) -> str:
    return f"{size(node.bytes)} in {count(node.blocks)}"


def verb(node: Node) -> str:
    return "is" if node.blocks == 1 else "are"


def allocated_by(node: Node) -> str:
    """`, allocated by X`, or the largest of several; `, most of it in blocks of N bytes` where nobody knows."""
    found = sites_of(node)
    if not found:
        return ""
    first, of = found[0]
    known = "allocated by " if first.place else ""
    name = middle(first.name, NAME)
    if of >= ALL * node.bytes:
        return f", all {known}{name}" if known else f", all in {name}"
    part = share(of, node.bytes)
    return f", {part} {known}{name}" if known else f", {part} in {name}"


def title_of(holder: Holder) -> str:
    title = " and ".join(middle(one, NAME + 40) for one in holder.titles)
    if len(holder.threads) > 1:
        return f"{title}, in {len(holder.threads)} threads"
    name = next((root["thread_name"] for root in holder.roots if root["thread"]), "")
    return f"{title}, thread {name} ({min(holder.threads)})" if holder.threads else title


def largest(result: Result) -> tuple[str, Holder, list[Holder]] | None:
    """The root that has a part in most, with what it keeps, and what of that others keep, too."""
    shares: dict[str, list[Holder]] = {}
    for one in result.holders:
        for title in one.titles:
            shares.setdefault(title, []).append(one)
    if not shares:
        return None
    # Of two that keep the same the one that keeps more alone.
    title, found = max(shares.items(), key=lambda pair: (sum(one.bytes for one in pair[1]), sum(
        one.bytes for one in pair[1] if len(one.titles) == 1)))
    whole = Holder(None, "", kind=found[0].kind, titles=(title,))
    for one in found:
        whole.bytes += one.bytes
        whole.blocks += one.blocks
        at = one.titles.index(title)
        own = [root for root in one.roots if len(one.titles) == 1 or one.roots.index(root) % 2 == at]
        whole.roots += own
        whole.threads |= {root["thread"] for root in own if root["thread"]}
        for key, child in one.children.items():
            whole.children[(len(whole.children), *key)] = child
    return title, whole, [one for one in found if len(one.titles) > 1]


def verdicts_of(result: Result) -> list[str]:
    raw = result.raw
    found = []
    first = largest(result)
    if first is not None:
        title, whole, shared = first
        found.append(f"{amount(whole)} {verb(whole)} kept alive by {title_of(whole)}{allocated_by(whole)}.")
        others = sorted({other for one in shared for other in one.titles if other != title})
        if others:
            both = Node(None, "", sum(one.bytes for one in shared), sum(one.blocks for one in shared))
            more = f" and {count(len(others) - 1, 'other')}" if len(others) > 1 else ""
            found.append(f"Of these {amount(both)} {verb(both)} reached from {others[0]}{more}, too.")
    lost = raw["lost"]
    if lost["blocks"]:
        indirect = lost["blocks"] - lost["direct_blocks"]
        by = f" ({raw['lost']['direct_blocks']:,} of them directly lost, all others through these)" if indirect else ""
        text = (f"{amount(result.lost)} {verb(result.lost)} not reachable from anywhere{by}"
                f"{allocated_by(result.lost)}.")
        # What leaks is the news, if it is more than what anybody holds.
        found.insert(0 if first is None or result.lost.bytes > first[1].bytes else len(found), text)
    elif found:
        found.append("Nothing is lost: all blocks are reachable.")
    return found or ["No block is live."]


def notes_on(result: Result) -> list[str]:
    raw, notes = result.raw, []
    if result.is_bare:
        notes.append("No call sites: the process takes no samples. COFFER_CONF=profile:true,profile_rate:1 knows each"
                     " block's.")
    elif raw["sampled"] < 0.98 * raw["blocks"]:
        notes.append(f"Call sites of {raw['sampled']:,} of {raw['blocks']:,} blocks are known, which were sampled; all"
                     " others are told by their size. COFFER_CONF=profile:true,profile_rate:1 knows each block's.")
    if result.others:
        notes.append(f"Built anew since it ran, so without lines: {', '.join(result.others[:3])}.")
    if not result.is_copy:
        notes.append("The process stood still while its memory was read.")
    elif result.stopped_ms >= SLOW_MS:
        notes.append(f"The process stood still for {result.stopped_ms:.0f} ms.")
    return notes


def figures_of(node: Node, of: float) -> Text:
    return Text.assemble((f"{size(node.bytes):>10} {share(node.bytes, of, 1):>6} ", "green"),
                         f"{count(node.blocks):>16}  ")


def line_of(node: Node) -> Text:
    if node.place is None:
        return Text(node.name)
    text = Text(middle(node.place.function, NAME))
    if node.place.source:
        text.append(f"  {node.place.source}", style="cyan")
    return text


def grow(tree: Tree, node: Node, depth: int, top: int, in_all: float) -> None:
    children = [one for one in node.sorted_children() if one.bytes >= LEAST * node.bytes][:top]
    if depth == 0:
        return
    for one in children:
        grow(tree.add(Text.assemble(figures_of(one, in_all), line_of(one))), one, depth - 1, top, in_all)
    left = len(node.children) - len(children)
    if left > 0:
        tree.add(Text(f"{count(left, 'place')} with less", style="dim"))


def tree_of(result: Result, top: int, depth: int) -> Tree:
    in_all = max(1.0, float(result.raw["bytes"]))
    tree = Tree(Text("kept alive, by what holds it", style="bold"), guide_style="dim")
    tops: list[tuple[Node, str]] = [(one, title_of(one)) for one in result.holders]
    if result.lost.blocks:
        tops.append((result.lost, "not reachable from anywhere"))
    tops.sort(key=lambda one: -one[0].bytes)
    for node, title in tops[:top]:
        grow(tree.add(Text.assemble(figures_of(node, in_all), (title, "bold"))), node, depth, top, in_all)
    rest = [node for node, _ in tops[top:]]
    if rest:
        whole = Node(None, "", sum(one.bytes for one in rest), sum(one.blocks for one in rest))
        tree.add(Text.assemble(figures_of(whole, in_all), f"{count(len(rest), 'other')} (--top)", style="dim"))
    return tree


def as_json(result: Result, verdicts: list[str], top: int, depth: int) -> dict[str, Any]:
    def node(one: Node, left: int) -> dict[str, Any]:
        place = one.place
        return {"name": one.name, "function": place.function if place else None, "file": place.file if place else None,
                "line": place.line if place else None, "bytes": one.bytes, "blocks": one.blocks,
                "own_bytes": one.own_bytes, "own_blocks": one.own_blocks, "example": one.example,
                "keeps": [node(child, left - 1) for child in one.sorted_children()[:top]] if left > 0 else []}

    def keeps(one: Node) -> list[dict[str, Any]]:
        return [node(child, depth - 1) for child in one.sorted_children()[:top]] if depth > 0 else []

    raw = result.raw
    return {"process": result.process, "program": result.program, "verdicts": verdicts,
            "stopped_ms": result.stopped_ms, "is_copy": result.is_copy, "seconds": raw["seconds"],
            "cpu_seconds": raw["cpu_seconds"], "bytes": raw["bytes"], "blocks": raw["blocks"],
            "sampled": raw["sampled"],
            "holders": [{"title": title_of(one), "kind": one.kind, "roots": one.roots[:top], "bytes": one.bytes,
                         "blocks": one.blocks, "keeps": keeps(one)} for one in result.holders[:top]],
            "lost": {"bytes": raw["lost"]["bytes"], "blocks": raw["lost"]["blocks"],
                     "direct_bytes": raw["lost"]["direct_bytes"], "direct_blocks": raw["lost"]["direct_blocks"],
                     "keeps": keeps(result.lost)}}


def show(console: Console, result: Result, verdicts: list[str], top: int, depth: int) -> None:
    soft = not console.is_terminal
    for number, verdict in enumerate(verdicts):
        console.print(Text(verdict, style="bold" if number == 0 else ""), soft_wrap=soft)
    for note in notes_on(result):
        console.print(Text(note, style="dim"), soft_wrap=soft)
    console.print()
    console.print(tree_of(result, top, depth), soft_wrap=False, no_wrap=True, overflow="ellipsis")
