# SPDX-License-Identifier: MIT
"""Instructions inside malloc and free by callgrind, their slow paths included, without the loop and the calls.

A count is (run of 2N rounds - run of N rounds) / N, minus the same difference of a program that calls stubs in the same
way, plus the stubs' own instructions. It is the same on every run.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.callgrind import count_all, function_length

# A multiple of everything that recurs in bench/workloads/instructions.cpp: batches, windows, orders of freeing.
ROUNDS = 32_000


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[str, ...]
    allocation: str = "malloc"


CASES = [
    Case("malloc(64) + free", ("what=pair", "size=64")),
    Case("malloc(1024) + free", ("what=pair", "size=1024")),
    Case("malloc(16..512) + free", ("what=mixed",)),
    Case("calloc(64) + free", ("what=calloc", "size=64"), "calloc"),
    Case("window of 100, 64 B", ("what=window", "size=64")),
    Case("batch of 1,000, random order, 64 B", ("what=batch", "size=64")),
    Case("replace in 1,000, 16..512 B", ("what=replace",)),
    Case("malloc(64), free by another thread", ("what=remote", "size=64")),
]

Counts = dict[tuple[str, str], float]  # by case and allocator

# Limits, by case and library; see docs/architecture.md.
BUDGETS = {
    ("malloc(64) + free", "coffer"): 52.0,
    ("malloc(64) + free", "nocheck"): 40.0,
    ("batch of 1,000, random order, 64 B", "nocheck"): 50.0,
}


# What a run took at least, of those of this process.
least: dict[tuple[Allocator | str, ...], int] = {}


def count_rounds(allocator: Allocator, program: Path, case: Case) -> float:
    """Instructions of a round of the program, after everything that happens only at the start. There an allocator's
    clock may meddle on a busy machine, and only adds: of either run the least is taken that was ever counted, so that a
    second count can only come closer."""

    def count(rounds: int) -> int:
        command = [str(program), *case.arguments, f"rounds={rounds}"]
        key = (allocator, *command)
        least[key] = min(least.get(key, 1 << 62), count_all(allocator, command))
        return least[key]

    once, twice = count(ROUNDS), count(2 * ROUNDS)
    return (twice - once) / ROUNDS


@functools.cache
def count_empty(programs: Path, case: Case) -> float:
    """Of the loop and its calls alone, which is the same for every allocator."""
    return count_rounds(Allocator("glibc", None), programs / "instructions_stub", case)


def count_cases(cases: list[Case], allocators: list[Allocator], programs: Path, jobs: int) -> Counts:
    stub_library = programs / "libbench_stub.so"
    stubs = {name: function_length(stub_library, f"bench_stub_{name}") for name in ("malloc", "calloc", "free")}
    with ThreadPoolExecutor(jobs) as pool:
        empty = {case.name: pool.submit(count_empty, programs, case) for case in cases}
        full = {
            (case.name, allocator.name): pool.submit(count_rounds, allocator, programs / "instructions", case)
            for case in cases
            for allocator in allocators
        }
        return {
            (case.name, allocator.name): full[case.name, allocator.name].result()
            - empty[case.name].result()
            + stubs[case.allocation]
            + stubs["free"]
            for case in cases
            for allocator in allocators
        }
