# SPDX-License-Identifier: MIT
"""The simulated machine as the command shows it: the same seed is the same run, an allocator that cannot scale is seen
not to, and what the report says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from coffer_bench import catalogue, passes, report, samples, scaling, sections
from coffer_bench import summary as sums
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.workload import Settings
from conftest import BUILD, COMMAND, GLIBC, interruptible, results_of, write_results

SMALL = 0.1


@pytest.fixture(scope="module", autouse=True)
def simulators() -> None:
    subprocess.run(["cmake", "--build", str(BUILD), "--target", "coffer_simulators"], check=True, capture_output=True)


def simulate(allocator: str, workload: str, cores: int, seed: int = 1, scale: float = SMALL) -> dict:
    return scaling.simulate(scaling.Point(allocator, workload, cores), BUILD, seed, scale)


def curve(allocator: str, workload: str, counts: tuple[int, ...], scale: float = SMALL) -> dict[int, float]:
    records = [scaling.mark(simulate(allocator, workload, cores, scale=scale)) for cores in counts]
    return scaling.speed_ups(scaling.by_cores(records, workload, allocator))


@pytest.mark.parametrize("workload", scaling.WORKLOADS)
def test_the_same_seed_is_the_same_run(workload: str) -> None:
    words = [str(BUILD / "libexec/coffer/simulate_coffer"), f"workload={workload}", "cores=8", f"scale={SMALL}"]
    texts = [subprocess.run([*words, f"seed={seed}"], capture_output=True, check=True).stdout for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


def test_threads_that_share_nothing_scale() -> None:
    found = curve("coffer", "threadtest", (1, 2, 8), scale=0.5)
    assert found[2] > 1.8 and found[8] > 6


def test_one_lock_collapses() -> None:
    found = curve("one-lock", "threadtest", (1, 2, 8), scale=1)
    assert found[2] < 0.5 and found[8] < 0.2
    record = simulate("one-lock", "threadtest", 8, scale=1)
    assert "g_lock" in record["lines"][0]["name"]
    assert any("spin_lock.hpp" in place["name"] for place in record["places"])


def blocks_transferred(record: dict) -> float:
    """By the program's own accesses, a write."""
    return record["calls"]["program"]["transfers"] / record["operations"]


@pytest.mark.parametrize("workload", ["active-false", "passive-false"])
def test_false_sharing_shows(workload: str) -> None:
    sharing = simulate("one-lock", workload, 8, scale=5)
    apart = simulate("coffer", workload, 8, scale=1)
    assert blocks_transferred(sharing) > 0.001 > 10 * blocks_transferred(apart)
    assert curve("coffer", workload, (1, 8), scale=1)[8] > 7.5


# The papers' own allocators, where their papers say what the curves look like (docs/papers.md).


@pytest.mark.parametrize(("name", "least"), [("hoard", 6.0), ("scalloc", 7.0), ("cif", 7.0)])
def test_threadtest_scales_in_the_papers_allocators(name: str, least: float) -> None:
    assert curve(name, "threadtest", (1, 8), scale=0.3)[8] > least


@pytest.mark.parametrize("name", ["hoard", "scalloc", "cif"])
@pytest.mark.parametrize("workload", ["active-false", "passive-false"])
def test_the_papers_allocators_share_no_lines(name: str, workload: str) -> None:
    assert blocks_transferred(simulate(name, workload, 8, scale=1)) < 0.0001


def test_hoard_scales_in_larson_where_heaps_are_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that end leave their blocks to others. By the thread's number those use another heap, and must take the
    first one's lock to free; the paper's heaps are those of Solaris's light-weight processes."""
    by_thread = simulate("hoard", "larson", 8, scale=1)
    monkeypatch.setenv("HOARD_CONF", "assign:processor")
    by_processor = simulate("hoard", "larson", 8, scale=1)
    assert scaling.cycles(by_thread) > 4 * scaling.cycles(by_processor)
    assert "heap: lock" in by_thread["lines"][0]["name"]
    assert scaling.in_calls(by_processor, "waited") < 1 < scaling.in_calls(by_thread, "waited")


def test_scalloc_frees_for_others_without_their_locks() -> None:
    """One remote list a span: a free of another thread's block is an atomic step, where Hoard and CIF take locks."""
    free = {
        name: simulate(name, "producer-consumer", 8, scale=1)["calls"]["free"] for name in ("hoard", "scalloc", "cif")
    }
    cycles = {name: one["cycles"] / one["calls"] for name, one in free.items()}
    assert 4 * cycles["scalloc"] < cycles["cif"] < cycles["hoard"]


def test_frees_of_other_threads_are_seen() -> None:
    record = simulate("coffer", "producer-consumer", 4, scale=1)
    assert record["remote"] > 0.4 * record["operations"]
    assert record["calls"]["free"]["transfers"] > 0 and record["calls"]["malloc"]["failed"] >= 0


