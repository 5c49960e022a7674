# SPDX-License-Identifier: MIT
"""Just enough of C++'s surface for the tidy test: comments, strings, preprocessor lines, functions and calls.

It is not a parser. It needs the source to be formatted as .clang-format says, which `make lint` checks first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """A file as lines: as written, without comments, and without comments and string contents."""

    raw: list[str]
    uncommented: list[str]
    code: list[str]


@dataclass(frozen=True)
class Function:
    name: str
    first: int  # line numbers from 1, both included
    last: int


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def parse(text: str) -> Source:
    def uncomment(match: re.Match[str]) -> str:
        token = match.group()
        return _blank(token) if token.startswith("/") else token

    def strip(match: re.Match[str]) -> str:
        token = match.group()
        if token.startswith("/"):
            return _blank(token)
        return token[0] + _blank(token[1:-1]) + token[-1]

    return Source(text.split("\n"), _TOKEN.sub(uncomment, text).split("\n"), _TOKEN.sub(strip, text).split("\n"))


_TYPE_HEAD = re.compile(r"^\s*(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern\b)", re.DOTALL)
# "A() : x" or "A() : x(1), y" before a brace: a member's initial value, not the constructor's body.
_INITIALIZER = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:).*[\w>]$", re.DOTALL)
_NAME = re.compile(r"(operator\s*(?:\(\)|[^\s(]+)|~?[A-Za-z_]\w*)\s*\(")


def _name(head: str) -> str:
    """The function's name: what stands before its parameters, template parameters left out."""
    head = re.sub(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.DOTALL)
    if re.match(r"\s*template\b", head):
        depth = 0
        for at, character in enumerate(head):
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == ">" and depth == 0:
                head = head[at + 1 :]
                break
    match = _NAME.search(head)
    return match.group(1) if match else "?"


def _scope_kind(head: str) -> str:
    """What a brace opens, told from the text before it: a scope that may hold functions, a function, or a value."""
    head = re.sub(r"\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.DOTALL).strip()
    # Template parameters and requires clauses may hold parentheses of their own.
    if _INITIALIZER.search(head):
        return "initializer"
    if _TYPE_HEAD.match(head) and not re.search(r"\)\s*(const|noexcept|override|final|\s)*$", head):
        return "scope"
    if "=" in re.sub(r"operator\s*\S+|[=!<>]=|\([^()]*\)|<[^<>]*>", "", head):
        return "value"
    if "(" in head:
        return "function"
    return "value"


def functions(source: Source) -> list[Function]:
    """The functions defined at namespace or class level. Lambdas and blocks inside belong to their function."""
    found: list[Function] = []
    stack: list[str] = []
    head = ""
    start = 0
    name = ""
    head_line = 1
    for number, line in enumerate(source.code, 1):
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            inside = "function" in stack
            if character == "{":
                kind = "block" if inside else _scope_kind(head)
                if kind == "function":
                    name, start = _name(head), head_line
                stack.append(kind)
                if kind != "initializer":
                    head = ""
            elif character == "}":
                kind = stack.pop() if stack else ""
                if kind == "function":
                    found.append(Function(name, start, number))
                head = head + "()" if kind == "initializer" else ""
            elif character == ";" and not inside:
                head = ""
            elif not inside:
                if not head.strip() and not character.isspace():
                    head, head_line = "", number
                head += character
        head += "\n"
        # An access specifier is not part of the next function's head.
        if re.fullmatch(r"\s*(public|private|protected)\s*:\s*", head):
            head = ""
    return found


def call_text(source: Source, line: int, column: int) -> tuple[str, int]:
    """The arguments of the call whose '(' is at line (from 1) and column, and the line where it ends."""
    depth = 0
    text = ""
    for number in range(line, len(source.code) + 1):
        code = source.code[number - 1]
        for character in code[column if number == line else 0 :]:
            depth += {"(": 1, ")": -1}.get(character, 0)
            text += character
            if depth == 0:
                return text, number
        text += "\n"
    return text, len(source.code)


def statement_start(source: Source, line: int) -> int:
    """The line where the statement that contains `line` begins: the one after the last that ends one."""
    while line > 1:
        before = source.code[line - 2].rstrip()
        if not before.strip() or before.endswith((";", "{", "}", ":")) or before.lstrip().startswith("#"):
            return line
        line -= 1
    return line


def has_comment(source: Source, line: int) -> bool:
    return 1 <= line <= len(source.raw) and source.raw[line - 1].rstrip() != source.uncommented[line - 1].rstrip()
