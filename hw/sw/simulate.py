#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program of the host beside a simulated unit: simulate.py [--unit ohebs] [--bus axi] PROGRAM [ARGUMENT]...

The program gets the names of two pipes as its first arguments, requests and answers; cosim_bus.c makes of them the
driver's bus (example.c). Ends as the program does, or with 1 and one line if the simulation has stopped.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from replay import BUILD, FLAGS  # noqa: E402

FOLDER = BUILD.parent / "driver"
SOURCES = [*sorted((HERE / "rtl").glob("*.vhd")), *(HERE / "tb" / f"{name}.vhd" for name in (
    "sparse_memory", "window_memory", "axi_driver", "axi_memory", "wishbone_driver", "wishbone_memory", "bus_harness",
    "tb_driver"))]
UNITS = {"hbs": {"hbs_g": "true"}, "ohebs": {}, "ohebs_posted": {"posted_g": "true"}}
SECONDS = 600


class SimulateError(Exception):
    """What the user can mend, in one line."""


def ghdl(*words: str) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(["ghdl", *words], cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)
    except FileNotFoundError:
        raise SimulateError("ghdl is missing: tools/setup.sh hw") from None


def build() -> None:
    """Compiles the bench if something has changed. Several may come at once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = FOLDER / "complete"
        if stamp.exists() and all(source.stat().st_mtime < stamp.stat().st_mtime for source in SOURCES):
            return
        for old in FOLDER.glob("*.cf"):
            old.unlink()
        for words in (["-i", *FLAGS, *map(str, SOURCES)], ["-m", *FLAGS, "tb_driver"]):
            made = ghdl(*words)
            said, _ = made.communicate()
            if made.returncode != 0:
                raise SimulateError(said.strip())
        stamp.touch()


def run(unit: str, bus: str, program: list[str], **options) -> tuple[subprocess.CompletedProcess, str]:
    """The program, as subprocess.run's options have it, and what the simulation has said if it has failed."""
    build()
    with tempfile.TemporaryDirectory() as folder:
        pipes = [f"{folder}/requests", f"{folder}/answers"]
        for pipe in pipes:
            os.mkfifo(pipe)
        generics = {"requests_g": pipes[0], "answers_g": pipes[1], "axi_g": str(bus == "axi").lower(), **UNITS[unit]}
        bench = ghdl("-r", *FLAGS, "tb_driver", *(f"-g{name}={value}" for name, value in generics.items()),
                     "--ieee-asserts=disable")
        try:
            try:
                done = subprocess.run([program[0], *pipes, *program[1:]], timeout=SECONDS, check=False, **options)
            except OSError as error:
                raise SimulateError(f"{program[0]}: {error.strerror}") from error
            except subprocess.TimeoutExpired:
                raise SimulateError(f"{program[0]}: not done after {SECONDS} seconds") from None
            # It ends with its requests, unless the program has never opened them.
            try:
                said, _ = bench.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                raise SimulateError(f"{program[0]} has not used the simulation, or left it open") from None
        finally:
            bench.kill()
            bench.wait()
    failure = re.search(r"\((?:report|assertion) failure\): (.*)", said)
    return done, "" if bench.returncode == 0 else failure.group(1) if failure else said.strip() or "ghdl has failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", choices=UNITS, default="ohebs")
    parser.add_argument("--bus", choices=("axi", "wishbone"), default="axi")
    parser.add_argument("program")
    parser.add_argument("argument", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        done, said = run(arguments.unit, arguments.bus, [str(Path(arguments.program).resolve()), *arguments.argument])
    except (SimulateError, OSError) as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 1
    if said:
        print(f"simulate: {said.splitlines()[-1]}", file=sys.stderr)
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
