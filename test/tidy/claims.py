# SPDX-License-Identifier: MIT
"""What documents say of the code in numbers: values of constants, sizes, counts, and values of options."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import naming

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

# Constants of the code.

_CONSTANT = re.compile(r"\bconstexpr (?:static )?\w+ (k[A-Z]\w*) = ([^;]+);")
_FIGURE = r"(\d[\d,]*(?:\.\d+)?(?:\^\d+)?)(?: (KiB|MiB|GiB|TiB))?"
# `kName` in brackets, behind what it is: "4 KiB of blocks (`kMaxChainBytes`)"; or with its value: "(`kNever`, 2^30)".
_BEHIND = re.compile(r"([^().;|]{0,60})\((`k[A-Z]\w*`)(?:, ([^)]*))?\)")


def plain(expression: str) -> str:
    """C++ as Python, as far as constants need it."""
    text = re.sub(r"\b(?:usize|uptr|u64|u32|u16|u8|int)\{([^{}]*)\}", r"(\1)", expression)
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)
    return re.sub(r"\b(0x[0-9a-fA-F]+|\d+)(?:ull|ul|u)\b", r"\1", text).replace("/", "//")


def value(expression: str, known: dict[str, int]) -> int | None:
    """Of an expression of numbers and other constants; none where there is more in it."""
    try:
        tree = ast.parse(plain(expression).strip(), mode="eval")
    except SyntaxError:
        return None
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.operator, ast.unaryop, ast.Load)
    if any(not isinstance(node, allowed) or isinstance(node, ast.Name) and node.id not in known
           for node in ast.walk(tree)):
        return None
    try:
        return int(eval(compile(tree, "constant", "eval"), {"__builtins__": {}}, known))
    except (ZeroDivisionError, ValueError):
        return None


def constants(texts: dict[str, str]) -> dict[str, set[int]]:
    """By name; several values where several files have such a name."""
    declared = [found for text in texts.values() for found in _CONSTANT.findall(text)]
    found: dict[str, set[int]] = {}
    for _ in range(4):  # constants that need others come a round later
        known = {name: next(iter(values)) for name, values in found.items() if len(values) == 1}
        for name, expression in declared:
            if (number := value(expression, known)) is not None:
                found.setdefault(name, set()).add(number)
    return found


def figures(text: str) -> list[int]:
    result = []
    for digits, unit in re.findall(_FIGURE, text):
        base, _, power = digits.replace(",", "").partition("^")
        result.append(int(float(base) ** int(power or 1) * UNITS.get(unit, 1)))
    return result


def constant_faults(path: str, text: str, known: dict[str, set[int]]) -> Iterator[tuple[int, str]]:
    """Where a number stands before a constant in brackets, it is the constant's."""
    if naming.HISTORY.match(path):
        return
    for number, line in naming.present(text):
        for before, name, after in _BEHIND.findall(line):
            said = figures(after) or figures(before)
            values = known.get(name.strip("`"))
            if said and values and not values & set(said):
                shown = " or ".join(f"{one:,}" for one in sorted(values))
                yield number, f"{name} is {shown}, not {' or '.join(f'{one:,}' for one in said)}"


# Options.

_OPTION = re.compile(r"^  (SIZE|UNSIGNED|CHOICE|BOOLEAN|TEXT)\((\w+)(?:, (.*?))?, *\"[^\"]*\"\) *\\?$", re.MULTILINE)
_GIVEN = re.compile(r"`(\w+):([\w/.]+)`")
_CONF = re.compile(r"COFFER_CONF=\"?((?:\w+:[^\s,\"`']+,?)+)")


class Option(NamedTuple):
    kind: str
    default: str
    words: tuple[str, ...]  # of a choice
    least: int
    most: int


def written(number: int) -> str:
    """As documents write a size."""
    for suffix, scale in reversed(SUFFIXES.items()):
        if number and number % scale == 0:
            return f"{number // scale}{suffix}"
    return str(number)


def options(texts: list[str]) -> dict[str, Option]:
    sizes = {"kKiB": 1 << 10, "kMiB": 1 << 20, "kGiB": 1 << 30, "kTiB": 1 << 40}
    found = {}
    for kind, name, rest in (match for text in texts for match in _OPTION.findall(text)):
        parts = [part.strip() for part in rest.split(",")] if rest else []
        if kind in ("SIZE", "UNSIGNED"):
            default, least, most = (value(part, sizes) or 0 for part in parts)
            found[name] = Option(kind, written(default) if kind == "SIZE" else str(default), (), least, most)
        elif kind == "CHOICE":
            words = tuple(parts[2].strip('"').split("|"))
            found[name] = Option(kind, parts[1].split("::")[1], words, 0, 0)
        else:
            found[name] = Option(kind, parts[0] if parts else "", ("false", "true") if kind == "BOOLEAN" else (), 0, 0)
    return found


def is_value(option: Option, text: str) -> bool:
    if option.kind in ("SIZE", "UNSIGNED"):
        match = re.fullmatch(r"(\d+)([KMGT]?)", text)
        return match is not None and option.least <= int(match[1]) * SUFFIXES[match[2]] <= option.most
    return option.kind == "TEXT" or text in option.words


