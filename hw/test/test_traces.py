# SPDX-License-Identifier: MIT
"""Traces through the units: coffer-rt's vectors, and random calls of every kind with the model's answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replay import Bench, ReplayError, buffer_generics, generics_for

HW = Path(__file__).resolve().parent.parent
VECTORS = HW.parent / "rt" / "vectors"
MEGABYTE = 2 ** 20


@pytest.mark.parametrize("memory", ["plain", "sdram"])
@pytest.mark.parametrize("unit", ["hbs", "hbs_reference"])
@pytest.mark.parametrize("name", ["knuth_small", "knuth_mixed"])
def test_vectors(bench: Bench, name: str, unit: str, memory: str) -> None:
    """The vectors end with every block's header, so the memory is compared too."""
    result = bench.replay(VECTORS / f"{name}.txt", unit=unit, memory=memory)
    assert result.ok, result.message
    assert "401 calls" in result.message and " 0 headers" not in result.message


@pytest.mark.parametrize("free_bit", ["'0'", "'1'"])
@pytest.mark.parametrize("kind", ["small", "mixed", "full", "bursts", "wrong"])
def test_random(bench: Bench, make_trace: Callable[..., Path], kind: str, free_bit: str) -> None:
    heap = 65536 if kind in ("full", "wrong") else 32 * MEGABYTE
    result = bench.replay(make_trace(kind, 7, 1500, heap), unit="hbs", memory="plain", free_bit=free_bit)
    assert result.ok, result.message
    assert kind != "full" or " 0 refused" not in result.message


def test_reference_finds_later_but_the_same(bench: Bench, make_trace: Callable[..., Path], tmp_path: Path) -> None:
    trace = make_trace("mixed", 3, 1000, MEGABYTE)
    logs = {}
    for unit in ("hbs", "hbs_reference"):
        log = tmp_path / unit
        result = bench.replay(trace, log, unit=unit)
        assert result.ok, result.message
        logs[unit] = [line.split() for line in log.read_text().splitlines()]
    optimised, reference = logs["hbs"], logs["hbs_reference"]
    assert len(optimised) == len(reference) == 1000
    for fast, slow in zip(optimised, reference):
        assert fast[:3] == slow[:3]  # kind, bytes, answer
    finds = [int(row[3]) for row in optimised if row[0] == "a" and row[2] != "ffffffff"]
    assert set(finds) == {1}, "Fast Find takes one step"
    assert max(int(row[3]) for row in reference if row[0] == "a") > 5
    # Fast Return: with SDRAM, what is left after the answer is most of the work.
    answer = sum(int(row[6]) for row in optimised if row[0] == "a")
    total = sum(int(row[5]) for row in optimised if row[0] == "a")
    assert answer < total / 2


@pytest.mark.parametrize("unit", ["ohebs", "ohebs_waiting", "ohebs_posted", "ohebs_joining", "ohebs_tight",
                                  "ohebs_shared", "ohebs_shared_tight"])
@pytest.mark.parametrize(("kind", "heap"), [("small", 1024), ("mixed", 16384), ("full", 65536), ("bursts", 65536)])
def test_ohebs(bench: Bench, make_trace: Callable[..., Path], kind: str, heap: int, unit: str) -> None:
    """The program writes what looks like headers and links all over its blocks, and nothing comes of it. No block is
    handed out twice; where buddies join, no request is refused that Knuth's system would have served."""
    gap = {"small": 0, "mixed": -1, "full": 3, "bursts": 40}[kind]
    result = bench.replay(make_trace(kind, 9, 1000, heap), memory="plain", scribble=20, gap=gap, patience=20000,
                          heap_log2=16, **generics_for(unit))
    assert result.ok, result.message


@pytest.mark.parametrize("name", ["estranged_small", "estranged_mixed"])
def test_ohebs_runs_the_vectors(bench: Bench, name: str) -> None:
    result = bench.replay(VECTORS / f"{name}.txt", memory="sdram", **generics_for("ohebs"))
    assert result.ok, result.message


def test_calls_that_come_at_once_wait_and_agree(bench: Bench, make_trace: Callable[..., Path]) -> None:
    """With Fast Return the next call may come while the last is still at work."""
    trace = make_trace("mixed", 5, 1000, MEGABYTE)
    for gap in (0, 1, 7):
        result = bench.replay(trace, unit="hbs", memory="sdram", gap=gap)
        assert result.ok, result.message


