#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions of a call are flat in the number of spans (paper 2, section 4: all operations are constant-time).

Counts by callgrind what a round of calls costs while few spans are in use and while many are, as the difference between
runs of many and of few rounds: what the spans themselves cost to make is in both.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys

FEW_SPANS, MANY_SPANS = 10, 3000
ROUNDS = 40
TOLERANCE = 0.01
SKIPPED = 77


def instructions(program: str, library: str, spans: int, rounds: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(spans), str(rounds)]
    environment = os.environ | {"LD_PRELOAD": library}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    match = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not match:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return int(match.group(1))


def round_cost(program: str, library: str, spans: int) -> float:
    more = instructions(program, library, spans, 2 * ROUNDS)
    return (more - instructions(program, library, spans, ROUNDS)) / ROUNDS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("program")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is missing")
        return SKIPPED
    few = round_cost(arguments.program, arguments.library, FEW_SPANS)
    many = round_cost(arguments.program, arguments.library, MANY_SPANS)
    print(f"instructions a round: {few:.1f} with {FEW_SPANS} spans in use, {many:.1f} with {MANY_SPANS}")
    return 0 if few > 0 and abs(many - few) <= TOLERANCE * few else 1


if __name__ == "__main__":
    sys.exit(main())
