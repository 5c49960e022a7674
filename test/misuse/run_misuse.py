#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one crime and checks its end: run_misuse.py [options] KIND PROGRAM CASE [ARGUMENT...]

KIND names what the report must say. The process must die by SIGABRT, after exactly one line from Coffer on stderr that
holds the address. Over other allocators only the signal is checked, since their words are their own.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
import driver  # noqa: E402

# What Coffer says is wrong with a pointer: the texts of src/harden/report.cpp, in one place.
FOREIGN = "not a block of this allocator"
NOT_A_START = "not the start of a block"
ALREADY_FREE = "already free"
FREE_SPAN = "in a span that is free"
WRONG_SIZE = r"size \d+ was given, the block has \d+"

# Kinds of crime: the texts that fit. A block whose span went back with it may be reported as either of two.
KINDS: dict[str, tuple[str, ...]] = {
    "foreign": (FOREIGN,),
    "not-a-start": (NOT_A_START,),
    "double": (ALREADY_FREE,),
    "double-or-free-span": (ALREADY_FREE, FREE_SPAN),
    "free-span": (FREE_SPAN,),
    "size": (WRONG_SIZE,),
}
CALLS = r"(?:free|realloc|malloc_usable_size|free_sized|free_aligned_sized|operator delete)"
LINE = re.compile(rf"coffer: {CALLS} of (?P<address>0x[0-9a-f]+): (?P<what>.*?)(?: \(size class (?P<bytes>\d+)\))?")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", help="library under test, unless COFFER_LIB names one")
    parser.add_argument("--timeout", type=float, default=20)
    parser.add_argument("--least-class", type=int, help="the size class must be named, and be at least that")
    parser.add_argument("--emulator", type=str.split, default=[], help="runs the program: it is for another processor")
    parser.add_argument("--close-stderr", action="store_true", help="no report can be written; the end is the same")
    parser.add_argument("--stdout-contains", metavar="TEXT")
    parser.add_argument("--conf", metavar="OPTIONS", help="COFFER_CONF of the program")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def complaints(options: argparse.Namespace, result: driver.Result, coffer: bool) -> list[str]:
    found = []
    # An emulator may hand the signal on, or end with the status that a shell would show.
    if result.status not in ((-6, 134) if options.emulator else (-6,)):
        found.append(f"expected SIGABRT: {driver.describe_status(result.status)}")
    if options.stdout_contains is not None and options.stdout_contains not in result.out:
        found.append(f"stdout lacks {options.stdout_contains!r}")
    if not coffer or options.close_stderr:
        return found
    if len(result.coffer_lines) != 1:
        return [*found, f"expected one line from Coffer, found {len(result.coffer_lines)}"]
    match = LINE.fullmatch(result.coffer_lines[0])
    if match is None:
        return [*found, f"not in the form of a report: {result.coffer_lines[0]}"]
    said = re.search(r"^address (0x[0-9a-f]+)$", result.out, re.MULTILINE)
    if said is None or int(said.group(1), 16) != int(match["address"], 16):
        found.append("the report names another address")
    if not any(re.fullmatch(text, match["what"]) for text in KINDS[options.kind]):
        found.append(f"expected {' or '.join(KINDS[options.kind])}: {match['what']}")
    if options.least_class is not None and (match["bytes"] is None or int(match["bytes"]) < options.least_class):
        found.append(f"expected a size class of at least {options.least_class}")
    return found


def main() -> int:
    options = parse()
    library = driver.library_under_test(options.library)
    result = driver.run(
        options.command,
        preload=library,
        timeout=options.timeout,
        environment={"COFFER_CONF": options.conf} if options.conf else None,
        close_stderr=options.close_stderr,
        emulator=options.emulator,
    )
    sys.stdout.write(result.out)
    sys.stderr.write(result.err)
    if result.status == driver.SKIPPED:
        return driver.SKIPPED
    wrong = complaints(options, result, library is not None and "coffer" in Path(library).name)
    for line in wrong:
        print(f"FAILED over {library or 'the C library'}: {line}")
    if result.threads:
        print(result.threads)
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
