#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trial: worlds with faults for some hours. With --report 1 it also sees that the seeded faults are found, and writes
docs/results/trial.md; with --report worlds it leaves what the page says of those as it is, and writes after each part,
so that a run that is stopped leaves what it did."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/results/trial.md"
BUGS = "Bugs put into the sources"
PART = 2000  # worlds


def worlds_text(sums: dict) -> str:
    last = sums["first"] + sums["worlds"] - 1
    length = sums["length"]
    rows = [
        ("worlds", f"{sums['worlds']:,}"),
        ("operations a world is drawn with, at most", f"{length:,}" if length else "as the world says"),
        ("their seeds", f"{sums['first']} to {last}"),
        ("operations", f"{sums['operations']:,}"),
        ("steps (accesses to shared cells)", f"{sums['steps']:,}"),
        ("threads", f"{sums['threads']:,}"),
        ("switches of threads that were chosen", f"{sums['switches']:,}"),
        ("system calls", f"{sums['calls']:,}"),
        ("of which failed", f"{sums['failed_calls']:,}"),
        ("NULLs, each with a reason", f"{sums['nulls']:,}"),
        ("looks at everything at rest", f"{sums['rests']:,}"),
        ("child processes", f"{sums['children']:,}"),
        ("longest call, in steps of its own thread", f"{sums['longest_call']:,}"),
        ("violations", "0"),
        ("time", f"{sums['seconds'] / 60:.1f} minutes"),
    ]
    text = ["# Trials", "",
            "Written by `make trial REPORT=1` (worlds alone: REPORT=worlds), and not by hand. What a world is, and "
            "what it is judged by: [trial.md](../design/trial.md). "
            f"{datetime.date.today().isoformat()}, {platform.machine()}.", "",
            "| figure | |", "|---|---:|"]
    text += [f"| {name} | {value} |" for name, value in rows]
    return "\n".join(text) + "\n\n"


def bugs_text(faults: list[dict]) -> str:
    text = [f"{BUGS} (`test/trial/faults.toml`), each of which has to be found, by worlds from seed 1 on, when "
            f"`make trial REPORT=1` ran last ({datetime.date.today().isoformat()}):", "",
            "| bug | in | found in world | by |", "|---|---|---:|---|"]
    for one in faults:
        by = one["how"].replace("|", "/")
        text.append(f"| {one['what']} | `{Path(one['file']).name}` | {one['worlds']:,} | {by} |")
    return "\n".join(text) + "\n"


def write_page(sums: dict, faults: list[dict] | None) -> None:
    """None: what the page says of faults stays."""
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(worlds_text(sums) + (bugs_text(faults) if faults else old[old.index(BUGS):]), encoding="utf-8")


def add(sums: dict, part: dict) -> dict:
    """Of consecutive seeds."""
    both = {name: sums[name] + part[name] for name in part}
    return sums | both | {"first": sums["first"], "longest_call": max(sums["longest_call"], part["longest_call"])}


def run_worlds(arguments: argparse.Namespace, seed: int, into: Path) -> dict | None:
    """A part at a time, so that one sees how far it is. None: a violation, which was printed."""
    program = arguments.build / "test/trial/trial"
    length = ["--length", str(arguments.length)] if arguments.length else []
    end = time.monotonic() + arguments.hours * 3600
    sums: dict = {}
    while True:
        done = sums.get("worlds", 0)
        left = arguments.worlds - done if arguments.worlds else end - time.monotonic()
        if left <= 0 and sums:
            return sums
        much = ["--worlds", str(min(left, PART))] if arguments.worlds else [
            "--seconds", str(max(1, min(int(left), 300)))]
        run = subprocess.run([str(program), "--seed", str(seed + done), *much, *length, "--jobs", str(arguments.jobs),
                              "--report", str(into)], check=False)
        if run.returncode != 0:
            return None
        part = json.loads(into.read_text(encoding="utf-8"))
        sums = add(sums, part) if sums else part | {"length": arguments.length}
        if arguments.report == "worlds":
            write_page(sums, None)
        print(f"trial: {sums['worlds']:,} worlds, {sums['operations']:,} operations, no violation", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; 0: a new one")
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--worlds", type=int, default=0, help="so many, however long that takes")
    parser.add_argument("--length", type=int, default=0, help="operations that a world is drawn with, at most")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", choices=["1", "worlds"])
    arguments = parser.parse_args()
    seed = arguments.seed or 1 + secrets.randbelow(10**9)
    with tempfile.TemporaryDirectory(prefix="coffer-trial-") as name:
        faults = Path(name) / "faults.json"
        sums = run_worlds(arguments, seed, Path(name) / "sums.json")
        if sums is None or arguments.report is None:
            return 1 if sums is None else 0
        if arguments.report == "1":
            done = subprocess.run([sys.executable, "-B", str(HERE / "seeded.py"), "--build", str(arguments.build),
                                   "--jobs", str(arguments.jobs), "--results", str(faults)], check=False)
            if done.returncode != 0:
                return done.returncode
            write_page(sums, json.loads(faults.read_text(encoding="utf-8")))
        print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
