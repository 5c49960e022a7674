# SPDX-License-Identifier: MIT
"""Verilator and ghdl give the same log, line by line, and the same sums. COFFER_HW_LONG=1 compares more units, each
with a compilation of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replay import HERE, Bench, ReplayError, generics_for
from test_faults import HEAD, LINE_ENDS, MALFORMED, NAMES

sys.path.insert(0, str(HERE / "fast"))

import fast  # noqa: E402

LONG = bool(os.environ.get("COFFER_HW_LONG"))
UNITS = ("hbs", "ohebs", "ohebs_waiting", "ohebs_posted", "ohebs_joining", "ohebs_tight", "ohebs_shared_joining",
         "ohebs_shared_tight") if LONG else ("hbs", "ohebs_tight")
HEAP_LOG2 = 12
HEAP = 2 ** HEAP_LOG2


HBS = {**generics_for("hbs"), "heap_log2": HEAP_LOG2}


@pytest.fixture(scope="session")
def machine() -> fast.Machine:
    return fast.Machine(jobs=2)


def compare(bench: Bench, machine: fast.Machine, trace: Path, folder: Path, **generics: str | int) -> int:
    """Replays by both; returns the lines of the log."""
    logs = [folder / f"{trace.stem}_{name}" for name in ("ghdl", "verilator")]
    results = [one.replay(trace, log, **generics) for one, log in zip((bench, machine), logs, strict=True)]
    assert all(result.ok for result in results), results
    assert results[0].times.keys() == results[1].times.keys()
    for name, row in results[0].times.items():
        other = results[1].times[name]
        assert (row.least, row.most) == (other.least, other.most) and abs(row.mean - other.mean) < 0.06, name
    # The bench tells the time, this the cycles and how fast they went by.
    sums = [result.message.partition(" transfers,")[0] for result in results]
    # Headers that are looked at in ghdl are transfers, but the bench's own.
    assert sums[0] == sums[1]
    assert logs[0].read_text() == logs[1].read_text()
    return logs[0].read_text().count("\n")


@pytest.mark.parametrize("unit", UNITS)
def test_both_write_the_same_log(bench: Bench, machine: fast.Machine, make_trace: Callable[..., Path], tmp_path: Path,
                                 unit: str) -> None:
    # Few sizes make a unit that is compiled soon.
    for kind, gap, memory in (("mixed", -1, "sdram"), ("bursts", 5, "sdram"), ("full", 0, "sdram"),
                              ("mixed", 7, "plain")):
        assert compare(bench, machine, make_trace(kind, 11, 600, HEAP), tmp_path, memory=memory, plain=3, gap=gap,
                       heap_log2=HEAP_LOG2, **generics_for(unit)) > 400


def test_both_pass_loads_and_stores(bench: Bench, machine: fast.Machine, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    lines = []
    for number in range(40):
        lines += [f"g {number}", f"a 60 {64 * number + 4:08x}", f"l {64 * number + 4:08x} 00000020 8",
                  f"g {3 * number}", f"s {64 * number + 4:08x} {number % 14 * 4:08x}",
                  f"l ffffffff {number * 64:08x} 4"]
    lines += [f"f {64 * number + 4:08x}" for number in range(40)]
    trace.write_text("# coffer-rt vectors 1\npolicy knuth\nheap 4096\nmin 16\n" + "\n".join(lines) + "\n")
    assert compare(bench, machine, trace, tmp_path, memory="sdram", gap=0, lead=13, heap_log2=HEAP_LOG2,
                   set_low=1, set_high=1, **generics_for("ohebs_tight")) == 80


def test_headers_are_looked_at_when_the_last_call_is_over(bench: Bench, machine: fast.Machine, answers: Path,
                                                          tmp_path: Path) -> None:
    """With Fast Return its cut goes on behind the answer, here through all sizes of the heap."""
    trace = tmp_path / "trace.txt"
    with trace.open("wb") as out:
        subprocess.run([answers, "knuth", str(HEAP)], input=b"a 1 8\n", stdout=out, check=True)
    assert compare(bench, machine, trace, tmp_path, memory="sdram", lead=13, gap=0, **HBS) == 1


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_and_wrong_traces_end_as_in_ghdl(machine: fast.Machine, tmp_path: Path, text: str,
                                                   message: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(text)
    result = machine.replay(trace, memory="plain", **HBS)
    assert not result.ok and "\n" not in result.message
    assert message.lower() in result.message.lower()


@pytest.mark.parametrize("end", LINE_ENDS)
def test_lines_end_as_in_ghdl(machine: fast.Machine, tmp_path: Path, end: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_bytes((HEAD + "a 18 00000004\nf 00000004\n").replace("\n", end).encode())
    result = machine.replay(trace, memory="plain", **HBS)
    assert result.ok and "1 allocations" in result.message and "1 frees" in result.message, result.message


@pytest.mark.parametrize(("text", "message"), NAMES)
def test_names_that_cannot_be_end_as_in_ghdl(machine: fast.Machine, tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(HEAD + text)
    result = machine.replay(trace, memory="plain", heap_log2=HEAP_LOG2, **generics_for("ohebs_tight"))
    assert not result.ok and message in result.message, result.message


def test_what_else_is_wrong(machine: fast.Machine, make_trace: Callable[..., Path], tmp_path: Path) -> None:
    result = machine.replay(tmp_path / "none", **HBS)
    assert not result.ok and result.message.endswith("none: cannot be read")
    trace = make_trace("small", 1, 50, HEAP)
    result = machine.replay(trace, tmp_path / "none" / "log", **HBS)
    assert not result.ok and "cannot be written" in result.message
    result = machine.replay(trace, Path("/dev/full"), **HBS)
    assert not result.ok and "cannot be written" in result.message
    result = machine.replay(trace, patience=20, **HBS)
    assert not result.ok and "watchdog: no end of the call after 20 cycles" in result.message
    with pytest.raises(ReplayError, match="no unit is called none"):
        machine.replay(trace, unit="none")
    with pytest.raises(ReplayError, match="set by the program"):
        machine.replay(trace, unit="ohebs", low=1, high=1)


@pytest.mark.parametrize("program", ["sim/replay.py", "fast/fast.py"])
@pytest.mark.parametrize(("options", "status", "message"), [
    (["--gap", "-2"], 2, "-2 is not from 0 to 2147483647"),
    (["--gap", "2147483648"], 2, "2147483648 is not from 0 to 2147483647"),
    (["--gap", "soon"], 2, "invalid cycles value: 'soon'"),
    (["--lead", "1001"], 2, "--lead is from 0 to 1000"),
    (["--log", "/nowhere/log"], 1, "/nowhere/log: "),
])
def test_options_that_cannot_be(program: str, options: list[str], status: int, message: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(HEAD)
    done = subprocess.run([sys.executable, "-B", HERE / program, trace, "--unit", "hbs", *options], text=True,
                          capture_output=True, check=False)
    assert done.returncode == status and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Errno" not in done.stderr
