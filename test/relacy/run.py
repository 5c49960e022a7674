#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory orders by Relacy: run.py PROGRAM [--every].

The program simulates threads over the real code, with memory that gives what each order allows (see scalloc.cpp). It
must find nothing. Then each order above relaxed that it passed is weakened, alone: an acquire or a release to relaxed,
a seq_cst to acq_rel and, with --every, to relaxed; and the program must find something, or the order must be listed
below with a reason.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

ITERATIONS = 20_000
# "FILE FUNCTION ORDER": why no test fails without it.
REASONS: dict[str, str] = {
    # A fork that took `starting` just after the start lets it go again; whoever takes it next must see the start. He
    # does without this order, for Relacy: there a store by the thread that made the exchange before it passes on what
    # that exchange had read, which C++20's release sequences no longer do.
    "process.cpp prepare release": "Relacy lets a thread's store follow its exchange in a release sequence",
}


def run(program: str, *options: str) -> tuple[int, str]:
    command = [program, *options, str(ITERATIONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout


def weaker(order: str, every: bool) -> list[str]:
    if order != "seq_cst":
        return ["relaxed"]
    return ["acq_rel", "relaxed"] if every else ["acq_rel"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--every", action="store_true", help="both weaker orders of a seq_cst")
    arguments = parser.parse_args()
    status, output = run(arguments.program)
    print(re.sub(r"^PLACE .*\n", "", output, flags=re.MULTILINE), end="")
    places = re.findall(r"^PLACE (\S+) (\S+) (.*)$", output, flags=re.MULTILINE)
    if status != 0 or not places:
        print("relacy: the code as it is fails" if status else "relacy: no memory order was passed")
        return 1
    missed = 0
    used = set()
    names = set()
    for place, order, function in places:
        for weak in weaker(order, arguments.every):
            status, output = run(arguments.program, "--weaken", f"{place}={weak}")
            found = re.search(r"^(.*\S) {2,}(?!holds)(\S.*)$", output, flags=re.MULTILINE)
            name = f"{place.split(':')[0]} {re.sub(r'.*::(?=[A-Za-z_]+[(])|[(].*', '', function)} {order}"
            names.add(name)
            if status == 1 and found:
                verdict = f"{found.group(1)}: {found.group(2).lower()}"
            elif name in REASONS:
                used.add(name)
                verdict = f"not needed by the tests: {REASONS[name]}"
            else:
                verdict = "MISSED"
                missed += 1
            print(f"{name} at {place}, as {weak}: {verdict}", flush=True)
    for name in sorted((REASONS.keys() & names) - used):
        print(f"relacy: the reason for {name!r} is for nothing")
        missed += 1
    print(f"relacy: {len(places)} orders, {missed} complaints")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
