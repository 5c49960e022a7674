# SPDX-License-Identifier: MIT
"""Patterns drawn at random: a seed is one program, the seeds cover what is to be drawn, and the ratios are right."""

from __future__ import annotations

import math
import subprocess
from dataclasses import replace
from functools import cache

import pytest
from coffer_bench import allocators, cli, drawn, drawn_report, patterns, suite
from coffer_bench.errors import BenchError
from coffer_bench.workload import Settings
from conftest import BUILD, COMMAND, GLIBC, machine
from typer.testing import CliRunner

import histograms

PROGRAMS = BUILD / "bench" / "patterns"
FAULTY = BUILD / "bench" / "suite" / "libfaulty.so"


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    targets = ["bench_pattern_drawn", "bench_nothing", "bench_suite_faulty", "coffer_libraries"]
    subprocess.run(["cmake", "--build", str(BUILD), "--target", *targets], check=True, capture_output=True)


@cache
def plan(seed: int) -> drawn.Plan:
    return drawn.describe(PROGRAMS, seed)


def quick_seeds(count: int, fits=lambda one: True) -> list[int]:
    """Of the tuning half, those that write least."""
    fitting = [seed for seed in drawn.TUNING if fits(plan(seed))]
    return sorted(fitting, key=lambda seed: plan(seed)["bytes"] * plan(seed)["phases"])[:count]


# The program.


def test_a_seed_is_the_same_program_under_every_allocator_and_each_time() -> None:
    coffer = allocators.find(["coffer"], BUILD)[0]
    several = quick_seeds(1, lambda one: one["threads"] > 8 and one["handover"] > 0 and one["churn"] > 0)
    seen = set()
    for seed in [*several, *quick_seeds(2)]:
        runs = [allocators.run_json(one, drawn.command(PROGRAMS, seed)) for one in (GLIBC, GLIBC, coffer)]
        assert len({tuple(run[key] for key in drawn.FIXED) for run in runs}) == 1, seed
        seen.add(runs[0]["digest"])
    assert len(seen) == len({*several, *quick_seeds(2)})


def test_the_drawn_parameters_cover_their_ranges() -> None:
    for half in (drawn.TUNING, drawn.JUDGING):
        plans = [plan(seed) for seed in half]

        def span(key: str) -> tuple[float, float]:
            return min(one[key] for one in plans), max(one[key] for one in plans)

        threads, survival, size, phases = span("threads"), span("survival"), span("bytes"), span("phases")
        assert threads[0] == 1 and 56 <= threads[1] <= 64
        assert 0.005 <= survival[0] < 0.007 and 0.17 < survival[1] <= 0.2
        assert 8e6 <= size[0] < 9e6 and 150e6 < size[1] <= 200e6
        assert 2 <= phases[0] and phases[1] >= 18
        assert {0, 1} < {one["handover"] for one in plans} and span("handover") == (0, 1)
        assert sum(0.05 < one["handover"] < 0.95 for one in plans) >= 20
        assert span("pause_ms")[0] == 0 and 15 < span("pause_ms")[1] <= 20
        kinds = {phase["kind"] for one in plans for phase in one["sizes"]}
        traces = {f"histogram {path.stem}" for path in histograms.TRACES.glob("*.trace")}
        assert kinds == traces | {"fixed", "narrow", "uniform", "exponential", "octaves", "bimodal"}
        assert {one["order"] for one in plans} == {"as allocated", "reversed", "shuffled"}
        assert {one["shift"] for one in plans} == {"same", "other", "grow", "shrink"}
        for key in ("to_one", "renewed"):
            assert {one[key] for one in plans} == {False, True}


def test_no_two_seeds_draw_the_same() -> None:
    """Neighbours in the stream of random numbers would."""
    everything = [plan(seed) for seed in drawn.HALVES["all"]]
    assert len({one["survival"] for one in everything}) > 190
    assert len({tuple(phase["mean"] for phase in one["sizes"]) for one in everything}) > 195


def test_live_is_what_the_plan_says_and_all_of_it_is_touched() -> None:
    for seed in quick_seeds(3, lambda one: not one["to_one"]):
        found = allocators.run_json(GLIBC, drawn.command(PROGRAMS, seed))
        assert 0.85 * plan(seed)["bytes"] < found["live_kib"] * 1024 <= plan(seed)["bytes"]
        assert found["ratio"] > 0.99
        assert found["ratio"] == pytest.approx((found["peak_kib"] - found["start_kib"]) / found["live_kib"], rel=0.01)


def test_tables_and_stacks_are_not_counted() -> None:
    (seed,) = quick_seeds(1, lambda one: one["threads"] > 40)
    found = allocators.run_json(GLIBC, drawn.command(PROGRAMS, seed))
    assert found["own_kib"] > 256 * plan(seed)["threads"]
    assert found["peak_kib"] < found["start_kib"] + 4 * found["live_kib"]


