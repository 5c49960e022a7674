# SPDX-License-Identifier: MIT
"""Markdown against the tree: links lead somewhere, and lists that stand in a text and in code are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_LINK = re.compile(r"!?\[(?:[^][]|\[[^]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINITION = re.compile(r"^\s*\[[^]]+\]:\s*<?(\S+?)>?(?:\s|$)")
_HTML = re.compile(r"\b(?:href|src)=\"([^\"]+)\"")
_NAMED = re.compile(r"<a\s[^>]*\b(?:name|id)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


class Link(NamedTuple):
    line: int
    target: str


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced code."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def slug(heading: str) -> str:
    """As GitHub makes it of a heading: what a link shows, lower case, no punctuation, hyphens for spaces."""
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.replace("*", "").lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    found: dict[str, int] = {}
    result = set()
    for _, line in prose(text):
        result.update(_NAMED.findall(line))
        if match := _HEADING.match(line):
            name = slug(match.group(1))
            result.add(f"{name}-{found[name]}" if name in found else name)
            found[name] = found.get(name, 0) + 1
    return result


def links(text: str) -> Iterator[Link]:
    for number, line in prose(text):
        shown = re.sub(r"`[^`]*`", "", line)
        for pattern in (_LINK, _DEFINITION, _HTML):
            for target in pattern.findall(shown):
                if not _ELSEWHERE.match(target):
                    yield Link(number, unquote(target))


def dead(root: Path, pages: dict[str, str]) -> Iterator[tuple[str, Link, str]]:
    """Of each link within the tree that leads nowhere: the page, the link, and why. `pages`: Markdown by its path."""
    known = {path: anchors(text) for path, text in pages.items()}
    for path, text in pages.items():
        for link in links(text):
            file, _, anchor = link.target.partition("#")
            target = normal(PurePosixPath(path).parent / file) if file else path
            if target is None or target.split("/")[0].startswith("build") or not (root / target).exists():
                yield path, link, "there is no such file"
            elif anchor and target in known and anchor not in known[target]:
                yield path, link, f"{target} has no such heading"


# A path with a folder and an ending, as texts name files; not part of a longer path, a pattern or an address.
_NAMED_FILE = re.compile(r"(?<![\w/.$}>~-])((?:[\w-]+/)+[\w.-]*\.(?:md|py|cpp|hpp|h|c|sh|cmake|json|vhd|inc|rs))\b"
                         r"(?![/*{<])")

_NAMED_PAGE = re.compile(r"(?<![\w/.-])([A-Z]{3,}\.md)\b")


def missing_files(root: Path, path: str, text: str, folders: set[str]) -> Iterator[Link]:
    """Files that a text names by a path from the root, from its own folder or one above, and that are not there.
    `folders`: those of the root, one of which such a path begins with. Of sources only what they say of documents
    counts: the rest is code."""
    # Pages without a folder count by their capitals, as README.md: others are names of what a tool writes.
    ancestors = [root / parent for parent in PurePosixPath(path).parents]
    for number, line in enumerate(text.split("\n"), 1):
        named = [name for name in _NAMED_FILE.findall(line) if name.split("/")[0] in folders]
        for name in [*named, *_NAMED_PAGE.findall(line)]:
            if path.endswith(".md") or name.endswith(".md"):
                if not any((ancestor / name).exists() for ancestor in ancestors):
                    yield Link(number, name)


def normal(path: PurePosixPath) -> str | None:
    """Without .., and none if it leaves the tree."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) or "."


def listed_layers(text: str) -> tuple[int, list[str]]:
    """The line of CONTRIBUTING.md that names all layers, top first, and what it names."""
    for number, line in prose(text):
        if re.fullmatch(r"(`\w+`, )+`\w+`", line):
            return number, re.findall(r"`(\w+)`", line)
    return 0, []
