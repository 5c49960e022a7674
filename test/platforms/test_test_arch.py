# SPDX-License-Identifier: MIT
"""tools/test_arch.py counts what ran, and calls nothing passed that did not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import arch_kernel  # noqa: E402
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
        "4 KiB": {"unit": {"passed": 1}, "stress": {"passed": 1, "failed": 1}, "misuse": {"skipped": 1}},
        "16 KiB, told": {"unit": {"passed": 1}},
        "64 KiB, told": {"unit": {"failed": 1}},
    }


def test_a_row_shows_what_failed_and_leaves_out_what_did_not_run() -> None:
    kinds = {"unit": {"passed": 3, "failed": 1}, "misuse": {"skipped": 2}}
    assert test_arch.row("aarch64-musl", "64 KiB", kinds) == "| aarch64 | musl | 64 KiB | 3 of 4 |  |  |  |  |  |"


def test_the_table_goes_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = tmp_path / "build-arch"
    (builds / "riscv64-glibc").mkdir(parents=True)
    (builds / "riscv64-glibc" / "results.json").write_text(
        json.dumps({"quick": True, "pages": {"4 KiB": {"stress": {"passed": 7}}}, "pair": 60.5})
    )
    document = tmp_path / "platforms.md"
    kept = "| aarch64 | musl | 4 KiB | 1 of 1 |  |  |  |  |  |"
    again = "| riscv64 | glibc | 4 KiB |  |  | 6 of 7 |  |  |  |"
    marks = [test_arch.BEGIN, "old", "old", kept, again, test_arch.END]
    marks += [test_arch.PAIR_BEGIN, test_arch.PAIR_END, "after"]
    document.write_text("\n".join(marks))
    monkeypatch.setattr(test_arch, "BUILDS", builds)
    monkeypatch.setattr(test_arch, "DOCUMENT", document)
    test_arch.write_table()
    text = document.read_text()
    assert "| riscv64 | glibc | 4 KiB |  |  | 7 of 7 |  |  |  |" in text and "old" not in text
    assert kept in text and again not in text  # of platforms that were not run the row stays
    assert "| riscv64 | glibc | 60.5 |" in text and text.endswith("after")


def test_a_part_takes_the_place_of_no_row_with_more(tmp_path: Path) -> None:
    (tmp_path / "riscv64-musl").mkdir()
    results = tmp_path / "riscv64-musl" / "results.json"
    head, line = "| head |", "| riscv64 | musl | 4 KiB | 8 of 8 |  |  |  | 7 of 7 |  |"
    for quick, ran, stays in ((True, 9, True), (False, 9, False), (True, 16, False)):
        results.write_text(json.dumps({"quick": quick, "pages": {"4 KiB": {"unit": {"passed": ran}}}}))
        made = test_arch.table([tmp_path / "riscv64-musl"], "\n".join([head, "|---|", line]))
        assert (line in made) == stays and (f"| {ran} of {ran} |" in made) != stays


def test_nothing_run_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_arch, "BUILDS", tmp_path)
    with pytest.raises(SystemExit):
        test_arch.write_table()


def test_an_unknown_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["test_arch.py", "run", "sparc"])
    with pytest.raises(SystemExit):
        test_arch.main()


def test_a_command_without_emulator_and_driver() -> None:
    build = Path("/b")
    emulator = ["prlimit", "--as=1", "qemu-aarch64"]
    assert arch_kernel.plain("a", [*emulator, "-E", "LD_PRELOAD=/b/l.so", "/b/p", "x"], build) == arch_kernel.Test(
        "a", ("LD_PRELOAD=/b/l.so",), ("/b/p", "x"))
    driver = ["python3", "/t/run_case.py", "--emulator", " ".join(emulator)]
    driver += ["--library", "/b/l.so", "--timeout", "60"]
    assert arch_kernel.plain("b", [*driver, "--conf", "shards:2", "/b/p", "case"], build) == arch_kernel.Test(
        "b", ("LD_PRELOAD=/b/l.so", "COFFER_CONF=shards:2"), ("/b/p", "case"))
    # Who needs more than that is left out.
    assert arch_kernel.plain("c", [*driver, "--stdout-xml", "/b/p", "case"], build) is None
    assert arch_kernel.plain("d", ["sh", "-c", "/b/p | wc"], build) is None


def test_what_a_system_says() -> None:
    said = "\r\nCOFFER-PAGE 16384\r\nx\r\nCOFFER-RESULT unit.heap 0\r\n\nCOFFER-RESULT stress.ring 139\r\n"
    assert arch_kernel.results(said, 16384) == {"unit.heap": 0, "stress.ring": 139}
    with pytest.raises(SystemExit):
        arch_kernel.results(said, 65536)


@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio is missing")
def test_an_archive(tmp_path: Path) -> None:
    archive = arch_kernel.cpio({"a": (0o040755, b""), "a/b": (0o100755, b"text")})
    subprocess.run(["cpio", "--extract", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "a/b").read_text() == "text"


def test_what_is_missing_is_skipped_where_it_is_a_part_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_arch.shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["test_arch.py", "run", "riscv64-glibc", "--quick"])
    assert test_arch.main() == 77
    monkeypatch.setattr(sys, "argv", ["test_arch.py", "run", "riscv64-glibc"])
    with pytest.raises(SystemExit):
        test_arch.main()