def test_ends_of_threads_are_not_in_calls() -> None:
    """Larson's threads end within the timed part: both are shown. Where threads end after it, nothing of it is left."""
    served = simulate("coffer", "larson", 8, scale=0.2)["lines"]
    assert all(line["in_calls"]["transfers"] <= line["transfers"] for line in served)
    assert any(line["in_calls"]["transfers"] < line["transfers"] for line in served)
    apart = simulate("coffer", "active-false", 8, scale=1)
    assert sum(line["transfers"] for line in apart["lines"]) < 100
    text = scaling.hot_lines({"lines": served})[0]
    assert re.fullmatch(r".+: [\d,]+ transfers, .* failed \(in calls: [\d,]+ transfers, .* failed\)", text)


def test_larson_as_large_as_the_papers() -> None:
    small, large = simulate("coffer", "larson", 2, scale=0.5), simulate("coffer", "larson-paper", 2, scale=0.05)
    assert small["operations"] == 256_000 and large["operations"] == 500 * 2 * 2


def test_costs_can_be_chosen() -> None:
    words = [str(BUILD / "libexec/coffer/simulate_one-lock"), "workload=threadtest", "cores=4", f"scale={SMALL}"]
    near, far = (
        json.loads(subprocess.run([*words, text], capture_output=True, check=True).stdout)["cycles"]
        for text in ("write_owned_near=115", "write_owned_near=1150")
    )
    assert far > 2 * near


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["workload=none"], "no workload none"),
        (["workload=larson", "cores=3"], "cores is a power of two"),
        (["workload=larson", "cores=256"], "cores=256 is not allowed"),
        (["workload=larson", "seed=x"], "seed=x is not allowed"),
        (["workload=larson", "scale=nan"], "scale=nan is not allowed"),
        (["workload=larson", "colour=1"], "no key colour"),
        (["workload"], "not key=value: workload"),
        ([], "which workload?"),
    ],
)
def test_wrong_arguments(words: list[str], said: str) -> None:
    done = subprocess.run([str(BUILD / "libexec/coffer/simulate_coffer"), *words], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


# The command.


def run(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(COMMAND), "bench", "simulate", *words], capture_output=True, text=True, env={**os.environ, "TERM": "dumb"}
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_the_command_prints_curves() -> None:
    done = run("--workload", "threadtest", "--cores", "1..4", "--scale", "0.05", "--allocators", "coffer,one-lock")
    assert "threadtest, coffer" in done.stdout and "threadtest, one-lock" in done.stdout
    assert "g_lock" in done.stdout and "failed CAS" in done.stdout
    lines = run("--workload", "larson", "--cores", "1,4", "--scale", "0.05", "--json").stdout.splitlines()
    assert {(json.loads(line)["allocator"], json.loads(line)["cores"]) for line in lines} >= {
        ("coffer", 1),
        ("coffer", 4),
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cores", "3"), "powers of two"),
        (("--cores", "x"), "numbers like"),
        (("--cores", "9..15"), "powers of two"),
        (("--workload", "nothing"), "no workload 'nothing'"),
        (("--allocators", "glibc"), "no simulator of 'glibc'"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], said: str) -> None:
    done = run(*words, status=2)
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--allocators", ""), "'' has an empty entry"),
        (("--allocators", "coffer,coffer"), "coffer is there twice"),
        (("--workload", "larson,"), "'larson,' has an empty entry"),
        (("--workload", "larson,larson"), "larson is there twice"),
        (("--cores", ""), "'' has an empty entry"),
    ],
)
def test_lists_that_mean_nothing(words: tuple[str, ...], said: str) -> None:
    assert said in " ".join(re.sub("[│╭╮╰╯─]", " ", run(*words, status=2).stderr).split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """With what it started; and says nothing of samples, for there are none."""
    path = tmp_path / "libexec" / "coffer" / "simulate_slow"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 1000\n")
    path.chmod(0o755)
    words = [str(COMMAND), "bench", "simulate", "--build-dir", str(tmp_path)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **interruptible(number)
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, complaints = process.communicate(timeout=30)
    assert process.returncode == 130 and complaints == "bench: interrupted\n"


def test_what_is_not_built_is_said(tmp_path: Path) -> None:
    done = run("--build-dir", str(tmp_path), status=2)
    assert "coffer_simulators" in done.stderr


# The report.


def scaling_record(allocator: str, cores: int, cycles: int) -> dict:
    calls = {"calls": 10, "cycles": 10, "transfers": 1, "failed": 0, "waited": 5}
    line = {"name": "a hot line", "transfers": 7, "waited": 9, "failed": 1}
    record = {"allocator": allocator, "workload": "threadtest", "cores": cores, "operations": 10, "cycles": cycles}
    return scaling.mark({**record, "calls": {"malloc": calls, "free": calls}, "lines": [line]})


def example() -> samples.Results:
    rounds = {"coffer": [4.0, 4.0]}, {"coffer": [2.0, 2.0]}
    results = results_of({"threadtest 8, 1 thread": rounds[0], "threadtest 8, 2 threads": rounds[1]})
    results.records.extend(
        scaling_record(name, cores, cycles)
        for name, cores, cycles in (
            ("coffer", 1, 800),
            ("coffer", 2, 400),
            ("coffer", 4, 100),
            ("one-lock", 1, 800),
            ("one-lock", 4, 1600),
        )
    )
    return results


def test_speed_ups_stand_beside_real_ones(tmp_path: Path) -> None:
    results = example()
    (table,) = sections.scaling_tables(sums.summarise(results))
    assert table["names"] == ["coffer", "one-lock"]
    assert [(line["name"], *line["cells"], line["real"]) for line in table["lines"]] == [
        ("1", "1.00", "1.00", "-"),
        ("2", "2.00", "-", "2.000 (2.000 to 2.000)"),
        ("4", "8.00", "0.50", "-"),
    ]
    report.write(write_results(tmp_path / "samples.jsonl", results), tmp_path / "report")
    page, text = ((tmp_path / "report" / name).read_text() for name in ("index.html", "report.md"))
    assert 'id="scaling"' in page and "a hot line: 7 transfers" in page
    assert "## Scaling (simulated)" in text and "| 4 | 8.00 | 0.50 | - | - | - |" in text


def test_agreement_is_of_medians_with_their_interval() -> None:
    """Not of the best round: 1.9 is the median, whatever the last one was. The clock of the report makes no
    difference; two threads of 4 ns each beside one of 4 are twice as fast."""
    results = results_of(
        {
            "threadtest 8, 1 thread": {"coffer": [1.9, 2.0, 1.8, 1.9, 8.0]},
            "threadtest 8, 2 threads": {"coffer": [1.0, 1.0, 1.0, 1.0, 1.0]},
        }
    )
    for record in results.of("sample"):
        record["figures"]["cpu_ns"] = 4.0 + record["round"] / 100 if "1 thread" in record["workload"] else 4.0
    results.records.extend(scaling_record("coffer", cores, cycles) for cores, cycles in ((1, 800), (2, 400)))
    for clock in ("wall", "cpu"):
        (table,) = sections.scaling_tables(sums.summarise(results, clock))
        real = table["real"][2]
        assert real.value == 1.9 and real.low <= 1.8 + 0.1 and real.high == 8.0 and list(table["real"]) == [2]
        factor, low, high = (float(word) for word in re.findall(r"[\d.]+", table["lines"][1]["agreement"]))
        assert factor == pytest.approx(2 / 2.015, abs=0.001) and low < factor < high
        assert table["lines"][1]["busy"].startswith("2.015 (")


def test_a_run_simulates_what_it_measures() -> None:
    points = scaling.points_of(["larson 10-100, 1 thread", "redis"], ["coffer", "glibc"], BUILD)
    assert {point.workload for point in points} == {"larson", "larson-paper"}
    assert [point.cores for point in points if point.allocator == "coffer"] == 2 * list(scaling.CORES)
    assert max(point.cores for point in points if point.allocator == "one-lock") == scaling.OTHERS_CORES
    assert {point.allocator for point in points} == {"coffer", "one-lock"}
    for rows in (["redis"], ["larson 7, 1 thread"], ["threadtest 80, 1 thread"], []):
        assert scaling.points_of(rows, ["coffer"], BUILD) == []


@pytest.mark.parametrize(("quick", "scale", "wanted"), [(False, 1.0, 1.0), (True, 1.0, 0.25), (False, 0.1, 0.1)])
def test_the_scale_is_that_of_the_run(
    monkeypatch: pytest.MonkeyPatch, quick: bool, scale: float, wanted: float
) -> None:
    """Of a run's own options: the workloads chosen by --only, the scale of --scale and --quick."""
    seen: list[float] = []

    def take(point: scaling.Point, build_dir: Path, seed: int, scale: float) -> dict:
        seen.append(scale)
        return scaling_record(point.allocator, point.cores, 100)

    monkeypatch.setattr(scaling, "simulate", take)
    settings = Settings(BUILD, quick=quick, scale=scale)
    workloads, _ = catalogue.choose(settings, "larson 10-100")
    tasks = [one for one in passes.tasks([Allocator("coffer", None)], workloads, settings) if one.kind == "scaling"]
    assert {task.of.split(" on ")[0] for task in tasks} == {"larson", "larson-paper"}
    tasks[0].action()
    assert seen == [wanted]
    workloads, _ = catalogue.choose(settings, "pair 64")
    assert not [one for one in passes.tasks([GLIBC], workloads, settings) if one.kind == "scaling"]


def test_a_simulator_that_fails_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "libexec" / "coffer" / "simulate_broken"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    path.chmod(0o755)
    with pytest.raises(BenchError, match="status 3: out of luck"):
        scaling.simulate(scaling.Point("broken", "larson", 1), tmp_path, 1, 1)
    path.write_text("#!/bin/sh\necho '{'\n")
    with pytest.raises(BenchError):
        scaling.simulate(scaling.Point("broken", "larson", 1), tmp_path, 1, 1)
