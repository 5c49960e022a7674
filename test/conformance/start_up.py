#!/usr/bin/env python3
"""Compares what the smallest program occupies over the library under test and over the C library's malloc.

start_up.py [--library PATH] [--huge-pages MODE] [--most KIB] PROGRAM
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from contextlib import ExitStack

import driver
import machine

RUNS = 15


def measure(program: str, preload: str | None) -> tuple[int, int, int]:
    """Medians of resident memory, its anonymous part, and page tables, in KiB."""
    rows = []
    for _ in range(RUNS):
        result = driver.run([program], preload=preload, timeout=20)
        if result.status != 0:
            raise SystemExit(f"{program}: {driver.describe_status(result.status)}\n{result.err}")
        rows.append([int(word) for word in result.out.split()])
    medians = [int(statistics.median(column)) for column in zip(*rows)]
    return medians[0], medians[1], medians[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--huge-pages", choices=("always", "madvise", "never"))
    parser.add_argument("--most", type=int, default=200, help="KiB above the C library's, resident and page tables")
    parser.add_argument("program")
    options = parser.parse_args()
    library = driver.library_under_test(options.library)
    try:
        with ExitStack() as stack:
            if options.huge_pages is not None:
                stack.enter_context(machine.changed({machine.HUGE_PAGES: options.huge_pages}))
            plain = measure(options.program, None)
            tested = measure(options.program, library)
    except driver.Skip as reason:
        print(f"SKIPPED: {reason}")
        return driver.SKIPPED
    for name, row in (("C library", plain), ("tested", tested)):
        print(f"{name:10} resident {row[0]:6} KiB, of it anonymous {row[1]:6} KiB, page tables {row[2]:5} KiB")
    above = tested[0] + tested[2] - plain[0] - plain[2]
    print(f"above: {above} KiB, at most {options.most}")
    return 0 if above <= options.most else 1


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
