#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often each function is called for one malloc, in a row of quick.py: what a slow row does and a fast one does not.

Counted by callgrind over the whole run, start and end included. Functions that the compiler put inline do not show.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from coffer_bench.allocators import NAMES, TOP, Allocator, BenchError, find
from coffer_bench.callgrind import require_tools, run_callgrind
from coffer_bench.rows import ROWS, Row

ENTRIES = {"malloc", "calloc", "realloc"}  # an operation is a call of any of these


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--peers", metavar="NAMES", default="coffer", help=f"of {' '.join(NAMES)}")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name contains this")
    parser.add_argument("--least", type=float, default=0.01, help="calls a malloc below which a function is left out")
    parser.add_argument("--scale", type=float, default=0.05, help="times the operations of a row (default %(default)s)")
    return parser.parse_args()


def parse_calls(profile: str) -> Counter[str]:
    """Calls of each function, from a profile with its names written out."""
    calls: Counter[str] = Counter()
    function = ""
    for line in profile.splitlines():
        if line.startswith("cfn="):
            function = line[4:].strip()
        elif match := re.match(r"calls=(\d+)", line):
            calls[function] += int(match[1])
    return calls


def readable(name: str) -> str:
    """Without parameters, callgrind's marks of recursion and the compiler's of parts and copies."""
    name = re.sub(r"'\d+$", "", name).replace("(anonymous namespace)::", "")
    return re.sub(r"\(.*", "", name)


def print_calls(allocator: Allocator, row: Row, arguments: argparse.Namespace) -> None:
    command = row.command(str(arguments.build_dir.resolve() / "bench"), arguments.scale)
    profile, _ = run_callgrind(allocator, command, ["--compress-strings=no", "--compress-pos=no"])
    calls = parse_calls(profile)
    by_name: Counter[str] = Counter()
    for name, count in calls.items():
        by_name[readable(name)] += count
    mallocs = sum(by_name[entry] for entry in ENTRIES)
    if mallocs == 0:
        raise BenchError(f"{allocator.name}: callgrind saw no call of malloc")
    print(f"{allocator.name}: {row.name}: calls for one malloc")
    for name, count in by_name.most_common():
        if count / mallocs >= arguments.least and "bench::" not in name:
            print(f"  {count / mallocs:8.3f}  {name}")


def main() -> int:
    arguments = parse_arguments()
    require_tools()
    rows = [row for row in ROWS if arguments.only in row.name and row.program != "launch"]
    if not rows:
        raise BenchError("no row has such a name")
    for allocator in find(arguments.peers.split(","), arguments.build_dir):
        for row in rows:
            print_calls(allocator, row, arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
