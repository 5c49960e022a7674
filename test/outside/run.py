#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tests of malloc that other projects' packages bring, under Coffer and its peers. Results go to
build/outside/results.jsonl, and with --write the page docs/results/outside.md is made of them."""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from outside import allocators, building, catalogue, fetching, page, reasons, results, running  # noqa: E402
from outside.allocators import Allocator  # noqa: E402
from outside.errors import Missing  # noqa: E402
from outside.results import Outcome, Results, Run, SuiteFound  # noqa: E402
from outside.suite import Suite  # noqa: E402

PAGE = ROOT / "docs/results/outside.md"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build", help="with Coffer's libraries and the peers")
    parser.add_argument("--suites", nargs="+", default=[suite.name for suite in catalogue.SUITES], metavar="NAME")
    parser.add_argument("--allocators", nargs="+", default=list(allocators.NAMES), metavar="NAME",
                        help="of the bench's, or a library's path with a slash")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build-peers", action="store_true", help="those that come from crates, first")
    parser.add_argument("--write", action="store_true", help="the page")
    parser.add_argument("--page-only", action="store_true", help="write the page of the last results and run nothing")
    return parser.parse_args()


def describe_machine() -> str:
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{system}, Linux {platform.release()}, {platform.machine()}"


def run_suite(suite: Suite, options: argparse.Namespace, there: list[Allocator], out: TextIO) -> None:
    found = SuiteFound(suite.name, f"{suite.origin.kind} {suite.origin.name}", "", suite.how,
                       catalogue.left_out(suite), allocators=[allocators.label(one) for one in there])
    try:
        root, found.version = fetching.fetch(suite, options.build_dir / "outside")
    except Missing as reason:
        found.trouble = str(reason)
        print(f"{suite.name}: not run: {reason}")
        out.write(results.line(found))
        return
    found.unknown = building.unknown(suite, root)
    out.write(results.line(found))
    programs = [program for program in building.build(suite, root, options.build_dir / "outside/programs" / suite.name)
                if options.only in program.name]
    work = [(program, allocator) for program in programs for allocator in there]
    functions = {one.name: allocators.functions(one) for one in there}
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda one: running.run(one[0], allocators.variables(one[1]), suite.name,
                                                    allocators.label(one[1]), functions[one[1].name]), work)
        for outcome in outcomes:
            out.write(results.line(outcome))
            out.flush()
            if outcome.outcome not in ("passed", "not applicable"):
                print(f"{suite.name}: {outcome.test} under {outcome.allocator}: {outcome.outcome} {outcome.detail}",
                      flush=True)
    counts = ", ".join(f"{allocators.label(one)} {page.tally(read_back(out.name).outcomes, suite.name, one.name)}"
                       for one in there)
    print(f"{suite.name} {found.version}: passed / failed / not applicable: {counts}", flush=True)


def read_back(name: str) -> Results:
    return results.read(Path(name))


def unexplained(outcomes: list[Outcome], known: list[reasons.Reason]) -> list[str]:
    """Failures under Coffer that glibc's malloc does not have, and that no reason is known for."""
    plain = {(one.suite, one.test): one for one in outcomes if one.allocator == page.PLAIN}
    return [f"{one.suite}: {one.test}" for one in outcomes
            if one.allocator == reasons.OURS and one.is_failure and not reasons.of(one, known)
            and not ((one.suite, one.test) in plain and plain[one.suite, one.test].is_failure)]


def main() -> int:
    options = parse()
    wanted = {suite.name: suite for suite in catalogue.SUITES}
    unknown = [name for name in options.suites if name not in wanted]
    if unknown:
        raise SystemExit(f"no suite {', '.join(unknown)}; there are {', '.join(wanted)}")
    options.build_dir = options.build_dir.resolve()
    # A part of a suite is no result.
    file = options.build_dir / "outside" / ("part.jsonl" if options.only else "results.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not options.page_only:
        if options.build_peers:
            print(f"peers: {allocators.build_crates(options.build_dir) or 'built'}")
        there, missing = allocators.available(options.allocators, options.build_dir)
        if not there:
            raise SystemExit(f"no allocator to run over: {missing}")
        run = Run(datetime.date.today().isoformat(), describe_machine(),
                  {allocators.label(one): allocators.describe(one, options.build_dir) for one in there}, missing)
        everything = set(options.suites) == set(wanted) and options.allocators == list(allocators.NAMES)
        with file.open("w" if everything or options.only else "a", buffering=1) as out:
            out.write(results.line(run))
            for name in options.suites:
                run_suite(wanted[name], options, there, out)
    found = results.read(file)
    order = list(wanted)
    found.suites.sort(key=lambda suite: order.index(suite.name) if suite.name in order else len(order))
    known = reasons.load()
    if options.page_only or (options.write and not options.only):
        PAGE.write_text(page.write(found, known, catalogue.WITHOUT))
    if options.only:
        return 0
    old = [f"{reason.suite}: {reason.test}" for reason in reasons.stale(found.outcomes, known, reasons.OURS)]
    new = unexplained(found.outcomes, known)
    if old:
        print(f"reasons.toml explains what no longer fails: {', '.join(old)}")
    if new:
        print(f"fails under Coffer, not under glibc, and nobody knows why: {', '.join(new)}")
    return 1 if old or new else 0


if __name__ == "__main__":
    sys.exit(main())
