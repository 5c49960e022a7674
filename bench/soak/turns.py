# SPDX-License-Identifier: MIT
"""The part that compares latencies: short turns of one server under one allocator after the other, in rounds."""

from __future__ import annotations

import random
import time
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError

from soak import faults, latency
from soak.programs import Soaked
from soak.results import Log

TURN = (2.0, 60.0)  # seconds of load
WARM = 0.2  # of that, before it
START_SECONDS = 4.0  # about what a turn takes besides
ROUNDS = (6, 20)
WANTED_SECONDS = 20.0
SEED = 20


def rounds_of(seconds: float, allocators: int) -> tuple[int, float]:
    """How many rounds, and the seconds of load of a turn, for one program."""
    of_turn = seconds / allocators
    rounds = round(of_turn / (WANTED_SECONDS * (1 + WARM) + START_SECONDS))
    rounds = min(ROUNDS[1], max(ROUNDS[0], rounds))
    load = (of_turn / rounds - START_SECONDS) / (1 + WARM)
    return rounds, min(TURN[1], max(TURN[0], load))


def run_turn(program: Soaked, allocator: Allocator, inputs: Path, seconds: float, number: int, log: Log) -> None:
    where = {"program": program.name, "allocator": allocator.name, "round": number}
    try:
        with program.home(inputs) as home:
            with program.running(allocator, home):
                program.load(home, max(1.0, seconds * WARM))
                found = program.load(home, seconds)
            printed = (home / "server.log").read_text(errors="replace")
        log.append({"kind": "turn", **where, "count": found.get_total_count(), "us": latency.percentiles(found),
                    "histogram": latency.encoded(found)})
        if lines := faults.told(printed, program.harmless):
            log.append({"kind": "fault", **where, "seconds": 0.0, "what": "said in a turn", "text": "\n".join(lines)})
    except (BenchError, OSError) as error:
        log.append({"kind": "fault", **where, "seconds": 0.0, "what": "turn failed", "text": str(error)[:2000]})
        log.say(f"{program.name} under {allocator.name}: {error}")


def run_all(programs: list[tuple[Soaked, Path]], allocators: list[Allocator], seconds: float, log: Log) -> None:
    """Rounds over all programs, so that each has turns early and late. The first one is whole, and none begins after
    the time."""
    chance = random.Random(SEED)
    rounds, load = rounds_of(seconds / len(programs), len(allocators))
    began = time.monotonic()
    for number in range(1, rounds + 1):
        if number > 1 and time.monotonic() - began > seconds:
            break
        for program, inputs in programs:
            for allocator in chance.sample(allocators, len(allocators)):
                run_turn(program, allocator, inputs, load, number, log)
        log.say(f"latencies: round {number} of {rounds}, {(time.monotonic() - began) / 60:.1f} minutes")
