# SPDX-License-Identifier: MIT
"""The manual and the shells' completions, as they were written when the command was built."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from coffer import places

SHARE = places.build_dir() / "share"
PAGES = sorted((SHARE / "man" / "man1").glob("*.1"))
BASH = SHARE / "bash-completion/completions/coffer"
FISH = SHARE / "fish/vendor_completions.d/coffer.fish"
ZSH = SHARE / "zsh/site-functions/_coffer"
COMMANDS = ["index", "record", "run", "replay", "report", "tune", "stat", "top", "profile", "leaks", "heap",
            "explain", "retainers", "serve", "trace", "bench"]


def run(*words: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.returncode == 0 and done.stderr == "", f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def help_of(*command: str) -> str:
    """Wide, since narrow tables cut long names short."""
    return run("env", "COLUMNS=200", places.build_dir() / "bin" / "coffer", *command, "--help")


def rendered(page: Path) -> str:
    """As man shows it; whatever groff finds wrong is on stderr."""
    return run("groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=100n", page)


def test_every_command_has_a_page() -> None:
    assert {page.stem for page in PAGES} == {"coffer", *(f"coffer-{name}" for name in COMMANDS)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_renders(page: Path) -> None:
    shown = rendered(page)
    parts = re.findall(r"^([A-Z][A-Z ]+)$", shown, re.MULTILINE)
    assert parts[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] and parts[-1] == "SEE ALSO"
    assert "--help" in shown and f"{page.stem} - " in shown


def test_man_shows_a_page() -> None:
    if shutil.which("man") is None or "minimized" in run("man", "--version"):
        pytest.skip("this system has no man")
    assert "coffer-record - Runs a program" in run("man", "-l", SHARE / "man/man1/coffer-record.1")


def test_the_manual_says_what_the_help_says() -> None:
    """Options of the help, and their texts, are in the page: both come from the same declaration."""
    shown, said = " ".join(rendered(SHARE / "man/man1/coffer-replay.1").split()), help_of("replay")
    options = set(re.findall(r"--[a-z][a-z-]+", said)) - {"--help"}
    assert len(options) > 6
    for option in options:
        assert option in shown, option
    assert "Waits between operations as the program did." in shown and "Waits between operations" in said
    assert "all|first|none" in shown and "Default: coffer,glibc." in shown


def in_bash(*words: str, cwd: Path | None = None) -> list[str]:
    """What bash offers for the last word: with `--x=y` as the three words that bash makes of it."""
    split = [part for word in words for part in (re.split(r"(=)", word) if word.startswith("--") else [word])]
    quoted = " ".join(f"'{word}'" for word in split)
    driver = (f"source '{BASH}'; COMP_WORDS=({quoted}); COMP_CWORD={len(split) - 1}; _coffer;"
              " printf '%s\\n' \"${COMPREPLY[@]}\"")
    return [line for line in run("bash", "--norc", "-c", driver, cwd=cwd).split("\n") if line]


def test_bash_completes() -> None:
    assert in_bash("coffer", "") == COMMANDS
    assert in_bash("coffer", "re") == ["record", "replay", "report", "retainers"]
    assert in_bash("coffer", "trace", "f") == ["frag", "filter"]
    assert in_bash("coffer", "record", "--st") == ["--stacks"]
    assert in_bash("coffer", "record", "--stacks", "f") == ["frames"]
    assert in_bash("coffer", "replay", "--touch=") == ["all", "first", "none"]
    assert in_bash("coffer", "replay", "--touch=f") == ["first"]
    assert in_bash("coffer", "trace", "export", "-f", "pa") == ["parquet"]
    # A value is no command, and a program's option is not the command's.
    assert in_bash("coffer", "trace", "cut", "-o", "info", "--ev") == ["--events"]
    assert "bash" in in_bash("coffer", "run", "--", "bas")
    assert "bash" in in_bash("coffer", "record", "-o", "x.trace", "bas")
    assert in_bash("coffer", "run", "--", "ls", "--st") == []
    assert in_bash("coffer", "nonsense", "") == COMMANDS


def test_bash_knows_every_option() -> None:
    for command in (["record"], ["trace", "export"], ["stat"]):
        wanted = set(re.findall(r"--[a-z][a-z-]+", help_of(*command)))
        assert wanted <= set(in_bash("coffer", *command, "-")) and len(wanted) > 3


def test_fish_completes() -> None:
    def in_fish(line: str) -> list[str]:
        said = run("fish", "--no-config", "-c", f"source {FISH}; complete -C '{line}'")
        return [one.split("\t")[0] for one in said.splitlines()]

    assert sorted(in_fish("coffer re")) == ["record", "replay", "report", "retainers"]
    assert sorted(in_fish("coffer trace f")) == ["filter", "frag"]
    assert in_fish("coffer record --st") == ["--stacks"]
    assert sorted(in_fish("coffer record --stacks ")) == ["frames", "none", "unwind"]
    assert in_fish("coffer trace export --format pa") == ["parquet"]


def test_zsh_completes(tmp_path: Path) -> None:
    """In a terminal of its own, since zsh completes in its line editor only. What it would offer is printed instead,
    and the shell ends after it."""
    inner, driver = tmp_path / "inner.zsh", tmp_path / "driver.zsh"
    inner.write_text(f"""\
PS1=
fpath=({ZSH.parent} $fpath)
autoload -Uz compinit
compinit -u -d {tmp_path}/dump
bindkey '^I' complete-word
compadd() {{
  [[ " $* " == *" -"[OAD]" "* ]] && {{ builtin compadd "$@"; return }}  # only asks what would match
  local -a offered
  local one
  builtin compadd -A offered "$@"
  for one in $offered; do print -r -- "OFFER<$one>"; done
  builtin compadd "$@"
}}
comppostfuncs=(exit)
print READY
""")
    driver.write_text(f"""\
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source {inner}'
zpty -r -m shell line '*READY*'
zpty -w -n shell "$1"$'\\t'
while zpty -r shell line; do print -r -- "$line"; done
""")

    def in_zsh(line: str) -> set[str]:
        return set(re.findall(r"OFFER<([^>]*)>", run("zsh", "-f", driver, line)))

    assert in_zsh("coffer re") == {"record", "replay", "report", "retainers"}
    assert "--stacks" in {one.rstrip("=") for one in in_zsh("coffer record --sta")}
    assert in_zsh("coffer record --stacks fr") == {"frames"}
    assert in_zsh("coffer trace f") == {"filter", "frag"}
