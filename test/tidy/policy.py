# SPDX-License-Identifier: MIT
"""The constants of src/policy: few, each with its unit, the experiment that chose it, and a row of its sweep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST = 40
PAGE = "docs/design/policy.md"
UNITS = ("Blocks", "Bytes", "Chunks", "Frees", "Groups", "Heaps", "Holes", "Lists", "Nanoseconds", "Part", "Power",
         "Records", "Refills", "Spans", "Ticks", "Times")
_CONSTANT = re.compile(r"inline constexpr \w+ (k\w+) = ([^;]+);$")
_ROW = re.compile(r"\| `(k\w+)` \| `([^`]+)` \|")


class Fault(NamedTuple):
    path: str
    line: int
    text: str


class Constant(NamedTuple):
    line: int
    name: str
    value: str
    comment: str


def constants(text: str) -> Iterator[Constant | int]:
    """Those of a header; of a variable that is written in another way, its line."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if found := _CONSTANT.match(line):
            first = number - 1
            while first > 0 and lines[first - 1].startswith("//"):
                first -= 1
            comment = " ".join(line.removeprefix("//").strip() for line in lines[first:number - 1])
            yield Constant(number, found[1], found[2], comment)
        elif re.match(r"(inline |static )*constexpr [^(]*=", line) or re.search(r"\bk[A-Z]\w*\s*=[^=]", line):
            yield number


def faults(headers: dict[str, str], page: str) -> Iterator[Fault]:
    rows = dict(_ROW.findall(page))
    found: list[Constant] = []
    for path, text in headers.items():
        for constant in constants(text):
            if isinstance(constant, int):
                yield Fault(path, constant, "write a constant as `inline constexpr TYPE kName = VALUE;`, by itself")
                continue
            if constant.comment.startswith("Derived:"):
                continue  # it has no value of its own
            found.append(constant)
            if constant.comment.split(" ")[0].rstrip(".:,") not in UNITS:
                yield Fault(path, constant.line, f"{constant.name}: the comment begins with none of {', '.join(UNITS)}")
            if not re.search(r"Chosen by \w+", constant.comment):
                yield Fault(path, constant.line, f"{constant.name}: no comment says what it was chosen by")
            if rows.get(constant.name) != constant.value:
                yield Fault(path, constant.line, f"{constant.name}: {PAGE} has no row of it with this value")
    if len(found) > MOST:
        yield Fault(next(iter(headers)), 1, f"{len(found)} constants, at most {MOST}")
    for name in rows.keys() - {constant.name for constant in found}:
        yield Fault(PAGE, 1, f"{name}: there is no such constant")
