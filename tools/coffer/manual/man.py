# SPDX-License-Identifier: MIT
"""Manual pages in roff, one for each command of the first level."""

from __future__ import annotations

from pathlib import Path

from coffer.manual.declaration import PROGRAM, Argument, Command, Option

STATUS = [
    ("0", "Done."),
    ("1", "What the message on standard error says; a report or a replay of which a part failed."),
    ("2", "The command line was wrong."),
    ("125, 126, 127", "A program was to be started: the recording could not begin, the program cannot be run, or was"
                      " not found."),
    ("130", "Interrupted."),
    ("other", "Of commands that start a program: the program's own."),
]
ENVIRONMENT = [
    ("COFFER_CONF", "Options of the allocator: COFFER_CONF=help:true PROGRAM under it lists them."),
    ("LD_PRELOAD", "What is there is kept, after Coffer."),
    ("NO_COLOR", "If not empty: no colours, no bold text, no progress bars."),
    ("TMPDIR", "Where coffer replay and coffer report keep their plans meanwhile, 16 bytes an operation."),
    ("COFFER_BUILD_DIR", "Takes libraries and programs from this build directory."),
]


def escaped(text: str) -> str:
    """No character of a text is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti").replace("…", "...")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in text.split("\n"))


def paragraphs(text: str) -> str:
    return "\n.PP\n".join(escaped(one) for one in text.split("\n\n"))


def tagged(tag: str, text: str) -> list[str]:
    return [".TP", tag, paragraphs(text) or "\\&"]


def option_lines(option: Option) -> list[str]:
    value = f" \\fI{escaped(option.value.name)}\\fR" if option.value else ""
    tag = ", ".join(f"\\fB{escaped(name)}\\fR{value}" for name in option.names)
    notes = ["Required."] * option.required + [f"Default: {option.default}."] * bool(option.default)
    notes += ["May be given again."] * (option.repeatable and "again" not in option.help)
    return tagged(tag, " ".join(filter(None, [option.help, *notes])))


def shown(argument: Argument) -> str:
    name = argument.value.name
    dots = "..." if argument.repeatable and "..." not in name else ""
    text = f"\\fI{escaped(name)}\\fR{dots}"
    return text if argument.required else f"[{text}]"


def synopsis(command: Command) -> str:
    required = [f"\\fB{escaped(option.names[0])}\\fR \\fI{escaped(option.value.name)}\\fR" for option in command.options
                if option.required and option.value]
    words = [f"\\fB{escaped(command.name)}\\fR", "[\\fIOPTION\\fR]...", *required]
    if any(argument.value.kind == PROGRAM for argument in command.arguments):
        words.append("[\\-\\-]")
    words += [shown(argument) for argument in command.arguments]
    if command.children:
        words.append("\\fICOMMAND\\fR [\\fIARGUMENT\\fR]...")
    return " ".join(words)


def details(command: Command) -> list[str]:
    lines = []
    for argument in command.arguments:
        lines += tagged(shown(argument), argument.help)
    for option in command.options:
        lines += option_lines(option)
    return lines


def page(command: Command, siblings: list[str], version: str) -> str:
    title = "-".join(command.path)
    lines = [f'.TH "{escaped(title.upper())}" 1 "" "Coffer {escaped(version)}" "Coffer"',
             ".\\\" Written by coffer.manual from the declaration of the command.", ".nh", ".ad l",
             ".SH NAME", f"{escaped(title)} \\- {escaped(command.summary)}",
             ".SH SYNOPSIS", synopsis(command), ".SH DESCRIPTION", paragraphs(command.text),
             ".SH OPTIONS", *details(command)]
    if command.children:
        lines.append(".SH COMMANDS")
    for child in command.children:
        if len(command.path) == 1:
            lines += tagged(f"\\fB{escaped(title)}\\-{escaped(child.path[-1])}\\fR(1)", child.summary + ".")
        else:
            lines += [f".SS {escaped(child.path[-1])}", synopsis(child), ".PP", paragraphs(child.text), *details(child)]
    lines.append(".SH EXIT STATUS")
    for status, text in STATUS:
        lines += tagged(f"\\fB{status}\\fR", text)
    if len(command.path) == 1:
        lines.append(".SH ENVIRONMENT")
        for name, text in ENVIRONMENT:
            lines += tagged(f"\\fB{name}\\fR", text)
    others = ", ".join(f"\\fB{escaped(name)}\\fR(1)" for name in siblings if name != title)
    lines += [".SH SEE ALSO", others]
    return "\n".join(lines) + "\n"


def write(command: Command, directory: Path, version: str) -> None:
    """coffer.1, and coffer-COMMAND.1 for each."""
    directory.mkdir(parents=True, exist_ok=True)
    pages = [command, *command.children]
    names = ["-".join(one.path) for one in pages]
    for one, name in zip(pages, names):
        (directory / f"{name}.1").write_text(page(one, names, version), encoding="utf-8")
