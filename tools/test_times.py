#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long the tests take. tools/run_tests.sh uses it:

  test_times.py plan JOBS                what `make test` will take, before anything is built
  test_times.py run BUILD JOBS -- CTEST  runs CTEST, and says twice a minute how far it is; its status is CTest's
  test_times.py slow                     the tests that are too slow for `make check`, as a pattern
  test_times.py store                    writes tools/test_times.txt by what the last runs took here

What a test takes is known from its last runs in the build directory (CTest's own record), else from that file."""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[1]
TABLE = TOP / "tools" / "test_times.txt"
BUILDS = {"build": "release", "build-tsan": "tsan"}
SLOW = 15.0  # seconds: those above are half of all time, and few
LISTED = 1.0  # faster ones stand in the table with their mean
SAID_EVERY = 30.0
# What was done must be so much before it says how fast this machine is today.
TELLING = 60.0
_RESULT = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\s*(.*?)\s+[\d.]+ sec")


class Times(NamedTuple):
    """Of one build: seconds of what is listed, and the mean of all other tests."""

    build: float
    tests: dict[str, float]
    count: int
    other: float

    def of(self, name: str) -> float:
        return self.tests.get(name, self.other)

    @property
    def total(self) -> float:
        return sum(self.tests.values()) + self.other * (self.count - len(self.tests))


def read_table(path: Path = TABLE) -> dict[str, Times]:
    """Lines: a build, a test's name (or the words build, tests and other), seconds (or how many)."""
    found: dict[str, dict[str, float]] = {}
    for line in path.read_text().split("\n"):
        if line and not line.startswith("#"):
            build, name, value = line.split()
            found.setdefault(build, {})[name] = float(value)
    return {build: Times(values.pop("build"), values, int(values.pop("tests")), values.pop("other"))
            for build, values in found.items()}


def measured(directory: Path) -> dict[str, float]:
    """By CTest's record: test, runs, mean seconds. A test that never ran here has none."""
    try:
        lines = (directory / "Testing" / "Temporary" / "CTestCostData.txt").read_text().split("---")[0].split("\n")
    except OSError:
        return {}
    rows = [line.rsplit(" ", 2) for line in lines if line.count(" ") >= 2]
    return {name: float(seconds) for name, runs, seconds in rows if int(runs) > 0 and float(seconds) > 0}


def text(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min" if seconds >= 50 else f"{round(seconds)} s"


# Before.


def plan(jobs: int) -> str:
    parts, whole, build = [], 0.0, 0.0
    for directory, preset in BUILDS.items():
        times = read_table()[preset]
        here = measured(TOP / directory)
        if len(here) >= 0.9 * times.count:
            times = times._replace(tests=here, count=len(here))
        whole += times.total / jobs
        build += times.build / jobs
        parts.append(f"{preset} {times.count} tests, {text(times.total / jobs)}")
    return (f"make test takes about {text(whole)} on {jobs} processors ({'; '.join(parts)}), and up to {text(build)} "
            "more to build all from nothing")


# While they run.


class Test(NamedTuple):
    name: str
    work: float  # seconds, times how many could run beside it and may not


def planned(command: list[str], times: Times, here: dict[str, float], jobs: int) -> list[Test]:
    """What CTest would run, by its own word."""
    asked = subprocess.run([*command, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    result = []
    for one in json.loads(asked.stdout)["tests"]:
        properties = {found["name"]: found["value"] for found in one.get("properties", [])}
        width = jobs if properties.get("RUN_SERIAL") else min(jobs, int(properties.get("PROCESSORS", 1)))
        result.append(Test(one["name"], width * here.get(one["name"], times.of(one["name"]))))
    return result


class Progress:
    def __init__(self, tests: Iterable[Test], jobs: int) -> None:
        self.left = {test.name: test.work for test in tests}
        self.all, self.jobs = len(self.left), jobs
        self.done = self.failed = 0
        self.work = 0.0  # of what is done

    def take(self, line: str) -> None:
        if (match := _RESULT.match(line)) and match[1] in self.left:
            self.work += self.left.pop(match[1])
            self.done += 1
            self.failed += not match[2].startswith(("Passed", "***Skipped"))

    def rest(self, passed: float) -> float:
        """Seconds to go, after `passed`: as known, or as much faster or slower as what was done took."""
        expected = self.work / self.jobs
        factor = passed / expected if expected >= TELLING else 1.0
        return sum(self.left.values()) / self.jobs * min(5.0, max(0.2, factor))

    def said(self, passed: float) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return (f"progress: {self.done} of {self.all} tests{failed}; {text(passed)} so far, about "
                f"{text(self.rest(passed))} to go")


def order(directory: Path, times: Times) -> None:
    """CTest begins with what takes longest, so that no processor is without work at the end. In a build directory where
    it has no record it gets what the table knows, as of tests that never ran."""
    record = directory / "Testing" / "Temporary" / "CTestCostData.txt"
    if not record.exists():
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("".join(f"{name} 0 {seconds:g}\n" for name, seconds in times.tests.items()) + "---\n")


def run(directory: Path, jobs: int, command: list[str]) -> int:
    times = read_table()[BUILDS[directory.name]]
    order(directory, times)
    try:
        progress = Progress(planned(command, times, measured(directory), jobs), jobs)
    except (subprocess.CalledProcessError, ValueError) as error:
        print(f"progress: unknown, for CTest does not list its tests: {error}", flush=True)
        progress = Progress([], jobs)
    began = time.monotonic()
    print(f"progress: {progress.all} tests, about {text(progress.rest(0))}", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout
        follow(process.stdout.fileno(), progress, began)
        return process.wait()


def follow(descriptor: int, progress: Progress, began: float) -> None:
    """What CTest writes, as it comes; and beside it, also while it is silent, how far it is."""
    next_word, pending = began + SAID_EVERY, b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            ready = selector.select(max(0.0, next_word - time.monotonic()))
            if ready:
                found = os.read(descriptor, 65536)
                *lines, pending = (pending + found).split(b"\n")
                if not found and pending:
                    lines, pending = [pending], b""
                for line in lines:
                    sys.stdout.buffer.write(line + b"\n")
                    progress.take(line.decode(errors="replace"))
                sys.stdout.buffer.flush()
                if not found:
                    return
            now = time.monotonic()
            if now >= next_word:
                print(progress.said(now - began), flush=True)
                next_word = now + SAID_EVERY


# What `make check` leaves out, and the table.


def slow() -> str:
    """For ctest's -E; by the table alone, so that it is the same everywhere. The other compiler builds everything."""
    names = {name for name, seconds in read_table()["release"].tests.items() if seconds > SLOW}
    return "|".join(f"^{re.escape(name)}$" for name in sorted(names | {"tidy.clang_build", "tidy.clang_library"}))


def built(directory: Path) -> float:
    """Processor seconds of all that ninja made, each by its last time."""
    try:
        lines = (directory / ".ninja_log").read_text().split("\n")
    except OSError:
        return 0.0
    rows = [line.split("\t") for line in lines if line.count("\t") >= 4]
    return sum({row[4] if len(row) > 4 else row[3]: int(row[1]) - int(row[0]) for row in rows}.values()) / 1000


def store(path: Path = TABLE) -> None:
    known = read_table(path) if path.exists() else {}
    lines = ["# Seconds that tests take on a machine of 2 processors; written by tools/test_times.py store.",
             "# build: to build all from nothing, on one processor; other: the mean of tests that are not listed."]
    for directory, preset in BUILDS.items():
        before = known.get(preset, Times(0, {}, 0, 0))
        found = before.tests | measured(TOP / directory)
        listed = {name: seconds for name, seconds in found.items() if seconds > LISTED}
        fast = [seconds for seconds in found.values() if seconds <= LISTED]
        count = max(before.count, len(found))
        other = sum(fast) / len(fast) if fast else before.other
        lines += [f"{preset} build {built(TOP / directory) or before.build:.0f}", f"{preset} tests {count}",
                  f"{preset} other {other:.2f}"]
        lines += [f"{preset} {name} {seconds:.0f}" for name, seconds in sorted(listed.items())]
    path.write_text("\n".join(lines) + "\n")


def main(words: list[str]) -> int:
    match words:
        case ["plan", jobs]:
            print(plan(int(jobs)))
        case ["run", directory, jobs, "--", *command]:
            return run(TOP / directory, int(jobs), command)
        case ["slow"]:
            print(slow())
        case ["store"]:
            store()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
