"""Traces through the units: coffer-rt's vectors, and random calls of every kind with the model's answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from replay import Bench, generics_for

VECTORS = Path(__file__).resolve().parent.parent.parent / "rt" / "vectors"
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


@pytest.mark.parametrize("unit", ["ohebs", "ohebs_waiting", "ohebs_posted", "ohebs_joining", "ohebs_tight"])
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
    assert len(lines) == 400 and all(len(line.split()) == 8 for line in lines)
