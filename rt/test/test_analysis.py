# SPDX-License-Identifier: MIT
"""Static analysers have nothing to say about coffer-rt: cppcheck and GCC's. (clang-tidy is part of `make lint`.)
And what cppcheck's MISRA addon says is in README.md's table of deviations."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from toolbox import INCLUDE, RT, SOURCES, STRICT, run


def test_gcc_analyzer(tmp_path: Path) -> None:
    if not run(["gcc", "-dumpfullversion"]).startswith("12."):
        pytest.skip("each version of the analyser sees something else; this one is Debian 12's")
    for source in SOURCES:
        run(["gcc", *STRICT, "-O2", "-fanalyzer", INCLUDE, "-c", source, "-o", tmp_path / "made.o"])


def test_cppcheck() -> None:
    for platform in ("unix32", "unix64"):
        run(["cppcheck", "--error-exitcode=1", "--enable=warning,performance,portability", "--std=c11", "--quiet",
             "--inline-suppr", f"--platform={platform}", f"--suppressions-list={RT / 'test/cppcheck.txt'}", INCLUDE,
             *SOURCES])


def deviations() -> set[str]:
    """The rules of README.md's table: "11.3 to 11.6" are four."""
    table = (RT / "README.md").read_text().split("## Deviations from MISRA")[1]
    rules: set[str] = set()
    for cell in re.findall(r"^\| (\d[^|]*) \|", table, re.MULTILINE):
        for chapter, first, last in re.findall(r"(\d+)\.(\d+)(?: to \d+\.(\d+))?", cell):
            rules |= {f"{chapter}.{rule}" for rule in range(int(first), int(last or first) + 1)}
    return rules


def misra(*sources: Path) -> dict[str, list[str]]:
    """Where cppcheck's addon sees each rule broken."""
    done = subprocess.run(["cppcheck", "--addon=misra", "--std=c11", "--quiet", "--inline-suppr", "--platform=unix64",
                           f"--suppressions-list={RT / 'test/cppcheck.txt'}", INCLUDE, *map(str, sources)],
                          capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for place, rule in re.findall(r"^(\S+:\d+):.*\[misra-c2012-(\d+\.\d+)\]$", done.stderr, re.MULTILINE):
        found.setdefault(rule, []).append(place)
    return found


def test_misra(tmp_path: Path) -> None:
    if not run(["cppcheck", "--version"]).startswith("Cppcheck 2.10"):
        pytest.skip("each version of the addon knows other rules; this one is Debian 12's")
    found = misra(*SOURCES)
    unlisted = {rule: places for rule, places in found.items() if rule not in deviations()}
    assert not unlisted, unlisted
    # It looks at all: an octal constant, which the table has not.
    seeded = tmp_path / "seeded.c"
    seeded.write_text("int seeded(void);\nint seeded(void) { return 052; }\n")
    assert "7.1" in set(misra(seeded)) - deviations()
