# SPDX-License-Identifier: MIT
"""What the scan found (tools/retain), with names: holders, and below them what each keeps alive by who allocated it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer.heap import stacks
from coffer.profile import proto, symbols

TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]


@dataclass
class Node:
    """Blocks of one place that allocates, or of one size where that is not known, with all that they keep alive."""

    place: stacks.Place | None
    name: str
    bytes: int = 0
    blocks: int = 0
    own_bytes: int = 0
    own_blocks: int = 0
    example: int = 0
    children: dict[tuple, Node] = field(default_factory=dict)
    rest: dict[str, int] = field(default_factory=dict)

    def sorted_children(self) -> list[Node]:
        return sorted(self.children.values(), key=lambda one: (-one.bytes, one.name))


@dataclass
class Holder(Node):
    """A root, or two of several that keep the same."""

    kind: str = ""
    titles: tuple[str, ...] = ()
    threads: set[int] = field(default_factory=set)
    roots: list[dict[str, Any]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return " and ".join(self.titles)


@dataclass
class Result:
    process: int
    program: str
    is_copy: bool
    stopped_ms: float
    raw: dict[str, Any]
    holders: list[Holder]
    lost: Node
    is_bare: bool  # no call sites are known
    others: tuple[str, ...] = ()  # files that are not those that ran any more


class Names:
    """Of call stacks and addresses of code."""

    def __init__(self, raw: dict[str, Any], program: str) -> None:
        profile = proto.Profile(types=TYPES, period=1)
        for number, one in enumerate(raw["mappings"], 2):
            profile.mappings[number] = mapping_of(one)
        if program:
            # Of no addresses: the heap's program is the first mapping's file.
            profile.mappings[1] = mapping_of({"begin": 0, "end": 0, "offset": 0, "path": program})
        self.stacks: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        known: dict[int, int] = {}

        def location(address: int) -> int:
            if address not in known:
                known[address] = len(known) + 1
                within = next((number for number, one in profile.mappings.items() if one.begin <= address < one.end), 0)
                profile.locations[known[address]] = within, address
            return known[address]

        for number, addresses in raw["stacks"].items():
            self.stacks[int(number)] = len(profile.samples)
            profile.samples.append(([location(one) for one in addresses], [1, 1, 1, 1]))
        for root in (root for holder in raw["holders"] for root in holder["roots"]):
            if root["kind"] in ("stack", "registers") and root["address"] not in self.codes:
                self.codes[root["address"]] = len(profile.samples)
                profile.samples.append(([location(root["address"])], [1, 1, 1, 1]))
        self.heap = stacks.named([profile])[0]

    def site(self, stack: int) -> stacks.Place:
        found = self.heap.stacks[self.stacks[stack]]
        return found.places[found.site] if found.places else stacks.Place("(no call stack)", "", 0, "")

    def code(self, address: int) -> stacks.Place | None:
        places = self.heap.stacks[self.codes[address]].places if address in self.codes else ()
        # What was inlined there is a part of the function whose frame it is.
        return places[-1] if places else None


def mapping_of(one: dict[str, Any]) -> proto.Mapping:
    table = symbols.symbols_of(one["path"])
    return proto.Mapping(one["begin"], one["end"], one["offset"], one["path"], table.build_id if table else "")


def where(place: stacks.Place) -> str:
    return f"{place.function}, {place.source}" if place.source else place.function


class Titles:
    def __init__(self, raw: dict[str, Any], names: Names) -> None:
        mangled = sorted({root["name"] for holder in raw["holders"] for root in holder["roots"]
                          if root["kind"] in ("variable", "thread-local") and root["name"]})
        self.plain = dict(zip(mangled, map(stacks.clean_variable, symbols.demangled(mangled))))
        self.names = names

    def of(self, root: dict[str, Any]) -> str:
        file = Path(root["object"]).name
        if root["kind"] == "variable":
            place = f"{file}+{root['offset']:#x}"
            return f"{self.plain[root['name']]} ({place})" if root["name"] else place
        if root["kind"] == "thread-local":
            return f"{self.plain[root['name']]} (thread-local, {file})" if root["name"] else "thread-local storage"
        if root["kind"] == "mapping":
            name = f" ({root['name']})" if root["name"] else ""
            return f"memory that the program mapped at {root['address']:#x}{name}"
        place = self.names.code(root["address"])
        function = where(place) if place else f"{root['address']:#x}"
        return f"the frame of {function}" if root["kind"] == "stack" else f"the registers of a thread in {function}"


def add_children(node: Node, raw: list[dict[str, Any]], names: Names) -> None:
    for one in raw:
        place = None
        if "stack" in one:
            place = names.site(one["stack"])
            key: tuple = (place.function, place.file, place.module)
            name = where(place)
        elif "size" in one:
            key, name = ("size", one["size"]), f"blocks of {one['size']:,} bytes"
        else:
            key, name = ("up_to", one["up_to"]), f"blocks of up to {one['up_to']:,} bytes"
        child = node.children.setdefault(key, Node(place, name))
        for figure in ("bytes", "blocks", "own_bytes", "own_blocks"):
            setattr(child, figure, getattr(child, figure) + one[figure])
        child.example = child.example or one["example"]
        add_children(child, one["children"], names)


def fold(node: Node) -> None:
    """A place that keeps its own like alive is one: what is below it twice joins it."""
    for child in list(node.children.values()):
        fold(child)
    for key in [key for key in node.children if key in node.children[key].children]:
        child = node.children[key]
        same = child.children.pop(key)
        child.own_bytes += same.own_bytes
        child.own_blocks += same.own_blocks
        for inner, one in same.children.items():
            merge(child, inner, one)


def merge(node: Node, key: tuple, one: Node) -> None:
    have = node.children.get(key)
    if have is None:
        node.children[key] = one
        return
    for figure in ("bytes", "blocks", "own_bytes", "own_blocks"):
        setattr(have, figure, getattr(have, figure) + getattr(one, figure))
    for inner, child in one.children.items():
        merge(have, inner, child)


def result_of(process: int, program: str, copied: dict[str, Any], raw: dict[str, Any]) -> Result:
    names = Names(raw, program)
    titles = Titles(raw, names)
    holders: dict[tuple[str, ...], Holder] = {}
    for one in raw["holders"]:
        found = tuple(dict.fromkeys(titles.of(root) for root in one["roots"]))
        holder = holders.setdefault(found, Holder(None, "", kind=one["roots"][0]["kind"], titles=found))
        holder.bytes += one["bytes"]
        holder.blocks += one["blocks"]
        holder.roots += one["roots"]
        holder.threads |= {root["thread"] for root in one["roots"] if root["thread"]}
        add_children(holder, one["children"], names)
    lost = Node(None, "", raw["lost"]["bytes"], raw["lost"]["blocks"])
    add_children(lost, raw["lost"].get("children", []), names)
    for node in (lost, *holders.values()):
        fold(node)
    return Result(process, Path(program).name, bool(copied["copy"]), copied["stopped_ms"], raw,
                  sorted(holders.values(), key=lambda one: -one.bytes), lost, not raw["profiled"], names.heap.others)


def sites_of(node: Node) -> list[tuple[Node, int]]:
    """Who allocated what it keeps alive, with the bytes, the most first."""
    found: dict[str, tuple[Node, int]] = {}
    todo = list(node.children.values())
    while todo:
        one = todo.pop()
        found[one.name] = (one, one.own_bytes + (found[one.name][1] if one.name in found else 0))
        todo += one.children.values()
    return sorted(found.values(), key=lambda pair: -pair[1])


__all__ = ["Holder", "Node", "Result", "result_of", "sites_of"]