def test_a_log_has_a_line_for_each_call(bench: Bench, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert bench.replay(VECTORS / "knuth_small.txt", log).ok
    lines = log.read_text().splitlines()
    assert len(lines) == 400 and all(len(line.split()) == 9 for line in lines)


def test_loads_and_stores_reach_the_unit_between_calls(bench: Bench, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("# coffer-rt vectors 1\npolicy knuth\nheap 4096\nmin 16\na 60 00000004\na 28 00000044\n"
                     "l 00000004 00000020 8\ng 50\ns 00000044 00000018\nl ffffffff 00000ff0 4\nf 00000004\n")
    result = bench.replay(trace, memory="plain", gap=0, **generics_for("ohebs"))
    assert result.ok and "13 accesses" in result.message, result.message
    assert result.times["access answer"].least > 0


@pytest.mark.parametrize(("records", "message"), [
    ("l 00000004 0000003c 8\n", "an access outside of live blocks"),
    ("l 00000014 00000000 8\n", "an access outside of live blocks"),
    ("f 00000004\ns 00000004 00000000\n", "an access outside of live blocks"),
    ("l 00001004 00000000 8\n", "no block can be at"),
    ("s ffffffff 00001000\n", "no word has this offset"),
    ("s 00000004 00000002\n", "no word has this offset"),
    ("l 00000004 00000000 3\n", "a line has 1, 2, 4"),
    ("l 00000004 00000000\n", "a field is missing"),
])
def test_accesses_that_cannot_be(bench: Bench, tmp_path: Path, records: str, message: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(f"# coffer-rt vectors 1\npolicy knuth\nheap 4096\nmin 16\na 60 00000004\n{records}")
    result = bench.replay(trace, memory="plain", gap=0, **generics_for("ohebs"))
    assert not result.ok and message in result.message, result.message
    result = bench.replay(trace, memory="plain", **generics_for("hbs"))
    assert not result.ok


@pytest.mark.parametrize("buffers", [
    {"depth": 2}, {"depth": 24, "small_depth": 63}, {"depth": 4, "marks": (2, 2)}, {"set_marks": (5, 5)}])
def test_other_buffers(bench: Bench, make_trace: Callable[..., Path], tmp_path: Path, buffers: dict) -> None:
    log = tmp_path / "log"
    result = bench.replay(make_trace("bursts", 4, 600, 65536), log, memory="plain", gap=0, heap_log2=16,
                          **buffer_generics(**buffers), **generics_for("ohebs"))
    assert result.ok, result.message
    ways = [line.split()[8] for line in log.read_text().splitlines() if line[0] == "a"]
    assert {"d", "c"} <= set(ways) <= {"d", "p", "c", "-"}


@pytest.mark.parametrize("marks", [(8, 8), (3, 2), (2, 9)])
def test_marks_that_cannot_be(marks: tuple[int, int]) -> None:
    with pytest.raises(ReplayError, match="marks"):
        buffer_generics(set_marks=marks)


def test_a_cache_lets_misses_through(answers: Path) -> None:
    """A cache of two lines of 16 bytes: what it must ask of memory, word for word."""
    calls = ("a 1 60\nl 1 0 4\nl 1 12 4\ng 5\ns 1 16 4\ng 3\nl 0 4096 4\nl 0 8192 8\nf 1\nl 0 16 4\n")
    run = subprocess.run([answers, "knuth", "65536", "32", "2", "16"], input=calls, text=True, capture_output=True,
                         check=True)
    assert [line for line in run.stdout.splitlines()[4:] if line[0] != "h"] == [
        "a 60 00000004",
        "l 00000004 00000000 4",  # the line of 0 to 12
        "l 00000004 0000000c 4",  # 16 to 28
        # The store's line, 16 bytes from the block's beginning, is that one.
        "g 8",
        "l ffffffff 00001000 4",  # the first line leaves, clean
        "s 00000004 00000010", "l ffffffff 00002000 4",
        "f 00000004", "l ffffffff 00000010 4"]
    assert run.stderr == "accesses 6 misses 5 written_back 1\n"


def test_what_is_freed_is_not_written_back(answers: Path) -> None:
    calls = "a 1 60\ns 1 0 8\nf 1\nl 0 0 4\nl 0 64 4\nl 0 128 4\n"
    run = subprocess.run([answers, "knuth", "65536", "32", "2", "16"], input=calls, text=True, capture_output=True,
                         check=True)
    assert "\ns " not in run.stdout and run.stderr.endswith("written_back 0\n")


@pytest.mark.parametrize("cache", [("32", "2", "12"), ("0", "1", "16"), ("16", "2", "16"), ("x", "2", "16"),
                                   ("33554432", "1", "32"), ("512", "1", "256")])
def test_caches_that_cannot_be(answers: Path, cache: tuple[str, ...]) -> None:
    run = subprocess.run([answers, "knuth", "65536", *cache], input="", text=True, capture_output=True, check=False)
    assert run.returncode == 1 and run.stderr.startswith("answers: a ") and run.stderr.count("\n") == 1


def test_refreshes_keep_their_pace_under_load(bench: Bench, make_trace: Callable[..., Path]) -> None:
    """Each comes late behind a transfer, but the next not later for it: the chips demand 4,096 in 64 ms."""
    result = bench.replay(make_trace("small", 1, 60, 65536), memory="sdram", lead=1000, patience=1000000)
    assert result.ok, result.message


@pytest.mark.parametrize("words", [["none", "1", "5", "4096"], ["mixed", "x", "5", "4096"],
                                   ["mixed", "1", "-5", "4096"],
                                   ["wrong", "1", "5", "0"], ["mixed", "1", "5"]])
def test_calls_that_cannot_be_made(words: list[str]) -> None:
    run = subprocess.run([sys.executable, "-B", HW / "sim" / "calls.py", *words], text=True, capture_output=True,
                         check=False)
    assert run.returncode == 2 and run.stderr.startswith("Random calls for sim/answers.c")
