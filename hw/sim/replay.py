#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replays a trace through a unit in ghdl: replay.py TRACE [--unit hbs] [--memory sdram] [--log FILE].

Every answer is checked; times are logged (doc/bench.md). Ends with 1 and one line that says why if an answer is wrong,
the trace is malformed, or the unit does not come to an end.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")).resolve() / "replay"
# A VHDL natural's greatest value.
MOST_CYCLES = 2**31 - 1
FLAGS = ["--std=08", "-Wno-hide"]
UNITS = ("hbs", "hbs_reference", "ohebs", "ohebs_waiting", "ohebs_posted", "ohebs_joining", "ohebs_tight",
         "ohebs_shared", "ohebs_shared_joining", "ohebs_shared_tight")
# The benches that VUnit runs need its library; a trace needs none.
SOURCES = sorted((HERE / "rtl").glob("*.vhd")) + [HERE / "tb" / f"{name}.vhd" for name in (
    "sparse_memory", "plain_memory", "sdram_chip", "sdram_bank", "owners", "trace_file", "unit_under_trace",
    "unit_calls", "unit_harness", "call_times", "tb_trace")]


# Their refusals are not promised to be necessary: Estranged Buddy leaves buddies apart.
STRANDING = ("ohebs", "ohebs_waiting", "ohebs_posted", "ohebs_shared")


def generics_for(unit: str) -> dict[str, str]:
    """What tb_trace must know of a unit: HBS answers as coffer-rt's model does, OHEBS has a placement of its own."""
    return {"unit": unit, "exact": str(unit.startswith("hbs")).lower(), "strands": str(unit in STRANDING).lower()}


class ReplayError(Exception):
    """What the user can mend, in one line."""


def marks_of(text: str | None) -> tuple[int, int] | None:
    """LOW,HIGH."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,2}),(\d{1,2})", text)
    if match is None:
        raise ReplayError(f"{text}: marks are LOW,HIGH")
    return int(match.group(1)), int(match.group(2))


def buffer_generics(depth: int = 0, marks: tuple[int, int] | None = None, set_marks: tuple[int, int] | None = None,
                    small_depth: int = 0, small_to: int = 7) -> dict[str, int]:
    """Of OHEBS's buffers, where they are to be other than the unit's name says: places, of indices up to `small_to` and
    of the others; marks at reset; marks that the program sets."""
    least = min(depth or 8, small_depth or 64)
    for low, high in filter(None, (marks, set_marks)):
        if not low <= high <= least or low >= least:
            raise ReplayError(f"marks {low},{high}: low < {least} places, low <= high <= {least}")
    result = {"depth": depth, "small_depth": small_depth, "small_to": small_to}
    if marks is not None:
        result |= {"low": marks[0], "high": marks[1]}
    if set_marks is not None:
        result |= {"set_low": set_marks[0], "set_high": set_marks[1]}
    return result


class Row(NamedTuple):
    """Of one kind of time: nanoseconds."""
    least: int
    mean: float
    most: int


class Result(NamedTuple):
    ok: bool
    message: str  # the summary, or what went wrong
    times: dict[str, Row]

    def tell(self) -> None:
        for name, row in self.times.items():
            print(f"{name:13} min {row.least:6}  mean {row.mean:8.1f}  max {row.most:6} ns")
        print(self.message)


def unreadable(trace: Path) -> str | None:
    """What keeps a trace from being read at all, for ghdl and Verilator alike. A line ends with LF or CR LF: ghdl's
    readline would take a CR alone for an end too, C++ for a character, and the two would count lines differently."""
    try:
        with trace.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if b"\r" in line.removesuffix(b"\r\n"):
                    return f"{trace.resolve()}:{number}: a carriage return that does not end the line"
    except OSError:
        return f"{trace}: cannot be read"
    return None


def parse(output: str) -> Result:
    """What a bench has told: a line for each kind of time, and a summary."""
    done = re.findall(r"(replayed \d+ calls: .*)", output)
    if len(done) != 1:
        return Result(False, f"the simulation stopped: {output.strip()[-300:]}", {})
    times = {name: Row(int(least), float(mean), int(most)) for name, least, mean, most in re.findall(
        r"(\w+ \w+): min (\d+), mean ([\d.]+), max (\d+) ns", output)}
    return Result(True, done[0], times)


class Bench:
    """The compiled bench. `change` is (file name, old text, new text): a fault to be seeded, for tests."""

    def __init__(self, directory: Path = BUILD, change: tuple[str, str, str] | None = None) -> None:
        self.directory = directory
        self.change = change

    def ghdl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(["ghdl", *arguments], cwd=self.directory, text=True, capture_output=True, check=False)
        except FileNotFoundError:
            raise ReplayError("ghdl is missing: tools/setup.sh hw") from None

    def sources(self) -> list[str]:
        if self.change is None:
            return list(map(str, SOURCES))
        name, old, new = self.change
        paths = []
        for source in SOURCES:
            if source.name == name:
                text = source.read_text(encoding="utf-8")
                if text.count(old) != 1:
                    raise ReplayError(f"{name}: '{old}' is not there once")
                source = self.directory / name
                source.write_text(text.replace(old, new), encoding="utf-8")
            paths.append(str(source))
        return paths

    def build(self) -> None:
        """Compiles if something has changed. Several may come at once, as tests do."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = self.directory / "complete"
            if stamp.exists() and stamp.read_text() == repr(self.change) and all(
                    source.stat().st_mtime < stamp.stat().st_mtime for source in SOURCES):
                return
            stamp.unlink(missing_ok=True)
            for old in self.directory.glob("*.cf"):
                old.unlink()
            imported = self.ghdl("-i", *FLAGS, *self.sources())
            made = self.ghdl("-m", *FLAGS, "tb_trace") if imported.returncode == 0 else imported
            if made.returncode != 0:
                raise ReplayError((made.stderr or made.stdout).strip())
            stamp.write_text(repr(self.change))

    def replay(self, trace: Path, log: Path | None = None, **generics: str | int) -> Result:
        """Runs the bench; generics are those of tb_trace, without _g."""
        if wrong := unreadable(trace):
            return Result(False, wrong, {})
        self.build()
        options = [f"-g{name}_g={value}" for name, value in generics.items()]
        if log is not None:
            options.append(f"-glog_g={log.resolve()}")
        run = self.ghdl("-r", *FLAGS, "tb_trace", f"-gtrace_g={trace.resolve()}", *options, "--ieee-asserts=disable")
        output = run.stdout + run.stderr
        failure = re.search(r"\((?:report|assertion) (?:failure|error)\): (.*)", output)
        if failure or run.returncode != 0:
            stop = re.search(r"error: *(.*)", output)
            return Result(False, failure.group(1) if failure else
                          f"the simulation stopped: {stop.group(1) if stop else output.strip()[-300:]}", {})
        return parse(output)


