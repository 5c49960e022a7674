# SPDX-License-Identifier: MIT
"""Compiles a trace once and plays it under each allocator, in turn."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer import patience, places
from coffer.errors import CofferError
from coffer_bench import allocators, processes
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError

ALLOCATOR_FAILED = 3  # replay_play's status


class ReplayFailed(CofferError):
    """The replay under one allocator went wrong."""


@dataclass(frozen=True)
class Options:
    touch: str = "all"
    gaps: str = ""  # between operations: nothing, "gaps" (time) or "instructions"
    lead: int = 0  # 0: a thousandth of the trace, at least 1000
    rounds: int = 1
    timeout: float = 600.0


@dataclass
class Result:
    """What one allocator did: the round in which it took least time, or why there is none."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def fragmentation(self) -> float:
        """Paper 1: the most memory held over the most memory live. Headers are not counted as live."""
        return self.figures["memory"]["peak_kib"] * 1024 / max(1, self.figures["peak_live"])

    def as_json(self) -> dict[str, Any]:
        if self.failure:
            return {"allocator": self.name, "failure": self.failure}
        samples = [dict(zip(("operation", "ns", "kib", "live", "live_replayed"), one))
                   for one in self.figures["samples"]]
        for one in samples:
            one["fragmentation"] = round(one["kib"] * 1024 / one["live"], 4) if one["live"] else None
        return {"allocator": self.name, **self.figures, "fragmentation": self.fragmentation, "samples": samples}


def choose(names: str) -> list[Allocator]:
    """Of a list with commas. The same names and files as coffer bench has."""
    chosen = list(dict.fromkeys(filter(None, (name.strip() for name in names.split(",")))))
    if not chosen:
        raise CofferError("no allocator is named")
    try:
        return allocators.find(chosen, places.build_dir())
    except BenchError as error:
        raise CofferError(str(error)) from error


def files_of(chosen: list[Allocator]) -> list[Path]:
    return [allocator.library for allocator in chosen if allocator.library]


@contextlib.contextmanager
def compiled(trace: Path, gaps: str = "") -> Iterator[tuple[Path, dict[str, Any]]]:
    """The plan's file, which goes when it is no longer needed, and what the trace is."""
    program = places.program("replay_plan")
    with tempfile.TemporaryDirectory(prefix="coffer-replay-") as directory:
        plan = Path(directory) / "plan"
        command = [program, trace, plan, *filter(None, [gaps])]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            why = done.stderr.strip() or f"replay_plan ended with {describe_status(done.returncode)}"
            raise CofferError(why)
        yield plan, json.loads(done.stdout)


def describe_status(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def play(plan: Path, allocator: Allocator, options: Options) -> dict[str, Any]:
    """One round under one allocator."""
    command = [places.program("replay_play"), f"plan={plan}", f"touch={options.touch}", f"lead={options.lead}"]
    try:
        process = processes.start(command, allocator.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
    except BenchError as error:
        raise CofferError(str(error)) from error
    try:
        output, complaint = process.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired as error:
        raise ReplayFailed(f"not done in {options.timeout:.0f} s (--timeout)") from error
    finally:
        processes.kill_group(process)
    said = complaint.decode(errors="replace").strip()
    if process.returncode == ALLOCATOR_FAILED:
        raise ReplayFailed(said)
    if process.returncode != 0:
        raise ReplayFailed(": ".join(filter(None, [f"ended with {describe_status(process.returncode)}", said])))
    try:
        figures = json.loads(output)
    except ValueError as error:
        raise ReplayFailed(f"no figures in {output[:200]!r}") from error
    try:
        allocators.verify_library(allocator, figures["library"])
    except BenchError as error:
        raise ReplayFailed(f"{error}{': ' + said if said else ''}") from error
    return figures


def replay(trace: Path, chosen: list[Allocator], options: Options) -> tuple[dict[str, Any], list[Result]]:
    """Rounds are taken in turn, so that what disturbs the machine disturbs all."""
    if not trace.is_file():
        raise CofferError(f"{trace}: {'no regular file' if trace.exists() else 'no such file'}")
    results = [Result(allocator.name) for allocator in chosen]
    with patience.bar(f"replaying {trace.name}", 1 + options.rounds * len(chosen)) as step:
        with compiled(trace, options.gaps) as (plan, facts):
            step("")
            for _ in range(options.rounds):
                for allocator, result in zip(chosen, results):
                    if not result.failure:
                        try:
                            take(result, play(plan, allocator, options))
                        except ReplayFailed as error:
                            result.failure = str(error)
                    step(allocator.name)
    return facts, results


def take(result: Result, figures: dict[str, Any]) -> None:
    """Keeps the round with least time in the allocator. The counts are the same in each."""
    if result.figures and result.figures["operations"] != figures["operations"]:
        raise ReplayFailed("two rounds did not do the same operations")
    if not result.figures or figures["calls"]["all"]["ns"] < result.figures["calls"]["all"]["ns"]:
        result.figures = figures


def load_warning() -> str:
    """Empty on a quiet machine."""
    busy = os.getloadavg()[0]
    count = len(os.sched_getaffinity(0))
    return f"the machine is busy (load {busy:.1f} on {count} processors): times are too long" if busy > count else ""
