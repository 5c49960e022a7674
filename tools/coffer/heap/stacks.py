# SPDX-License-Identifier: MIT
"""A heap profile with names: call stacks as functions, files and lines, inlined ones too, and what each stack has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from coffer import lines, patience
from coffer.heap import owners
from coffer.profile import proto, symbols
from coffer.trace.symbols import bare

# Of Rust: what tells versions of a crate apart, and signs as tools write them that take its names for C++.
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$|(?<=\w)\[[0-9a-f]{8,16}\]")
RUST_SIGNS = {"$LT$": "<", "$GT$": ">", "$RF$": "&", "$BP$": "*", "$C$": ",", "$LP$": "(", "$RP$": ")", "$SP$": "@",
              "$u20$": " ", "$u27$": "'", "$u5b$": "[", "$u5d$": "]", "$u7b$": "{", "$u7d$": "}", "$u7e$": "~"}
CLONE = re.compile(r"(\.(cold|part|isra|constprop|lto_priv|llvm)(\.\d+)*)+$")
LEAST_BLOCK = 16  # bytes, of the allocator: what is asked for may be less
EVERY_BLOCK = 0.999  # chance of a block to be sampled, from which on the figures are exact


@dataclass(frozen=True)
class Place:
    """A function at a line; one of several at an address, where functions were inlined."""

    function: str
    file: str  # as the debug information has it; empty: none
    line: int
    module: str  # the file that the code is in, without its folder
    inlined: bool = False

    @property
    def is_named(self) -> bool:
        return not self.function.startswith(f"{self.module}+0x")

    @property
    def source(self) -> str:
        if self.file:
            return f"{Path(self.file).name}:{self.line}"
        return self.module if self.is_named else ""


@dataclass(frozen=True)
class Sum:
    """Of blocks: how many, their bytes, and how many samples stand behind them."""

    blocks: float = 0
    bytes: float = 0
    samples: float = 0

    @property
    def is_some(self) -> bool:
        """Blocks of no bytes are some, too; what is left of a difference by rounding is none."""
        return self.blocks >= 0.5 and self.bytes >= 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.blocks + other.blocks, self.bytes + other.bytes, self.samples + other.samples)


@dataclass(frozen=True)
class Stack:
    places: tuple[Place, ...]  # the innermost first
    group: str  # whose it is: see owners
    site: int  # which of the places allocates for the program
    live: Sum
    allocated: Sum
    peak: Sum = Sum()  # live at the highest moment; nothing of a profile that does not know it

    @property
    def temporary(self) -> Sum:
        """What was freed again."""
        one, other = self.allocated, self.live
        return Sum(max(0, one.blocks - other.blocks), max(0, one.bytes - other.bytes),
                   max(0, one.samples - other.samples))


@dataclass
class Heap:
    """One profile, one moment of a process."""

    program: str
    period: int
    time_ns: int
    duration_ns: int
    stacks: list[Stack] = field(default_factory=list)
    others: tuple[str, ...] = ()  # files that are not those that ran any more
    peak_ns: int | None = None  # after sampling began; None: the profile does not know the highest moment
    is_unnamed_python: bool = False  # of an interpreter whose Python functions the profile does not know

    @property
    def live(self) -> Sum:
        return total(stack.live for stack in self.stacks)


def total(sums: Iterable[Sum]) -> Sum:
    result = Sum()
    for one in sums:
        result += one
    return result


def samples_behind(blocks: float, size: float, period: int) -> float:
    """The profile has sums of samples by their weights; a weight follows from a block's size and the period."""
    if blocks <= 0:
        return 0
    return blocks * -math.expm1(-max(LEAST_BLOCK, size / blocks) / max(1, period))


def sees_every_block(period: int) -> bool:
    return samples_behind(1, LEAST_BLOCK, period) >= EVERY_BLOCK


def is_exact(figure: Sum) -> bool:
    return figure.samples >= EVERY_BLOCK * figure.blocks


def error_of(figure: Sum) -> float:
    """Relative, of one deviation."""
    return 0 if is_exact(figure) else 1 / math.sqrt(max(1, figure.samples))


def clean(function: str) -> str:
    """Without what only compilers need to know."""
    function = CLONE.sub("", RUST_HASH.sub("", function)).replace("[abi:cxx11]", "")
    if "$" in function:
        for sign, character in RUST_SIGNS.items():
            function = function.replace(sign, character)
        function = function.removeprefix("_").replace("..", "::")
    return bare(function)


def clean_variable(name: str) -> str:
    """The same of a variable, which has no arguments."""
    return RUST_HASH.sub("", name).replace("[abi:cxx11]", "").replace("(anonymous namespace)::", "")


