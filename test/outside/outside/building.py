# SPDX-License-Identifier: MIT
"""Builds the tests of a suite. A source is copied into a directory of its own, where what it includes by quotes from
beside it is found among the suite's shims instead: headers of this tree that stand for the project's own and go by
malloc and its like."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from outside.paths import short_paths
from outside.suite import Program, Suite, Test

SHIMS = Path(__file__).resolve().parents[1] / "shims"
COMPILERS = {".c": ("cc", "-std=gnu11"), ".cc": ("c++", "-std=gnu++20"), ".cpp": ("c++", "-std=gnu++20")}
# -fno-builtin: the compiler neither removes a pair of malloc and free nor assumes what they return.
FLAGS = ("-O1", "-w", "-fno-builtin", "-U_FORTIFY_SOURCE", "-D_GNU_SOURCE", "-pthread")
COMPILE_SECONDS = 300


def find_source(suite: Suite, root: Path, name: str) -> Path:
    ours = SHIMS / suite.name / name
    return ours if ours.is_file() else root / name


def command(suite: Suite, test: Test, root: Path, place: Path, flags: tuple[str, ...] = ()) -> list[str]:
    source = place / Path(test.source).name
    compiler, standard = COMPILERS[source.suffix]
    includes = [str(SHIMS / suite.name), *(str(root / folder) for folder in suite.includes)]
    return [compiler, standard, *FLAGS, *suite.flags, *flags, *(f"-I{folder}" for folder in includes), *test.flags,
            str(source), *(str(root / other) for other in test.together), "-o", str(place / "program"), "-pthread",
            "-lm", "-ldl"]


def compile_test(suite: Suite, test: Test, root: Path, place: Path, flags: tuple[str, ...] = ()) -> str:
    """Why there is no program; empty where there is one."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in (test.source, *test.beside):
        path = find_source(suite, root, name)
        if not path.is_file():
            return f"the package has no {name}"
        shutil.copy(path, place / path.name)
    try:
        done = subprocess.run(command(suite, test, root, place, flags), capture_output=True, text=True,
                              timeout=COMPILE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "the compiler did not end in time"
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
    (place / "compiler.txt").write_text(done.stderr)
    return "not compiled: " + short_paths((errors or done.stderr.strip().splitlines() or ["nothing said"])[0])


def find_cases(test: Test, program: str) -> list[str]:
    """The program names them itself, where OUTSIDE_CASE is empty."""
    done = subprocess.run([program, *test.arguments], env={"OUTSIDE_CASE": ""}, capture_output=True, text=True,
                          timeout=60, check=False)
    names = re.findall(r"^case: (.+)$", done.stdout, re.MULTILINE)
    return [name for name in dict.fromkeys(names) if name not in test.cases_left_out]


def all_tests(suite: Suite, root: Path) -> tuple[Test, ...]:
    return (*suite.tests, *(suite.find(root) if suite.find else ()))


def build(suite: Suite, root: Path, work: Path) -> Iterator[Program]:
    flags = suite.prepare(work) if suite.prepare else ()
    for test in all_tests(suite, root):
        if test.command:
            run = (*test.command, *test.arguments)
            yield Program(test.name, run, suite.environment, test.timeout, needs=test.needs)
            continue
        place = work / re.sub(r"[^\w.-]", "_", test.name)
        trouble = compile_test(suite, test, root, place, flags)
        run = (str(place / "program"), *test.arguments)
        if not test.cases or trouble:
            yield Program(test.name, run, suite.environment, test.timeout, trouble, test.needs)
            continue
        cases = find_cases(test, run[0])
        if not cases:
            yield Program(test.name, run, suite.environment, test.timeout, "the program names no cases")
        for case in cases:
            environment = {**suite.environment, "OUTSIDE_CASE": case}
            yield Program(f"{test.name}/{case}", run, environment, test.timeout, needs=test.needs)


def unknown(suite: Suite, root: Path) -> list[str]:
    """Tests that the package brings and that the suite neither runs nor leaves out: of a newer version."""
    known = {name for test in all_tests(suite, root) for name in (test.source, *test.beside, *test.together)}
    found = sorted({path for pattern in suite.present for path in root.glob(pattern)})
    return [str(path.relative_to(root)) for path in found
            if str(path.relative_to(root)) not in known and path.stem not in suite.left_out]
