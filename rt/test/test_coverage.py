# SPDX-License-Identifier: MIT
"""Every branch of coffer-rt is taken both ways by its tests: GCC's --coverage, added up over the test programs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from toolbox import HERE, INCLUDE, RT, SOURCES, run

# Test, its arguments, whether it includes the sources, extra flags.
PROGRAMS = [
    ("api.c", [], False, []),
    ("api.c", [], False, ["-DCOFFER_RT_PORTABLE_BITS"]),
    ("random.c", ["400000"], False, []),
    ("exhaustive.c", [], True, ["-DCOFFER_RT_PORTABLE_BITS"]),
    ("lists.c", [], True, []),
    ("lists.c", [], True, ["-DCOFFER_RT_PORTABLE_BITS"]),
    ("size.c", [], True, []),
]


def measured(folder: Path, test: str, arguments: list, includes: bool, flags: list) -> dict:
    """Per source line the branches of each block, and how often each was taken."""
    program = folder / "program"
    os.chdir(folder)
    run(["gcc", "-std=c11", "-O0", "--coverage", "-DRT_INLINE=static", *flags, INCLUDE, HERE / test,
         *([] if includes else SOURCES), "-o", program])
    run([program, *arguments])
    for data in sorted(folder.glob("*.gcda")):
        run(["gcov", "--json-format", "--branch-probabilities", data.name])
    lines: dict = {}
    for report in sorted(folder.glob("*.gcov.json.gz")):
        for file in json.loads(gzip.decompress(report.read_bytes()))["files"]:
            path = (folder / file["file"]).resolve()
            if path.parent != RT / "src":
                continue
            for line in file["lines"]:
                key = (path.name, line["line_number"])
                counts = [branch["count"] for branch in line["branches"]]
                lines.setdefault(key, []).append((line["count"], counts))
    return lines


def test_every_branch(tmp_path: Path) -> None:
    executed: dict = {}
    taken: dict = {}
    for number, (test, arguments, includes, flags) in enumerate(PROGRAMS):
        folder = tmp_path / str(number)
        folder.mkdir()
        for key, reports in measured(folder, test, arguments, includes, flags).items():
            for count, branches in reports:
                executed[key] = executed.get(key, 0) + count
                # The same line compiles to as many branches in every program, or to none where a header is unused.
                merged = taken.setdefault((*key, len(branches)), [0] * len(branches))
                taken[(*key, len(branches))] = [a + b for a, b in zip(merged, branches)]
    assert len(executed) > 500
    missed = sorted(f"{name}:{line}: never executed" for (name, line), count in executed.items() if count == 0)
    missed += sorted(f"{name}:{line}: branch {i} of {size} never taken" for (name, line, size), counts in taken.items()
                     for i, count in enumerate(counts) if count == 0)
    assert not missed, "\n".join(missed)
