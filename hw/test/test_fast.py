"""Verilator and ghdl give the same log, line by line. COFFER_HW_LONG=1 compares more units, each with a compilation of
its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replay import HERE, Bench, generics_for

sys.path.insert(0, str(HERE / "fast"))

import fast  # noqa: E402

UNITS = ("hbs", "ohebs", "ohebs_joining", "ohebs_shared_joining") if os.environ.get("COFFER_HW_LONG") else ("hbs",)


@pytest.mark.parametrize("unit", UNITS)
def test_both_write_the_same_log(bench: Bench, make_trace: Callable[..., Path], tmp_path: Path, unit: str) -> None:
    generics = generics_for(unit)
    for kind, gap in (("mixed", -1), ("bursts", 5)):
        trace = make_trace(kind, 11, 600, 65536)
        logs = [tmp_path / f"{kind}_{name}" for name in ("ghdl", "verilator")]
        # HBS is made for 32 MB in the bench; the SDRAM's refreshes fall where they fall in both.
        result = bench.replay(trace, logs[0], memory="sdram", gap=gap, heap_log2=16, **generics)
        assert result.ok, result.message
        summary = fast.replay(trace, unit, "sdram", logs[1], gap=gap, heap_log2=25 if unit == "hbs" else 16)
        assert "replayed" in summary
        lines = logs[0].read_text()
        assert lines.count("\n") > 500 and lines == logs[1].read_text()


def test_what_is_wrong_ends_in_one_line(tmp_path: Path) -> None:
    head = "# coffer-rt vectors 1\npolicy knuth\nheap 4096\nmin 16\n"
    for text, message in ((head, "the trace has no call"), ("heap 1\n", "is no trace"),
                          (head + "a 18 00000024\n", "the model answers otherwise"),
                          (head + "a 18\n", "a field is missing"), (head + "f 00000004\n", "frees what is not live"),
                          (head.replace("4096", "4095"), "takes no heap")):
        trace = tmp_path / "trace"
        trace.write_text(text)
        with pytest.raises(fast.FastError, match=message) as caught:
            fast.replay(trace, "hbs", "sdram", heap_log2=25)
        assert "\n" not in str(caught.value)
