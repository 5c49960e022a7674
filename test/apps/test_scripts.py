# SPDX-License-Identifier: MIT
"""lua5.4 and perl: interpreters that allocate each value on its own."""

from __future__ import annotations

from pathlib import Path

import harness

INPUTS = Path(__file__).parent / "inputs"


def compare(both: list[harness.Allocator], home: Path, program: str, script: Path) -> None:
    command = [harness.require(program, program), script]
    got, expected = [harness.run(allocator, command, home=home) for allocator in both]
    assert got.stdout == expected.stdout
    assert len(expected.stdout.splitlines()) >= 4 and not expected.stderr and not got.stderr


def test_lua(both: list[harness.Allocator], home: Path) -> None:
    compare(both, home, "lua5.4", INPUTS / "trees.lua")


def test_perl(both: list[harness.Allocator], home: Path) -> None:
    compare(both, home, "perl", INPUTS / "text.pl")
