# SPDX-License-Identifier: MIT
"""coffer tune: what it recommends and what it does not, from figures that are made up here; and once as a user runs it,
on a trace of which the answer is known."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from coffer import places
from coffer.errors import CofferError
from coffer.replay.play import ReplayFailed
from coffer.tune import outcome, search, space
from coffer.tune.parts import CHECK, QUARTERS, WHOLE, Split
from coffer.tune.search import Budget
from coffer.tune.space import AGAIN, DEFAULT, Configuration
from coffer.tune.trial import Figures
from coffer_bench.stats import Estimate

sys.path.insert(0, str(Path(__file__).resolve().parent / "trace"))
import make_trace  # noqa: E402

COMMAND = places.build_dir() / "bin" / "coffer"
SPLIT = Split(QUARTERS[0::2], QUARTERS[1::2], (WHOLE,), {"operations": 10_000, "threads": 1}, {})
Effect = Callable[[str, dict[str, str]], dict[str, float]]  # of a part and options: factors on measures


def made_up(effect: Effect = lambda part, options: {}, noise: float = 0.02, seed: int = 1):
    """A replay in which only what is said here makes a difference, and chance as on a busy machine."""
    chance = random.Random(seed)

    def play(part: str, one: Configuration) -> Figures:
        factors = effect(part, dict(one.values))
        memory = 1 + chance.uniform(-noise, noise) / 10
        spent = 1 + chance.uniform(-noise, noise)
        return Figures(5000 * memory * factors.get("peak", 1), 4000 * memory * factors.get("mean", 1),
                       2e6 * spent * factors.get("time", 1), 3e6 * spent * factors.get("processor", 1))

    return play


def tuned(play, seconds: float = 1e9, split: Split = SPLIT, seed: int = 1, jobs: int = 1) -> outcome.Outcome:
    """On a clock that stands still: all rounds are taken, or without time only those that must be."""
    return outcome.find(Path("made.trace"), None, split, play, Budget(seconds, clock=lambda: 0.0), seed, jobs)


def named(found: outcome.Outcome, conf: str) -> search.Judged:
    return next(one for one in found.found if one.configuration.conf == conf)


def test_an_option_that_saves_memory() -> None:
    found = tuned(made_up(lambda part, options: {"peak": 0.8} if options.get("slack") == "0" else {}))
    best = found.front[0]
    assert ("slack", "0") in best.configuration.values and best.is_free and best.gains == ["peak"]
    assert best.judged["peak"].value == pytest.approx(0.8, abs=0.01)
    said = outcome.verdict(found)
    assert re.search(r"slack:0.* takes (19|20)\.\d % less \(\d\d\.\d to \d\d\.\d\) peak memory, and nothing", said)


def test_two_options_that_save_together() -> None:
    """Neither alone is the answer: only a combination that the search made has both."""
    def effect(part: str, options: dict[str, str]) -> dict[str, float]:
        return {"peak": 0.9 if options.get("slack") == "0" else 1, "time": 0.8 if options.get("align") == "all" else 1}

    best = min(tuned(made_up(effect)).front, key=lambda one: one.judged["peak"].value * one.judged["time"].value)
    assert {("slack", "0"), ("align", "all")} <= set(best.configuration.values) and best.gains == ["peak", "time"]


@pytest.mark.parametrize("noise", (0, 0.02, 0.3))
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_recommended_where_all_are_equal(seed: int, noise: float) -> None:
    found = tuned(made_up(noise=noise, seed=seed), seed=seed)
    assert found.front == [] and all(one.why_not for one in found.found)
    tried = len(found.trial.tried() - {DEFAULT, AGAIN})
    assert tried >= len(space.singles(1))
    assert outcome.verdict(found).startswith(f"The defaults are as good as anything found: of {tried} configurations")


def test_a_gain_where_it_was_chosen_alone_does_not_hold() -> None:
    found = tuned(made_up(lambda part, options: {"peak": 0.7} if options.get("slack") == "0" and part in SPLIT.choose
                          else {}))
    one = named(found, "slack:0")
    assert one.chosen["peak"].value < 0.75 and one.why_not == "no gain where it was judged"
    assert found.front == [] and "as good as anything" in outcome.verdict(found)


def test_a_gain_that_the_whole_trace_does_not_have_does_not_hold() -> None:
    """The parts begin without the history that the program's heap has there."""
    found = tuned(made_up(lambda part, options: {"peak": 0.7} if options.get("slack") == "0" and part != WHOLE else {}))
    assert found.front == [] and named(found, "slack:0").why_not == "no gain over the whole trace"


