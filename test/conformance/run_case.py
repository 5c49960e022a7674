#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one case of a conformance program: run_case.py [options] PROGRAM CASE [ARGUMENT...]

Passes when the program ends with status 0, and with nothing from Coffer on stderr. Exit status 77: skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import ExitStack

import driver
import machine


EMULATION_TAKES = 6  # times as long, at most


def size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", help="library under test, unless COFFER_LIB names one")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--emulator", type=str.split, default=[], help="runs the program: it is for another processor")
    parser.add_argument("--no-preload", action="store_true", help="hand the library's path over in COFFER_LIB only")
    parser.add_argument("--limit-as", type=size, metavar="BYTES", help="as ulimit -v")
    parser.add_argument("--limit-memlock", type=size, metavar="BYTES", help="as ulimit -l, without CAP_IPC_LOCK")
    parser.add_argument("--limit-shim", help="library that pretends so where the limit cannot be set")
    parser.add_argument("--conf", help="value of COFFER_CONF")
    parser.add_argument("--overcommit", choices=("0", "1", "2"), help="mode of the whole machine meanwhile")
    parser.add_argument("--huge-pages", choices=("always", "madvise", "never"), help="of the whole machine meanwhile")
    parser.add_argument("--valgrind", choices=("none", "memcheck", "memcheck-inside"))
    parser.add_argument("--stdout-xml", action="store_true", help="stdout must be well-formed XML")
    parser.add_argument("--stdout-contains", metavar="TEXT")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def valgrind_command(tool: str) -> list[str]:
    path = shutil.which("valgrind")
    if path is None:
        raise driver.Skip("valgrind is not installed")
    options = {
        "none": ["--tool=none"],
        # Valgrind's own malloc stands in for Coffer's, whose constructor runs nevertheless.
        "memcheck": ["--tool=memcheck"],
        # Coffer's malloc runs, and memcheck looks at what it does.
        "memcheck-inside": ["--tool=memcheck", "--soname-synonyms=somalloc=nouserintercepts"],
    }
    return [path, "--error-exitcode=99", *options[tool]]


def machine_settings(options: argparse.Namespace) -> dict:
    settings = {}
    if options.overcommit is not None:
        if options.overcommit == "2":
            # Room for the other programs of the machine: the case needs the mode, not the shortage.
            settings[machine.OVERCOMMIT_RATIO] = "200"
        settings[machine.OVERCOMMIT] = options.overcommit
    if options.huge_pages is not None:
        settings[machine.HUGE_PAGES] = options.huge_pages
    return settings


def complaints(options: argparse.Namespace, result: driver.Result) -> list[str]:
    found = []
    if result.status != 0:
        found.append(driver.describe_status(result.status))
    if result.coffer_lines:
        found.append("Coffer wrote to stderr")
    if options.stdout_xml:
        try:
            root = ElementTree.fromstring(result.out)
            if root.tag != "malloc":
                found.append(f"the document's root is {root.tag}")
        except ElementTree.ParseError as error:
            found.append(f"stdout is not well-formed XML: {error}")
    if options.stdout_contains is not None and options.stdout_contains not in result.out:
        found.append(f"stdout lacks {options.stdout_contains!r}")
    return found


# Of an emulated process: a limit binds the emulator, and not what it emulates.
def refuse_what_cannot_be_emulated(options: argparse.Namespace) -> None:
    if options.limit_as is not None or options.limit_memlock is not None:
        raise driver.Skip("limits do not reach an emulated process")
    if options.valgrind is not None:
        raise driver.Skip("valgrind runs programs of this machine's processor")


def run(options: argparse.Namespace) -> int:
    if options.emulator:
        refuse_what_cannot_be_emulated(options)
        options.timeout *= EMULATION_TAKES
    library = driver.library_under_test(options.library)
    environment = {"COFFER_LIB": library or ""} if options.no_preload else {}
    if options.conf is not None:
        environment["COFFER_CONF"] = options.conf
    limits = driver.Limits(options.limit_as, options.limit_memlock)
    preload = None if options.no_preload else library
    if options.limit_memlock is not None and not driver.can_limit_locked_memory(options.limit_memlock):
        # Pretending works only where the real limit binds nobody: the case locks far more than that.
        if not driver.locks_beyond_its_limit(options.limit_memlock):
            raise driver.Skip(
                f"the limit on locked memory is under {options.limit_memlock >> 20} MiB, this process may not raise it,"
                " and the kernel refuses to lock more"
            )
        print("the limit on locked memory cannot be raised here: it is pretended")
        limits.locked_memory = None
        preload = options.limit_shim if preload is None else f"{options.limit_shim}:{preload}"
    command = list(options.command)
    if options.valgrind is not None:
        command = valgrind_command(options.valgrind) + command
    with ExitStack() as stack:
        settings = machine_settings(options)
        if settings:
            stack.enter_context(machine.changed(settings))
        result = driver.run(
            command,
            preload=preload,
            timeout=options.timeout,
            environment=environment,
            limits=limits,
            emulator=options.emulator,
        )
    sys.stdout.write(result.out)
    sys.stderr.write(result.err)
    if result.status == driver.SKIPPED:
        return driver.SKIPPED
    wrong = complaints(options, result)
    if options.valgrind is not None:
        summary = re.search(r"ERROR SUMMARY: (\d+) errors", result.err)
        if options.valgrind != "none" and (summary is None or summary.group(1) != "0"):
            wrong.append("memcheck found errors")
    for line in wrong:
        print(f"FAILED over {library or 'the C library'}: {line}")
    if result.threads:
        print(result.threads)
    return 1 if wrong else 0


def main() -> int:
    try:
        return run(parse())
    except driver.Skip as reason:
        print(f"SKIPPED: {reason}")
        return driver.SKIPPED


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
