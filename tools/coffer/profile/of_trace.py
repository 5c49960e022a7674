# SPDX-License-Identifier: MIT
"""A trace as a heap profile in which every block was sampled: whatever looks at profiles looks at traces, too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coffer.errors import CofferError
from coffer.profile import proto
from coffer.trace import program, tables
from coffer.trace.symbols import Symbols

TYPES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects", "peak_space")
UNITS = {"objects": "count", "space": "bytes"}
PARTS = 120  # of a trace's time: as many as can be told apart on a screen
MOMENTS = 16  # that show what grows
LEAST_NS = 1_000_000_000
MAGIC = b"\x89COFTR\r\n"


@dataclass(frozen=True)
class Flows:
    """tools/analyse/flows.hpp. A row of a stack: part, bytes and blocks allocated, freed, freed at once."""

    parts: int
    width_ns: int
    stacks: list[dict[str, Any]]
    sizes: list[list[int]]
    lifetimes: list[list[int]]


def is_trace(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def flows(trace: Path, parts: int = PARTS) -> Flows:
    found = program.survey(trace)
    return Flows(**json.loads(program.run("flows", [trace], duration=found["duration_ns"], parts=parts,
                                          peak_event=found["peak_event"])))


def values_of(stack: dict[str, Any]) -> list[int]:
    """As TYPES has them."""
    allocated = [sum(row[at] for row in stack["flows"]) for at in (2, 1)]
    freed = [sum(row[at] for row in stack["flows"]) for at in (4, 3)]
    return [*allocated, *(one - other for one, other in zip(allocated, freed)), *stack["at_peak"][::-1]]


class Writer:
    """The message, field by field. Strings, mappings and locations get numbers as they come."""

    def __init__(self) -> None:
        self.message = bytearray()
        self.strings: dict[str, int] = {"": 0}
        self.mappings: dict[tuple, int] = {}
        self.locations: dict[int, int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def put(self, kind: int, *fields: tuple[int, int]) -> None:
        self.message += proto.chunk(kind, b"".join(proto.number(at, value) for at, value in fields if value))

    def mapping(self, path: str, build_id: str, begin: int, end: int, offset: int) -> int:
        key = (path, begin, end, offset)
        if key not in self.mappings:
            self.mappings[key] = len(self.mappings) + 1
            self.put(proto.MAPPING, (1, self.mappings[key]), (2, begin), (3, end), (4, offset),
                     (5, self.string(path)), (6, self.string(build_id)))
        return self.mappings[key]

    def location(self, symbols: Symbols, address: int) -> int:
        """Of a return address: the call is before it."""
        if address not in self.locations:
            self.locations[address] = len(self.locations) + 1
            module = symbols.module_of(address)
            identity = 0 if module is None else self.mapping(module["path"], module["build_id"], module["start"],
                                                             module["end"], module["offset"])
            self.put(proto.LOCATION, (1, self.locations[address]), (2, identity), (3, address - 1))
        return self.locations[address]


def content(description: dict[str, Any], duration_ns: int, peak_ns: int, stacks: list[dict[str, Any]]) -> bytes:
    """One sample for each of the trace's stacks, in their order."""
    writer = Writer()
    symbols = Symbols(description)
    # The first mapping is the program, as in profiles that the library writes.
    path = description["information"].get("program", "")
    module = next((one for modules in symbols.sets for one in modules if one["path"] == path), None)
    writer.mapping(path, *((module["build_id"], module["start"], module["end"], module["offset"]) if module
                           else ("", 0, 0, 0)))
    for name in TYPES:
        writer.put(proto.SAMPLE_TYPE, (1, writer.string(name)), (2, writer.string(UNITS[name.partition("_")[2]])))
    for stack in stacks:
        locations = [writer.location(symbols, address) for address in symbols.stacks.get(stack["stack"], [])]
        writer.message += proto.chunk(proto.SAMPLE, b"".join(
            proto.chunk(at, b"".join(map(proto.varint, values)))
            for at, values in ((1, locations), (2, values_of(stack)))))
    comment = writer.string(f"the highest moment: {peak_ns} ns after sampling began")
    for at, value in ((9, description["realtime_ns"] + duration_ns), (10, duration_ns), (12, 1), (13, comment)):
        writer.message += proto.number(at, value)
    for text in writer.strings:
        writer.message += proto.chunk(proto.STRING, text.encode(errors="replace"))
    return bytes(writer.message)


@dataclass(frozen=True)
class Recorded:
    """A trace that was read for profiles."""

    description: dict[str, Any]
    survey: dict[str, Any]
    flows: Flows

    @property
    def has_ended(self) -> bool:
        return "end" in self.description["footer"]

    def notes(self) -> list[str]:
        """What whoever reads its figures has to know."""
        texts = [f"{text[0].upper()}{text[1:]}." for text in tables.notes(self.description)]
        if self.description["footer"].get("end") != "exited":
            texts.append("The program did not end by itself in the trace: what is told as left was live then.")
        if not self.description["stacks"]:
            texts.append("It was recorded without call stacks (--stacks none).")
        elif not self.description["modules"]:
            texts.append("It is anonymized: places are numbers.")
        return texts

    def profile(self) -> proto.Profile:
        return proto.parse(content(self.description, self.survey["duration_ns"], self.survey["peak_ns"],
                                   self.flows.stacks))

    def moments(self, count: int = MOMENTS) -> list[proto.Profile]:
        """In equal steps, the last one is the end. Each has what was live then, and what was allocated until then. None
        of less than a second, in which nothing can be said to grow all the time."""
        made: list[proto.Profile] = []
        if self.survey["duration_ns"] < LEAST_NS:
            return made
        for number in range(1, count + 1):
            until = self.flows.parts * number // count
            stacks = [{**stack, "flows": rows} for stack in self.flows.stacks
                      if (rows := [row for row in stack["flows"] if row[0] < until])]
            made.append(proto.parse(content(self.description, min(until * self.flows.width_ns,
                                                                  self.survey["duration_ns"]),
                                            self.survey["peak_ns"], stacks)))
        return made


def record_of(trace: Path) -> Recorded:
    found = program.survey(trace)
    if not tables.has_calls(found):
        missing = tables.describe(trace)["shortfall"]
        raise CofferError(f"{trace}: the trace has no allocation and no free{f'; {missing}' if missing else ''}")
    return Recorded(tables.describe(trace), found, flows(trace))
