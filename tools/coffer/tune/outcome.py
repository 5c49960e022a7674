# SPDX-License-Identifier: MIT
"""What was found, as a sentence, a table, a page of Markdown and JSON."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from coffer.index.report import make_table
from coffer.tune import search
from coffer.tune.parts import Split
from coffer.tune.search import Budget, Judged
from coffer.tune.trial import MEASURES, Play, Trial
from coffer_bench import tables
from coffer_bench.stats import Estimate

NAMES = {"peak": "peak memory", "mean": "mean memory", "time": "time in calls", "processor": "processor time"}
HEAD = ["COFFER_CONF", "peak memory", "time in calls", "mean", "processor", "chosen by", "whole", "holds"]
NOTE = ("Ratios to the defaults, of the part that judges, with 95 % intervals of a bootstrap over rounds; below 1 is "
        "better. Peak and mean: of memory, resident pages and page tables above what was there before the first "
        "operation. Time in calls: of malloc, free and their like. Processor: time of the whole replay, with page "
        "faults, the replay's own work and Coffer's own threads. Chosen by, whole: peak and time on what the search "
        "saw, and on the whole trace. The defaults again: the noise.")


@dataclass
class Outcome:
    trace: Path
    check: Path | None
    split: Split
    trial: Trial
    found: list[Judged]
    noise: dict[str, Estimate]
    seed: int

    @property
    def front(self) -> list[Judged]:
        return search.front(self.found, self.noise)


def find(trace: Path, check: Path | None, parts: Split, play: Play, budget: Budget, seed: int, jobs: int = 1,
         step: Callable[[str], None] = lambda text: None) -> Outcome:
    trial = Trial(play, random.Random(seed), jobs, step)
    finalists = search.search(trial, parts.choose, parts.facts["threads"], budget)
    found, noise = search.judge(trial, finalists, parts.choose, parts.judge, parts.confirm, budget)
    return Outcome(trace, check, parts, trial, found, noise, seed)


def percent(found: Estimate) -> str:
    """12.3 % less (11.9 to 12.7)."""
    change, ends = 100 * (found.value - 1), sorted(abs(100 * (end - 1)) for end in (found.low, found.high))
    is_sure = (found.low - 1) * (found.high - 1) > 0
    within = f" ({ends[0]:.1f} to {ends[1]:.1f})" if is_sure else ""
    return f"{abs(change):.1f} % {'less' if change < 0 else 'more'}{within}"


def cost(one: Judged, measure: str) -> Estimate:
    """Where it was judged or over the whole trace, whichever is more."""
    return max((found[measure] for found in (one.judged, one.confirmed) if found), key=lambda found: found.value)


def sentence(one: Judged) -> str:
    gains = ", ".join(f"{percent(one.judged[measure])} {NAMES[measure]}" for measure in one.gains)
    losses = ", ".join(f"{percent(cost(one, measure))} {NAMES[measure]}" for measure in one.losses)
    text = f"COFFER_CONF={one.configuration.conf} takes {gains}"
    return f"{text}, for {losses}" if losses else f"{text}, and nothing else is measurably worse"


def verdict(outcome: Outcome) -> str:
    """The best at no cost, and what gains more at a cost."""
    held = outcome.front
    tried = sum(1 for one in outcome.trial.tried() if one.values)
    if not held:
        return (f"The defaults are as good as anything found: of {tried} configurations none was better, beyond noise, "
                f"on what was kept for judging.")
    free = min((one for one in held if one.is_free), default=None,
               key=lambda one: one.judged["peak"].value * one.judged["time"].value)
    told = [f"{sentence(free)}." if free else "Nothing is better at no cost."]
    for measure in ("peak", "time"):
        best = min((one for one in held if measure in one.gains), default=None,
                   key=lambda one, measure=measure: one.judged[measure].value)  # type: ignore[misc]
        if best and best.losses and f"{sentence(best)}." not in told:
            told.append(f"{sentence(best)}.")
    return " ".join(told)


def pair(found: dict[str, Estimate]) -> str:
    return ", ".join(f"{found[measure].value:.3f}" for measure in ("peak", "time")) if found else "-"


def lines(outcome: Outcome) -> list[list[str]]:
    """The front, the noise, and then the finalists that are not on it."""
    front = outcome.front
    rest = [one for one in outcome.found if one not in front]
    result = [line(one, "yes") for one in front]
    result.append(["the defaults again", *cells(outcome.noise), "-", "-", "-"])
    return result + [line(one, one.why_not or "yes; another is as good") for one in rest]


def line(one: Judged, holds: str) -> list[str]:
    return [one.configuration.conf, *cells(one.judged), pair(one.chosen), pair(one.confirmed), holds]


def cells(found: dict[str, Estimate]) -> list[str]:
    return [str(found["peak"]), str(found["time"]), f"{found['mean'].value:.3f}", f"{found['processor'].value:.3f}"]


def defaults(outcome: Outcome) -> str:
    trial, parts = outcome.trial, outcome.split.judge
    said = [f"{part} {peak:,.0f} KiB at its peak, {spent / 1e6:.1f} ms in calls" for part, peak, spent
            in zip(parts, trial.defaults(parts, "peak"), trial.defaults(parts, "time"))]
    return f"The defaults: {'; '.join(said)}."


def basis(outcome: Outcome) -> str:
    facts = outcome.split.facts
    rounds = max(len(by_round) for by_round in outcome.trial.taken[outcome.split.judge[0]].values())
    second = f" ({outcome.check})" if outcome.check else ""
    return (f"{outcome.trace}: {facts['operations']:,} operations of {facts['threads']} "
            f"thread{'' if facts['threads'] == 1 else 's'}; {outcome.split.describe()}{second}. "
            f"{outcome.trial.plays} replays, {rounds} rounds of judgement, seed {outcome.seed}.")


def failures(outcome: Outcome) -> list[str]:
    return [f"{one}: {why}" for one, why in outcome.trial.failed.items()]


def show(console: Console, outcome: Outcome) -> None:
    console.print(Text(verdict(outcome), style="bold"))
    console.print(Text(f"\n{basis(outcome)} {defaults(outcome)}"))
    console.print(make_table("", HEAD, lines(outcome)))
    console.print(Text(NOTE, style="dim"))
    for text in failures(outcome):
        console.print(Text(f"left out, since its replay failed: {text}"))


def as_markdown(outcomes: Sequence[Outcome], command: str, facts: str) -> str:
    """A page for docs/results or for a colleague."""
    parts = [NOTE]
    for one in outcomes:
        parts += [f"## {one.trace.stem}", f"**{verdict(one)}**", f"{basis(one)} {defaults(one)}",
                  tables.markdown_table(HEAD, lines(one)), *(f"Left out: {text}." for text in failures(one))]
    return tables.markdown_page("Options for recorded programs", command, facts, parts)


def estimate_json(found: Estimate) -> dict[str, Any]:
    return {key: None if math.isnan(value) else round(value, 5)
            for key, value in (("ratio", found.value), ("low", found.low), ("high", found.high))}


def as_json(outcome: Outcome) -> dict[str, Any]:
    def all_of(found: dict[str, Estimate]) -> dict[str, Any]:
        return {measure: estimate_json(one) for measure, one in found.items()}

    split, front = outcome.split, outcome.front
    return {
        "trace": str(outcome.trace), "check": str(outcome.check) if outcome.check else None, "seed": outcome.seed,
        "operations": split.facts["operations"], "threads": split.facts["threads"], "verdict": verdict(outcome),
        "chosen_by": list(split.choose), "judged_by": list(split.judge), "confirmed_by": list(split.confirm),
        "replays": outcome.trial.plays, "noise": all_of(outcome.noise),
        "defaults": {part: {measure: outcome.trial.defaults([part], measure)[0] for measure in MEASURES}
                     for part in split.judge},
        "configurations": [{
            "conf": one.configuration.conf, "holds": not one.why_not, "why_not": one.why_not or None,
            "on_front": one in front, "free": one.is_free, "gains": one.gains, "losses": one.losses,
            "chosen": all_of(one.chosen), "judged": all_of(one.judged), "confirmed": all_of(one.confirmed) or None,
        } for one in outcome.found],
        "failed": {str(one): why for one, why in outcome.trial.failed.items()},
    }
