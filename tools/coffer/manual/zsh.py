# SPDX-License-Identifier: MIT
"""Completion for zsh: a function for each command, of _arguments."""

from __future__ import annotations

from coffer.manual.declaration import FILE, PROCESS, PROGRAM, WORDS, Argument, Command, Option, Value

HEAD = """\
#compdef coffer
# zsh completion for coffer, written by coffer.manual from the declaration of the command.
"""
GROUP = """\
@FUNCTION@() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C -S @OPTIONS@ '1: :->command' '*:: :->rest'
  case $state in
    command)
      local -a commands=(
@COMMANDS@
      )
      _describe -t commands 'command' commands
      ;;
    rest)
      curcontext=${curcontext%:*:*}:coffer-$words[1]:
      case $words[1] in
@CASES@
      esac
      ;;
  esac
}
"""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def described(text: str) -> str:
    for character in "\\[]:":
        text = text.replace(character, "\\" + character)
    return text


def action(value: Value) -> str:
    if value.kind == WORDS:
        return f"({' '.join(value.words)})"
    return {FILE: "_files", PROCESS: "_pids", PROGRAM: "_command_names -e"}.get(value.kind, "")


def option_words(option: Option) -> list[str]:
    words = []
    for name in option.names:
        spec = ("*" if option.repeatable else f"({' '.join(option.names)})") + name
        if option.value:
            spec += "=" if name.startswith("--") else "+"
        spec += f"[{described(option.help)}]"
        if option.value:
            spec += f":{described(option.value.name)}:{action(option.value)}"
        words.append(quoted(spec))
    return words


def argument_words(argument: Argument) -> list[str]:
    value = argument.value
    if value.kind == PROGRAM:
        return [quoted(f"(-)1:program:{action(value)}"), quoted("*::argument:_normal")]
    return [quoted(f"{'*' if argument.repeatable else ''}:{described(value.name)}:{action(value)}")]


def function_name(command: Command) -> str:
    return "_" + "_".join(command.path)


def function(command: Command) -> str:
    options = [word for option in command.options for word in option_words(option)]
    joined = " \\\n    ".join(options)
    if not command.children:
        words = [word for argument in command.arguments for word in argument_words(argument)]
        return f"{function_name(command)}() {{\n  _arguments -S {joined} \\\n    {' '.join(words)}\n}}\n"
    commands = "\n".join("        " + quoted(f"{child.path[-1]}:{described(child.summary)}")
                         for child in command.children)
    cases = "\n".join(f"        {child.path[-1]}) {function_name(child)} ;;" for child in command.children)
    return (GROUP.replace("@FUNCTION@", function_name(command)).replace("@OPTIONS@", joined)
            .replace("@COMMANDS@", commands).replace("@CASES@", cases))


def script(command: Command) -> str:
    functions = "\n".join(function(one) for one in command.all())
    return f"{HEAD}\n{functions}\n_coffer \"$@\"\n"
