# SPDX-License-Identifier: MIT
"""The catalogue of workloads, and one short run of each kind."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from coffer_bench import allocators, callgrind, catalogue, passes, peers, processes, suite, workload
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.programs import PROGRAMS, base
from coffer_bench.workload import FAST, GROUPS, INDEX, PATTERNS, REAL, Settings, Workload
from conftest import BUILD, GLIBC

QUICK = Settings(BUILD, quick=True, scale=0.02, threads=(2,))
WORKLOADS, _ = catalogue.choose(QUICK)
SMALL = [one for one in WORKLOADS if one.group not in (REAL, PATTERNS)]
COFFER = Allocator("coffer", BUILD.resolve() / "lib" / "libcoffer.so")


@pytest.mark.parametrize("one", SMALL, ids=lambda one: one.name)
def test_a_workload_has_the_figures_that_the_report_needs(one: Workload) -> None:
    figures = one.run(GLIBC)
    assert float(figures["time_ns"]) > 0
    if one.memory:
        assert 500 < float(figures["peak_kib"]) < 2_000_000


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_real_program_gives_the_same_answer_under_coffer(program: base.Program, tmp_path: Path) -> None:
    program.require()  # a gate that skips is no gate: tools/setup.sh test installs them
    program.prepare(tmp_path, True)
    figures = [program.run(allocator, tmp_path, True) for allocator in (GLIBC, COFFER)]
    assert figures[0]["digest"] == figures[1]["digest"]
    for one in figures:
        assert one["wall_ns"] > 1e6 and one["cpu_ns"] > 0 and one["peak_kib"] > 1000, one


def test_real_programs_under_a_library_that_is_not_loaded(tmp_path: Path) -> None:
    missing = Allocator("tbb", tmp_path / "libnothing.so")
    for name in ("redis", "ghostscript"):
        program = next(one for one in PROGRAMS if one.name == name)
        program.prepare(tmp_path, True)
        with pytest.raises(BenchError, match="tbb was not loaded"):
            program.run(missing, tmp_path, True)


def test_a_program_that_is_missing_is_left_out_with_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PATH", "/nowhere")
    there, missing = catalogue.available_programs()
    assert "z3" in missing and "package z3" in missing["z3"] and "z3" not in [one.name for one in there]


def test_peers_that_are_not_loaded_are_errors(tmp_path: Path) -> None:
    peers.verify(GLIBC, BUILD / "bench")
    peers.verify(COFFER, BUILD / "bench")
    with pytest.raises(BenchError, match="snmalloc was not loaded"):
        peers.verify(Allocator("snmalloc", tmp_path / "libnothing.so"), BUILD / "bench")
    # A library that is loaded and has no malloc.
    with pytest.raises(BenchError, match="was not loaded: malloc came from"):
        peers.verify(Allocator("snmalloc", Path("/lib/x86_64-linux-gnu/libm.so.6")), BUILD / "bench")


def test_a_run_that_nobody_could_look_at_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine. One that is always over too soon is an error still."""

    class Short(base.Batch):
        name, what, binary, package, timeout = "short", "", "sh", "dash", 60.0
        longer = 2

        def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
            count = tmp_path / "count"
            script = f"echo x >>{count}; [ $(wc -l <{count}) -lt {self.longer} ] || sleep 0.5"
            return [program, "-c", script]

    # The first look comes late.
    monkeypatch.setattr(processes, "WATCH_SECONDS", 0.8)
    assert Short().run(GLIBC, tmp_path, True)["peak_kib"] > 0
    assert (tmp_path / "count").read_text().count("x") == 2
    (tmp_path / "count").unlink()
    Short.longer = 100
    monkeypatch.setattr(processes, "WATCH_SECONDS", 8)  # a busy machine takes more than a tenth of a second for wc
    with pytest.raises(BenchError, match="glibc was not loaded"):
        Short().run(GLIBC, tmp_path, True)
    assert (tmp_path / "count").read_text().count("x") == 3


def test_versions() -> None:
    assert peers.version(Allocator("mimalloc3", Path("x")), BUILD) == "mimalloc 3.6.0, libmimalloc-sys2 0.1.65"
    assert peers.version(COFFER, BUILD).count(".") == 2
    assert peers.version(GLIBC, BUILD).startswith("2.")


