#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trace through a unit by Verilator: fast.py TRACE [--unit ohebs] [--memory sdram] [--log FILE].

For traces of millions of cycles. The unit and the SDRAM's controller go to Verilog by ghdl and sim/convert.py, to C++
by Verilator, and are compiled once for each unit, depth of buffers and size of heap. What is checked, what is told and
the log are those of sim/replay.py, line by line; only the chips' timing is that bench's alone.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from convert import ConvertError, convert  # noqa: E402
from replay import (  # noqa: E402
    UNITS, ReplayError, Result, buffer_generics, cycles, generics_for, marks_of, parse, unreadable,
)

BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")).resolve() / "fast"
SOURCES = [*sorted((HERE / "rtl").glob("*.vhd")), HERE / "tb" / "unit_under_trace.vhd"]
OWN = [*sorted((HERE / "fast").glob("*.[ch]pp")), Path(__file__), HERE / "sim" / "convert.py"]
# ghdl's text is right and not pretty: warnings of style are none of ours.
VERILATOR = ["verilator", "--cc", "--flatten", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert",
             "-Wno-fatal", "-Wno-lint", "-Wno-style"]
# As tb/sdram_bank.vhd has it.
POWER_UP = 20
# Of a unit's generics, those that are compiled in. Marks are set by the program instead, before its heap begins.
COMPILED = ("heap_log2", "depth", "small_depth", "small_to")
USUAL = {"heap_log2": 25, "small_to": 7}


def run(*command: str | Path) -> str:
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ReplayError(f"{command[0]} is missing: tools/setup.sh hw") from None
    if done.returncode != 0:
        raise ReplayError(f"{command[0]} failed: {(done.stderr + done.stdout).strip()[-1500:]}")
    return done.stdout


