# SPDX-License-Identifier: MIT
"""The part that compares latencies: short turns of one server under one allocator after the other, in rounds."""

from __future__ import annotations

import os
import random
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.processes import on_processors

from soak import faults, latency
from soak.programs import Soaked
from soak.results import Log

START_SECONDS = 1.5  # about what a turn takes besides
# Rounds of turns as short as they may be tell more than few long ones: how fast a machine is changes from minute to
# minute, and a turn of 20 s differs from the next one by as much as a turn of 2 s (p99.9 of nginx: by 30 to 50 %).
ROUNDS = (6, 400)
SEED = 20


def rounds_of(seconds: float, allocators: int, load: float) -> int:
    """How many rounds of turns with so many seconds of load, for one program."""
    turn = load + START_SECONDS
    return min(ROUNDS[1], max(ROUNDS[0], round(seconds / allocators / turn)))


def turns_until(number: int, mine: int, rounds: int) -> int:
    """How many of its rounds a program has had after so many of all."""
    return -(-number * mine // rounds)


def bound(apart: bool, to: slice) -> AbstractContextManager[None]:
    """What is started here runs on some of the processors only, if there are two. Where a server and its load compete
    for a processor, the slowest requests are those that waited for it: p99 of nginx with two workers, and wrk, on two
    processors differs by 30 % from turn to turn, apart by 10 %."""
    allowed = sorted(os.sched_getaffinity(0))
    return on_processors(allowed[to] if apart and len(allowed) > 1 else allowed)


def run_turn(program: Soaked, allocator: Allocator, inputs: Path, number: int, log: Log) -> None:
    where = {"program": program.name, "allocator": allocator.name, "round": number}
    try:
        with program.home(inputs) as home, ExitStack() as server:
            with bound(program.apart, slice(None, -1)):
                server.enter_context(program.running(allocator, home))
            with bound(program.apart, slice(-1, None)):
                program.load(home, program.warm_seconds)
                found = program.load(home, program.turn_seconds)
            server.close()
            printed = (home / "server.log").read_text(errors="replace")
        log.append({"kind": "turn", **where, "count": found.get_total_count(), "us": latency.percentiles(found),
                    "histogram": latency.encoded(found)})
        if lines := faults.told(printed, program.harmless):
            log.append({"kind": "fault", **where, "seconds": 0.0, "what": "said in a turn", "text": "\n".join(lines)})
    except (BenchError, OSError) as error:
        log.append({"kind": "fault", **where, "seconds": 0.0, "what": "turn failed", "text": str(error)[:2000]})
        log.say(f"{program.name} under {allocator.name}: {error}")


def run_all(programs: list[tuple[Soaked, Path]], allocators: list[Allocator], seconds: float, log: Log) -> None:
    """Rounds over all programs, so that each has turns early and late: in some rounds those of long turns are left out,
    for each gets as much time. The first one is whole, and none begins after the time."""
    chance = random.Random(SEED)
    of = {one.name: rounds_of(seconds / len(programs), len(allocators), one.warm_seconds + one.turn_seconds)
          for one, _ in programs}
    rounds = max(of.values())
    began = time.monotonic()
    for number in range(1, rounds + 1):
        if number > 1 and time.monotonic() - began > seconds:
            break
        for program, inputs in programs:
            if turns_until(number, of[program.name], rounds) == turns_until(number - 1, of[program.name], rounds):
                continue
            for allocator in chance.sample(allocators, len(allocators)):
                run_turn(program, allocator, inputs, number, log)
        log.say(f"latencies: round {number} of {rounds}, {(time.monotonic() - began) / 60:.1f} minutes")
