"""lua5.4 and perl: interpreters that allocate each value on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness

INPUTS = Path(__file__).parent / "inputs"


@pytest.mark.parametrize(("program", "package", "script"), [("lua5.4", "lua5.4", "trees.lua"), ("perl", "perl", "text.pl")])
def test_script(both: list[harness.Allocator], home: Path, program: str, package: str, script: str) -> None:
    command = [harness.require(program, package), INPUTS / script]
    got, expected = [harness.run(allocator, command, home=home) for allocator in both]
    assert got.stdout == expected.stdout
    assert len(expected.stdout.splitlines()) >= 4 and not expected.stderr
