#!/usr/bin/env python3
"""A trace through a unit by Verilator: fast.py TRACE [--unit ohebs] [--memory sdram] [--log FILE].

For traces of millions of cycles. The unit goes to Verilog by ghdl and sim/convert.py, to C++ by Verilator, and is
compiled once for each unit, memory and size of heap. The log is that of sim/replay.py, line by line. Traces with loads
and stores, timing faults of the memory and what else the bench checks are for sim/replay.py.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from convert import ConvertError, convert  # noqa: E402

BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")) / "fast"

# As tb/unit_under_trace.vhd has them.
UNITS: dict[str, dict[str, str | int]] = {
    "hbs": {"hbs_g": "true"},
    "hbs_reference": {"hbs_g": "true", "fast_return_g": "false"},
    "ohebs": {},
    "ohebs_waiting": {"fast_return_g": "false"},
    "ohebs_posted": {"posted_g": "true"},
    "ohebs_joining": {"recombine_g": "true"},
    "ohebs_shared": {"shared_g": "true"},
    "ohebs_shared_joining": {"shared_g": "true", "recombine_g": "true"},
}


class FastError(Exception):
    """What the user can mend, in one line."""


def build(unit: str, memory: str, lead: int, heap_log2: int) -> Path:
    """The program for this unit; it is made if it is not there or older than its sources."""
    folder = BUILD / f"{unit}_{memory}_{lead}_{heap_log2}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "Vfast_top"
    sources = [*sorted((HERE / "rtl").glob("*.vhd")), HERE / "fast" / "fast_top.vhd"]
    newest = max(path.stat().st_mtime for path in [*sources, HERE / "fast" / "fast.cpp", HERE / "sim" / "convert.py"])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists() and program.stat().st_mtime > newest:
            return program
        generics = UNITS[unit] | {"heap_log2_g": heap_log2, "sdram_g": str(memory == "sdram").lower(), "lead_g": lead}
        (folder / "design.v").write_text(convert("fast_top", sources, generics), encoding="utf-8")
        # ghdl's text is right and not pretty: warnings of style are none of ours.
        command = ["verilator", "--cc", "--exe", "--build", "-O3", "--x-assign", "fast", "--noassert", "-Wno-fatal",
                   "-Wno-lint", "-Wno-style", "--top-module", "fast_top", "-CFLAGS", "-std=c++20 -O1", "--Mdir", folder,
                   folder / "design.v", HERE / "fast" / "fast.cpp"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise FastError("verilator is missing: tools/setup.sh hw") from None
        if done.returncode != 0:
            raise FastError(f"verilator failed: {(done.stderr + done.stdout).strip()[-1500:]}")
    return program


def replay(trace: Path, unit: str, memory: str = "sdram", log: Path | None = None, *, lead: int = 0, gap: int = -1,
           plain: int = 1, heap_log2: int = 25, patience: int = 100000) -> str:
    """Returns the summary."""
    program = build(unit, memory, lead if memory == "sdram" else 0, heap_log2)
    done = subprocess.run(
        [program, trace, log or "-", str(int(unit.startswith("hbs"))), str(gap), str(plain if memory == "plain" else 0),
         str(patience)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FastError(done.stderr.strip() or f"the simulation ended with {done.returncode}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--unit", choices=UNITS, default="ohebs")
    parser.add_argument("--memory", choices=("sdram", "plain"), default="sdram")
    parser.add_argument("--lead", type=int, default=0, help="memory clocks before each transfer, as slow paths need")
    parser.add_argument("--plain", type=int, default=1, help="cycles of a transfer of plain memory")
    parser.add_argument("--gap", type=int, default=-1,
                        help="logic cycles from an answer to the next call; without: when the unit is at rest")
    parser.add_argument("--heap-log2", type=int, default=25, help="the largest heap that the unit is made for")
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    if not 0 <= arguments.lead <= 1000 or not 1 <= arguments.plain <= 1000 or not 5 <= arguments.heap_log2 <= 26:
        parser.error("--lead is from 0 to 1000, --plain from 1 to 1000, --heap-log2 from 5 to 26")
    try:
        print(replay(arguments.trace, arguments.unit, arguments.memory, arguments.log, lead=arguments.lead,
                     gap=arguments.gap, plain=arguments.plain, heap_log2=arguments.heap_log2))
    except (ConvertError, FastError, OSError) as error:
        print(f"fast: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
