# SPDX-License-Identifier: MIT
"""A trace in parts, some to choose by and some to judge by, and a replay of one under options of Coffer."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coffer.errors import CofferError
from coffer.replay import play
from coffer.trace import program
from coffer.tune.space import Configuration
from coffer.tune.trial import Figures

QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
WHOLE, CHECK = "whole", "check"
LEAST_OPERATIONS = 4000  # a thousand a quarter: below that the library's first pages are most of what is seen


@dataclass(frozen=True)
class Split:
    """Which part is for what, by name."""

    choose: tuple[str, ...]
    judge: tuple[str, ...]
    confirm: tuple[str, ...]  # must not contradict: it has the parts that were chosen by
    facts: dict[str, Any]  # of the whole trace
    plans: dict[str, Path]

    def describe(self) -> str:
        if self.judge == (CHECK,):
            return "chosen by the whole trace, judged by the second trace"
        return ("chosen by its 1st and 3rd quarter, judged by the 2nd and 4th, which the search never saw, and "
                "confirmed by the whole")


def cut(trace: Path, folder: Path) -> dict[str, Path]:
    """Each quarter begins with what is live there."""
    events = program.survey(trace)["events"]
    quarters = {}
    for number, name in enumerate(QUARTERS):
        target = folder / f"{number}.trace"
        target.touch()
        program.run("cut", [trace], out=target, event_from=events * number // 4,
                    event_to=events * (number + 1) // 4 - 1, live=True)
        quarters[name] = target
    return quarters


@contextlib.contextmanager
def split(trace: Path, check: Path | None, gaps: str) -> Iterator[Split]:
    """Plans for all parts, which go at the end."""
    for path in filter(None, [trace, check]):
        program.check_input(path)
    with contextlib.ExitStack() as stack:
        plans: dict[str, Path] = {}

        def compile_plan(name: str, path: Path, said: Path) -> dict[str, Any]:
            plans[name], facts = stack.enter_context(play.compiled(path, gaps))
            if facts["operations"] < LEAST_OPERATIONS // (1 if name in (WHOLE, CHECK) else 8):
                raise CofferError(f"{said}: {facts['operations']} operations{'' if path == said else f' in its {name}'}"
                                  f" are too few to judge by; a trace needs {LEAST_OPERATIONS}, over its whole length")
            return facts

        facts = compile_plan(WHOLE, trace, trace)
        if check:
            compile_plan(CHECK, check, check)
            yield Split((WHOLE,), (CHECK,), (), facts, plans)
            return
        with tempfile.TemporaryDirectory(prefix="coffer-tune-") as folder:
            for name, path in cut(trace, Path(folder)).items():
                compile_plan(name, path, trace)
        yield Split(QUARTERS[0::2], QUARTERS[1::2], (WHOLE,), facts, plans)


@dataclass
class Replayer:
    """Plays parts under Coffer. Options of COFFER_CONF stay: they are the defaults here."""

    plans: dict[str, Path]
    options: play.Options
    conf: str = "strict:true"  # a configuration that Coffer does not take must not look as good as the defaults

    def __post_init__(self) -> None:
        self.coffer, = play.choose("coffer")

    def __call__(self, part: str, one: Configuration) -> Figures:
        conf = ",".join(filter(None, [one.conf, self.conf]))
        found = play.play(self.plans[part], dataclasses.replace(self.coffer, options=conf), self.options)
        held = [kib for _, _, kib, _, _ in found["samples"]]
        peak = found["memory"]["peak_kib"]
        return Figures(peak, math.fsum(held) / len(held) if held else peak, found["calls"]["all"]["ns"],
                       found["processor_ns"])
