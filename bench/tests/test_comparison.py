# SPDX-License-Identifier: MIT
"""coffer bench compare."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from coffer_bench import comparison, samples
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.runner import Limits, Run
from conftest import BUILD, header, results_of, workload, write_results
from rich.console import Console

OPTIONS = comparison.Options("", 5, 10, 0.02, "wall", BUILD)
OTHERS = {"glibc": [4.0, 4.1, 4.0, 4.2, 4.1], "tbb": [2.0, 2.1, 2.0, 1.9, 2.0]}
STEADY = [1.0, 1.01, 0.99, 1.0, 1.02]


def files(tmp_path: Path, old: samples.Results, new: samples.Results) -> tuple[str, str]:
    return str(write_results(tmp_path / "old.jsonl", old)), str(write_results(tmp_path / "new.jsonl", new))


def one_row(coffer: list[float], slower: float = 1.0, **more: object) -> samples.Results:
    """slower: the machine, for all allocators."""
    return results_of(
        {"a": {name: [value * slower for value in values] for name, values in {"coffer": coffer, **OTHERS}.items()}},
        **more,
    )


def compared(tmp_path: Path, old: samples.Results, new: samples.Results) -> tuple[bool, str]:
    console = Console(record=True, width=120)
    worse = comparison.run(*files(tmp_path, old, new), OPTIONS, console)
    return worse, console.export_text()


def test_what_became_slower_is_found(tmp_path: Path) -> None:
    worse, text = compared(tmp_path, one_row(STEADY), one_row([value * 1.2 for value in STEADY]))
    assert worse and "WORSE" in text and "1 worse, 0 better, 1 as before" in text


def test_a_row_that_failed_is_not_passed_over(tmp_path: Path) -> None:
    row = {name: STEADY for name in ("coffer", *OTHERS)}
    failed = {name: values for name, values in row.items() if name != "coffer"}
    worse, text = compared(tmp_path, results_of({"a": row, "b": row}), results_of({"a": row, "b": failed}))
    assert worse and "no figure of Coffer's for 1 rows that had one: b" in text.replace("\n", "")
    worse, text = compared(tmp_path, results_of({"a": row, "b": row}), results_of({"a": row}))
    assert worse and "for 1 rows" in text.replace("\n", " ")


def test_a_count_that_a_busy_machine_raised_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = comparison.counts.CASES[2]
    noise = iter([1.04, 1.0])
    asked = []

    def count_cases(cases: list, allocators: list, *_: object) -> dict[tuple[str, str], float]:
        asked.append(len(cases))
        factor = next(noise)
        return {(one.name, allocator.name): 44.0 * (factor if one is case and allocator.name == "new" else 1.0)
                for one in cases for allocator in allocators}

    monkeypatch.setattr(comparison.counts, "count_cases", count_cases)
    monkeypatch.setattr(comparison, "require_tools", lambda: None)
    pair = [Allocator("old", None), Allocator("new", None)]
    changes = comparison.count(pair, SimpleNamespace(bench_dir=Path()), Console(record=True))
    assert all(change.ratio.value == 1.0 for change in changes)
    assert asked == [len(comparison.counts.CASES), 1]


def test_a_count_that_repeats_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three that were disturbed, only the fourth is right; a real difference is counted twice."""
    case, other = comparison.counts.CASES[2:4]
    noise = iter([1.04, 1.03, 1.05, 1.0])
    asked = []

    def count_cases(cases: list, *_: object) -> dict[tuple[str, str], float]:
        asked.append(len(cases))
        new = {other.name: 1.5, case.name: next(noise)}
        found = {(one.name, "old"): 44.0 for one in cases}
        return found | {(one.name, "new"): 44.0 * new.get(one.name, 1.0) for one in cases}

    monkeypatch.setattr(comparison.counts, "count_cases", count_cases)
    monkeypatch.setattr(comparison, "require_tools", lambda: None)
    pair = [Allocator("old", None), Allocator("new", None)]
    changes = comparison.count(pair, SimpleNamespace(bench_dir=Path()), Console(record=True))
    assert {change.row: change.ratio.value for change in changes if not change.same} == {other.name: 1.5}
    assert asked == [len(comparison.counts.CASES), 2, 1, 1]


