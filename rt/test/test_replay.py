# SPDX-License-Identifier: MIT
"""The calls of real programs through every policy, on the processor whose instructions are counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from test_instructions import table
from toolbox import RT

sys.path.insert(0, str(RT / "tools"))
import replay  # noqa: E402

TRACES = sorted((RT / "traces").glob("*.txt"))


def test_traces_are_small() -> None:
    assert [path.stem for path in TRACES] == ["lua", "python_trees"]
    assert sum(path.stat().st_size for path in TRACES) < 1 << 20


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_replay(path: Path) -> None:
    calls = replay.read(path)
    assert len(calls) > 10000
    results = replay.measure(calls)
    assert list(results) == replay.POLICIES
    for result in results.values():
        for counts in (result.alloc, result.free):
            assert 10 < counts.mean <= counts.most and counts.p999 <= counts.most
        assert 1 < result.region / result.live < 3
    tree = results["coffer-rt"]
    assert tree.region < 12 << 20  # four levels
    for policy, kind in (("coffer-rt", "rv32im"), ("coffer-rt, lists", "rv32im, lists")):
        alloc, free = table()[kind, 4]
        assert results[policy].alloc.most <= alloc and results[policy].free.most <= free
    # Headers of 4 bytes double a power of two.
    assert tree.region < results["Knuth"].region


def test_vectors_are_calls_too(tmp_path: Path) -> None:
    calls = replay.read(RT / "vectors/knuth_small.txt")
    assert len(calls) == 400
    made = tmp_path / "made.txt"
    made.write_text(replay.short(calls, "made"), encoding="utf-8")
    assert replay.read(made) == calls


@pytest.mark.parametrize("line", ["a", "a -1", "a x", "a 9999999999", "f 0", "a 1\nf 0\nf 0", "g 1", "\0"])
def test_rubbish_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rubbish.txt"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="replay: .*rubbish"):
        replay.read(path)
