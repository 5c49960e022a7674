#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trial: worlds with faults for some hours. With --report 1 it also sees that the seeded faults are found, and writes
docs/results/trial.md; with --report worlds it leaves what the page says of those as it is, and writes after each part,
so that a run that is stopped leaves what it did. After a violation the page is what it was before.

Parts of short worlds and of long ones come in turn: short ones begin, fork and end more often, long ones make three
times as many operations a second."""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import os
import platform
import secrets
import signal
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
PART_SECONDS = 300
LENGTHS = [3000, 16000]  # operations


def worlds_text(sums: dict) -> str:
    last = sums["first"] + sums["worlds"] - 1
    lengths = "; ".join(f"{length:,} in {worlds:,} worlds" for length, worlds in sums["of_length"].items())
    rows = [
        ("worlds", f"{sums['worlds']:,}"),
        ("operations a world is drawn with, at most", lengths),
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
        ("double and inner frees, each reported", f"{sums['misuses']:,}"),
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
    replace_page(worlds_text(sums) + (bugs_text(faults) if faults else "".join(old.partition(BUGS)[1:])))


def replace_page(text: str) -> None:
    """On a full disk the page stays as it was."""
    new = PAGE.with_name(f".{PAGE.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(PAGE)
    finally:
        new.unlink(missing_ok=True)


def add(sums: dict, part: dict) -> dict:
    """Of consecutive seeds."""
    both = {name: sums[name] + part[name] for name in part}
    return sums | both | {"first": sums["first"], "longest_call": max(sums["longest_call"], part["longest_call"])}


def run_part(command: list[str], page: str) -> int:
    """What a part says goes on to the terminal. At once when a world fails, the page is this one, if any."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or []:
                if page and line.startswith("FAILED "):
                    replace_page(page)
                print(line, end="", flush=True)
            return process.wait()
        finally:
            process.terminate()  # if it did not end: what ends this program ends the part, too


def run_worlds(arguments: argparse.Namespace, seed: int, into: Path) -> dict | None:
    """A part at a time, so that one sees how far it is. None: a violation or what else ended it, which was printed."""
    page = PAGE.read_text(encoding="utf-8") if arguments.report else ""
    lengths = itertools.cycle(arguments.length)
    share = math.ceil(arguments.worlds / len(arguments.length))
    share_seconds = math.ceil(arguments.hours * 3600 / len(arguments.length))
    end = time.monotonic() + arguments.hours * 3600
    sums: dict = {}
    while True:
        done = sums.get("worlds", 0)
        left = arguments.worlds - done if arguments.worlds else end - time.monotonic()
        if left <= 0 and sums:
            return sums
        much = ["--worlds", str(min(left, share, PART))] if arguments.worlds else [
            "--seconds", str(max(1, min(int(left), share_seconds, PART_SECONDS)))]
        length = next(lengths)
        status = run_part([
            str(arguments.build / "test/trial/trial"), "--seed", str(seed + done), *much, "--length", str(length),
            "--jobs", str(arguments.jobs), "--report", str(into)], page)
        if status != 0:
            if status < 0:
                print(f"trial: ended by signal {-status}, in worlds from {seed + done} on", file=sys.stderr)
            return None
        part = json.loads(into.read_text(encoding="utf-8"))
        of_length = sums.get("of_length", {})
        sums = add(sums, part) if sums else part
        sums["of_length"] = of_length | {length: of_length.get(length, 0) + part["worlds"]}
        if arguments.report == "worlds":
            write_page(sums, None)
        print(f"trial: {sums['worlds']:,} worlds, {sums['operations']:,} operations, no violation", flush=True)


def whole(least: int, most: int = 2**64 - 1):
    """A type of argparse's: a whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"a whole number from {least} to {most}, not {text}")
        return number

    return read


def hours(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"a number of hours above 0, not {text}")
    return number


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seed", type=whole(0, 2**63), default=0, help="of the first world; 0: a new one")
    parser.add_argument("--hours", type=hours, default=0.1)
    parser.add_argument("--worlds", type=whole(1, 2**62), default=0, help="so many, however long that takes")
    parser.add_argument("--length", type=whole(1, 1_000_000), nargs="+", default=LENGTHS,
                        help="operations that a world is drawn with, at most; of several, worlds of each in turn")
    parser.add_argument("--jobs", type=whole(1, 256), default=1)
    parser.add_argument("--report", choices=["1", "worlds"])
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    if arguments.report and not (os.access(PAGE, os.W_OK) and os.access(PAGE.parent, os.W_OK)):
        print(f"trial: {PAGE.relative_to(ROOT)} cannot be written", file=sys.stderr)
        return 2
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
    # As Ctrl-C, so that the part ends, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # what was done so far is printed part by part
        print("trial: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as problem:
        print(f"trial: {problem}", file=sys.stderr)
        sys.exit(2)
