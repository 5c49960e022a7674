# SPDX-License-Identifier: MIT
"""Rounds, their order, time limits, and workloads that fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from coffer_bench import processes, samples
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.runner import Run, shuffled
from conftest import GLIBC, THREE, finish, workload


def taken(tmp_path: Path, kind: str = "sample") -> list[samples.Record]:
    return samples.read(tmp_path / "samples.jsonl").of(kind)


def test_every_round_runs_all_allocators_in_turn(make_run: Callable[..., Run], tmp_path: Path) -> None:
    finish(make_run([workload("a", lambda one: {"time_ns": 1.0}), workload("b", lambda one: {"time_ns": 1.0})]))
    seen = [(record["round"], record["workload"], record["allocator"]) for record in taken(tmp_path)]
    assert len(seen) == 18
    names = {one.name for one in THREE}
    for place in range(0, 18, 3):
        assert {record[2] for record in seen[place : place + 3]} == names
        assert len({record[:2] for record in seen[place : place + 3]}) == 1


def test_orders_differ_between_rounds_and_are_the_same_for_a_seed() -> None:
    orders = [[one.name for one in shuffled(THREE, 1, "a", number)] for number in range(60)]
    assert orders == [[one.name for one in shuffled(THREE, 1, "a", number)] for number in range(60)]
    firsts = [order[0] for order in orders]
    assert all(firsts.count(one.name) >= 10 for one in THREE)  # of 20
    assert orders != [[one.name for one in shuffled(THREE, 2, "a", number)] for number in range(60)]
    assert orders != [[one.name for one in shuffled(THREE, 1, "b", number)] for number in range(60)]


def test_an_interrupted_run_goes_on_as_if_nothing_had_been(make_run: Callable[..., Run], tmp_path: Path) -> None:
    """The same samples in the same order, none twice."""
    workloads = [workload(name, lambda one: {"time_ns": 1.0, "digest": "d"}) for name in "ab"]
    finish(make_run(workloads))
    whole = [{**record, "seconds": 0} for record in taken(tmp_path)]
    (tmp_path / "samples.jsonl").unlink()
    calls = 0

    def interrupted(one: Allocator) -> dict:
        nonlocal calls
        calls += 1
        if calls in (5, 11):
            raise KeyboardInterrupt
        return {"time_ns": 1.0, "digest": "d"}

    for _ in range(2):
        run = make_run([workload(name, interrupted) for name in "ab"])
        with pytest.raises(KeyboardInterrupt):
            finish(run)
        run.writer.close()
    finish(make_run([workload(name, interrupted) for name in "ab"]))
    assert [{**record, "seconds": 0} for record in taken(tmp_path)] == whole


def test_a_failure_is_kept_and_not_tried_again(make_run: Callable[..., Run], tmp_path: Path) -> None:
    tries = 0

    def fails(one: Allocator) -> dict:
        nonlocal tries
        if one.name == "tbb":
            tries += 1
            raise BenchError("status 139")
        return {"time_ns": 1.0}

    finish(make_run([workload("a", fails)]))
    finish(make_run([workload("a", fails)]))  # goes on, also after it was interrupted
    assert tries == 1 and len(taken(tmp_path)) == 6
    assert [(one["allocator"], one["message"]) for one in taken(tmp_path, "failure")] == [("tbb", "status 139")]


def test_another_answer_is_a_failure(make_run: Callable[..., Run], tmp_path: Path) -> None:
    """Also if the one that is wrong was the first to run."""
    names = [f"workload {number}" for number in range(12)]
    wrong = lambda one: {"time_ns": 1.0, "digest": "x" if one.name == "tbb" else "y"}  # noqa: E731
    finish(make_run([workload(name, wrong) for name in names]), rounds=2)
    assert {record["allocator"] for record in taken(tmp_path)[:12]} == {one.name for one in THREE}
    failures = taken(tmp_path, "failure")
    assert [(one["workload"], one["allocator"]) for one in failures] == [(name, "tbb") for name in names]
    assert all("under tbb is x, and y under others" in one["message"] for one in failures)


def test_an_answer_that_differs_from_round_to_round_is_a_failure(make_run: Callable[..., Run], tmp_path: Path) -> None:
    calls = iter(range(100))
    finish(make_run([workload("a", lambda one: {"time_ns": 1.0, "digest": str(next(calls) // 3)})]))
    assert len(taken(tmp_path, "failure")) == 3 and "in another round" in taken(tmp_path, "failure")[0]["message"]


def test_inputs_that_cannot_be_made_fail_the_workload_only(make_run: Callable[..., Run], tmp_path: Path) -> None:
    def prepare() -> None:
        raise BenchError("no room")

    finish(
        make_run(
            [workload("a", lambda one: {"time_ns": 1.0}, prepare=prepare), workload("b", lambda one: {"time_ns": 1.0})]
        )
    )
    assert len(taken(tmp_path)) == 9 and len(taken(tmp_path, "failure")) == 3


def test_no_workload_begins_that_would_end_too_late(make_run: Callable[..., Run]) -> None:
    run = make_run(
        [workload("a", lambda one: {"time_ns": 1.0}), workload("b", lambda one: {"time_ns": 1.0})], seconds=100
    )
    run.seconds = {"b": 1000.0}
    finish(run)
    assert {name for name, _, _ in run.done} == {"a"} and run.cut == {"b"}


def test_time_before_an_interruption_counts(make_run: Callable[..., Run]) -> None:
    finish(make_run([workload("a", lambda one: {"time_ns": 1.0})], rounds=1), rounds=1)
    run = make_run([workload("a", lambda one: {"time_ns": 1.0})], seconds=100)
    before = run.limits.left()
    run.take_over([{"kind": "sample", "workload": "a", "allocator": "tbb", "round": 1, "figures": {}, "seconds": 60.0}])
    assert run.limits.left() == pytest.approx(before - 60, abs=1)
    run.writer.close()


# Processes.


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_workload_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/parent; wait"
    with pytest.raises(BenchError, match="under tbb: not done in 1 s"):
        processes.execute(["/bin/sh", "-c", script], GLIBC.environment(), timeout=1.0, name="tbb")
    pids = [int((tmp_path / name).read_text()) for name in ("child", "parent")]
    wait_for(lambda: not any(alive(pid) for pid in pids))


def test_a_crash_and_a_missing_program_are_errors() -> None:
    with pytest.raises(BenchError, match="status -11"):
        processes.execute(["/bin/sh", "-c", "kill -SEGV $$"], GLIBC.environment())
    with pytest.raises(BenchError, match="status 3: oh dear"):
        processes.execute(["/bin/sh", "-c", "echo oh dear >&2; exit 3"], GLIBC.environment())
    with pytest.raises(BenchError, match="no-such-program"):
        processes.execute(["/no-such-program"], GLIBC.environment())


def test_processor_time_and_faults_are_those_of_the_process() -> None:
    busy = processes.execute(
        ["/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"], GLIBC.environment()
    )
    assert busy.cpu_ns > 5e6 and busy.wall_ns >= busy.cpu_ns / 2 and busy.faults > 20


def test_memory_of_all_processes_is_seen() -> None:
    """Two that hold 40 MB each at the same time."""
    hold = "import sys; block = b'x' * 40_000_000; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"
    script = f'(python3 -c "{hold}" <&3 & python3 -c "{hold}" <&3 & wait) 3<&0'
    process = processes.start(
        ["/bin/sh", "-c", script],
        GLIBC.program_environment(Path("/tmp")),
        stdin=processes.subprocess.PIPE,
        stdout=processes.subprocess.PIPE,
    )
    try:
        assert process.stdout.read(2) == b".."
        watch = processes.Watch("libc.so.6")
        for _ in range(3):
            watch.look(process.pid)
        assert 80_000 < watch.peak_kib < 200_000
        assert processes.sum_memory(process.pid) <= watch.peak_kib
        watch.verify("glibc")
    finally:
        processes.kill_group(process)


def test_a_library_that_no_process_has_mapped_is_an_error(tmp_path: Path) -> None:
    watch = processes.Watch("libnothing.so")
    # The loader says only on stderr that it cannot preload it.
    processes.execute(
        ["/bin/sh", "-c", "sleep 0.5"], {**GLIBC.environment(), "LD_PRELOAD": "libnothing.so"}, watch=watch
    )
    with pytest.raises(BenchError, match="tbb was not loaded: libnothing.so is not mapped in"):
        watch.verify("tbb")