def test_choosing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [one.name for one in catalogue.choose(QUICK, "pair 16;pair 64")[0]]
    assert names == ["pair 16", "pair 64", "pair 64, 2 threads"]
    assert {one.group for one in catalogue.choose(QUICK, "", "fast paths,cache indices")[0]} == {
        FAST,
        INDEX,
    }
    with pytest.raises(BenchError, match="no workload has such a name"):
        catalogue.choose(QUICK, "no such row")
    with pytest.raises(BenchError, match="no group is called"):
        catalogue.choose(QUICK, "", "no such group")


def test_a_run_that_ends_early_has_some_of_each_group() -> None:
    assert len({one.group for one in WORKLOADS[:20]}) == len(GROUPS)


def test_threads_grow_with_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload.os, "sched_getaffinity", lambda _: set(range(12)))
    assert Settings(BUILD).choose_threads([1, 2]) == [1, 2, 4, 8]
    assert Settings(BUILD, quick=True).choose_threads([1, 2]) == [8]
    assert Settings(BUILD, threads=(3,)).choose_threads([1, 2]) == [3]
    assert Settings(BUILD).choose_threads([]) == [0]


ENTRY = {"name": "x", "program": "suite/x", "output": "suite", "metric": {"key": "wall_ns", "per": "operations"}}


def test_figures_of_the_suite() -> None:
    text = "program=x\nwall_ns=100\ncpu_ns=150\noperations=50\nrss_peak_kib=7\nchecksum=00ff\n"
    text += "argument.size=8\nphase.a_ns=9\n"
    found = suite.suite_figures(ENTRY, suite.parse_suite(text))
    assert found == {
        "wall_ns": 100,
        "time_ns": 2.0,
        "cpu_ns": 3.0,
        "operations": 50,
        "peak_kib": 7,
        "digest": "00ff",
        "phase.a_ns": 9,
    }
    phase = {**ENTRY, "metric": {"key": "phase.a_ns", "per": "operations"}}
    assert suite.suite_figures(
        phase, {"phase.a_ns": "10", "phase.a_cpu_ns": "6", "cpu_ns": "99", "operations": "2"}
    ) == {
        "phase.a_ns": 10,
        "phase.a_cpu_ns": 6,
        "operations": 2,
        "time_ns": 5.0,
        "cpu_ns": 3.0,
    }
    with pytest.raises(BenchError, match="x: no figure wall_ns"):
        suite.suite_figures(ENTRY, {"operations": "1"})


def test_a_row_says_who_cannot_run_it() -> None:
    others = [Allocator(name, Path("x")) for name in ("snmalloc", "rpmalloc")]
    for entry, taken in ((ENTRY, others), ({**ENTRY, "without": ["snmalloc"]}, others[1:])):
        one = suite.suite_workload(entry, 0, QUICK)
        assert [allocator for allocator in others if one.takes(allocator)] == taken
    assert suite.suite_workload(ENTRY, 0, QUICK).timed
    one = suite.suite_workload({**ENTRY, "single": True}, 0, QUICK)
    assert one.single and not one.timed


