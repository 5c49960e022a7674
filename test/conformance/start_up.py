#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what the smallest program occupies over the library under test and over the C library's malloc.

start_up.py [--library PATH] [--huge-pages MODE] [--most KIB] PROGRAM [ARGUMENT]

Counted: resident pages and page tables. Of files that the program maps in both runs (itself, the C library, the loader)
only private copies of pages count: how many of a file's shared pages are mapped depends on what the kernel has at hand
around the page that was touched, and varies by more from run to run than an allocator adds.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
from contextlib import ExitStack
from typing import NamedTuple

import driver
import machine

RUNS = 45


class Memory(NamedTuple):
    """In KiB."""

    resident: int  # everything
    anonymous: int
    tables: int
    by_file: dict[str, int]  # shared pages of files that are resident


def parse(text: str) -> Memory:
    resident = anonymous = 0
    by_file: dict[str, int] = {}
    name = ""
    rss = 0
    for line in text.splitlines():
        mapping = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)\s*(.*)", line)
        if mapping:
            name = mapping.group(2) if mapping.group(1) != "0" else ""
        elif line.startswith("Rss:"):
            rss = int(line.split()[1])
            resident += rss
        elif line.startswith("Anonymous:"):
            private = int(line.split()[1])
            anonymous += private
            by_file[name] = by_file.get(name, 0) + rss - private
    tables = re.search(r"^VmPTE:\s+(\d+)", text, re.MULTILINE)
    if not by_file or tables is None:
        raise SystemExit("the program did not show its memory")
    return Memory(resident, anonymous, int(tables.group(1)), by_file)


def measure(command: list[str], preload: str | None) -> list[Memory]:
    rows = []
    for _ in range(RUNS):
        result = driver.run(command, preload=preload, timeout=20)
        if result.status != 0:
            raise SystemExit(f"{command}: {driver.describe_status(result.status)}\n{result.err}")
        rows.append(parse(result.out))
    return rows


def show(name: str, rows: list[Memory], common: set[str]) -> int:
    """Prints a row of medians; returns what counts."""
    own = [sum(size for file, size in row.by_file.items() if file not in common) for row in rows]
    counted = [row.anonymous + row.tables + mine for row, mine in zip(rows, own)]
    columns = ([row.resident for row in rows], [row.anonymous for row in rows], own, [row.tables for row in rows])
    middle = [round(statistics.median(column)) for column in columns]
    print(f"{name:10} resident {middle[0]} KiB; anonymous {middle[1]}, own files {middle[2]}, page tables {middle[3]}")
    return round(statistics.median(counted))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--huge-pages", choices=("always", "madvise", "never"))
    parser.add_argument("--most", type=int, required=True, help="KiB above the C library's")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    library = driver.library_under_test(options.library)
    try:
        with ExitStack() as stack:
            if options.huge_pages is not None:
                stack.enter_context(machine.changed({machine.HUGE_PAGES: options.huge_pages}))
            plain = measure(options.command, None)
            tested = measure(options.command, library)
    except driver.Skip as reason:
        print(f"SKIPPED: {reason}")
        return driver.SKIPPED
    common = set(plain[0].by_file)
    above = -show("C library", plain, common) + show("tested", tested, common)
    print(f"above: {above} KiB, at most {options.most}")
    return 0 if above <= options.most else 1


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
