# SPDX-License-Identifier: MIT
"""Tests of the tools that make the figures: a wrong table would be believed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coffer_bench import allocators, callgrind, patterns, peers
import calls
import fast_path
import instructions
import memory
from coffer_bench import tables as report
from papers import scalloc
import startup
from coffer_bench.rows import ROWS, Row

PROGRAMS = Path(os.environ.get("BENCH_PROGRAMS", allocators.TOP / "build" / "bench"))
ROW = Row("a row", "pairs", 100, memory=True)


def samples(**by_allocator: list[float]) -> report.Samples:
    return {ROW.name: {name: [{"ns": value} for value in values] for name, values in by_allocator.items()}}


def test_ratios_are_of_medians() -> None:
    taken = samples(coffer=[1, 9, 2], glibc=[4, 4, 100])
    assert report.ratios_to_best(report.medians(taken, ROW, "ns")) == {"coffer": 1.0, "glibc": 2.0}


def test_figures_10_and_12_compare_peaks_with_what_was_live() -> None:
    figures = {"time_ns": 5.0, "peak_kib": 3548.0, "start_kib": 1500.0, "own_kib": 512.0, "live_kib": 1024.0}
    for number in ("10", "12"):
        taken = scalloc.sample(scalloc.FIGURES[number], figures)
        assert taken["live"] == 1.0 and taken["ratio"] == 1.5
    assert "ratio" not in scalloc.sample(scalloc.FIGURES["13"], figures)


def test_geometric_mean() -> None:
    assert report.geometric_mean([1, 4]) == pytest.approx(2)
    assert math.isnan(report.geometric_mean([]))


def test_a_loss_is_named_with_its_winner() -> None:
    text = report.losses(samples(coffer=[3], glibc=[2], tbb=[5]), [ROW], "ns", "Time")
    assert "behind the best other in 1 rows" in text
    assert "a row: 1.50 times glibc" in text


def test_a_small_difference_is_no_loss() -> None:
    text = report.losses(samples(coffer=[1.04], glibc=[1]), [ROW], "ns", "Time")
    assert "in 0 rows, within 5% in 1, ahead in 0" in text


def test_a_failed_allocator_is_shown() -> None:
    table = report.figure_table(samples(coffer=[], glibc=[2]), [ROW], ["coffer", "glibc"], "ns", "ns")
    assert "failed" in table.splitlines()[1]


def test_builds_are_compared_round_by_round() -> None:
    taken = samples(this=[2, 20, 4], other=[1, 10, 2])
    assert "slower" in report.comparison_table(taken, [ROW], "ns")
    taken = samples(this=[1, 3, 2], other=[2, 1, 2])
    assert "slower" not in report.comparison_table(taken, [ROW], "ns")


def test_rows_have_different_names_and_programs_that_exist() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert (Path(__file__).parent / "workloads" / f"{row.program}.cpp").exists()


def test_a_library_that_is_not_loaded_is_an_error(tmp_path: Path) -> None:
    missing = allocators.Allocator("tbb", tmp_path / "libnothing.so")
    with pytest.raises(allocators.BenchError, match="was not loaded"):
        allocators.run(missing, [str(PROGRAMS / "nothing")])


def test_a_crash_is_an_error() -> None:
    with pytest.raises(allocators.BenchError, match="status 1: workload: unknown argument"):
        allocators.run(allocators.Allocator("glibc", None), [str(PROGRAMS / "nothing"), "typo=1"])


def test_a_missing_allocator_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(allocators.BenchError, match="build it first"):
        allocators.find(["coffer"], tmp_path)
    with pytest.raises(allocators.BenchError, match="no allocator is called"):
        allocators.find(["cofer"], tmp_path)


@pytest.mark.parametrize("row", [row for row in ROWS if row.program != "launch"], ids=lambda row: row.name)
def test_every_program_reports_every_figure(row: Row) -> None:
    result = allocators.run(allocators.Allocator("glibc", None), row.command(str(PROGRAMS), 0.01))
    assert set(result) == {"ns_per_op", "cpu_ns_per_op", "operations", "peak_kib", "end_kib"}
    assert float(result["ns_per_op"]) > 0
    assert 500 < int(result["peak_kib"]) < 500_000


def test_profile_counts_instructions_and_not_calls() -> None:
    profile = "ob=/lib/x.so\nfn=f\n0x10 1 5\ncob=/lib/y.so\ncfn=g\ncalls=5 0x20 2\n0x14 1 700\n0x18 1 5\n"
    assert callgrind.parse_profile(profile) == {("/lib/x.so", 0x10): 5, ("/lib/x.so", 0x18): 5}


def test_code_that_callgrind_cannot_name_is_found_in_the_map_of_the_process() -> None:
    printed = "code 109000 10a000 108000 \ncode 4a00000 4a10000 4000000 /lib/a name.so\nns_per_op=1\n"
    code = callgrind.parse_code(printed, "/bench/program")
    assert code == [callgrind.Code(0x109000, 0x10A000, 0x108000, "/bench/program"),
                    callgrind.Code(0x4A00000, 0x4A10000, 0x4000000, "/lib/a name.so")]
    counts = Counter({("???", 0x109180): 3, ("/bench/program", 0x1180): 4, ("???", 0x4A0FFFF): 5, ("???", 0x4A10000): 6,
                      ("/lib/b.so", 0x109180): 7})
    assert callgrind.name_files(counts, code) == {
        ("/bench/program", 0x1180): 7, ("/lib/a name.so", 0xA0FFFF): 5, ("???", 0x4A10000): 6,
        ("/lib/b.so", 0x109180): 7,
    }


def test_a_program_says_where_its_code_lies() -> None:
    program = str(PROGRAMS / "instructions")
    printed = subprocess.run([program, "rounds=100", "code=1"], capture_output=True, text=True, check=True).stdout
    code = callgrind.parse_code(printed, program)
    files = [part.file for part in code]
    assert files.count(program) == 1 and any(Path(file).name.startswith("libc.so") for file in files)
    assert all(part.bias <= part.start < part.end for part in code)


def test_calls_are_summed_by_readable_name() -> None:
    profile = "fn=main\ncfn=a::(anonymous namespace)::f(int)\ncalls=3 0x1 1\n0x1 1 9\ncfn=g'2\ncalls=1 0x1 1\n0x1 1 9\n"
    assert calls.parse_calls(profile) == {"a::(anonymous namespace)::f(int)": 3, "g'2": 1}
    assert [calls.readable(name) for name in calls.parse_calls(profile)] == ["a::f", "g"]


def test_stubs_have_a_known_length() -> None:
    assert callgrind.function_length(PROGRAMS / "libbench_stub.so", "bench_stub_free") in (1, 2)
    with pytest.raises(allocators.BenchError, match="has no ret"):
        callgrind.function_length(PROGRAMS / "libbench_stub.so", "no_such_function")


def test_a_count_is_the_same_for_every_round() -> None:
    """Otherwise the difference of two runs says nothing."""
    if subprocess.run(["which", "valgrind"], capture_output=True).returncode != 0:
        pytest.skip("valgrind is missing")
    glibc = allocators.Allocator("glibc", None)
    for case in instructions.CASES:
        command = [str(PROGRAMS / "instructions_stub"), *case.arguments]
        runs = [callgrind.count_all(glibc, [*command, f"rounds={rounds}"]) for rounds in (16000, 32000, 48000)]
        assert runs[1] - runs[0] == pytest.approx(runs[2] - runs[1], abs=200), case.name


@pytest.mark.parametrize("text", ["lock cmpxchg %rdx,(%rcx)", "xchg %rax,0x8(%rdi)", "mfence"])
def test_atomic_instructions_are_seen(text: str) -> None:
    assert fast_path.ATOMIC.search(text)


@pytest.mark.parametrize("text", ["xchg %ax,%ax", "mov (%rax),%rdx", "call 1234 <lock>", "cmpxchg %rdx,(%rcx)"])
def test_other_instructions_are_not(text: str) -> None:
    assert not fast_path.ATOMIC.search(text)


def test_budgets() -> None:
    case = "malloc(64) + free"
    assert instructions.over_budget({(case, "coffer"): 52.04, (case, "glibc"): 200}) == []
    assert len(instructions.over_budget({(case, "coffer"): 52.1})) == 1
    figures = {"glibc": {"peak_kib": 1000.0}, "coffer": {"peak_kib": 1200.0}}
    assert startup.over_budget(figures, "madvise") == []
    figures["coffer"]["peak_kib"] += 1
    assert len(startup.over_budget(figures, "madvise")) == 1


# Memory patterns.
GLIBC = allocators.Allocator("glibc", None)
PATTERNS = PROGRAMS / "patterns"
# Arguments that make a run short; the patterns themselves are the same.
SHORT = {
    "ring": {"bytes": 500_000},
    "idle_owners": {"bytes": 4 << 20},
    "idle_threads": {"threads": 20, "bytes": 100_000, "quiet_ms": 1},
    "phases": {"bytes": 1_000_000},
    "drift": {"bytes": 300_000},
    "give_back": {"bytes": 5_000_000, "quiet_ms": 1},
    "breathing": {"bytes": 2_000_000, "breaths": 5, "period_ms": 1, "quiet_ms": 1},
    "barnes_hut": {"particles": 2000, "rounds": 2},
}
ALL_RUNS = list({row.run.key: row.run for row in memory.ROWS}.values())


def sample(**figures: float) -> memory.Sample:
    return {"start_kib": 1000.0, "peak_kib": 3000.0, "end_kib": 2000.0, "live_kib": 1000.0, "ratio": 2.0, **figures}


@pytest.mark.parametrize("what", ALL_RUNS, ids=lambda what: what.key)
def test_every_pattern_prints_the_figures_of_its_rows(what: memory.Run) -> None:
    short = memory.Run(what.program, {**what.arguments, **SHORT.get(what.program, {})})
    result = allocators.run_json(GLIBC, short.command(PATTERNS))
    # Owners stopped inside glibc's malloc may hold its lock for ever; nothing can be asked of such a run.
    if result.get("stuck"):
        return
    assert result["start_kib"] > 500
    assert result["peak_kib"] > result["start_kib"]
    assert result["ratio"] == pytest.approx((result["peak_kib"] - result["start_kib"]) / result["live_kib"], rel=0.01)
    for row in memory.ROWS:
        if row.run.key == what.key:
            memory.value_of(row, result)


def test_live_is_what_the_program_asked_for() -> None:
    small = allocators.run_json(GLIBC, [str(PATTERNS / "small"), "blocks=100", "bytes=5000000", "high=65536"])
    assert small["live_kib"] == pytest.approx(5000000 / 1024, rel=0.01)
    assert 1.0 <= small["ratio"] < 1.1
    phases = allocators.run_json(GLIBC, [str(PATTERNS / "phases"), "bytes=2000000", "phases=3", "one_in=10"])
    assert phases["live_kib"] == pytest.approx(2000000 * 1.2 / 1024, rel=0.02)
    assert phases["survivors_kib"] == pytest.approx(2000000 * 0.3 / 1024, rel=0.1)


def test_own_tables_and_stacks_are_not_counted() -> None:
    """Sixteen stacks of 256 KiB would be most of the figure."""
    result = allocators.run_json(GLIBC, [str(PATTERNS / "ring"), "bytes=200000", "laps=1"])
    assert result["own_kib"] > 16 * 256
    assert result["peak_kib"] < result["own_kib"] + result["start_kib"]


def test_a_pattern_under_a_library_that_is_not_loaded_is_an_error(tmp_path: Path) -> None:
    missing = allocators.Allocator("snmalloc", tmp_path / "libnothing.so")
    with pytest.raises(allocators.BenchError, match="was not loaded"):
        allocators.run_json(missing, [str(PATTERNS / "small")])


def test_a_program_that_prints_no_figures_is_an_error() -> None:
    with pytest.raises(allocators.BenchError, match="no figures in"):
        allocators.run_json(GLIBC, [str(PROGRAMS / "nothing")])


def test_memory_rows_exist_and_differ() -> None:
    assert len({(row.name, row.unit) for row in memory.ROWS}) == len(memory.ROWS)
    for what in ALL_RUNS:
        assert (Path(__file__).parent / "patterns" / f"{what.program}.cpp").exists()
    with pytest.raises(allocators.BenchError, match="no row has such a name"):
        memory.choose_rows("no such row")


def memory_samples(row: memory.Row, **by_allocator: list[memory.Sample]) -> memory.Samples:
    return {row.run.key: by_allocator}


def test_a_table_has_medians_and_start_up() -> None:
    row = memory.ROWS[0]
    taken = memory_samples(row, coffer=[sample(ratio=value, start_kib=1100) for value in (1, 9, 2)], glibc=[sample()])
    head, lines = memory.table(taken, [row], ["coffer", "glibc"])
    assert head[-2:] == ["coffer", "glibc"]
    assert lines[0][-2:] == ["2.00", "2.00"]
    assert lines[1][-2:] == ["+100", "+0"]
    page = report.markdown_page("Memory", "the command", "facts", ["", report.markdown_table(head, lines)])
    assert page.startswith("# Memory\n\nWritten by `the command`, and not by hand. facts\n\n| row | figure |")
    assert page.endswith("| +100 | +0 |\n") and "\n\n\n" not in page


def test_missed_targets_are_named() -> None:
    row = memory.ROWS[0]
    taken = memory_samples(row, coffer=[sample(ratio=row.target)], glibc=[sample()])
    assert memory.missed(taken, [row]) == []
    late = sample(ratio=row.target + 0.01, start_kib=1201)
    assert len(memory.missed(memory_samples(row, coffer=[late], glibc=[sample()]), [row])) == 1
    many = memory_samples(row, coffer=[late] * memory.LEAST_STARTS, glibc=[sample()])
    assert [line.split(":")[0] for line in memory.missed(many, [row])] == [row.name, "start-up"]


def test_a_stuck_run_has_no_figure() -> None:
    row = next(row for row in memory.ROWS if row.run == patterns.STOPPED)
    runs = [sample(stuck=1.0), sample(stuck=0.0)]
    assert memory.cell(row, runs) == "stuck 1/2"
    assert memory.missed(memory_samples(row, coffer=runs, glibc=[sample()]), [row]) == [f"{row.name}: stuck"]
    assert memory.cell(row, []) == "failed"


def test_a_bound_is_compared_with_its_limit_and_with_what_was_held() -> None:
    def lines(**figures: float) -> list[str]:
        return memory.bounds({patterns.RING.key: {"coffer": [sample(heaps=2.0, **figures)]}})

    limit = 1.5 * 1000 + 2 * 128 + 16 * 1024
    assert not any(word in lines(bound_kib=limit)[0] for word in ("OVER", "BROKEN"))
    assert "OVER" in lines(bound_kib=limit + 1)[0]
    assert "BROKEN" in lines(bound_kib=2999.0, beyond_bound=1.0)[0]
    assert lines(bound_kib=0.0) == []


def test_a_failing_pattern_is_reported_and_the_others_stay(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        script = tmp_path / name
        library = allocators.run_text(GLIBC, [str(PROGRAMS / "nothing")]).split("library=")[1].strip()
        line = json.dumps({"pattern": name, "library": library, **sample()})
        script.write_text(f"#!/bin/sh\n{'exit 3' if name == 'bad' else f'echo {chr(39)}{line}{chr(39)}'}\n")
        script.chmod(0o755)
    samples, failures = memory.measure([GLIBC], [memory.Run("good"), memory.Run("bad", wide=True)], tmp_path, 2, 2)
    assert len(samples["good"]["glibc"]) == 2 and samples["bad"]["glibc"] == []
    assert len(failures) == 2 and "status 3" in failures[0]


def test_peers_without_cargo_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert peers.build(tmp_path) == ([], "cargo is missing")
    with pytest.raises(allocators.BenchError, match="coffer bench peers builds it"):
        allocators.find(["snmalloc"], tmp_path)


def test_peers_whose_crate_cannot_be_built_are_left_out(tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho no network >&2\nexit 101\n")
    cargo.chmod(0o755)
    built, missing = peers.build(tmp_path, str(cargo))
    assert built == [] and missing.startswith("mimalloc2: no network; mimalloc3: ")
    assert not (peers.SOURCES / "Cargo.lock").exists()
    assert (tmp_path / "peers" / "shim" / "shim.rs").exists()


def test_versions_of_peers_are_exact() -> None:
    for name in [*allocators.CRATES, *allocators.HARDENED]:
        manifest = (peers.SOURCES / name / "Cargo.toml").read_text().split("[dependencies]")[1]
        assert 'version = "=' in manifest, name