def test_what_a_gain_costs_is_told() -> None:
    found = tuned(made_up(lambda part, options: {"peak": 0.8, "time": 1.5, "processor": 1.2}
                          if options.get("mixed") == "always" else {}))
    best = found.front[0]
    assert best.gains == ["peak"] and best.losses == ["time", "processor"] and not best.is_free
    said = outcome.verdict(found)
    assert said.startswith("Nothing is better at no cost.") and "% more" in said and "time in calls" in said


def test_more_at_a_cost_is_told_beside_what_is_free() -> None:
    effects = {"0": {"peak": 0.9}, "1M": {"peak": 0.7, "time": 2, "processor": 1.5}}
    said = outcome.verdict(tuned(made_up(lambda part, options: effects.get(options.get("slack", ""), {}))))
    assert re.match(r"COFFER_CONF=slack:0 takes (9|10)\.\d % less .*measurably worse\. COFFER_CONF=slack:1M takes "
                    r"(29|30)\.\d % less .* peak memory, for (9\d|10\d)\.\d % more .* time in calls", said)


def test_a_cost_over_the_whole_trace_is_told() -> None:
    """Where the parts that judge have none, too."""
    found = tuned(made_up(lambda part, options: {"peak": 0.8, "time": 1.5 if part == WHOLE else 1}
                          if options.get("mixed") == "always" else {}))
    assert found.front[0].losses == ["time"]
    assert re.search(r"peak memory, for (49|50)\.\d % more \(.*\) time in calls\.$", outcome.verdict(found))


@pytest.mark.parametrize("aim, against", (("time", "processor"), ("peak", "mean")))
def test_a_cost_that_was_only_moved_is_no_gain(aim: str, against: str) -> None:
    found = tuned(made_up(lambda part, options: {aim: 0.7, against: 1.2} if options.get("slack") == "1M" else {}))
    assert found.front == [] and named(found, "slack:1M").why_not == f"{aim} better, {against} worse"


def test_the_front_has_what_no_other_beats() -> None:
    effects = {"0": {"peak": 0.8}, "16K": {"peak": 0.9}, "1M": {"time": 0.8}}
    found = tuned(made_up(lambda part, options: effects.get(options.get("slack", ""), {}), noise=0.001))
    slacks = [dict(one.configuration.values)["slack"] for one in found.front]
    assert "0" in slacks and "1M" in slacks and "16K" not in slacks


def test_an_option_that_brings_nothing_is_not_recommended() -> None:
    """Nor is one of several that are the same to the last digit lost."""
    for noise in (0, 0.02):
        front = tuned(made_up(lambda part, options: {"peak": 0.8} if options.get("slack") == "0" else {}, noise)).front
        assert [one.configuration.conf for one in front] == ["slack:0"]
    front = tuned(made_up(lambda part, options: {"peak": 0.8} if "slack" in options else {}, 0)).front
    assert len(front) == 1 and front[0].configuration.values[0][0] == "slack"


