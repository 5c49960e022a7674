#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trial: worlds with faults for some hours. With --report 1 it also sees that the seeded faults are found, and writes
docs/results/trial.md; with --report worlds it leaves what the page says of those as it is."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/results/trial.md"
BUGS = "Bugs put into the sources"


def worlds_text(sums: dict) -> str:
    last = sums["first"] + sums["worlds"] - 1
    rows = [
        ("worlds", f"{sums['worlds']:,}"),
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; 0: a new one")
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--worlds", type=int, default=0, help="so many, however long that takes")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", choices=["1", "worlds"])
    arguments = parser.parse_args()
    program = arguments.build / "test/trial/trial"
    seed = arguments.seed or 1 + secrets.randbelow(10**9)
    with tempfile.TemporaryDirectory(prefix="coffer-trial-") as name:
        sums = Path(name) / "sums.json"
        faults = Path(name) / "faults.json"
        much = ["--worlds", str(arguments.worlds)] if arguments.worlds else [
            "--seconds", str(int(arguments.hours * 3600) or 1)]
        done = subprocess.run([str(program), "--seed", str(seed), *much,
                               "--jobs", str(arguments.jobs), "--report", str(sums)], check=False)
        if done.returncode != 0 or arguments.report is None:
            return done.returncode
        if arguments.report == "worlds":
            old = PAGE.read_text(encoding="utf-8")
            bugs = old[old.index(BUGS):]
        else:
            done = subprocess.run([sys.executable, "-B", str(HERE / "seeded.py"), "--build", str(arguments.build),
                                   "--jobs", str(arguments.jobs), "--results", str(faults)], check=False)
            if done.returncode != 0:
                return done.returncode
            bugs = bugs_text(json.loads(faults.read_text(encoding="utf-8")))
        PAGE.write_text(worlds_text(json.loads(sums.read_text(encoding="utf-8"))) + bugs, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
