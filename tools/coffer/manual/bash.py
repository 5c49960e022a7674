# SPDX-License-Identifier: MIT
"""Completion for bash. It needs nothing of the package bash-completion, and starts no coffer."""

from __future__ import annotations

from coffer.manual.declaration import FILE, PROCESS, PROGRAM, WORDS, Command, Value

SCRIPT = r"""# bash completion for coffer, written by coffer.manual from the declaration of the command.

# Of the command $1: its commands, its options, and what completes its arguments.
_coffer_describe() {
  case $1 in
@DESCRIPTIONS@
  esac
}

# What completes the value of option $2 of the command $1; empty: it takes none.
_coffer_value() {
  case "$1 $2" in
@VALUES@
    *) value= ;;
  esac
}

# Fills COMPREPLY with what completes $2 of the kind $1.
_coffer_fill() {
  local word=$2
  case $1 in
    file) compopt -o default 2>/dev/null; COMPREPLY=() ;;
    program)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(case $word in */*) compgen -f -- "$word" ;; *) compgen -c -- "$word" | sort -u ;; esac)
      ;;
    process) mapfile -t COMPREPLY < <(cd /proc && compgen -G "$word[0-9]*" | grep -x '[0-9]*') ;;
    words:*) mapfile -t COMPREPLY < <(compgen -W "${1#words:}" -- "$word") ;;
    *) COMPREPLY=() ;;
  esac
}

_coffer() {
  local path=coffer commands options arguments value word position=0 i
  local -a kinds
  COMPREPLY=()
  _coffer_describe "$path"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
      --)
        _coffer_fill_rest $((COMP_CWORD - i - 1))
        return
        ;;
      -*)
        _coffer_value "$path" "$word"
        [ -z "$value" ] && continue
        # --option=value is three words.
        [ "${COMP_WORDS[i + 1]-}" = = ] && [ $((i + 1)) -lt "$COMP_CWORD" ] && i=$((i + 1))
        if [ $((i + 1)) -ge "$COMP_CWORD" ]; then
          _coffer_fill "$value" "${COMP_WORDS[COMP_CWORD]#=}"
          return
        fi
        i=$((i + 1))
        ;;
      *)
        case " $commands " in
          *" $word "*)
            path="$path $word"
            _coffer_describe "$path"
            ;;
          *)
            position=$((position + 1))
            case " $arguments " in
              *" program "*)
                _coffer_fill_rest $((COMP_CWORD - i))
                return
                ;;
            esac
            ;;
        esac
        ;;
    esac
  done
  word=${COMP_WORDS[COMP_CWORD]}
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
    *)
      if [ -n "$commands" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
      else
        kinds=($arguments)
        # The last kind is that of all that follow.
        [ "$position" -lt ${#kinds[@]} ] || position=$((${#kinds[@]} - 1))
        [ "$position" -ge 0 ] && _coffer_fill "${kinds[position]}" "$word"
      fi
      ;;
  esac
}

# A program's place, and after it its arguments, which are files as far as anybody knows.
_coffer_fill_rest() {
  if [ "$1" -eq 0 ]; then
    _coffer_fill program "${COMP_WORDS[COMP_CWORD]}"
  else
    _coffer_fill file "${COMP_WORDS[COMP_CWORD]}"
  fi
}

complete -F _coffer coffer
"""


def kind_of(value: Value) -> str:
    if value.kind == WORDS:
        return "words:" + " ".join(value.words)
    return value.kind if value.kind in {FILE, PROGRAM, PROCESS} else "text"


def script(command: Command) -> str:
    descriptions, values = [], []
    for one in command.all():
        names = " ".join(name for option in one.options for name in option.names)
        kinds = " ".join(argument.value.kind for argument in one.arguments)
        children = " ".join(child.path[-1] for child in one.children)
        descriptions.append(f"    '{one.name}') commands='{children}' options='{names}' arguments='{kinds}' ;;")
        for option in one.options:
            if option.value:
                patterns = "|".join(f"'{one.name} {name}'" for name in option.names)
                values.append(f"    {patterns}) value='{kind_of(option.value)}' ;;")
    return SCRIPT.replace("@DESCRIPTIONS@", "\n".join(descriptions)).replace("@VALUES@", "\n".join(values))
