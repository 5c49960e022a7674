# SPDX-License-Identifier: MIT
"""Runs workloads under allocators: in rounds, in each of them every workload under every allocator, one after the other
in an order that a seed shuffles anew for each workload and round."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from coffer_bench.allocators import Allocator
from coffer_bench.workload import Workload
from coffer_bench.errors import BenchError
from coffer_bench.samples import Record, Writer

Notice = Callable[[str], None]


def shuffled(allocators: Sequence[Allocator], seed: int, workload: str, number: int) -> list[Allocator]:
    """Depends on nothing else, so that a run that goes on after an interruption keeps the order."""
    return random.Random(f"{seed}/{workload}/{number}").sample(list(allocators), len(allocators))


@dataclass
class Limits:
    """When to stop. The time is that of the whole run, interruptions left out."""

    rounds: int
    seconds: float
    spent: float = 0.0  # before an interruption
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        return self.seconds - self.spent - (time.monotonic() - self.started)


@dataclass
class Run:
    """The state of a run: what is sampled already, what has failed, how long each workload takes."""

    allocators: list[Allocator]
    workloads: list[Workload]
    writer: Writer
    limits: Limits
    seed: int = 1
    done: set[tuple[str, str, int]] = field(default_factory=set)
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    digests: dict[str, dict[str, str]] = field(default_factory=dict)  # by workload and allocator
    seconds: dict[str, float] = field(default_factory=dict)  # by workload: of all allocators, in its last round
    cut: set[str] = field(default_factory=set)

    def take_over(self, records: list[Record]) -> None:
        """What an interrupted run has left."""
        for record in records:
            if record["kind"] == "sample":
                self.done.add((record["workload"], record["allocator"], record["round"]))
                if digest := record["figures"].get("digest"):
                    self.digests.setdefault(record["workload"], {})[record["allocator"]] = digest
                if record["round"] == 1:
                    self.seconds[record["workload"]] = self.seconds.get(record["workload"], 0) + record["seconds"]
            elif record["kind"] == "failure" and "pass" not in record:
                self.failed[record["workload"], record["allocator"]] = record["message"]
            self.limits.spent += record.get("seconds", 0.0)

    def plan_round(self, number: int) -> list[Workload]:
        return [
            workload for workload in self.workloads if number <= workload.most_rounds and self.missing(workload, number)
        ]

    def missing(self, workload: Workload, number: int) -> list[Allocator]:
        return [
            allocator
            for allocator in shuffled(self.allocators, self.seed, workload.name, number)
            if workload.takes(allocator)
            and (workload.name, allocator.name, number) not in self.done
            and (workload.name, allocator.name) not in self.failed
        ]

    def fits(self, workload: Workload) -> bool:
        return self.limits.left() > self.seconds.get(workload.name, 0.0)

    def run_round(self, number: int, notice: Notice) -> Iterator[Workload]:
        """Yields each workload when it is done. Those that would end too late are left out, and those whose first round
        that is are remembered in `cut`."""
        for workload in self.plan_round(number):
            if not self.fits(workload):
                if number == 1:
                    self.cut.add(workload.name)
                continue
            started = time.monotonic()
            if workload.prepare:
                notice(f"{workload.name}: making its inputs")
                self.prepare(workload)
            for allocator in self.missing(workload, number):
                notice(f"round {number}: {workload.name}: {allocator.name}")
                self.sample(workload, allocator, number)
            self.compare_answers(workload)
            self.seconds[workload.name] = max(time.monotonic() - started, 0.001)
            yield workload

    def prepare(self, workload: Workload) -> None:
        try:
            workload.prepare()
        except BenchError as error:
            for allocator in filter(workload.takes, self.allocators):
                self.fail(workload, allocator, f"its inputs: {error}", 0.0)

    def sample(self, workload: Workload, allocator: Allocator, number: int) -> None:
        started = time.monotonic()
        try:
            figures = workload.run(allocator)
            digest = figures.get("digest")
            if digest is not None:
                before = self.digests.setdefault(workload.name, {}).setdefault(allocator.name, str(digest))
                if digest != before:
                    raise BenchError(f"{workload.name}: the answer is {digest}, in another round {before}")
        except BenchError as error:
            self.fail(workload, allocator, str(error), time.monotonic() - started)
            return
        self.done.add((workload.name, allocator.name, number))
        self.writer.append(
            {
                "kind": "sample",
                "workload": workload.name,
                "allocator": allocator.name,
                "round": number,
                "figures": figures,
                "seconds": round(time.monotonic() - started, 4),
            }
        )

    def compare_answers(self, workload: Workload) -> None:
        """The workload must compute the same under every allocator: as under glibc, or else as under most."""
        found = self.digests.get(workload.name, {})
        if len(set(found.values())) < 2:
            return
        expected = found.get("glibc") or Counter(found.values()).most_common(1)[0][0]
        for allocator in self.allocators:
            digest = found.get(allocator.name, expected)
            if digest != expected and (workload.name, allocator.name) not in self.failed:
                self.fail(
                    workload,
                    allocator,
                    f"{workload.name}: the answer under {allocator.name} is {digest}, and {expected} under others",
                    0.0,
                )

    def fail(self, workload: Workload, allocator: Allocator, message: str, seconds: float) -> None:
        """It is not tried again, and its samples so far do not count."""
        self.failed[workload.name, allocator.name] = message
        self.writer.append(
            {
                "kind": "failure",
                "workload": workload.name,
                "allocator": allocator.name,
                "message": message,
                "seconds": round(seconds, 4),
            }
        )
