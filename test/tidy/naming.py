# SPDX-License-Identifier: MIT
"""Names that documents and comments use: files, folders, functions, constants, options, goals of make and commands are
there. What a page says of the past stands between the marks PAST and PRESENT."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

PAST, PRESENT = "<!-- names of the past -->", "<!-- names of the present -->"
# Pages about versions that were: their names need not be there any more.
HISTORY = re.compile(r"^(CHANGELOG\.md|docs/design/(speed-log|starting-design)\.md|docs/results/.*)$")
ENDINGS = "md|py|cpp|hpp|h|c|sh|cmake|json|vhd|inc|rs|pml|toml|map"
# What commands write, and what belongs to others.
MADE = {"drawn-judge.md", "drawn-tune.md", "coffer/box", "simulate_hoard", "simulate_scalloc", "simulate_cif"}
FOREIGN = {
    "rt_sigprocmask", "type_info", "rotate_right",
    # Instructions of unwind tables, as DWARF names them.
    "advance_loc", "def_cfa", "def_cfa_expression", "def_cfa_offset", "def_cfa_register", "offset_extended",
    "offset_extended_sf", "remember_state", "restore_extended", "restore_state", "same_value", "val_expression",
}

_CODE = re.compile(r"`([^`]+)`")
_IDENTIFIER = re.compile(r"(?:[\w:]+::)?([a-z]\w*_\w+|k[A-Z]\w+)(?:\(.*\))?")
_FILE = re.compile(rf"[\w.-]+\.(?:{ENDINGS})")
_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\bX\b")
_FILE_IN_COMMENT = re.compile(rf"(?<![\w/.$<>{{}}*-])((?:[\w-]+/)*[\w-]+\.(?:{ENDINGS}))\b(?![/*{{<(])")
_NAME_IN_COMMENT = re.compile(r"(?<![\w.\"'`/-])([a-z]+(?:_[a-z]+)+|k[A-Z]\w+)\b(?![\"'/.-]\w)")
_COMMENT = re.compile(r"(?<![:\"'])//(.*)$")


class Tree(NamedTuple):
    words: frozenset[str]  # of code, without the comments of C++
    paths: frozenset[str]  # ends of the paths of files and folders, with and without their ending
    folders: frozenset[str]


def ends(path: str) -> Iterator[str]:
    parts = path.split("/")
    for first in range(len(parts)):
        yield "/".join(parts[first:])


def gather(paths: Iterable[str], texts: dict[str, str]) -> Tree:
    words: set[str] = set()
    for path, text in texts.items():
        if not path.endswith(".md"):
            if re.search(r"\.(cpp|hpp|h|c|inc)$", path):
                text = re.sub(r"(?<!:)//.*", "", text)
            words.update(re.findall(r"\w+", text))
            words.add(PurePosixPath(path).stem)
    known: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        whole = PurePosixPath(path)
        for end in ends(path):
            known.update((end, end.removesuffix(whole.suffix)))
        for parent in list(whole.parents)[:-1]:
            known.update(ends(str(parent)))
            folders.add(parent.name)
    return Tree(frozenset(words), frozenset(known), frozenset(folders))


def present(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not of the past."""
    past = False
    for number, line in enumerate(text.split("\n"), 1):
        past = (past or line.strip() == PAST) and line.strip() != PRESENT
        if not past:
            yield number, line


def page_faults(path: str, text: str, tree: Tree) -> Iterator[tuple[int, str]]:
    """Of Markdown: what stands between backticks."""
    if HISTORY.match(path):
        return
    for number, line in present(text):
        for token in _CODE.findall(line):
            if PLACEHOLDER.search(token) or token in MADE:
                continue
            name = _IDENTIFIER.fullmatch(token)
            if name and name[1] not in tree.words and name[1] not in FOREIGN:
                yield number, f"`{token}`: no code has this name"
            elif _FILE.fullmatch(token) and token not in tree.paths:
                yield number, f"`{token}`: there is no such file"
            elif _PATH.fullmatch(token) and is_of_tree(token, tree) and token.rstrip("/") not in tree.paths:
                yield number, f"`{token}`: there is no such file or folder"