def test_a_gain_is_beyond_chance_and_noise_and_worth_it() -> None:
    quiet, busy = Estimate(1, 0.999, 1.001), Estimate(1.01, 0.92, 1.1)
    assert search.is_gain(Estimate(0.95, 0.93, 0.97), quiet)
    assert not search.is_gain(Estimate(0.95, 0.93, 0.97), busy)  # the defaults differ by as much from themselves
    assert not search.is_gain(Estimate(0.95, 0.85, 1.01), quiet)  # it may be none
    assert not search.is_gain(Estimate(0.995, 0.994, 0.996), quiet)  # too little
    assert search.is_loss(Estimate(1.05, 1.01, 1.2)) and not search.is_loss(Estimate(1.05, 0.99, 1.2))
    assert search.is_confirmed(Estimate(0.95, 0.9, 0.99)) and not search.is_confirmed(Estimate(0.995, 0.99, 0.999))


def test_more_options_that_bring_more_take_the_place_of_one() -> None:
    def judged(conf: str, peak: float, spent: float) -> search.Judged:
        values = tuple(tuple(item.split(":")) for item in conf.split(","))
        return search.Judged(Configuration(values), {}, {"peak": Estimate(peak), "time": Estimate(spent)})

    noise = {"peak": Estimate(1, 0.99, 1.01), "time": Estimate(1, 0.95, 1.05)}
    one, same, two = judged("slack:0", 0.9, 0.98), judged("slack:0,span:64K", 0.898, 0.95), judged("a:1,b:2", 0.8, 0.9)
    assert search.front([one], noise) == [one] and search.front([one, same], noise) == [one]
    assert search.front([one, same, two], noise) == [two]
    fast = judged("huge:never,align:all", 1.1, 0.7)
    assert search.front([one, fast], noise) == [one, fast]


def test_a_configuration_that_fails_is_left_out() -> None:
    def play(part: str, one: Configuration) -> Figures:
        if ("slack", "0") in one.values:
            raise ReplayFailed("ended with SIGSEGV")
        return made_up()(part, one)

    found = tuned(play)
    assert all(("slack", "0") not in one.configuration.values for one in found.found)
    assert found.trial.failed[Configuration((("slack", "0"),))] == "ended with SIGSEGV"
    assert "slack:0: ended with SIGSEGV" in outcome.as_markdown([found], "coffer tune", "Here.")

    def never(part: str, one: Configuration) -> Figures:
        raise ReplayFailed("not done in 1 s")

    with pytest.raises(CofferError, match="under Coffer's defaults failed: not done in 1 s"):
        tuned(never)


def test_rounds_are_bounded_by_time_and_without_it() -> None:
    short, long = (tuned(made_up(), seconds) for seconds in (0, 1e9))
    assert 0 < short.trial.plays < 200 < long.trial.plays < 3000
    # Enough of them for an interval, however little time there is.
    assert all(len(short.trial.ratios(part, AGAIN, "time")) == search.JUDGE_ROUNDS for part in SPLIT.judge)


def test_the_same_seed_makes_the_same_search() -> None:
    one, two = (outcome.as_json(tuned(made_up(seed=3), seed=7)) for _ in range(2))
    assert one == two
    # Several at a time change nothing but times.
    assert tuned(made_up(noise=0), jobs=4).trial.plays == tuned(made_up(noise=0)).trial.plays


