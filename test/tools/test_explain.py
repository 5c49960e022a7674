# SPDX-License-Identifier: MIT
"""coffer explain: resident memory by reason, of mappings that are made up and of processes that run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from coffer import places
from coffer.explain import mappings
from in_process import run
from ready import ready

PROGRAM = Path(os.environ["COFFER_HEAP_PROGRAM"])
DUMP = int(signal.SIGRTMIN) + 8


def smaps(*lines: str) -> str:
    """BEGIN SIZE RIGHTS RSS NAME, sizes in KiB."""
    text = ""
    for line in lines:
        begin, size, rights, rss, name = (*line.split(maxsplit=4), "")[:5]
        text += f"{int(begin, 16):x}-{int(begin, 16) + int(size) * 1024:x} {rights} 00000000 00:00 0 {name:>20}\n"
        text += f"Size:  {size} kB\nRss:  {rss} kB\nSwap:  0 kB\nAnonHugePages:  0 kB\nVmFlags: rd wr\n"
    return text


SPAN = 0x7F0000000000
UNNAMED = smaps(
    "555500000000 4096 r-xp 300 /usr/bin/prog",
    "555600000000 1024 rw-p 200 [heap]",
    "7f0000000000 2048 rw-p 2000",  # a chunk
    "7f0000200000 200000000 ---p 0",
    "7f2faf280000 64 rw-p 40",  # records, behind it
    "7f4000000000 4 ---p 0",
    "7f4000001000 8192 rw-p 16",  # a stack with its guard
    "7f5000000000 132 rw-p 100",  # another allocator's
    "7f5000021000 65404 ---p 0",
    "7f6000000000 100 rw-s 30 /dev/shm/x",
    "7ffe00000000 132 rw-p 20 [stack]",
)


def test_whose_the_mappings_are() -> None:
    found = mappings.sums(mappings.parse(UNNAMED), [SPAN])
    expected = {"blocks": 2000, "metadata": 40, "stacks": 36, "files": 300, "shared": 30, "brk": 200, "others": 100}
    assert found == {kind: size * 1024 for kind, size in expected.items()}
    named = smaps("7f0000000000 2000 rw-p 1000 [anon:coffer arena]", "7f0000200000 64 rw-p 50 [anon:coffer metadata]",
                  "7f0000300000 2048 rw-p 70", "7f0000400000 64 rw-p 9 [anon:coffer heaps]")
    found = mappings.sums(mappings.parse(named), [SPAN])
    assert {kind: size for kind, size in found.items() if size} == {
        "blocks": 1000 * 1024, "metadata": 59 * 1024, "others": 70 * 1024}


def explained(process: int, *words: object) -> dict[str, Any]:
    """On a busy machine a process may not answer in time, and then its figures are old: once more."""
    for _ in range(5):
        found = json.loads(run("explain", process, "--json", *words).stdout)
        if not any("did not answer" in note for note in found["notes"]):
            break
    return found


def rss_of(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def test_the_reasons_add_up(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(places.library()), "COFFER_CONF": "share:true"}
    with ready([PROGRAM, "fragment"], cwd=tmp_path, env=environment) as started:
        before = rss_of(started.pid)
        found = explained(started.pid)
        after = rss_of(started.pid)
        text = run("explain", "--pid", started.pid).stdout
    by_key = {one["key"]: one["bytes"] for one in found["reasons"]}
    assert sum(by_key.values()) == found["rss"]
    assert 0.95 * min(before, after) <= found["rss"] <= 1.05 * max(before, after)
    # 50,000 blocks of 500 bytes were freed; 7,143 stay.
    assert 0.8 * 50_000 * 512 < by_key["spans"] < 1.2 * 50_000 * 512 and found["fullest_class"] == 512
    assert 7_143 * 500 < by_key["live"] < 1.5 * 7_143 * 512
    assert all(one["release"] for one in found["reasons"])
    first = text.splitlines()[0]
    assert "free in spans" in first and "most of 512-byte blocks" in first and "malloc_trim(0)" in text


def test_a_process_is_asked_who_holds_it(tmp_path: Path) -> None:
    conf = f"share:true,profile:true,profile_rate:16K,dump_signal:{DUMP}"
    environment = {**os.environ, "LD_PRELOAD": str(places.library()), "COFFER_CONF": conf}
    with ready([PROGRAM, "fragment"], cwd=tmp_path, env=environment) as started:
        for words in (["--who"], ["--dump-signal", DUMP]):
            found = explained(started.pid, *words)
            assert found["survivors"][0]["function"] == "seeded::keep_index"
            assert sum(one["bytes"] for one in found["reasons"]) == found["rss"]


def test_what_rounding_costs_is_told_apart(tmp_path: Path) -> None:
    """900 bytes lie in a class of 960; at every block the profile knows it exactly."""
    conf = f"share:true,profile:true,profile_rate:1,dump_signal:{DUMP}"
    environment = {**os.environ, "LD_PRELOAD": str(places.library()), "COFFER_CONF": conf}
    with ready([PROGRAM, "rounded"], cwd=tmp_path, env=environment) as started:
        by_key = {one["key"]: one["bytes"] for one in explained(started.pid, "--who")["reasons"]}
        without = explained(started.pid)["reasons"]
    assert by_key["live"] == pytest.approx(10_000 * 900, rel=0.05)
    assert 10_000 * 4 < by_key["rounding"] < 10_000 * 64 and "rounding" not in {one["key"] for one in without}


def test_what_is_wrong() -> None:
    assert "no process" in run("explain", 4_000_000, status=1).stderr
    assert "one of them is needed" in run("explain", status=1).stderr
    sleeper = subprocess.Popen(["sleep", "30"])
    try:
        assert "does not run Coffer" in run("explain", sleeper.pid, status=1).stderr
    finally:
        sleeper.kill()
        sleeper.wait()
    assert "No such file" in run("explain", "--", "/nonexistent/program", status=127).stderr
