# SPDX-License-Identifier: MIT
"""tools/test_arch.py counts what ran, and calls nothing passed that did not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import test_arch  # noqa: E402

JUNIT = """<testsuite>
<testcase name="unit.heap" status="run"/>
<testcase name="unit.heap.pages_64k" status="fail"/>
<testcase name="unit.heap.pages_16k" status="run"/>
<testcase name="stress.ring" status="run"/>
<testcase name="stress.limit" status="fail"/>
<testcase name="misuse.double" status="notrun"/>
</testsuite>
"""


def test_counts_by_page_and_kind(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    junit.write_text(JUNIT)
    assert test_arch.count(junit) == {
        "4": {"unit": {"passed": 1}, "stress": {"passed": 1, "failed": 1}, "misuse": {"skipped": 1}},
        "16": {"unit": {"passed": 1}},
        "64": {"unit": {"failed": 1}},
    }


def test_a_row_shows_what_failed_and_leaves_out_what_did_not_run() -> None:
    kinds = {"unit": {"passed": 3, "failed": 1}, "misuse": {"skipped": 2}}
    assert test_arch.row("aarch64-musl", "64", kinds) == "| aarch64 | musl | 64 KiB | 3 of 4 |  |  |  |  |  |"


def test_the_table_goes_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = tmp_path / "build-arch"
    (builds / "riscv64-glibc").mkdir(parents=True)
    (builds / "riscv64-glibc" / "results.json").write_text(
        json.dumps({"quick": True, "pages": {"4": {"stress": {"passed": 7}}}, "pair": 60.5})
    )
    document = tmp_path / "platforms.md"
    marks = [test_arch.BEGIN, "old", test_arch.END, test_arch.PAIR_BEGIN, test_arch.PAIR_END, "after"]
    document.write_text("\n".join(marks))
    monkeypatch.setattr(test_arch, "BUILDS", builds)
    monkeypatch.setattr(test_arch, "DOCUMENT", document)
    test_arch.write_table()
    text = document.read_text()
    assert "| riscv64 | glibc | 4 KiB |  |  | 7 of 7 |  |  |  |" in text and "old" not in text
    assert "| riscv64 | glibc | 60.5 |" in text and text.endswith("after")


def test_nothing_run_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_arch, "BUILDS", tmp_path)
    with pytest.raises(SystemExit):
        test_arch.write_table()


def test_an_unknown_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["test_arch.py", "run", "sparc"])
    with pytest.raises(SystemExit):
        test_arch.main()