class Names:
    """Places of the addresses of many profiles: what they have in common is looked up once."""

    def __init__(self, profiles: list[proto.Profile]) -> None:
        self.found: dict[tuple[str, str, int], tuple[tuple[str, str], ...]] = {}
        self.plain: dict[tuple[str, str, int], str] = {}
        wanted: dict[tuple[str, str], set[int]] = {}
        mangled: dict[tuple[str, str, int], str] = {}
        self.addresses: dict[tuple[str, str, int], int] = {}
        for profile in profiles:
            used = {one for locations, values in profile.samples if any(values) for one in locations}
            for location in used & profile.locations.keys():
                mapping, offset = where(profile, location)
                is_known = location in profile.lines or location in profile.made
                if mapping is None or is_known:
                    continue
                key = (mapping.path, mapping.build_id, offset)
                if key in mangled:
                    continue
                table = symbols.read_symbols(mapping)
                name = table.name_at(offset) if table else None
                mangled[key] = name or profile.names.get(location) or f"{Path(mapping.path).name}+{offset:#x}"
                address = table.address_at(offset) if table else None
                if address is not None:
                    self.addresses[key] = address
                    wanted.setdefault((mapping.path, mapping.build_id), set()).add(address)
        with patience.bar("names of functions", len(wanted)) as step:
            by_path: dict[str, dict[int, lines.Places]] = {}
            for path, places in lines.places_of(wanted):
                by_path.setdefault(path, {}).update(places)
                step(Path(path).name)
        for key, address in self.addresses.items():
            if places := by_path.get(key[0], {}).get(address):
                self.found[key] = tuple(places)
        # Not every tool can read every name.
        left = {name for places in self.found.values() for name, _ in places if name.startswith(("_Z", "_R"))}
        texts = sorted(left | set(mangled.values()))
        better = dict(zip(texts, symbols.demangled(texts)))
        self.plain = {key: better[name] for key, name in mangled.items()}
        self.found = {key: tuple((better.get(name, name), line) for name, line in places)
                      for key, places in self.found.items()}

    def at(self, profile: proto.Profile, location: int) -> tuple[Place, ...]:
        """The innermost first."""
        if location not in profile.locations:
            return ()
        if location in profile.lines:
            return (Place(*profile.lines[location], owners.INTERPRETED),)
        if location in profile.made:
            return (Place(*profile.made[location], owners.COMPILED),)
        mapping, offset = where(profile, location)
        if mapping is None:
            return (Place(f"{offset:#x}", "", 0, owners.UNMAPPED),)
        if not mapping.path:
            return (Place(f"{profile.locations[location][1]:#x}", "", 0, owners.ANONYMOUS),)
        key, module = (mapping.path, mapping.build_id, offset), Path(mapping.path).name
        places = self.found.get(key)
        if not places:
            return (Place(clean(self.plain.get(key) or f"{module}+{offset:#x}"), "", 0, module),)
        result = []
        for index, (function, line) in enumerate(places):
            file, _, number = line.rpartition(":")
            result.append(Place(clean(function), file, int(number) if number.isdigit() else 0, module,
                                inlined=index + 1 < len(places)))
        return tuple(result)


def where(profile: proto.Profile, location: int) -> tuple[proto.Mapping | None, int]:
    identity, address = profile.locations[location]
    mapping = profile.mappings.get(identity)
    return (None, address) if mapping is None else (mapping, address - mapping.begin + mapping.offset)


def named(profiles: list[proto.Profile]) -> list[Heap]:
    names = Names(profiles)
    heaps = []
    with patience.bar("call stacks", len(profiles)) as step:
        for profile in profiles:
            heaps.append(heap_of(profile, names))
            step("")
    return heaps


def heap_of(profile: proto.Profile, names: Names) -> Heap:
    program = next((mapping.path for _, mapping in sorted(profile.mappings.items())), "")
    heap = Heap(Path(program).name, profile.period, profile.time_ns, profile.duration_ns, peak_ns=profile.peak_ns)
    at = {name: index for index, name in enumerate(profile.types)}
    places = {location: names.at(profile, location) for location in profile.locations}
    heap.others = tuple(sorted({Path(mapping.path).name for mapping in profile.mappings.values()
                                if mapping.path.startswith("/") and symbols.is_another(mapping)}))
    for locations, values in profile.samples:
        if not any(values):
            continue
        stack = owners.readable([place for location in locations for place in places.get(location, ())])
        live, allocated, *peak = (
            Sum(blocks, size, samples_behind(blocks, size, profile.period))
            for blocks, size in ((values[at[f"{kind}_objects"]], values[at[f"{kind}_space"]])
                                 for kind in ("inuse", "alloc", "peak") if f"{kind}_space" in at))
        group, site = owners.owner(stack, heap.program)
        heap.stacks.append(Stack(stack, group, site, live, allocated, *peak))
    if owners.PYTHON.match(heap.program) and not any(owners.has_language(stack.places) for stack in heap.stacks):
        heap.is_unnamed_python = True
        heap.stacks = [as_program(stack) for stack in heap.stacks]
    return heap


def as_program(stack: Stack) -> Stack:
    """What an interpreter allocates is the program's, if nothing is known of the functions that it runs."""
    if stack.group != owners.INTERPRETER or (site := owners.unnamed_python(stack.places)) is None:
        return stack
    return replace(stack, group=owners.PROGRAM, site=site)
