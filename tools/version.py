#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The version, which include/coffer/coffer.h has: CMake, the wheel and the Conan recipe read it there. Some files must
carry a copy; this tool writes the copies, and tells those that are wrong.

tools/version.py          prints the version
tools/version.py check    fails if a copy is another version
tools/version.py set X    writes version X into the header and into the copies; the two changelogs are written by hand
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HEADER = "include/coffer/coffer.h"
PARTS = ("MAJOR", "MINOR", "PATCH")


class Copy(NamedTuple):
    path: str
    pattern: str  # its only group is the version; the first match counts
    by_hand: bool = False


COPIES = (
    Copy("bindings/rust/Cargo.toml", r'^version = "(.*)"$'),
    Copy("packaging/vcpkg/coffer/vcpkg.json", r'^  "version": "(.*)",$'),
    Copy("CHANGELOG.md", r"^## \[(\d.*)\]", by_hand=True),
    Copy("debian/changelog", r"^coffer \((.*)\) ", by_hand=True),
)


def version(root: Path = ROOT) -> str:
    text = (root / HEADER).read_text()
    return ".".join(re.search(rf"^#define COFFER_VERSION_{part} (\d+)$", text, re.MULTILINE)[1] for part in PARTS)


def wrong(root: Path = ROOT) -> Iterator[str]:
    wanted = version(root)
    for copy in COPIES:
        found = re.search(copy.pattern, (root / copy.path).read_text(), re.MULTILINE)
        if not found or found[1] != wanted:
            yield f"{copy.path} has version {found[1] if found else 'none'}, {HEADER} has {wanted}"


def replace(path: Path, pattern: str, text: str) -> None:
    old = path.read_text()
    start, end = re.search(pattern, old, re.MULTILINE).span(1)
    path.write_text(old[:start] + text + old[end:])


def write(new: str, root: Path = ROOT) -> None:
    for part, number in zip(PARTS, new.split("."), strict=True):
        replace(root / HEADER, rf"^#define COFFER_VERSION_{part} (\d+)$", str(int(number)))
    for copy in COPIES:
        if not copy.by_hand:
            replace(root / copy.path, copy.pattern, new)


def main(words: list[str]) -> int:
    if len(words) == 2 and words[0] == "set" and re.fullmatch(r"\d+\.\d+\.\d+", words[1]):
        write(words[1])
    elif words not in ([], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = list(wrong()) if words else []
    print("\n".join(found) if found else version())
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
