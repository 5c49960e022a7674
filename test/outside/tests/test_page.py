# SPDX-License-Identifier: MIT
"""What becomes of results: lines, the page, reasons."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from outside import catalogue, page, reasons, results
from outside.paths import short_paths
from outside.reasons import Reason
from outside.results import Outcome, Results, Run, SuiteFound

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run as command  # noqa: E402

RUN = Run("2026-01-02", "Debian", {"glibc": "2.36", "coffer": "0.2.0"}, {"snmalloc": "cargo is missing"})
SUITE = SuiteFound("one", "crate one", "1.0", "compiled", {"private": "its own | interface"}, ["later.c"])
LOST = SuiteFound("two", "debian source two", "", "compiled", trouble="no apt-get on this machine")
OUTCOMES = [Outcome("one", "a", "glibc", "passed"), Outcome("one", "a", "coffer", "failed", "x < 5 | `y`"),
            Outcome("one", "b", "glibc", "crashed", "ended by SIGSEGV"), Outcome("one", "b", "coffer", "hung"),
            Outcome("one", "c", "glibc", "not applicable", "no pages"), Outcome("one", "c", "coffer", "passed")]


def found() -> Results:
    return Results(RUN, [SUITE, LOST], list(OUTCOMES))


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text("".join(results.line(one) for one in [RUN, SUITE, LOST, *OUTCOMES]))
    assert results.read(file) == found()


def test_a_suite_that_is_run_again_replaces_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    ours = replace(SUITE, allocators=["coffer"])
    again = Outcome("one", "a", "coffer", "passed")
    later = replace(RUN, versions={"coffer": "0.3.0", "snmalloc": "0.7.6"}, missing={})
    file.write_text("".join(results.line(one) for one in [RUN, SUITE, *OUTCOMES, LOST, later, ours, again]))
    read = results.read(file)
    assert read.outcomes == [*(one for one in OUTCOMES if one.allocator != "coffer"), again]
    assert [suite.name for suite in read.suites] == ["one", "two"]
    assert read.run.versions == {"glibc": "2.36", "coffer": "0.3.0", "snmalloc": "0.7.6"} and not read.run.missing


def test_no_run_is_no_result(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(results.line(SUITE))
    with pytest.raises(ValueError):
        results.read(file)


def test_the_page_counts_and_names_failures() -> None:
    known = [Reason("one", "b", "the test waits for a page"), Reason("one", "*", "theirs", "gl*")]
    text = page.write(found(), known, {"LTP": "no package"})
    rows = text.splitlines()
    assert "| one | 1 / 1 / 1 | 1 / 2 / 0 |" in rows
    assert "| two | not run | not run |" in rows
    assert "| one | a | failed: x &lt; 5 \\| 'y' | no other | unknown |" in rows
    assert "| one | b | hung | glibc | the test waits for a page |" in rows
    assert "| one | b | glibc | crashed: ended by SIGSEGV | theirs |" in rows
    assert "| snmalloc | not run: cargo is missing |" in rows
    assert "| two | debian source two |  | not run: no apt-get on this machine |" in rows
    assert "| one | private | its own \\| interface |" in rows
    assert "| one | c | not applicable under glibc: no pages |" in rows
    assert "| one | later.c | new in this version, not looked at yet |" in rows
    assert "| LTP | no package |" in rows


def test_a_failure_that_glibc_has_not_needs_a_reason() -> None:
    assert command.unexplained(OUTCOMES, []) == ["one: a"]
    assert command.unexplained(OUTCOMES, [Reason("one", "*", "known")]) == []
    # What excuses the others does not excuse Coffer.
    assert command.unexplained(OUTCOMES, [Reason("one", "*", "known", "*")]) == ["one: a"]


def test_reasons_of_what_no_longer_fails_are_stale() -> None:
    known = [Reason("one", "a", "x"), Reason("one", "c", "y"), Reason("two", "d", "of a suite that was not run")]
    assert reasons.stale(OUTCOMES, known, "coffer") == [known[1]]


def test_paths_lose_their_folders() -> None:
    assert short_paths("at /opt/some/where/file.c:10: 5 / 3 in a/b") == "at file.c:10: 5 / 3 in a/b"


def test_the_catalogue_says_why() -> None:
    names = [suite.name for suite in catalogue.SUITES]
    assert len(names) == len(set(names)) >= 8
    for suite in catalogue.SUITES:
        assert suite.how and all(catalogue.left_out(suite).values()), suite.name
        assert suite.origin.version or suite.origin.kind != "crate", suite.name
        assert suite.tests or suite.find, suite.name
    for reason in reasons.load():
        assert reason.suite in names and reason.why
