# SPDX-License-Identifier: MIT
"""What `make run` shows: the comparison runs to its end and finds the same output. Its figures are not judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import harness

DEMO = Path(__file__).resolve().parents[2] / "tools/demo.py"


def test_demo(coffer: harness.Allocator, tmp_path: Path) -> None:
    if coffer.preload == harness.GLIBC.preload:
        pytest.skip("nothing to compare glibc with")
    command = [sys.executable, "-B", DEMO, "--library", coffer.preload, "--runs", "1",
               "--report", tmp_path / "demo.md"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=harness.HANG_SECONDS, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    for label in ("wall time", "CPU time", "peak memory", "page tables", "Output: the same"):
        assert label in shown.stdout
    rows = [line for line in (tmp_path / "demo.md").read_text().split("\n") if line.startswith("|")]
    assert len(rows) == 6 and all(row.count("|") == 5 for row in rows)