def test_each_value_is_one_that_coffer_takes() -> None:
    """And none is the default, which needs no trying."""
    def start(conf: str) -> str:
        done = subprocess.run(["true"], env={"LD_PRELOAD": str(places.library()), "COFFER_CONF": conf},
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    defaults = start("confirm:true")
    for one in space.singles(2):
        assert start(f"{one.conf},strict:true") == "", one.conf
        (name, value), = one.values
        assert re.search(rf"\b{name}\b", defaults) and not re.search(rf"\b{name}:{value}(?!\S)", defaults), one.conf
    assert {name for one in space.singles(1) for name, _ in one.values} == set(space.VALUES)


def coffer(*arguments: object, status: int = 0) -> str:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=240,
                          env={key: value for key, value in os.environ.items() if key != "COFFER_CONF"})
    assert done.returncode == status and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def write_trace(path: Path, blocks: int, replaced: int, seed: int = 1) -> Path:
    """Blocks of up to 32 KiB, each replaced by one of another size: as many classes hold spans that are hardly used."""
    chance = random.Random(seed)
    records: list[bytes] = []
    last = count = 0

    def add(operation: str, block: int, size: int = 0) -> None:
        nonlocal last
        records.append(make_trace.record(operation, 10, size, make_trace.zigzag(block - last)))
        last = block

    def allocate() -> int:
        nonlocal count
        count += 1
        add("malloc", count, chance.randint(1, 32768))
        return count

    live = [allocate() for _ in range(blocks)]
    for _ in range(blocks * replaced):
        which = chance.randrange(blocks)
        add("free", live[which])
        live[which] = allocate()
    path.write_bytes(make_trace.of(*records, last=10 * len(records)))
    return path


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("traces") / "holes.trace", 600, 60)


def test_a_trace_of_which_the_answer_is_known(trace: Path, tmp_path: Path) -> None:
    """Mixed spans hold blocks of any size, and so no class keeps holes of its own: a third of the memory less. How long
    anything takes is not looked at, for other programs run beside this."""
    page, figures = tmp_path / "tuned.md", tmp_path / "tuned.json"
    said = coffer("tune", trace, "--minutes", 0, "-o", page, "--json", figures)
    found = json.loads(figures.read_text())
    front = [one for one in found["configurations"] if one["on_front"]]
    best = min(front, key=lambda one: one["judged"]["peak"]["ratio"])
    assert "mixed:always" in best["conf"] and "peak" in best["gains"]
    for part in ("chosen", "judged", "confirmed"):
        assert best[part]["peak"]["ratio"] < 0.85, part
    assert best["judged"]["peak"]["low"] <= best["judged"]["peak"]["ratio"] <= best["judged"]["peak"]["high"]
    assert found["noise"]["peak"]["ratio"] == pytest.approx(1, abs=0.1)
    assert found["judged_by"] == ["2nd quarter", "4th quarter"] and found["chosen_by"] == ["1st quarter", "3rd quarter"]
    assert not found["failed"] and found["verdict"] in " ".join(said.split())
    written = page.read_text()
    assert found["verdict"] in written and f"| {best['conf']} |" in written
    assert "Written by `coffer tune holes.trace --minutes 0`" in written


def test_a_second_trace_judges(trace: Path, tmp_path: Path) -> None:
    other = write_trace(tmp_path / "other.trace", 500, 50, seed=2)
    found = json.loads(coffer("tune", trace, "--check", other, "--minutes", 0, "--jobs", 2, "--json", "-"))
    assert found["chosen_by"] == [WHOLE] and found["judged_by"] == [CHECK] and found["confirmed_by"] == []
    assert any(one["on_front"] and "mixed:always" in one["conf"] for one in found["configurations"])


def test_other_commands_do_not_wait_for_numpy() -> None:
    loaded = "import sys, coffer.cli; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_cannot_be_tuned(trace: Path, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.trace"
    rubbish.write_text("#!/bin/sh\n")
    short = write_trace(tmp_path / "short.trace", 50, 10)
    for arguments, message in (
            ((tmp_path / "none.trace",), "none.trace: no such file"),
            ((tmp_path,), "no regular file"),
            ((rubbish,), "byte 0: no trace of Coffer"),
            ((short,), "short.trace: 1050 operations are too few to judge by; a trace needs 4000"),
            ((trace, "--check", short), "short.trace: 1050 operations are too few"),
            ((trace, trace, "--check", trace), "--check: of one trace"),
            ((trace, "-o", tmp_path / "none" / "page.md"), "none: no such directory"),
            ((trace, "-o", trace), "the output must be another file"),
            ((trace, "--json", trace), "the output must be another file")):
        assert message in coffer("tune", *arguments, "--minutes", 0, status=1)
