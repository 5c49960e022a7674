# SPDX-License-Identifier: MIT
"""Plain English for the pages that a visitor reads first: words that the field does not use, and sentences that have to
be read twice. What stands between backticks, in fenced code or in a table's code is not English."""

from __future__ import annotations

import re
from collections.abc import Iterator

import documents

# A word or phrase, and what to write in its place.
WORDS = {
    r"whoever|whomever": "the thread, caller or user that",
    r"nobody's|somebody's|anybody's": "name the owner, or write `without an owner`",
    r"steal from|steals from|stolen from|stealing": "steal, or reclaim",
    r"below nothing|less than nothing": "negative",
    r"breath|breaths|breathe|breathes": "say what the program does: uses and frees again and again",
    r"anew": "again",
    r"till": "until",
    r"thereof|therein|whereof|thereby|wherein|hereby": "name the thing",
    r"be it": "whether",
    r"in the midst of": "in, or during",
    r"(?:can|may|could|cannot|not) be had": "is available, or can be taken",
    r"(?:is|are|was|were|be|had|have|has|having) [^.,;]{0,30}\bhad whole": "take over",
    r"made? whole|makes whole": "repair",
    r"goes? home": "return to its span",
    r"stands? still": "is idle",
    r"has no business": "must not",
    r"the former|the latter": "name the thing",
    r"forgo|forgoes": "does without",
    r"shall": "must, or will",
    r"whereupon|whence|whither|hence|thence": "then, or therefore",
    r"a great many|ever so": "many",
    r"it is (?:so|thus) that": "leave it out",
}
MOST_WORDS = 30  # of a sentence; a colon or semicolon ends one, too

_WORDS = [(re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE), better)
          for pattern, better in WORDS.items()]
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:;])[*)\"]*\s+")


PAGES = {"README.md", "docs/README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "rt/README.md",
         "bindings/rust/README.md", "docs/design/physical-memory.md", "docs/design/slice-pool.md"}
FOLDERS = ("docs/guide/", "docs/start/", "docs/reference/", "hw/doc/")
LONG_COMMENT = 8  # lines; such a one has the words checked, too


def applies(path: str) -> bool:
    return path in PAGES or path.startswith(FOLDERS) and path.endswith(".md")


def plain(line: str) -> str:
    """A line without code and without the targets of links."""
    return _LINK.sub(r"\1", _CODE.sub("X", line))


def sentences(line: str) -> list[str]:
    """Of a paragraph, an item or a row: its cells count each by itself."""
    cells = line.strip("|").split("|") if line.startswith("|") else [line]
    return [part for cell in cells for part in _END.split(cell.strip()) if part]


def long_comments(text: str) -> Iterator[tuple[int, str]]:
    """Of C++: where each begins, and its words in one line."""
    lines = [line.strip() for line in text.split("\n")] + [""]
    first = 0
    for number, line in enumerate(lines):
        if not line.startswith("//"):
            if number - first > LONG_COMMENT:
                yield first + 1, " ".join(one.lstrip("/ ") for one in lines[first:number])
            first = number + 1


def comment_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    for number, comment in long_comments(text):
        for pattern, better in _WORDS:
            if found := pattern.search(plain(comment)):
                yield number, f"'{found[0]}': write {better}"


def faults(text: str) -> Iterator[tuple[int, str]]:
    generated = False
    for number, line in documents.prose(text):
        # What a command writes is its text, not the page's.
        generated = (generated or line.startswith("<!-- figures")) and not line.startswith("<!-- end")
        shown = plain(line)
        for pattern, better in _WORDS:
            if found := pattern.search(shown):
                yield number, f"'{found[0]}': write {better}"
        if not generated:
            for sentence in sentences(shown):
                if (count := len(sentence.split())) > MOST_WORDS:
                    yield number, f"a sentence of {count} words, at most {MOST_WORDS}: '{sentence[:50]}...'"