def test_a_catalogue_that_is_wrong_is_said(tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    assert suite.read_suite(path) == []
    path.write_text("[")
    with pytest.raises(BenchError, match="suite.json"):
        suite.read_suite(path)
    path.write_text(json.dumps([{"name": "x"}]))
    with pytest.raises(BenchError, match="has no program"):
        suite.read_suite(path)


# What is measured once.


def test_latencies_become_percentiles() -> None:
    found = passes.parse_latencies(
        "# calls=malloc count=100 clock=tsc\n10.0 98\n500.0 1\n90000.0 1\n# calls=free\n5 3\n"
    )
    assert found == {"malloc": [(10.0, 98), (500.0, 1), (90000.0, 1)], "free": [(5.0, 3)]}
    record = passes.latency_record(found["malloc"])
    assert record["p50"] == 10 and record["count"] == 100 and record["max"] == pytest.approx(90000, rel=0.001)
    assert record["p99"] == pytest.approx(500, rel=0.001) and record["p99.9"] == pytest.approx(90000, rel=0.001)
    for wrong in ("# calls=malloc\n1.0 x\n", "1.0 2\n", ""):
        with pytest.raises(BenchError, match="a line of latencies is wrong|no latencies"):
            passes.parse_latencies(wrong)


def test_a_workload_records_its_latencies() -> None:
    one = next(one for one in WORKLOADS if one.name.startswith("threadtest 8"))
    calls = passes.take_latencies(one, GLIBC)["calls"]
    assert set(calls) == {"malloc", "free"} and calls["malloc"]["count"] > 100
    assert 1 <= calls["malloc"]["p50"] <= calls["malloc"]["p99"] <= calls["malloc"]["max"]


def test_cachegrind_is_read() -> None:
    text = (
        "I   refs:      1,000\nD   refs:       567  (3 rd)\nD1  misses:         11  (7 rd)\nLLd misses:    3  (1 rd)\n"
    )
    assert passes.parse_cachegrind(text) == {"instructions": 1000, "accesses": 567, "first": 11, "last": 3}
    with pytest.raises(BenchError, match="says nothing of D1"):
        passes.parse_cachegrind("I refs: 1\nD refs: 2\n")


def test_a_walk_over_more_pages_misses_more() -> None:
    ring = next(one for one in WORKLOADS if one.name == "ring of 256, 4096, random")
    found = passes.take_simulated(ring, GLIBC, QUICK)
    assert found["pages"] >= 256 and found["tlb_misses"] > 50


def test_what_fails_once_does_not_end_the_rest() -> None:
    def fails() -> dict:
        raise BenchError("no")

    Task = passes.Task
    tasks = [
        Task("instructions", "a", "coffer", lambda: {"instructions": 1.0}, True),
        Task("instructions", "a", "snmalloc", fails, True),
        Task("misses", "b", "coffer", fails),
        # Once is enough: this allocator cannot be run under valgrind.
        Task("misses", "c", "snmalloc", fails, True),
        Task("latency", "c", "snmalloc", lambda: {"calls": {}}),
    ]
    records = list(passes.run_tasks(tasks, 1, lambda: False))
    assert [record["kind"] for record in records] == ["instructions", "failure", "failure", "latency"]
    assert [record.get("pass") for record in records] == [None, "instructions", "misses", None]
    assert not list(passes.run_tasks(tasks, 2, lambda: True))


def test_the_papers_allocators_are_in_the_rows_about_the_cache(tmp_path: Path) -> None:
    """Where nobody named them; named, they are in all."""
    cif = Allocator("cif", tmp_path / "libcif.so")
    settings = workload.Settings(BUILD, quick=True)
    rows, _ = catalogue.choose(settings)
    taken = {row.name for row in rows if row.takes(cif)}
    assert taken == {row.name for row in rows if row.group == workload.INDEX} and len(taken) > 3
    assert all(row.takes(GLIBC) for row in rows)
    rows, _ = catalogue.choose(dataclasses.replace(settings, with_papers=True))
    assert all(row.takes(cif) for row in rows)
    chosen = [task for task in passes.tasks([GLIBC, cif], rows, settings) if task.allocator == "cif"]
    assert chosen and all(task.kind != "instructions" for task in chosen)


def test_options_go_to_the_allocators_own_variable(tmp_path: Path) -> None:
    for name, variable in (("coffer", "COFFER_CONF"), ("coffer_nocheck", "COFFER_CONF"), ("cif", "CIF_CONF")):
        one = Allocator("x", tmp_path / f"lib{name}.so", "colours:64")
        assert one.environment()[variable] == "colours:64"
    assert peers.version(Allocator("cif", tmp_path / "libcif.so"), BUILD).endswith("ISMM 2011")


def test_a_peer_has_the_sequences_that_it_needs() -> None:
    """By its name as by its path; and no other has them. Valgrind cannot give them."""
    library = allocators.crate_library("tcmalloc-google", BUILD)
    for one in (Allocator("tcmalloc-google", library), Allocator(str(library), library)):
        for environment in (one.environment(), one.program_environment(Path("/tmp"))):
            assert environment["GLIBC_TUNABLES"] == "glibc.pthread.rseq=0"
        with pytest.raises(BenchError, match="valgrind has no restartable sequences"):
            callgrind.count_all(one, ["/bin/true"])
        with pytest.raises(BenchError, match="valgrind has no restartable sequences"):
            passes.cachegrind(("/bin/true",), one, [])
    for other in (GLIBC, COFFER, Allocator("rpmalloc", allocators.crate_library("rpmalloc", BUILD))):
        assert "GLIBC_TUNABLES" not in other.environment()
