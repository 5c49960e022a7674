# SPDX-License-Identifier: MIT
"""Completion for fish."""

from __future__ import annotations

from coffer.manual.declaration import FILE, PROCESS, PROGRAM, WORDS, Command, Option, Value

HEAD = """\
# fish completion for coffer, written by coffer.manual from the declaration of the command.

# The commands on the line so far: "trace cut". A program that is started ends them.
function __coffer_path
    set -l known @KNOWN@
    set -l path
    for word in (commandline -opc)[2..]
        test "$word" = --; and break
        set -l next (string trim -- "$path $word")
        contains -- "$next" $known; and set path "$next"
    end
    echo "$path"
end

function __coffer_at
    set -l path (__coffer_path)
    test "$path" = "$argv"
end

complete -c coffer -f
"""


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def completes(value: Value) -> str:
    if value.kind == WORDS:
        return "-x -a " + quoted(" ".join(value.words))
    if value.kind == FILE:
        return "-r -F"
    return "-x"


def option_line(path: str, option: Option) -> str:
    words = [f"complete -c coffer -n {quoted(f'__coffer_at {path}'.strip())}"]
    for name in option.names:
        words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.value:
        words.append(completes(option.value))
    return " ".join([*words, "-d", quoted(option.help)])


def script(command: Command) -> str:
    known = [" ".join(one.path[1:]) for one in command.all() if one.path[1:]]
    head = HEAD.replace("@KNOWN@", " ".join(map(quoted, known)))
    lines = [head]
    for one in command.all():
        path = " ".join(one.path[1:])
        condition = quoted(f"__coffer_at {path}".strip())
        for child in one.children:
            lines.append(f"complete -c coffer -n {condition} -a {child.path[-1]} -d {quoted(child.summary)}")
        lines += [option_line(path, option) for option in one.options]
        for kind in sorted({argument.value.kind for argument in one.arguments}):
            extra = {FILE: "-F", PROGRAM: "-F -a '(__fish_complete_subcommand)'",
                     PROCESS: "-a '(__fish_complete_pids)'"}
            if kind in extra:
                lines.append(f"complete -c coffer -n {condition} {extra[kind]}")
    return "\n".join(lines) + "\n"
