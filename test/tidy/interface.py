#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The public interface only grows: interface.txt has every declaration of the public headers with the version that
brought it, and test_interface.py compares. `interface.py record` appends what is new, with the present version.

A line is `VERSION KIND OWNER: DECLARATION`. KIND is function, field (OWNER is its struct), value (its enum) or struct
(one whose fields are not public).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("include/coffer/coffer.h", "include/coffer/coffer_rt.h")
RECORD = Path(__file__).with_name("interface.txt")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
LINE = re.compile(r"(\d+\.\d+\.\d+) (function|field|value|struct) (\w+): (.+)")


class Entry(NamedTuple):
    kind: str
    owner: str
    text: str


def declarations(header: str) -> Iterator[str]:
    """Each declaration at file level, on one line, without what only compilers need."""
    text = COMMENT.sub(" ", header)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b(COFFER_EXPORT|COFFER_NOEXCEPT)\b", " ", text)
    text = re.sub(r'extern "C" \{', " ", text)
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            yield " ".join(text[start:place].split())
            start = place + 1


def entries(header: str) -> list[Entry]:
    found = []
    for text in declarations(header):
        if match := re.fullmatch(r"(struct|enum) (\w+) \{(.*)\}", text):
            kind, owner, body = match.groups()
            parts = body.split(";" if kind == "struct" else ",")
            found += [Entry("field" if kind == "struct" else "value", owner, part.strip())
                      for part in parts if part.strip()]
        elif match := re.fullmatch(r"struct (\w+)", text):
            found.append(Entry("struct", match[1], text))
        elif match := re.fullmatch(r"[^(]*?\b(\w+)\(.*\)", text):
            found.append(Entry("function", match[1], text.replace(" )", ")")))
        else:
            raise ValueError(f"neither a struct, an enum nor a function: {text}")
    return found


def present(root: Path = ROOT) -> list[Entry]:
    return [entry for header in HEADERS for entry in entries((root / header).read_text())]


def recorded(text: str) -> dict[Entry, str]:
    """The version of each entry, in the order of the record."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    if None in matches:
        raise ValueError(f"not a line of the record: {lines[matches.index(None)]}")
    return {Entry(*match.groups()[1:]): match[1] for match in matches if match}


def may_grow(owner: str, all_entries: list[Entry]) -> bool:
    """A struct that is given with its size. Of others a program that was compiled earlier has too few bytes; those of
    coffer_rt.h are linked statically, and so compiled with the program."""
    return owner.startswith("coffer_rt_") or any(
        entry.kind == "function" and re.search(rf"struct {owner} \*\w+, size_t size\)", entry.text)
        for entry in all_entries)


def broken(record: list[Entry], now: list[Entry]) -> Iterator[str]:
    """What a program that was written for the record would notice, and what the record does not know."""
    for entry in record:
        if entry.kind in {"function", "struct"} and entry not in now:
            yield f"gone or changed: {entry.kind} {entry.owner}: {entry.text}"
    for kind, owner in dict.fromkeys((entry.kind, entry.owner) for entry in record
                                     if entry.kind in {"field", "value"}):
        old = [entry.text for entry in record if entry[:2] == (kind, owner)]
        new = [entry.text for entry in now if entry[:2] == (kind, owner)]
        if new[: len(old)] != old:
            yield f"each {kind} of {owner} has to stay, in its order"
        elif kind == "field" and len(new) > len(old) and not may_grow(owner, now):
            yield f"{owner} has more fields, and is not given with its size"
    for entry in now:
        if entry not in record:
            yield f"not recorded (test/tidy/interface.py record): {entry.kind} {entry.owner}: {entry.text}"


def main(words: list[str]) -> int:
    if words != ["record"]:
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT / "tools"))
    import version

    text = RECORD.read_text() if RECORD.exists() else ""
    known = recorded(text)
    new = [f"{version.version()} {one.kind} {one.owner}: {one.text}\n" for one in present() if one not in known]
    RECORD.write_text(text + "".join(new))
    print(f"{len(new)} new")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
