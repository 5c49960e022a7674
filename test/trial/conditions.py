#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""conditions.py TRIAL: the same worlds take the same steps whatever the program is started with; and what makes no
sense, or would find nothing to look at, is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORLDS = ["--seed", "2000", "--worlds", "30"]
REFUSED = ["--wolds 5", "--worlds 0", "--worlds -1", "--seed 1e9", "--seed 99999999999999999999", "--jobs 0",
           "--length 0", "--show --length 0", "--shrink-seconds x", "--shrink-seconds -1",
           "--shrink-seconds 4294967296", "--worlds", "--case /dev/null", "--case /nowhere",
           "--worlds 1 --report /nowhere/report", "--worlds 1 --report /dev/full"]
REFUSED_BY_RUN = ["--worlds 0", "--worlds -5", "--hours -1", "--hours nan", "--jobs 0", "--seed 1e9", "--report yes"]
KERNEL = "kernel 1 page {} processors {} roams 0 sparse 0 torn 0 barrier 1 memory 0\n0 malloc 0 1\n"
BROKEN = ["", "options huge:never\n", "x malloc 0 1\n", "0 mallok 0 1\n", "99 malloc 0 1\n", "0 malloc 9999 1\n",
          KERNEL.format(0, 1), KERNEL.format(4096, 0), "order wlak 1 1\n0 malloc 0 1\n", "0 aligned 0 100 99\n",
          "0 malloc 0 1 x\n", "0 malloc 0 -1\n", "call 5 fail\n0 malloc 0 1\n", "call 5 fail 1 x\n0 malloc 0 1\n"]


def hash_of(words: list[str], **changes: str) -> str:
    done = subprocess.run([*words, *WORLDS], env=os.environ | changes, capture_output=True, text=True, check=False)
    found = re.search(r"^30 worlds, .*; hash ([0-9a-f]{16});", done.stdout, re.MULTILINE)
    return found[1] if done.returncode == 0 and found else f"none: {done.stdout}{done.stderr}"


def main() -> int:
    trial = str(Path(sys.argv[1]).resolve())
    runs = {
        "as it is": hash_of([trial]),
        "options in the environment": hash_of([trial], COFFER_CONF="slack:0,limit:4M", COFFER_FAKE_PAGE="65536"),
        "a large environment": hash_of([trial], LARGE="x" * 100_000),
        "three at a time": hash_of([trial, "--jobs", "3"]),
        "a limit of address space": hash_of(["sh", "-c", 'ulimit -S -v 60000000 && exec "$0" "$@"', trial]),
    }
    wrong = [f"{name}: {got}" for name, got in runs.items() if got != runs["as it is"] or got.startswith("none")]
    for program, all_words in (([trial], REFUSED), ([sys.executable, "-B", str(HERE / "run.py")], REFUSED_BY_RUN)):
        for words in all_words:
            done = subprocess.run([*program, *words.split()], capture_output=True, text=True, check=False)
            if done.returncode != 2 or not done.stderr.strip():
                wrong.append(f"{Path(program[-1]).name} {words}: status {done.returncode}: {done.stderr}")
    with tempfile.TemporaryDirectory(prefix="coffer-trial-") as name:
        case = Path(name) / "case.txt"
        for text in BROKEN:
            case.write_text(text, encoding="utf-8")
            if subprocess.run([trial, "--case", str(case)], capture_output=True, check=False).returncode != 2:
                wrong.append(f"a case is understood: {text}")
    for line in wrong:
        print(f"conditions: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
