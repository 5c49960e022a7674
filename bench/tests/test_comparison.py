"""coffer bench compare."""

from __future__ import annotations

import subprocess
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
            comparison.library(name, OPTIONS, Console())
    with pytest.raises(BenchError, match="missing"):
        comparison.library("/nowhere/libcoffer.so", OPTIONS, Console())


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
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "instructions: 8 rows, new over old 1.000" in done.stdout and "compare: 0 worse, 0 better" in done.stdout
