# SPDX-License-Identifier: MIT
"""bench/observing.py with a small load: every way runs, and what it writes has a figure for each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import observing
import pytest
from conftest import BUILD


def test_ratios_are_of_rounds() -> None:
    ways = [observing.Way("plain", "", None), observing.Way("slow", "plain", None),
            observing.Way("blind", "plain", None, follows_forks=False)]
    results = {"x": {"plain": {0: 1.0, 1: 2.0, 2: 4.0}, "slow": {0: 2.0, 1: 4.0, 2: 8.0}, "blind": {}}}
    head, lines = observing.table(results, ways)
    assert head == ["way", "over", "x"]
    assert lines == [["slow", "plain", "2.000 (2.000 to 2.000)"], ["blind", "plain", "it does not follow forks"]]


def test_each_way_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = subprocess.run([sys.executable, "-B", observing.__file__, "--build-dir", BUILD, "--quick", "--rounds",
                           "1", "--programs", "python", "--report", page], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\| ([^|]+) \| (coffer|glibc) \| ([\d.]+) \|$", page.read_text(), re.MULTILINE)
    wanted = [way.name for way in observing.ways(BUILD) if way.against]
    assert [name for name, _, _ in rows] == wanted and len(wanted) >= 3
    # A load of a few tenths of a second says nothing of the ratio, but that all of them did it.
    assert all(0.2 < float(ratio) < 50 for _, _, ratio in rows)


def test_a_server_that_does_not_start_is_told(tmp_path: Path) -> None:
    way = observing.Way("plain", "", None)
    with pytest.raises(observing.BenchError, match="plain: no start: .*out of order"):
        with observing.running(way, ["/bin/sh", "-c", "echo out of order; exit 3"], tmp_path, ["false"], ["true"]):
            pass