@pytest.mark.parametrize(("every", "status"), [(0, 0), (1000, 1)])
def test_a_block_that_was_given_out_twice_is_noticed(every: int, status: int) -> None:
    (seed,) = quick_seeds(1, lambda one: one["sizes"][0]["kind"] != "fixed")
    environment = {"LD_PRELOAD": str(FAULTY), "FAULTY_EVERY": str(every)}
    done = subprocess.run(drawn.command(PROGRAMS, seed), env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert ("a block was damaged" in done.stderr) == (status == 1)


def test_the_histograms_are_those_of_the_traces() -> None:
    assert histograms.OUTPUT.read_text() == histograms.make()


# Seeds.


def test_the_halves_are_apart_and_the_rows_judge() -> None:
    assert len(drawn.TUNING) == len(drawn.JUDGING) == 100 and not set(drawn.TUNING) & set(drawn.JUDGING)
    assert set(drawn.HALVES["all"]) == {*drawn.TUNING, *drawn.JUDGING}
    assert set(drawn.IN_QUICK) < set(drawn.IN_BENCH) < set(drawn.JUDGING)
    assert drawn.choose_seeds("judge") == list(drawn.JUDGING)


def test_seeds_are_chosen_and_said() -> None:
    assert drawn.choose_seeds("judge", "7,3,9..11") == [3, 7, 9, 10, 11]
    assert drawn.say_seeds(list(drawn.TUNING)) == "the tuning half, seeds 1 to 100"
    assert drawn.say_seeds([99, 100, 101, 300]) == (
        "4 seeds: 1 of the judging half, 2 of the tuning half, 1 of neither half"
    )
    for wrong in ("x", "3..", "9..3", "0", ""):
        if wrong:
            with pytest.raises(BenchError, match="--seeds"):
                drawn.choose_seeds("judge", wrong)


# Figures, made up: two seeds, of which the first has two runs under Coffer.


def sample(ratio: float, **more: float) -> drawn.Figures:
    fixed = {"calls": 10.0, "digest": 5.0, "live_kib": 1000.0}
    return {"start_kib": 500.0, "peak_kib": 500 + 1000 * ratio, "end_kib": 600.0, "ratio": ratio, "cpu_ms": 100.0,
            **fixed, **more}


def made_up() -> drawn.Taken:
    return {
        "coffer": {1: [sample(1.4), sample(1.6)], 2: [sample(2.0)]},
        "glibc": {1: [sample(1.2)], 2: [sample(4.0)]},
        "tbb": {1: [sample(1.0)], 2: []},
        "hoard": {1: [sample(0.5)], 2: [sample(0.5)]},
    }


def test_a_seed_is_compared_with_the_best_other_that_people_use() -> None:
    ratios = drawn.ratios_of(made_up())
    assert ratios["coffer"] == {1: 1.5, 2: 2.0} and ratios["tbb"] == {1: 1.0}
    assert drawn.over_best(ratios, "coffer") == {1: 1.5, 2: 0.5}
    assert drawn.over_best(ratios, "tbb") == {1: pytest.approx(1.0 / 1.2)}
    # Coffer is nobody's best other.
    assert drawn.over_best(ratios, "glibc") == {1: 1.2}


def test_a_standing_has_the_mean_and_the_worst() -> None:
    ratios = drawn.ratios_of(made_up())
    found = drawn.standing(made_up(), ratios, "coffer")
    assert found.mean == pytest.approx(math.sqrt(1.5 * 0.5)) and found.ratio == pytest.approx(math.sqrt(1.5 * 2.0))
    assert (found.worst, found.worst_seed, found.best_in, found.seeds) == (1.5, 1, 1, 2)
    assert found.cpu_ms == 200.0
    assert [one.name for one in drawn.standings(made_up(), ratios)][-1] == "glibc"
    alone = {"coffer": {1: [sample(1)]}}
    assert drawn.standings(alone, drawn.ratios_of(alone)) == []
    with pytest.raises(BenchError, match="no seed ran"):
        drawn_report.own_standing([], "coffer")


@pytest.mark.parametrize(("worst", "said"), [(1.5, "1.5 (reached)"), (1.51, "1.5 (missed)")])
def test_the_aim_is_judged(worst: float, said: str) -> None:
    one = replace(drawn.standing(made_up(), drawn.ratios_of(made_up()), "coffer"), worst=worst)
    assert said in drawn_report.aim_line(one) and "1.15 (reached)" in drawn_report.aim_line(one)
    assert "1.15 (missed)" in drawn_report.aim_line(replace(one, mean=1.1501))


def test_a_program_that_differs_between_allocators_is_no_figure() -> None:
    taken = made_up()
    assert drawn.differences(taken, [1, 2]) == []
    taken["glibc"][2] = [sample(4.0, digest=6.0)]
    assert drawn.differences(taken, [1, 2]) == ["seed 2 was not the same program under glibc and hoard"]


def test_a_run_that_fails_is_named_and_the_others_stay(tmp_path) -> None:
    script = tmp_path / "drawn"
    script.write_text(f'#!/bin/sh\n[ "$1" = seed=2 ] && exit 3\nexec {PROGRAMS}/drawn "$@"\n')
    script.chmod(0o755)
    good = quick_seeds(1)[0]
    taken, failures = drawn.measure([GLIBC], [2, good], tmp_path, 1, 2)
    assert len(taken["glibc"][good]) == 1 and taken["glibc"][2] == []
    assert len(failures) == 1 and "seed=2" in failures[0] and "status 3" in failures[0]


@pytest.mark.parametrize(("how", "runs"), [("kill -9 $$", 3), ("exit 3", 1)])
def test_a_run_that_the_system_ended_is_made_again_and_a_fault_is_not(tmp_path, how: str, runs: int) -> None:
    script = tmp_path / "drawn"
    script.write_text(f"#!/bin/sh\necho >> {tmp_path}/runs\n{how}\n")
    script.chmod(0o755)
    taken, failures = drawn.measure([GLIBC], [1], tmp_path, 1, 1)
    assert taken["glibc"][1] == [] and len(failures) == 1
    assert (tmp_path / "runs").read_text().count("\n") == runs


def test_several_seeds_are_one_sample_by_their_geometric_means() -> None:
    found = drawn.combine([sample(1.0), sample(4.0, live_kib=4000.0, peak_kib=16500.0)])
    assert found["ratio"] == pytest.approx(2) and found["live_kib"] == pytest.approx(2000)
    assert found["peak_kib"] - found["start_kib"] == pytest.approx(4000) and found["cpu_ms"] == 200


# Reports and rows.


def outcome(failures: list[str]) -> drawn_report.Outcome:
    plans = {seed: plan(seed) for seed in (1, 2)}
    return drawn_report.Outcome([1, 2], 1, machine(), {"glibc": "2.36"}, plans, made_up(), failures)


def test_the_report_has_every_seed_and_what_failed() -> None:
    text = drawn_report.write(outcome(["seed 7 fell over"]))
    assert "2 seeds: 2 of the tuning half, one run of each" in text
    assert "| coffer | 0.866 | 1.50 | 1 | 1.732 | 1 of 2 | 1.00 |" in text
    assert "| 2 | 0.50 | 2.00 | 4.00 | failed | 0.50 |" in text
    assert "- FAILED: seed 7 fell over" in text and "FAILED" not in drawn_report.write(outcome([]))
    assert drawn.in_words(plan(1)) in text


def test_groups_hold_each_seed_once() -> None:
    plans = {seed: plan(seed) for seed in drawn.TUNING}
    rows = drawn.by_group(plans, drawn.TUNING)
    for what in drawn.GROUPS:
        members = [seed for kind, _, seeds in rows if kind == what for seed in seeds]
        assert sorted(members) == list(drawn.TUNING)
    assert len(rows) == sum(len(groups) for _, groups in drawn.GROUPS.values())


def test_the_rows_of_the_bench_are_the_same_seeds() -> None:
    row = suite.drawn_workload(Settings(BUILD))
    assert row.name in {one.name for one in patterns.ROWS} and not row.timed
    quick = suite.drawn_workload(Settings(BUILD, quick=True))
    assert "seed=" + ",".join(map(str, drawn.IN_QUICK)) in quick.what


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(COMMAND), "bench", "drawn", *words], capture_output=True, text=True)


def test_the_command(tmp_path) -> None:
    seeds = ",".join(map(str, sorted(quick_seeds(2))))
    results = tmp_path / "drawn.json"
    done = run("--seeds", seeds, "--allocators", "coffer,glibc", "--results", str(results))
    assert done.returncode == 0, done.stderr
    assert "Running 2 seeds: 2 of the tuning half." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("coffer: ")
    assert "# Patterns drawn at random" in (tmp_path / "drawn.md").read_text() and results.exists()


@pytest.mark.parametrize(("words", "half"), [([], "judge"), (["--half", "tune"], "tune")])
def test_the_judging_half_is_the_default(monkeypatch: pytest.MonkeyPatch, words: list[str], half: str) -> None:
    asked = []
    monkeypatch.setattr(drawn_report, "run", lambda options, console: asked.append(options))
    assert CliRunner().invoke(cli.app, ["drawn", *words]).exit_code == 0
    assert (asked[0].half, asked[0].seeds, asked[0].names, asked[0].runs) == (half, "", "", 1)


@pytest.mark.parametrize("words", [("--half", "tuna"), ("--seeds", "1..x"), ("--seeds", "1", "--allocators", "glibc")])
def test_what_cannot_be_run_is_an_error(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