def option_faults(path: str, text: str, known: dict[str, Option]) -> Iterator[tuple[int, str]]:
    """Options that a page sets are there, and take what it sets them to. The papers' allocators have options of their
    own."""
    if naming.HISTORY.match(path) or path == "docs/papers.md":
        return
    for number, line in naming.present(text):
        given = [pair for pair in _GIVEN.findall(line) if pair[0] in known]
        for setting in _CONF.findall(line):
            given += [tuple(item.split(":", 1)) for item in setting.strip(",").split(",")]
        for name, said in given:
            if name == "key":
                continue
            if name not in known:
                yield number, f"{name}: there is no such option"
            elif not naming.PLACEHOLDER.search(said) and said != "N" and not is_value(known[name], said):
                yield number, f"{name}:{said}: the option does not take this"


def comment_option_faults(text: str, known: dict[str, Option]) -> Iterator[tuple[int, str]]:
    """Options that comments of C++ name."""
    for number, comment in naming.comments(text):
        for name in re.findall(r"[oO]ption `(\w+)`", comment):
            if name not in known:
                yield number, f"{name}: there is no such option"
        for name, said in re.findall(r"(?<![\w:])(\w+):(\w+)\b", comment):
            if name in known and not is_value(known[name], said):
                yield number, f"{name}:{said}: the option does not take this"


def default_faults(text: str, known: dict[str, Option]) -> Iterator[tuple[int, str]]:
    """Rows of a table whose head has a column `default`."""
    column = -1
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == "option":
            column = cells.index("default") if "default" in cells else -1
        elif not cells:
            column = -1
        elif column > 0:
            for name in re.findall(r"`(\w+)`", cells[0]):
                said = cells[column].strip("`")
                default = {"automatic": "auto", "quarter": "1/4"}.get(known[name].default, known[name].default) \
                    if name in known else said
                if said != default:
                    yield number, f"{name}: the default is {default or 'empty'}, not {said}"


# Counts: a page, what it says (one group), and what the code says.

Read = Callable[[str], str]


def declared(path: str, pattern: str) -> Callable[[Read], str]:
    def find(read: Read) -> str:
        match = re.search(pattern, read(path))
        return match[1] if match else f"nothing like {pattern} in {path}"
    return find


def lines_of_cache(path: str, record: str) -> Callable[[Read], str]:
    """The size that an assertion of the code gives a record, which is in cache lines."""
    def find(read: Read) -> str:
        match = re.search(rf"static_assert\(sizeof\({record}\) == (?:(\d+) \* )?kCacheLine\)", read(path))
        return str(64 * int(match[1] or 1)) if match else f"no assertion of {record} in {path}"
    return find


def measured(path: str, row: str, column: str) -> Callable[[Read], str]:
    """A cell of the first table of a results file."""
    def find(read: Read) -> str:
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in read(path).split("\n")
                 if line.startswith("|")]
        found = [line for line in lines if line[0] == row]
        return found[0][lines[0].index(column)] if found and column in lines[0] else f"no {row}, {column} in {path}"
    return find


DESCRIPTOR, ARCHITECTURE = "src/arena/descriptor.hpp", "docs/architecture.md"
CLAIMS: list[tuple[str, str, Callable[[Read], str]]] = [
    (ARCHITECTURE, r"Span, (\d+) bytes a slice", lines_of_cache(DESCRIPTOR, "Span")),
    (ARCHITECTURE, r"Chunk, (\d+) bytes a chunk", lines_of_cache(DESCRIPTOR, "Chunk")),
    (ARCHITECTURE, r"Group, (\d+) bytes for 64 chunks", lines_of_cache(DESCRIPTOR, "Group")),
    (ARCHITECTURE, r"of which there are (\d+) \|", declared("src/size_class/size_class.hpp", r"kSizeClasses = (\d+);")),
    (ARCHITECTURE, r"to 64 KiB: (\d+) classes", declared("src/size_class/size_class.hpp", r"kSizeClasses = (\d+);")),
    (ARCHITECTURE, r"chains\[(\d+)\]", lambda read: str(1 << int(declared(
        "src/policy/held_back.hpp", r"kChainsLog2 = (\d+);")(read)))),
    (ARCHITECTURE, r"A heap has (\d+) chains", lambda read: str(1 << int(declared(
        "src/policy/held_back.hpp", r"kChainsLog2 = (\d+);")(read)))),
    (ARCHITECTURE, r"same thread, with misuse checks \| [\d.]+ instructions \| (\d+)",
     declared("bench/coffer_bench/counts.py", r'\("malloc\(64\) \+ free", "coffer"\): (\d+)\.0')),
    (ARCHITECTURE, r"same thread, with misuse checks \| ([\d.]+) instructions",
     measured("docs/results/instructions.md", "malloc(64) + free", "coffer")),
    (ARCHITECTURE, r"also with huge pages `always` \| \| (\d+) KiB", declared("bench/startup.py", r"BUDGET = (\d+)")),
    ("CONTRIBUTING.md", r"There are at most (\d+)\.", declared("test/tidy/policy.py", r"MOST = (\d+)")),
    ("CONTRIBUTING.md", r"A file has at most (\d+) lines", declared("test/tidy/tidy.py", r"MAX_FILE_LINES = (\d+)")),
    ("CONTRIBUTING.md", r"a function at most (\d+)", declared("test/tidy/tidy.py", r"MAX_FUNCTION_LINES = (\d+)")),
]


def count_faults(read: Read, claims: list[tuple[str, str, Callable[[Read], str]]]) -> Iterator[tuple[str, int, str]]:
    for path, pattern, code in claims:
        text = read(path)
        match = re.search(pattern, text)
        if not match:
            yield path, 1, f"nothing says {pattern}: claims.py looks for it"
        elif match[1] != (is_so := code(read)):
            yield path, text.count("\n", 0, match.start()) + 1, f"{match[0]}: the code says {is_so}"