def cycles(text: str) -> int:
    """An option's value."""
    number = int(text)
    if not 0 <= number <= MOST_CYCLES:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {MOST_CYCLES}")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--unit", choices=UNITS, default="hbs")
    parser.add_argument("--memory", choices=("sdram", "plain"), default="sdram")
    parser.add_argument("--lead", type=int, default=0, help="memory clocks before each transfer, as slow paths need")
    parser.add_argument("--gap", type=cycles, default=-1,
                        help="logic cycles from an answer to the next call; without: when the unit is at rest")
    parser.add_argument("--no-gaps", action="store_true", help="the trace's own gaps do not count")
    parser.add_argument("--depth", type=int, default=0, help="OHEBS: places of each buffer, 2 to 63")
    parser.add_argument("--marks", metavar="LOW,HIGH", help="OHEBS: both marks, as generics")
    parser.add_argument("--set-marks", metavar="LOW,HIGH", help="OHEBS: both marks, set by the program at its start")
    parser.add_argument("--log", type=Path, help="a line for each call: kind, bytes, answer, cycles of find, block, "
                        "total, answer, and of waiting to be heard; and how OHEBS has served it: d, p or c")
    arguments = parser.parse_args()
    if not 0 <= arguments.lead <= 1000:
        parser.error("--lead is from 0 to 1000")
    if arguments.depth != 0 and not 2 <= arguments.depth <= 63:
        parser.error("--depth is from 2 to 63")
    try:
        buffers = buffer_generics(arguments.depth, marks_of(arguments.marks), marks_of(arguments.set_marks))
        if arguments.log is not None:
            arguments.log.open("w").close()
        result = Bench().replay(arguments.trace, arguments.log, **generics_for(arguments.unit),
                                memory=arguments.memory, lead=arguments.lead, gap=arguments.gap,
                                gaps=str(not arguments.no_gaps).lower(), **buffers)
    except OSError as error:
        print(f"replay: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ReplayError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 1
    if not result.ok:
        print(f"replay: {result.message}", file=sys.stderr)
        return 1
    result.tell()
    return 0


if __name__ == "__main__":
    sys.exit(main())