def is_of_tree(token: str, tree: Tree) -> bool:
    first = token.split("/")[0]
    return first in tree.folders and not first.startswith("build")


def comments(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if found := _COMMENT.search(line):
            yield number, found[1]


def comment_faults(text: str, tree: Tree) -> Iterator[tuple[int, str]]:
    """Of C++: files, functions and constants that its comments name."""
    for number, comment in comments(text):
        for name in _FILE_IN_COMMENT.findall(comment):
            if name not in tree.paths and not name.endswith(".md"):  # those are the rule dead-link's
                yield number, f"{name}: there is no such file"
        for name in _NAME_IN_COMMENT.findall(comment):
            if name not in tree.words and name not in FOREIGN:
                yield number, f"{name}: no code has this name"


_GOAL = re.compile(r"\bmake (?:[A-Z]+=\S+ )*([a-z][a-z-]+)")
_COMMAND = re.compile(r"(?:^ *|/|&& |; |sudo )coffer (bench )?([a-z]+)\b")


def shown_code(text: str) -> Iterator[tuple[int, str]]:
    """What a page shows as typed: fenced lines of a shell, and what stands between backticks."""
    shell = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            shell = line.strip() == "```sh"
        elif shell:
            yield number, line.split("#")[0]
        else:
            yield from ((number, token) for token in _CODE.findall(line))


_OURS = re.compile(r"\b(?:coffer|hoard|scalloc|cif|COFFER)_\w+")
_RUNS_OURS = re.compile(r"(?:^ *|/|&& |; |sudo )coffer |python3? (?:bench|hw|rt|tools|models|test)/")
_FLAG = re.compile(r"(?<=\s)--([a-z][a-z-]+)")


def fenced(text: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            yield number, line


def example_faults(path: str, text: str, tree: Tree) -> Iterator[tuple[int, str]]:
    """Of fenced examples: names of the interface, and flags of Coffer's commands, which are parameters of functions."""
    if HISTORY.match(path):
        return
    for number, line in fenced(text):
        for name in _OURS.findall(line):
            if name not in tree.words:
                yield number, f"{name}: no code has this name"
    for number, code in shown_code(text):
        if _RUNS_OURS.search(code):
            for flag in _FLAG.findall(code.split(" -- ")[0]):
                if flag.replace("-", "_") not in tree.words:
                    yield number, f"--{flag}: no command takes this"


def goals(makefile: str) -> set[str]:
    return {name for line in re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE) for name in line.split()}


def commands(source: str) -> set[str]:
    """Of a typer application: its functions by their names, or by the names that it gives them."""
    found = set(re.findall(r'@app\.command\(\)\n(?:@.*\n)*def (\w+)', source))
    found |= set(re.findall(r'app\.command\([^)]*\)\((\w+)\)', source))
    return found | set(re.findall(r'(?:command\(|name=)"(\w+)"', source))


class Typed(NamedTuple):
    """What a reader can type."""

    goals: set[str]
    coffer: set[str]
    bench: set[str]


def typed(read: Callable[[str], str]) -> Typed:
    installed = {"setup"} if "coffer setup" in read("tools/coffer-installed.in") else set()
    return Typed(goals(read("Makefile")), commands(read("tools/coffer/cli.py")) | installed,
                 commands(read("bench/coffer_bench/cli.py")))


def command_faults(path: str, text: str, known: Typed) -> Iterator[tuple[int, str]]:
    """Goals of make, and sub-commands, that a page tells the reader to type."""
    if HISTORY.match(path):
        return
    for number, code in shown_code(text):
        for goal in _GOAL.findall(code):
            if goal not in known.goals:
                yield number, f"make {goal}: there is no such goal"
        for of_bench, name in _COMMAND.findall(code):
            if name not in (known.bench if of_bench else known.coffer):
                yield number, f"coffer {of_bench}{name}: there is no such command"
