# SPDX-License-Identifier: MIT
"""Runs one test under one allocator, with a time limit. What fails or crashes is run twice more: a test that fails
sometimes is told from one that always does."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from outside.paths import short_paths
from outside.results import Outcome
from outside.suite import Program

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "conformance"))
import driver  # noqa: E402

AGAIN = 2  # times that a failure is tried again
UNSUPPORTED = driver.SKIPPED  # of the exit status, as with automake
WORDS = re.compile(r"fail|error|assert|expected|abort|coffer:|not true|corrupt|invalid", re.IGNORECASE)


def last_words(result: driver.Result) -> str:
    """The line that says most about a failure: the first that speaks of one, else the last."""
    lines = [line.strip() for line in [*result.err.splitlines(), *result.out.splitlines()] if line.strip()]
    telling = [line for line in lines if WORDS.search(line)]
    return short_paths((telling or lines[-1:] or [""])[0])[:240]


def judge(result: driver.Result) -> tuple[str, str]:
    if result.status is None:
        return "hung", ""
    if result.status < 0:
        return "crashed", f"{driver.describe_status(result.status)}; {last_words(result)}".rstrip("; ")
    if result.status == UNSUPPORTED:
        return "not applicable", last_words(result)
    if result.status != 0:
        return "failed", last_words(result)
    return "passed", ""


def run_once(program: Program, environment: dict[str, str]) -> tuple[str, str]:
    """Through env, so that the interpreter that starts it stays under the C library's malloc."""
    with tempfile.TemporaryDirectory() as place:
        preload = [f"LD_PRELOAD={environment['LD_PRELOAD']}"] if "LD_PRELOAD" in environment else []
        others = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
        command = ["env", f"--chdir={place}", *preload, *program.command]
        result = driver.run(command, preload=None, timeout=program.timeout,
                            environment={**others, **program.environment, "TMPDIR": place})
        return judge(result)


def run(program: Program, environment: dict[str, str], suite: str, allocator: str,
        functions: frozenset[str] | None = None) -> Outcome:
    if program.trouble:
        return Outcome(suite, program.name, allocator, "not built", program.trouble)
    lacks = [name for name in program.needs if functions is not None and name not in functions]
    if lacks:
        return Outcome(suite, program.name, allocator, "not applicable", f"it leaves {', '.join(lacks)} to glibc")
    begun = time.monotonic()
    outcome, detail = run_once(program, environment)
    seconds = round(time.monotonic() - begun, 2)
    found = Outcome(suite, program.name, allocator, outcome, detail, seconds)
    if found.outcome in ("failed", "crashed"):
        good = sum(run_once(program, environment)[0] == "passed" for _ in range(AGAIN))
        if good:
            found.detail = f"in {AGAIN + 1 - good} of {AGAIN + 1} runs: {detail}"
    return found
