# SPDX-License-Identifier: MIT
"""A whole suite: fetched, built, run and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from outside import building, fetching, running
from outside.errors import Missing
from outside.results import Outcome
from outside.suite import Origin, Suite


def run_all(suite: Suite, build_dir: Path) -> dict[str, Outcome]:
    root, version = fetching.fetch(suite, build_dir)
    assert version == "1.0"
    return {program.name: running.run(program, {}, suite.name, "glibc")
            for program in building.build(suite, root, build_dir / "programs")}


def test_each_end_of_a_program_has_its_word(fake: Suite, tmp_path: Path) -> None:
    found = run_all(fake, tmp_path / "build")
    assert {name: one.outcome for name, one in found.items()} == {
        "passes": "passed", "fails": "failed", "crashes": "crashed", "hangs": "hung", "skips": "not applicable",
        "broken": "not built", "sometimes": "failed", "many/good": "passed", "many/bad": "failed"}
    assert found["fails"].detail == "block: failed: at 7"
    assert found["crashes"].detail == "ended by SIGABRT"
    assert found["skips"].detail == "no such page size"
    assert "nothing_of_that_name" in found["broken"].detail and "/" not in found["broken"].detail
    # What failed once of three times is told from what always fails.
    assert found["sometimes"].detail.startswith("in 1 of 3 runs")
    assert 0.4 < found["hangs"].seconds < 20


def test_what_a_newer_package_brings_is_reported(fake: Suite, tmp_path: Path) -> None:
    root, _ = fetching.fetch(fake, tmp_path / "build")
    assert building.unknown(fake, root) == ["later.c"]


def test_a_program_without_cases_is_no_success(fake: Suite, tmp_path: Path) -> None:
    root, _ = fetching.fetch(fake, tmp_path / "build")
    silent = replace(fake, tests=(replace(fake.tests[0], cases=True),))
    (program,) = building.build(silent, root, tmp_path / "programs")
    assert running.run(program, {}, "fake", "glibc").outcome == "not built"


def test_a_file_that_the_package_lost_is_said(fake: Suite, tmp_path: Path) -> None:
    root, _ = fetching.fetch(fake, tmp_path / "build")
    (root / "passes.c").unlink()
    program = next(building.build(fake, root, tmp_path / "programs"))
    assert program.trouble == "the package has no passes.c"


def test_the_environment_reaches_the_program_and_its_preload_nobody_else(fake: Suite, tmp_path: Path) -> None:
    command = replace(fake.tests[0], command=("/bin/sh", "-c", 'test "$LD_PRELOAD" = libc.so.6 && test "$TWO" = 2'))
    (program,) = building.build(replace(fake, tests=(command,)), tmp_path, tmp_path / "programs")
    assert running.run(program, {"LD_PRELOAD": "libc.so.6", "TWO": "2"}, "fake", "x").outcome == "passed"
    assert running.run(program, {"TWO": "2"}, "fake", "x").outcome == "failed"


def test_what_a_library_leaves_to_glibc_says_nothing_of_it(fake: Suite, tmp_path: Path) -> None:
    asks = replace(fake, tests=(replace(fake.tests[0], needs=("mallopt",)),))
    root, _ = fetching.fetch(asks, tmp_path)
    (program,) = building.build(asks, root, tmp_path / "programs")
    found = running.run(program, {}, "fake", "x", frozenset({"malloc"}))
    assert (found.outcome, found.detail) == ("not applicable", "it leaves mallopt to glibc")
    assert running.run(program, {}, "fake", "x", frozenset({"malloc", "mallopt"})).outcome == "passed"
    assert running.run(program, {}, "fake", "glibc", None).outcome == "passed"


@pytest.mark.parametrize("origin", [Origin("directory", "/nowhere"), Origin("debian package", "no-such-package-here")])
def test_what_cannot_be_had_says_why(fake: Suite, tmp_path: Path, origin: Origin) -> None:
    with pytest.raises(Missing):
        fetching.fetch(replace(fake, origin=origin), tmp_path)
