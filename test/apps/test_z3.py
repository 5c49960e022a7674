# SPDX-License-Identifier: MIT
"""z3: a C++ program of large data structures, in one thread and in several."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from inputs import smt

PARALLEL = ["parallel.enable=true", "parallel.threads.max=2"]


@pytest.mark.parametrize("options", [[], PARALLEL], ids=["serial", "parallel"])
def test_z3(both: list[harness.Allocator], home: Path, options: list[str]) -> None:
    file = home / "problems.smt2"
    file.write_text("\n".join(smt.problems()))
    command = [harness.require("z3", "z3"), *options, file]
    got, expected = [harness.run(allocator, command, home=home) for allocator in both]
    assert got.stdout == expected.stdout
    answers = [line for line in expected.text().splitlines() if line in ("sat", "unsat")]
    assert answers == ["sat", "sat", "sat", "unsat", "sat", "unsat", "unsat", "unsat"]
