# SPDX-License-Identifier: MIT
"""Damaged traces, and those that were cut short, under every command that reads one (issue 16)."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from coffer.trace.reader import ALLOCATIONS, Op, Trace, TraceError
from conftest import COMMAND, SAMPLE, coffer

SEEDS = 300


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of several frames."""
    path = tmp_path_factory.mktemp("damage") / "large.trace"
    subprocess.run([str(SAMPLE), "single-addresses", str(path), "600000"], check=True)
    return path


def damaged(whole: bytes, target: Path, seed: int) -> Path:
    """Cut, or with four bytes that are wrong."""
    choose = random.Random(seed)
    if seed % 2:
        target.write_bytes(whole[: choose.randrange(len(whole))])
    else:
        text = bytearray(whole)
        for at in choose.sample(range(len(text)), 4):
            text[at] ^= choose.randrange(1, 256)
        target.write_bytes(text)
    return target


def read(path: Path) -> tuple[int, dict]:
    with Trace(path) as trace:
        count = sum(len(events) for events in trace)
        return count, trace.describe()


@pytest.mark.parametrize("kind", ["every", "every-addresses", "handover", "single", "single-addresses", "old"])
def test_python_reads_what_is_whole(traces: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """`old`: of version 1, which has no number in a frame."""
    source = Path(__file__).parents[1] / "traces" / "server.trace" if kind == "old" else traces[kind]
    events, found = read(source)
    assert found["shortfall"] == "" and found["version"] == ("1.0" if kind == "old" else "2.0")
    refused = 0
    for seed in range(SEEDS):
        path = damaged(source.read_bytes(), tmp_path / "bad.trace", seed)
        try:
            count, said = read(path)
        except TraceError as error:
            # Nothing is left to be read: of version 1 where the head is damaged, else where it is cut.
            assert re.search("byte [0-9]+: (the head|the information|no trace of|the file is empty|format)", str(error))
            refused += 1
            continue
        assert count <= events + said["summary"]["implied_frees"]
        assert said["shortfall"] and (said["missing"]["bytes"] or not said["complete"])
        assert re.match(r"\d+ of \d+ bytes cannot be read|the recording was cut off", said["shortfall"])
    assert refused < SEEDS * 0.9


def test_most_of_it_is_left(large: Path, tmp_path: Path) -> None:
    events, found = read(large)
    assert found["frames"] >= 4
    for seed in range(20):
        path = damaged(large.read_bytes(), tmp_path / "bad.trace", 2 * seed)
        with Trace(path) as trace:
            allocations = sum(int(np.isin(one["op"], ALLOCATIONS).sum()) for one in trace)
            said = trace.describe()
        lost = said["missing"]["records"]
        assert allocations + lost >= events / 2 and said["missing"]["frames"] <= 5
        assert f"{said['missing']['bytes']} of {large.stat().st_size} bytes" in said["shortfall"]


COMMANDS = {
    "info": ["trace", "info", "{}"],
    "info --json": ["trace", "info", "{}", "--json"],
    "frag": ["trace", "frag", "{}"],
    "replay": ["replay", "{}", "-a", "glibc"],
    "report": ["report", "{}", "-a", "glibc", "--rounds", "1", "-o", "{}.html"],
    "csv": ["trace", "export", "{}", "-o", "{}.csv"],
    "parquet": ["trace", "export", "{}", "-o", "{}.parquet"],
    "chrome": ["trace", "export", "{}", "-o", "{}.json"],
    "rt": ["trace", "export", "{}", "-f", "rt", "-o", "{}.txt"],
    "cut": ["trace", "cut", "{}", "--events", "100:10000000", "-o", "{}.trace"],
    "filter": ["trace", "filter", "{}", "--size", "1:100", "-o", "{}.trace"],
    "merge": ["trace", "merge", "{}", "{}", "-o", "{}.trace"],
    "anonymize": ["trace", "anonymize", "{}", "-o", "{}.trace"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_reads_what_is_whole(large: Path, tmp_path: Path, name: str) -> None:
    """And says how much is missing: on the page, with the figures, or on standard error."""
    whole = large.read_bytes()
    for kind in ("cut", "flipped", "headless"):
        path = tmp_path / f"{kind}.bin"
        path.write_bytes({"cut": whole[: len(whole) // 2], "headless": b"x" * 10 + whole[10:],
                          "flipped": whole[: len(whole) // 2] + b"????" + whole[len(whole) // 2 + 4 :]}[kind])
        done = subprocess.run([COMMAND, *(word.format(path) for word in COMMANDS[name])], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0 and "Traceback" not in done.stderr, f"{kind}: {done.stderr}"
        text = done.stdout + done.stderr
        if name == "report":
            text = path.with_suffix(".bin.html").read_text()
        expected = {"cut": "the recording was cut off", "flipped": "records in 1 frame are missing",
                    "headless": "the head is damaged"}[kind]
        assert expected in text and "bytes cannot be read" in text, f"{kind}: {text[:2000]}"
        if name in ("cut", "filter", "merge", "anonymize"):
            assert json.loads(coffer("trace", "info", f"{path}.trace", "--json"))["shortfall"] == ""


def test_nothing_to_report(traces: dict[str, Path], tmp_path: Path) -> None:
    none, cut, empty = (tmp_path / f"{name}.trace" for name in ("none", "cut", "empty"))
    coffer("trace", "filter", traces["handover"], "-o", none, "--thread", 9)
    cut.write_bytes(traces["handover"].read_bytes()[:200])
    empty.write_bytes(b"")
    page = tmp_path / "page.html"
    for path, said in ((none, "none.trace: nothing to report: the trace has no allocation and no free"),
                       (cut, "no allocation and no free; 91 of 200 bytes cannot be read"),
                       (empty, "empty.trace: byte 0: the file is empty")):
        error = coffer("report", path, "-o", page, status=1)
        assert said in error, error
        assert not page.exists()
        assert said.split(": ")[-1] in coffer("report", path, "-o", page, "-a", "none", status=1)
    assert "nothing was recorded" in coffer("trace", "info", none)
    assert "nothing to replay" in coffer("replay", none, status=1)


def test_what_was_freed_and_never_allocated_is_counted(large: Path, tmp_path: Path) -> None:
    """As of blocks from before the recording; and the summary says so."""
    whole = large.read_bytes()
    first = whole.index(b"CFR2")
    (tmp_path / "x.trace").write_bytes(whole[: first + 200] + b"????" + whole[first + 204 :])
    with Trace(tmp_path / "x.trace") as trace:
        frees = sum(int((events["op"] == Op.FREE).sum()) for events in trace)
        said = trace.describe()
    assert said["missing"]["frames"] == 1 and said["summary"]["unknown_frees"] > 0 and frees > 0
    assert "from before the recording" in coffer("trace", "info", tmp_path / "x.trace")
