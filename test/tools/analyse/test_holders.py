# SPDX-License-Identifier: MIT
"""coffer heap and coffer leaks of traces: what they say is what a profile of every block says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import coffer

SEEDED = Path(os.environ["COFFER_SEEDED"])


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("leak") / "leak.trace"
    assert coffer("record", "-q", "-o", trace, "--", SEEDED / "seeded_leak") == "served\n"
    return trace


def told(*arguments: object) -> dict:
    """The last line: what a program prints comes before it."""
    return json.loads(coffer(*arguments).splitlines()[-1])


def test_leaks_as_of_the_program(leak: Path) -> None:
    of_trace = told("leaks", "--json", leak)
    of_program = told("leaks", "--json", "--", SEEDED / "seeded_leak")
    assert of_trace["verdicts"][0] == of_program["verdicts"][0]
    assert "all from open_entry, leak.c:" in of_trace["verdicts"][0]
    assert "called by serve_file" in of_trace["verdicts"][0]
    assert [(site["function"], site["bytes"], site["blocks"]) for site in of_trace["sites"]] == [
        (site["function"], site["bytes"], site["blocks"]) for site in of_program["sites"]]


def test_the_highest_moment_and_what_grows(tmp_path: Path) -> None:
    trace = tmp_path / "cache.trace"
    coffer("record", "-q", "-o", trace, "--", SEEDED / "seeded_cache", "1000")
    peak, growing = told("heap", "--json", trace), told("heap", "--json", "--view", "growing", trace)
    assert peak["view"] == "peak" and peak["error"] == 0 and peak["sites"][0]["function"] == "page_of"
    survey = json.loads(coffer("trace", "info", "--json", trace))["survey"]
    assert peak["peak_ns"] == survey["peak_ns"]
    assert peak["bytes"] + sum(one["bytes"] for one in peak["apart"].values()) == pytest.approx(survey["peak_bytes"],
                                                                                               rel=0.01)
    assert any(verdict.startswith("Growing all the time: page_of, cache.cpp:") for verdict in peak["verdicts"])
    assert growing["sites"][0]["function"] == "page_of"
    # As a profile for pprof, which knows the highest moment, too.
    coffer("heap", trace, "-o", tmp_path / "cache.pb.gz")
    assert told("heap", "--json", "--view", "peak", tmp_path / "cache.pb.gz")["bytes"] == peak["bytes"]


def test_two_traces_are_compared(leak: Path, tmp_path: Path) -> None:
    assert told("heap", "--json", "--diff", leak, leak)["verdicts"][:2] == ["Nothing grew.", "Nothing shrank."]
    half = tmp_path / "half.trace"
    events = json.loads(coffer("trace", "info", "--json", leak))["survey"]["events"]
    coffer("trace", "cut", leak, "-o", half, "--events", f"0:{events // 2}")
    more = told("heap", "--json", "--diff", half, leak)
    assert more["sites"][0]["function"] == "open_entry" and more["bytes"] > 500_000
    less = told("heap", "--json", "--diff", leak, half)["verdicts"][:2]
    assert less[0] == "Nothing grew." and "less, all from open_entry" in less[1]


def test_without_stacks(leak: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.trace"
    coffer("record", "-q", "--stacks", "none", "-o", bare, "--", SEEDED / "seeded_leak")
    verdict, whole = (told("heap", "--json", one)["verdicts"][0] for one in (bare, leak))
    assert "all from (no call stack)" in verdict and "open_entry" in whole
    page = tmp_path / "page.html"
    coffer("report", bare, "-a", "none", "-o", page)
    assert "coffer record --stacks unwind" in page.read_text()


def test_what_is_missing_is_told(leak: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.trace"
    cut.write_bytes(leak.read_bytes()[: leak.stat().st_size * 2 // 3])
    shown = " ".join(coffer("heap", cut, status=0).split()) if json.loads(coffer(
        "trace", "info", "--json", cut))["summary"]["allocations"] else coffer("heap", cut, status=1)
    assert "missing" in shown and ("did not end by itself" in shown or "no allocation" in shown)
    assert "stands alone; --diff compares two" in coffer("heap", leak, cut, status=1)


def test_what_cannot_be_told(leak: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.trace"
    damaged.write_bytes(leak.read_bytes()[:200])
    assert "damaged.trace: byte 200: the head is cut off" in coffer("heap", damaged, status=1)
    assert "not a heap profile" in coffer("heap", SEEDED / "CTestTestfile.cmake", status=1)
    assert "the output must be another file" in coffer("heap", leak, "--html", leak, status=1)
