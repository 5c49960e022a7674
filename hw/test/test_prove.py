# SPDX-License-Identifier: MIT
"""formal/prove.py ends in one line that says why, whatever the solver does. That it finds faults is the proofs' own
test: each kind has one seeded."""

from __future__ import annotations

import subprocess

import pytest
from replay import BUILD, HERE

PYTHON = BUILD.parent / "venv" / "bin" / "python"
PROVE = HERE / "formal" / "prove.py"


def prove(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, "-B", PROVE, *arguments], text=True, capture_output=True, check=False)


def test_a_solver_without_an_end_is_stopped() -> None:
    done = prove("--seconds", "1", "--deeper", "1000", "component")
    assert done.returncode == 1 and done.stdout.startswith("FAIL  component: "), done.stdout
    assert done.stderr.startswith("no verdict within 1 s of processor time") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("arguments", "message"), [
    (("none",), "prove: no proof none; --list has them"),
    (("buffer", "none", "nothing"), "prove: no proof none, nothing; --list has them"),
    (("--seconds", "0"), "--seconds is 1 or more"),
    (("--deeper", "-1"), "--deeper 0 or more"),
])
def test_what_cannot_be_proved(arguments: tuple[str, ...], message: str) -> None:
    done = prove(*arguments)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""


def test_every_surrounding_has_proofs() -> None:
    """CMake makes a test of each file; and a proof of an entity without a file would not be run by any."""
    tops = {line.split()[1] for line in prove("--list").stdout.splitlines()}
    assert tops == {path.stem for path in (HERE / "formal").glob("*_formal.vhd")}