def test_what_became_faster_is_no_failure(tmp_path: Path) -> None:
    worse, text = compared(tmp_path, one_row(STEADY), one_row([value * 0.8 for value in STEADY]))
    assert not worse and "0 worse, 1 better, 1 as before" in text


def test_a_machine_that_became_slower_is_not_a_change_of_coffer(tmp_path: Path) -> None:
    worse, text = compared(tmp_path, one_row(STEADY), one_row(STEADY, slower=1.7))
    assert not worse and "0 worse, 0 better, 2 as before" in text


def test_noise_is_no_change(tmp_path: Path) -> None:
    worse, _ = compared(tmp_path, one_row([1.0, 1.5, 0.8, 1.3, 0.9]), one_row([1.1, 0.9, 1.6, 1.2, 0.95]))
    assert not worse


def test_what_became_larger_is_found(tmp_path: Path) -> None:
    old, new = one_row(STEADY), one_row(STEADY)
    for record in new.of("sample"):
        if record["allocator"] == "coffer":
            record["figures"]["peak_kib"] = 130.0
    worse, text = compared(tmp_path, old, new)
    assert worse and "memory" in text


def test_one_instruction_in_fifty_shows(tmp_path: Path) -> None:
    old, new = one_row(STEADY), one_row(STEADY)
    for results, count in ((old, 42.0), (new, 42.9)):
        results.records.append(
            {"kind": "instructions", "workload": "malloc(64) + free", "allocator": "coffer", "instructions": count}
        )
    worse, text = compared(tmp_path, old, new)
    assert worse and "malloc(64) + free" in text
    new.records[-1]["instructions"] = 42.2
    for path in tmp_path.iterdir():
        path.unlink()
    assert not compared(tmp_path, old, new)[0]


def test_runs_of_different_plans_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="the runs differ in quick"):
        comparison.run(*files(tmp_path, one_row(STEADY, quick=True), one_row(STEADY)), OPTIONS, Console())
    with pytest.raises(BenchError, match="two files of samples, or two commits"):
        comparison.run("a.jsonl", "HEAD", OPTIONS, Console())


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nothing that both have"):
        comparison.run(*files(tmp_path, one_row(STEADY), results_of({"b": {"coffer": [1.0]}})), OPTIONS, Console())


def test_a_name_that_is_neither_a_commit_nor_a_library() -> None:
    for name in ("no-such-branch", "--all"):
        with pytest.raises(BenchError, match="is no commit of this repository"):
            comparison.version(name)
    with pytest.raises(BenchError, match="missing"):
        comparison.version("/nowhere/libcoffer.so")


def test_both_are_looked_for_before_one_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "build_commit", lambda *_: pytest.fail("was built"))
    for pair in (("HEAD", "no-such-branch"), ("no-such-branch", "HEAD"), ("HEAD", "/nowhere/libcoffer.so")):
        with pytest.raises(BenchError, match="is no commit|is missing"):
            comparison.run(*pair, OPTIONS, Console())
    with pytest.raises(BenchError, match="no workload has such a name"):
        comparison.run("HEAD", "HEAD", dataclasses.replace(OPTIONS, only="zzz"), Console())


def test_each_pair_has_samples_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that run at a time do not meet, unless they are the same; and garbage is refused before a build."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "nothing").touch()
    begun: list[Path] = []

    class Begun(Exception):
        pass

    def build(one: comparison.Version, *_: object) -> Path:
        begun.extend((tmp_path / "bench" / "results").iterdir())
        raise Begun

    monkeypatch.setattr(comparison, "build_commit", build)
    options = dataclasses.replace(OPTIONS, build_dir=tmp_path)
    labels = [comparison.version(name).label for name in ("HEAD", "HEAD~1")]
    for pair in (("HEAD", "HEAD~1"), ("HEAD~1", "HEAD")):
        with pytest.raises(Begun):
            comparison.run(*pair, options, Console())
    assert [path.name for path in begun] == [
        f"compare-{one}-{other}.jsonl" for one, other in (labels, reversed(labels))
    ]
    garbage = tmp_path / "garbage"
    garbage.write_text("x")
    with pytest.raises(BenchError, match="is no file of samples"):
        comparison.run("HEAD", "HEAD", dataclasses.replace(options, results=garbage), Console())
    assert garbage.read_text() == "x"