class Machine:
    """What replays a trace as sim/replay.py's Bench does, of one folder."""

    def __init__(self, directory: Path = BUILD, jobs: int = 1) -> None:
        self.directory = directory
        self.jobs = jobs
        self.key = hashlib.sha256(b"".join(path.read_bytes() for path in [*SOURCES, *OWN])).hexdigest()

    def made(self, name: str, make, *arguments) -> Path:
        """A folder, made if it is not there or was made of other sources. Several may come at once."""
        folder = self.directory / name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = folder / "complete"
            if not stamp.exists() or stamp.read_text() != self.key:
                stamp.unlink(missing_ok=True)
                for old in folder.glob("*.[coh]*"):
                    old.unlink()
                make(folder, *arguments)
                stamp.write_text(self.key)
        return folder

    def verilate(self, folder: Path, prefix: str, top: str, generics: dict[str, str | int]) -> None:
        (folder / "design.v").write_text(convert(top, SOURCES, generics), encoding="utf-8")
        run(*VERILATOR, "--prefix", prefix, "--top-module", top, "--Mdir", folder, folder / "design.v")

    def compile(self, folder: Path, sources: list[Path], *includes: Path) -> None:
        """Objects beside the sources' names, in the folder. What runs once is not optimised."""
        verilator = Path(run("verilator", "--getenv", "VERILATOR_ROOT").strip()) / "include"
        places = [f"-I{place}" for place in (verilator, verilator / "vltstd", HERE / "fast", folder, *includes)]

        def one(source: Path) -> None:
            run("g++", "-std=c++20", "-O0" if "Slow" in source.name else "-O1", *places, "-c", source, "-o",
                folder / f"{source.stem}.o")

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, sources))

    def make_common(self, folder: Path) -> None:
        """What all units share: Verilator's own, and the program without the machine."""
        verilator = Path(run("verilator", "--getenv", "VERILATOR_ROOT").strip()) / "include"
        self.compile(folder, [HERE / "fast" / "fast.cpp", HERE / "fast" / "reader.cpp", verilator / "verilated.cpp",
                              verilator / "verilated_threads.cpp"])

    def make_controller(self, folder: Path, lead: int) -> None:
        self.verilate(folder, "Vcontroller", "sdram_controller", {"lead_g": lead, "power_up_g": POWER_UP})
        self.compile(folder, sorted(folder.glob("*.cpp")))

    def make_unit(self, folder: Path, generics: dict[str, str | int], any_controller: Path) -> None:
        self.verilate(folder, "Vunit", "unit_under_trace", generics)
        self.compile(folder, [*sorted(folder.glob("*.cpp")), HERE / "fast" / "machine.cpp"], any_controller)

    def program(self, unit: str, lead: int, generics: dict[str, str | int]) -> Path:
        if unit not in UNITS:
            raise ReplayError(f"no unit is called {unit}")
        compiled = {name: generics[name] for name in COMPILED if generics.get(name, 0) not in (0, USUAL.get(name))}
        if unit.startswith("hbs"):
            compiled = {name: value for name, value in compiled.items() if name == "heap_log2"}
        common = self.made("common", self.make_common)
        controller = self.made(f"controller_{lead}", self.make_controller, lead)
        name = "_".join([unit, *(f"{key}{value}" for key, value in compiled.items())])
        made = self.made(name, self.make_unit, {"unit_g": unit, **{f"{key}_g": value for key, value in
                                                                   compiled.items()}}, controller)
        program = made / f"fast_{lead}"
        objects = [path for folder in (common, controller, made) for path in sorted(folder.glob("*.o"))]
        with (made / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists() or any(path.stat().st_mtime_ns > program.stat().st_mtime_ns for path in objects):
                run("g++", *objects, "-o", program, "-lpthread")
        return program

    def replay(self, trace: Path, log: Path | None = None, *, unit: str = "hbs", memory: str = "sdram",
               lead: int = 0, plain: int = 1, **generics: str | int) -> Result:
        """As Bench.replay, but for what only that bench can do: then it says so."""
        if generics.get("low", -1) != -1 or generics.get("high", -1) != -1:
            raise ReplayError("by Verilator, marks are set by the program: set_low and set_high")
        if wrong := unreadable(trace):
            return Result(False, wrong, {})  # before anything is compiled for it
        program = self.program(unit, lead if memory == "sdram" else 0, generics)
        options = {"plain": plain if memory == "plain" else 0, "passes": str(not unit.startswith("hbs")).lower()}
        options |= {name: value for name, value in generics.items() if name not in COMPILED[1:] + ("low", "high")}
        if log is not None:
            options["log"] = str(log)
        done = subprocess.run([program, trace.resolve(), *(f"{name}={value}" for name, value in options.items())],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return Result(False, done.stderr.strip() or f"the simulation ended with {done.returncode}", {})
        return parse(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--unit", choices=UNITS, default="ohebs")
    parser.add_argument("--memory", choices=("sdram", "plain"), default="sdram")
    parser.add_argument("--lead", type=int, default=0, help="memory clocks before each transfer, as slow paths need")
    parser.add_argument("--plain", type=int, default=1, help="cycles of a transfer of plain memory")
    parser.add_argument("--gap", type=cycles, default=-1,
                        help="logic cycles from an answer to the next call; without: when the unit is at rest")
    parser.add_argument("--no-gaps", action="store_true", help="the trace's own gaps do not count")
    parser.add_argument("--depth", type=int, default=0, help="OHEBS: places of each buffer, 2 to 63")
    parser.add_argument("--set-marks", metavar="LOW,HIGH", help="OHEBS: both marks, set by the program at its start")
    parser.add_argument("--heap-log2", type=int, default=25, help="the largest heap that the unit is made for")
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    if not 0 <= arguments.lead <= 1000 or not 1 <= arguments.plain <= 1000 or not 5 <= arguments.heap_log2 <= 26:
        parser.error("--lead is from 0 to 1000, --plain from 1 to 1000, --heap-log2 from 5 to 26")
    if arguments.depth != 0 and not 2 <= arguments.depth <= 63:
        parser.error("--depth is from 2 to 63")
    try:
        buffers = buffer_generics(arguments.depth, set_marks=marks_of(arguments.set_marks))
        result = Machine(jobs=os.cpu_count() or 1).replay(
            arguments.trace, arguments.log, **generics_for(arguments.unit), memory=arguments.memory,
            lead=arguments.lead, plain=arguments.plain, gap=arguments.gap, gaps=str(not arguments.no_gaps).lower(),
            heap_log2=arguments.heap_log2, **buffers)
    except (ConvertError, ReplayError, OSError) as error:
        print(f"fast: {error}", file=sys.stderr)
        return 1
    if not result.ok:
        print(f"fast: {result.message}", file=sys.stderr)
        return 1
    result.tell()
    return 0


if __name__ == "__main__":
    sys.exit(main())
