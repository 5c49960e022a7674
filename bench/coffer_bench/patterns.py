# SPDX-License-Identifier: MIT
"""The memory patterns: which programs run with which arguments, what is shown of them, and Coffer's targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coffer_bench import drawn
from coffer_bench.allocators import Allocator, run_json

KIB = 1024

Sample = dict[str, float]


@dataclass(frozen=True)
class Run:
    """A program with its arguments; rows that show figures of the same run share it."""

    program: str
    arguments: dict[str, int | str] = field(default_factory=dict)
    wide: bool = False
    seeds: tuple[int, ...] = ()  # of programs drawn at random, whose means are one sample

    @property
    def key(self) -> str:
        seeds = [f"seed={','.join(map(str, self.seeds))}"] if self.seeds else []
        return " ".join([self.program, *(f"{key}={value}" for key, value in self.arguments.items()), *seeds])

    def command(self, programs: Path) -> list[str]:
        return [str(programs / self.program), *(f"{key}={value}" for key, value in self.arguments.items())]

    def measure(self, allocator: Allocator, programs: Path) -> Sample:
        if self.seeds:
            return drawn.run_seeds(allocator, programs, self.seeds)
        return run_json(allocator, self.command(programs))


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    run: Run
    figure: str  # of the program, or one of FIGURES
    target: float | None = None  # Coffer's, at most


# Figures that are computed from those that a program prints.
FIGURES = {
    # What the process holds at the end above what it held before its first allocation.
    "end_mb": lambda sample: (sample["end_kib"] - sample["start_kib"]) * KIB / 1e6,
    "peak_mb": lambda sample: (sample["peak_kib"] - sample["start_kib"]) * KIB / 1e6,
    "kib_a_thread": lambda sample: sample["bytes_a_thread"] / KIB,
}

RING = Run("ring")
RING_64 = Run("ring", {"low": 64, "high": 64, "octaves": 0})
REMOTE = Run("idle_owners", {"local": 0})
LOCAL = Run("idle_owners", {"local": 1})
ANY_SIZE = Run("idle_owners", {"local": 1, "low": 16, "high": 1024, "octaves": 1})
STOPPED = Run("idle_owners", {"stopped": 1})
THREADS = Run("idle_threads", wide=True)
CHURN = Run("idle_threads", {"churn": 1})
PHASES = Run("phases")
DRIFT = Run("drift")
DRAWN = Run("drawn", seeds=drawn.IN_BENCH)
GIVE_BACK = Run("give_back")
BREATHING = Run("breathing")
SMALL = Run("small")
THREADTEST, SHBENCH, LARSON = (Run("fragmentation", {"workload": name}) for name in ("threadtest", "shbench", "larson"))
BARNES_HUT = Run("barnes_hut", {"rounds": 10})

ROWS = [
    Row("ring of 16", "peak/live", RING, "ratio", 1.2),
    Row("ring of 16, one size", "peak/live", RING_64, "ratio", 1.2),
    Row("idle owners, every free remote", "peak/live", REMOTE, "ratio", 1.05),
    Row("idle owners, local frees too", "peak/live", LOCAL, "ratio", 1.05),
    Row("idle owners, stopped at work", "peak/live", STOPPED, "ratio", 1.05),
    Row("idle owners, any size", "peak/live", ANY_SIZE, "ratio"),
    Row("idle owners, any size", "peak/first", ANY_SIZE, "growth", 1.05),
    Row("1,000 idle threads", "KiB a thread", THREADS, "kib_a_thread", 16),
    Row("10,000 threads come and go", "KiB grown", CHURN, "growth_kib", 64),
    Row("ten phases", "peak/live", PHASES, "ratio", 1.85),
    Row("drifting phases, 4 threads", "peak/live", DRIFT, "ratio"),
    Row("drifting phases, 4 threads", "ns CPU a block", DRIFT, "cpu_ns_a_block"),
    Row(drawn.workload_name(drawn.IN_BENCH), "peak/live", DRAWN, "ratio"),
    Row("500 MB freed, 2 s later", "MB", GIVE_BACK, "end_mb", 10),
    Row("breathing", "faults a breath", BREATHING, "faults_a_breath"),
    Row("breathing", "ms CPU a breath", BREATHING, "cpu_ms_a_breath"),
    Row("breathing, 2 s later", "MB", BREATHING, "end_mb", 10),
    Row("0.8 MB in 2,000 blocks", "MB", SMALL, "peak_mb", 0.87),
    Row("threadtest", "A/U", THREADTEST, "ratio"),
    Row("shbench", "A/U", SHBENCH, "ratio"),
    Row("larson", "A/U", LARSON, "ratio"),
    Row("Barnes-Hut", "A/U", BARNES_HUT, "ratio"),
]

# KiB that a process holds before it allocates, above glibc's; bench/startup.py measures it better.
STARTUP_TARGET = 120
# Fewer say nothing about it: how much of the C library is resident differs by a hundred KiB from start to start.
LEAST_STARTS = 30


def bound_limit(sample: Sample) -> float:
    """What `bound` itself may be at most, in KiB; see docs/design/bound.md."""
    return 1.5 * sample["live_kib"] + 128 * sample["heaps"] + 16 * 1024


BOUND_RUNS = [RING, RING_64, REMOTE, LOCAL, STOPPED, THREADS]


def value_of(row: Row, sample: Sample) -> float:
    return FIGURES[row.figure](sample) if row.figure in FIGURES else sample[row.figure]
