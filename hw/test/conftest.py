# SPDX-License-Identifier: MIT
"""What the tests of hw/ share: the compiled bench, and coffer-rt's model that makes traces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HW = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HW / "sim"))

from replay import Bench  # noqa: E402


@pytest.fixture(scope="session")
def bench() -> Bench:
    result = Bench()
    result.build()
    return result


@pytest.fixture(scope="session")
def answers() -> Path:
    """The program of sim/answers.c, which the build has made."""
    path = Path(os.environ.get("COFFER_HW_ANSWERS", HW.parent / "build" / "hw" / "answers"))
    assert path.exists(), f"{path} is missing: build the target coffer_hw_answers"
    return path


@pytest.fixture
def make_trace(answers: Path, tmp_path: Path) -> Callable[..., Path]:
    def make(kind: str, seed: int, count: int, heap: int, policy: str = "knuth") -> Path:
        calls = subprocess.run([sys.executable, "-B", HW / "sim" / "calls.py", kind, str(seed), str(count), str(heap)],
                               check=True, capture_output=True).stdout
        trace = tmp_path / f"{kind}_{seed}_{policy}.txt"
        with trace.open("wb") as out:
            subprocess.run([answers, policy, str(heap)], input=calls, stdout=out, check=True)
        return trace

    return make
