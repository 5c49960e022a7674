# SPDX-License-Identifier: MIT
"""The committed traces: what they promise, and that each replays alike under two allocators; and a recipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from coffer import places
from coffer.trace.reader import Trace

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
NAMES = ["gcc", "ghostscript", "lua", "python_events", "python_text", "python_trees", "redis", "server", "sqlite3",
         "z3"]


def test_they_are_small_and_all_there() -> None:
    files = sorted(HERE.glob("*.trace"))
    assert [path.stem for path in files] == NAMES
    assert all(path.stat().st_size <= 1 << 20 for path in files)
    assert sum(path.stat().st_size for path in files) <= 2 << 20


@pytest.mark.parametrize("name", NAMES)
def test_a_vector(name: str) -> None:
    path = HERE / f"{name}.trace"
    with Trace(path) as trace:
        events = sum(len(part) for part in trace)
        found = trace.describe()
    assert found["complete"] and found["summary"]["events"] == events >= 2_500
    assert found["information"] == {"made_by": "coffer trace anonymize"} and not found["modules"]
    done = subprocess.run([places.build_dir() / "bin" / "coffer", "replay", path, "-a", "coffer,glibc", "--json", "-"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    first, second = (one["operations"] for one in whole["results"])
    assert first == second and first["all"] == whole["operations"] >= 2_500
    assert whole["peak_live"] == found["summary"]["peak_bytes"]
    assert all(one["memory"]["peak_kib"] * 1024 > 0.9 * whole["peak_live"] for one in whole["results"])


def test_the_server_hands_blocks_over() -> None:
    done = subprocess.run([places.build_dir() / "bin" / "coffer", "trace", "info", HERE / "server.trace", "--json"],
                          capture_output=True, text=True, timeout=120, check=True)
    survey = json.loads(done.stdout)["survey"]
    assert len(survey["threads"]) >= 4 and any(maker != freer for maker, freer, _, _ in survey["remote"])


def test_a_recipe(tmp_path: Path) -> None:
    """Records a program, and cuts a vector of it; in a build directory of its own but for what it runs."""
    for name in ("bin", "lib", "libexec", "venv"):
        os.symlink(places.build_dir() / name, tmp_path / name)
    done = subprocess.run([sys.executable, "-B", TOP / "tools" / "traces" / "make.py", "--build-dir", tmp_path,
                           "--only", "python_trees", "--vectors", tmp_path], capture_output=True, text=True,
                          timeout=200)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "traces" / "python_trees.trace").stat().st_size > 50_000
    assert 1_000 < (tmp_path / "python_trees.trace").stat().st_size <= 1 << 20
    (tmp_path / "bin").unlink()
    done = subprocess.run([sys.executable, "-B", TOP / "tools" / "traces" / "make.py", "--build-dir", tmp_path,
                           "--only", "python_trees"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "python_trees: FAILED" in done.stderr and "Traceback" not in done.stderr
