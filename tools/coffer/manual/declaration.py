# SPDX-License-Identifier: MIT
"""What the typer application declares, as plain data for the writers of pages and completions."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

# What completes a value: a file, a program (and then its arguments), the number of a process, one of some words, or
# nothing that a shell could know.
FILE, PROGRAM, PROCESS, WORDS, TEXT = "file", "program", "process", "words", "text"


@dataclass(frozen=True)
class Value:
    name: str  # as the help shows it
    kind: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: Value | None  # None: a flag
    default: str = ""  # as it is shown; empty: none, or not worth a word
    required: bool = False
    repeatable: bool = False


@dataclass(frozen=True)
class Argument:
    value: Value
    help: str
    required: bool
    repeatable: bool


@dataclass(frozen=True)
class Command:
    path: tuple[str, ...]
    summary: str
    text: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    children: tuple[Command, ...] = field(default=())

    @property
    def name(self) -> str:
        return " ".join(self.path)

    def all(self) -> Iterator[Command]:
        yield self
        for child in self.children:
            yield from child.all()


def plain(text: str | None) -> str:
    """Without the line breaks of the source; paragraphs stay."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.?!])\s", text, maxsplit=1)[0].rstrip(".")


def annotation_of(parameter: Any) -> Any:
    """What one value is: without the list or the None around it."""
    annotation = parameter.type_descriptor.annotation
    while typing.get_origin(annotation) in {list, tuple, typing.Union, types.UnionType}:
        annotation = next(one for one in typing.get_args(annotation) if one is not types.NoneType)
    return annotation


def words_of(annotation: Any) -> tuple[str, ...]:
    if typing.get_origin(annotation) is typing.Literal:
        return tuple(str(one) for one in typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(one.value) for one in annotation)
    return ()


def value_of(parameter: Any, name: str) -> Value:
    annotation = annotation_of(parameter)
    shown = parameter.metavar or ""
    if words := words_of(annotation):
        return Value(shown or "|".join(words), WORDS, words)
    if annotation is Path:
        return Value(shown or name or "FILE", FILE)
    if "PROGRAM" in shown:
        return Value(shown, PROGRAM)
    if "PID" in shown:
        return Value(shown, PROCESS)
    return Value(shown or name or {int: "N", float: "X"}.get(annotation, "TEXT"), TEXT)


def default_of(parameter: Any) -> str:
    shown = parameter.show_default
    if isinstance(shown, str):
        return shown
    value = parameter.default
    # A path that is a default is one of this machine.
    if shown is False or value is None or callable(value) or isinstance(value, Path) or value in ("", 0, False, ()):
        return ""
    return str(getattr(value, "value", value))


def option_of(parameter: Any) -> Option:
    flag = bool(getattr(parameter, "is_flag", False))
    names = (*sorted(parameter.opts, key=len), *parameter.secondary_opts)
    return Option(names, plain(parameter.help), None if flag else value_of(parameter, ""),
                  "" if flag else default_of(parameter), bool(parameter.required), bool(parameter.multiple))


def argument_of(parameter: Any) -> Argument:
    return Argument(value_of(parameter, parameter.name.upper()), plain(parameter.help), bool(parameter.required),
                    parameter.nargs != 1)


def command_of(command: Any, path: tuple[str, ...]) -> Command:
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    options = [option_of(one) for one in shown if one.opts[0].startswith("-")]
    if not any("--help" in one.names for one in options):
        options.append(Option(("--help",), "Shows the help and ends.", None))
    arguments = tuple(argument_of(one) for one in shown if not one.opts[0].startswith("-"))
    children = tuple(command_of(child, (*path, name)) for name, child in getattr(command, "commands", {}).items()
                     if not child.hidden)
    text = plain(command.help)
    return Command(path, first_sentence(text), text, tuple(options), arguments, children)


def declared(application: typer.Typer) -> Command:
    return command_of(typer.main.get_command(application), ("coffer",))
