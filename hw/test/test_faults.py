# SPDX-License-Identifier: MIT
"""What goes wrong ends in one clear line: malformed traces, wrong answers, units that do not answer, and memory whose
timing is not kept. Faults seeded in the units are found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replay import BUILD, HERE, Bench, generics_for

HEAD = "# coffer-rt vectors 1\npolicy knuth\nheap 4096\nmin 16\n"


MALFORMED = [
    ("", "the file is empty"),
    ("heap 4096\n", "the first line must be"),
    ("# coffer-rt vectors 2\n", "the first line must be"),
    (HEAD, "the trace has no call"),
    (HEAD + "\n", ":5: an empty line"),
    (HEAD + "b 1\n", ":5: no such record"),
    (HEAD + "allocate 1\n", ":5: no such record"),
    (HEAD + "a\n", ":5: a field is missing"),
    (HEAD + "a 18\n", ":5: a field is missing"),
    (HEAD + "a  18 00000004\n", ":5: a field is missing"),
    (HEAD + "a x8 00000004\n", ":5: not a decimal number"),
    (HEAD + "a -1 00000004\n", ":5: not a decimal number"),
    (HEAD + "a 99999999999 00000004\n", ":5: the number is too large"),
    (HEAD + "a 18 4\n", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 0000000g\n", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 000000040\n", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 00000004 \n", ":5: something stands behind"),
    (HEAD + "a 18 00000004 5\n", ":5: something stands behind"),
    (HEAD + "a 18 000000040000000000\n", ":5: the field is too long"),
    (HEAD + "#" * 500 + "\n", ":5: the line is too long"),
    (HEAD + "x 00000004 good\n", ":5: 'bad' or 'double'"),
    (HEAD + "f 00000004\n", ":5: the trace frees what is not live"),
    (HEAD + "f 00002004\n", ":5: no block can be at"),
    (HEAD + "heap 4096\n", ":5: a second heap"),
    (HEAD + "min 32\n", ":5: the smallest block has 16 bytes"),
    (HEAD.replace("knuth", "estranged"), ":2: this unit's policy is knuth"),
    (HEAD.replace("4096", "4095"), ":3: the unit takes no heap"),
    (HEAD.replace("4096", "0"), ":3: the unit takes no heap"),
    ("# coffer-rt vectors 1\na 1 00000004\n", ":2: the heap's size must come first"),
    (HEAD + "a 18 00000024\n", ":5: the model answers 00000024, the unit 00000004"),
    (HEAD + "a 18 ffffffff\n", ":5: the model answers FFFFFFFF, the unit 00000004"),
    (HEAD + "a 5000 00000004\n", ":5: the model answers 00000004, the unit FFFFFFFF"),
    (HEAD + "a 18 00000004\nx 00000004 bad\n", ":6: a wrong free ended with status 000"),
    (HEAD + "a 18 00000004\nh 00000000 00000021\n", ":6: the header is 00000021, not 00000020"),
    # What a broken tool writes: numbers that are none, a line that is cut off, blocks freed twice or never known.
    (HEAD + "a nan 00000004\n", ":5: not a decimal number"),
    (HEAD + "a inf 00000004\n", ":5: not a decimal number"),
    (HEAD + "a 1e3 00000004\n", ":5: not a decimal number"),
    (HEAD + "a 18 nan\n", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 0000004\n", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 0000", ":5: eight hexadecimal digits"),
    (HEAD + "a 18 00000004\nf 000", ":6: eight hexadecimal digits"),
    (HEAD + "a 18 00000004\nf", ":6: a field is missing"),
    (HEAD + "a 18 00000004\nf 00000004\nf 00000004\n", ":7: the trace frees what is not live"),
    (HEAD + "a 18 00000004\nf 00000014\n", ":6: the trace frees what is not live"),
    (HEAD + "f ffffffff\n", ":5: no block can be at"),
    (HEAD + "f 00000000\n", ":5: no block can be at"),
    (HEAD + "a 0 00000004\nf 00000008\n", ":6: no block can be at"),
    (HEAD + "a 0 00000004\nf 00000014\n", ":6: the trace frees what is not live"),
    (HEAD + "h 00004000 00000020\n", ":5: no header can be at"),
    (HEAD + "h 00000002 00000020\n", ":5: no header can be at"),
    (HEAD + "g 999999999999\n", ":5: the number is too large"),
    (HEAD + "A 18 00000004\n", ":5: no such record"),
    (HEAD + "\ta 18 00000004\n", ":5: no such record"),
    # CR LF ends a line, a CR alone none (`LINE_ENDS`).
    (HEAD + "a 18 00000004\rf 00000004\n", ":5: a carriage return that does not end the line"),
    (HEAD + "a 18 00000004\r\r\nf 00000004\n", ":5: a carriage return that does not end the line"),
    (HEAD + "a 18 00000004\nf 00000004\r", ":6: a carriage return that does not end the line"),
    (HEAD.replace("\n", "\r"), ":1: a carriage return that does not end the line"),
    (HEAD.replace("heap 4096", "heap 2147483648"), ":3: the number is too large"),
    (HEAD.replace("heap 4096", "heap 1073741824"), ":3: the unit takes no heap"),
]


LINE_ENDS = ["\n", "\r\n"]


@pytest.mark.parametrize("end", LINE_ENDS)
def test_lines_end_as_unix_or_windows_have_it(bench: Bench, tmp_path: Path, end: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_bytes((HEAD + "a 18 00000004\nf 00000004\n").replace("\n", end).encode())
    result = bench.replay(trace, memory="plain")
    assert result.ok and "1 allocations" in result.message and "1 frees" in result.message, result.message


# Of units whose placement is their own, addresses are names; they too must be those of blocks.
NAMES = [
    ("a 18 80000004\n", ":5: no block can be at"), ("a 18 00000000\n", ":5: no block can be at"),
    ("a 18 00000008\n", ":5: no block can be at"), ("a 18 00001004\n", ":5: no block can be at"),
    ("a 18 00000004\na 18 00000004\n", ":6: the trace gives out what is live"),
    ("l 00000008 00000000 4\n", ":5: no block can be at"),
]


@pytest.mark.parametrize(("text", "message"), NAMES)
def test_names_that_cannot_be(bench: Bench, tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(HEAD + text)
    result = bench.replay(trace, memory="plain", heap_log2=16, **generics_for("ohebs_tight"))
    assert not result.ok and message in result.message, result.message


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_and_wrong_traces(bench: Bench, tmp_path: Path, text: str, message: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(text)
    result = bench.replay(trace, memory="plain")
    assert not result.ok
    assert message.lower() in result.message.lower()


def test_a_missing_trace(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-B", HERE / "sim" / "replay.py", tmp_path / "none"], text=True,
                         capture_output=True, check=False)
    assert run.returncode == 1 and "cannot be read" in run.stderr and run.stderr.count("\n") == 1


def test_a_log_that_cannot_be_written(make_trace: Callable[..., Path], tmp_path: Path) -> None:
    trace = make_trace("small", 1, 50, 65536)
    for log, message in ((tmp_path / "none" / "log", "No such file"),
                         (Path("/dev/full"), "the simulation stopped: file_close")):
        run = subprocess.run([sys.executable, "-B", HERE / "sim" / "replay.py", trace, "--log", log], text=True,
                             capture_output=True, check=False)
        assert run.returncode == 1 and message in run.stderr and run.stderr.count("\n") == 1, run.stderr


def test_the_watchdog_barks(bench: Bench, make_trace: Callable[..., Path]) -> None:
    result = bench.replay(make_trace("small", 1, 50, 65536), patience=20)
    assert not result.ok and "watchdog: no end of the call after 20 cycles" in result.message


@pytest.mark.parametrize(("generic", "value", "message"), [
    ("rcd", 1, "tRCD is not over"),
    ("rc", 6, "a command while the chip is busy"),
    ("refresh", 30000, "a refresh is missing"),
    ("refresh", 3000, "too few refreshes"),
])
def test_the_chips_mind_their_timing(bench: Bench, make_trace: Callable[..., Path], generic: str, value: int,
                                     message: str) -> None:
    result = bench.replay(make_trace("mixed", 1, 2000, 65536), **{generic: value})
    assert not result.ok and message in result.message, result.message


@pytest.mark.parametrize(("number", "change"), list(enumerate([
    # The thesis's section 5.4 looks at the free bit only (doc/decisions.md, 3).
    ("hbs.vhd", "read = header(current, free_bit_g)", "read(0) = free_bit_g"),
    ("hbs.vhd", "if behind = nothing_c then", "if true then"),
    ("hbs.vhd", "lists <= lists and not one_hot;", "null;"),
    ("fast_find.vhd", "unsigned(size_i) - 1", "unsigned(size_i)"),
    ("coffer_hw.vhd", "(bytes(1) or bytes(0))", "bytes(1)"),
])))
def test_seeded_faults_are_found(make_trace: Callable[..., Path], number: int, change: tuple[str, str, str]) -> None:
    bench = Bench(BUILD.parent / f"fault_{number}", change)
    result = bench.replay(make_trace("mixed", 2, 1000, 65536), memory="plain", patience=3000)
    assert not result.ok, f"nothing noticed: {change}"


@pytest.mark.parametrize(("number", "unit", "change"), [(number, *fault) for number, fault in enumerate([
    # The thesis's buddy test (3).
    ("ohebs", ("ram_index_controller.vhd", "if read = free_c then", "if read(0) = free_bit_g then")),
    # An allocation that does not write its header before the next call (5).
    ("ohebs", ("cpu_interface.vhd", "transfer('1', written)", "transfer('0', written)")),
    # The newest block drained first (5).
    ("ohebs_joining", ("free_buffer.vhd", "bottom_o    <= places(up(bottom));", "bottom_o <= places(top);")),
    # No credits (6).
    ("ohebs_tight", ("free_buffer.vhd", "count + reserved < depth_g", "count < depth_g")),
    # Refused without a flush (8).
    ("ohebs_joining", ("cpu_interface.vhd", "elsif tried = '0' then", "elsif false then")),
    ("ohebs", ("enhanced_fast_find.vhd", "not std_ulogic_vector(sum(31 downto 0)) and not available_i",
               "std_ulogic_vector(sum(31 downto 0)) and available_i")),
    ("ohebs", ("ram_index_controller.vhd", "if behind = nothing_c then", "if true then")),
])])
def test_seeded_faults_of_ohebs_are_found(make_trace: Callable[..., Path], number: int, unit: str,
                                          change: tuple[str, str, str]) -> None:
    bench = Bench(BUILD.parent / f"fault_ohebs_{number}", change)
    results = [bench.replay(make_trace(kind, 2, 1500, heap), memory="plain", patience=20000, scribble=20, heap_log2=16,
                            **generics_for(unit))
               for kind, heap in (("small", 1024), ("mixed", 1024), ("bursts", 65536))]
    assert not all(result.ok for result in results), f"nothing noticed: {change}"