def test_who_wants_a_commit_that_is_being_built_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = 0

    def build(one: comparison.Version, made: Path, directory: Path) -> None:
        nonlocal built
        built += 1
        time.sleep(0.2)
        made.write_text("a library")

    monkeypatch.setattr(comparison, "build_into", build)
    one = comparison.Version("HEAD", "abc", "abc")
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(comparison.build_commit, one, tmp_path, Console()) for _ in range(3)]
    assert built == 1 and {future.result() for future in made} == {tmp_path / "libcoffer-abc.so"}


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the disk is full at the last copy."""
    monkeypatch.setattr(comparison, "git", lambda *_: "")
    monkeypatch.setattr(comparison.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))

    def full(source: Path, target: Path) -> None:
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(comparison.shutil, "copyfile", full)
    with pytest.raises(BenchError, match="HEAD cannot be built: .*No space left"):
        comparison.build_into(comparison.Version("HEAD", "abc", "abc"), tmp_path / "made.so", tmp_path)
    assert not list(tmp_path.iterdir())


def test_rows_that_neither_file_has_are_an_error(tmp_path: Path) -> None:
    row = one_row(STEADY)
    row.records.append(
        {"kind": "instructions", "workload": "malloc(64) + free", "allocator": "coffer", "instructions": 42.0}
    )
    pair = files(tmp_path, row, row)
    with pytest.raises(BenchError, match="neither file has figures of Coffer's for a row whose name contains 'zzz'"):
        comparison.run(*pair, dataclasses.replace(OPTIONS, only="zzz"), Console())
    assert not comparison.run(*pair, dataclasses.replace(OPTIONS, only="a"), Console())
    with pytest.raises(BenchError, match="--results is for two commits"):
        comparison.run(*pair, dataclasses.replace(OPTIONS, results=tmp_path / "x"), Console())


@pytest.mark.parametrize("rounds", range(1, comparison.FEWEST_ROUNDS))
def test_a_few_rounds_decide_nothing(tmp_path: Path, rounds: int) -> None:
    old, new = (results_of({"a": {"coffer": [value + 0.01 * i for i in range(rounds)], "glibc": [4.0] * rounds}})
                for value in (1.0, 3.0))
    worse, text = compared(tmp_path, old, new)
    assert not worse and "undecided, for there are too few rounds: a" in text


def measured(tmp_path: Path, figure) -> list[comparison.Change]:
    """Two builds over one workload, whose figure is a function of the allocator's name and how often it was asked."""
    pair = [Allocator("old", None), Allocator("new", None)]
    calls = {"old": 0, "new": 0}

    def run(one: Allocator) -> dict:
        calls[one.name] += 1
        return {"time_ns": figure(one.name, calls[one.name]), "peak_kib": 100.0}

    path = tmp_path / "compare.jsonl"
    writer = samples.Writer(path)
    writer.begin(header(["a"], ["old", "new"]))
    state = Run(pair, [workload("a", run)], writer, Limits(10, 1000.0))
    try:
        return comparison.measure(state, OPTIONS, path, Console())
    finally:
        writer.close()


def test_what_looks_worse_by_chance_is_measured_again(tmp_path: Path) -> None:
    changes = measured(tmp_path, lambda name, call: 1.3 if name == "new" and call <= 5 else 1.0 + call / 1000)
    assert not any(change.worse for change in changes)


def test_what_is_worse_both_times_is_worse(tmp_path: Path) -> None:
    changes = measured(tmp_path, lambda name, call: (1.3 if name == "new" else 1.0) + call / 1000)
    assert [(change.row, change.what) for change in changes if change.worse] == [("a", "time")]


def test_two_libraries_are_compared_by_the_command(tmp_path: Path) -> None:
    """The same library twice: no count of instructions may differ. Times are of no interest here."""
    library = (BUILD / "lib" / "libcoffer.so").resolve()
    command = [
        BUILD / "bin" / "coffer",
        "bench",
        "compare",
        library,
        library,
        "--only",
        "pair 64",
        "--rounds",
        "2",
        "--threshold",
        "10000",
        "--results",
        tmp_path / "samples.jsonl",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # A busy machine adds some to a count, below what counts.
    ratio = re.search(r"instructions: 8 rows, new over old ([\d.]+)", done.stdout)
    assert ratio and 0.99 < float(ratio[1]) < 1.01 and "compare: 0 worse, 0 better" in done.stdout
