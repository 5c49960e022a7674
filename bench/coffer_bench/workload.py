# SPDX-License-Identifier: MIT
"""What a workload is. All give figures of the same names:

time_ns   of an operation, by the workload's own metric (wall time where nothing else is said)
cpu_ns    of an operation, over all threads
peak_kib  the most resident memory plus page tables; end_kib: when all is freed
faults    page faults
digest    of what was computed: the same under every allocator
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from coffer_bench import index_rows
from coffer_bench.allocators import PAPERS as PAPER_ALLOCATORS
from coffer_bench.allocators import Allocator

Figures = dict[str, float | str]

PAPERS, FAST, PATTERNS, INDEX, PLAIN, REAL = (
    "papers",
    "fast paths",
    "memory patterns",
    "cache indices",
    "other",
    "real programs",
)
GROUPS = {
    PAPERS: "the papers' experiments",
    REAL: "programs that people use, from Debian's packages",
    PLAIN: "asymmetric frees, realloc growth, large blocks, calloc, groups, limits, start-up, servers",
    FAST: "one malloc and free after the other",
    PATTERNS: "what makes many allocators hold more than is live",
    INDEX: "programs whose time depends on where blocks lie in the cache",
}


@dataclass(frozen=True)
class Workload:
    name: str
    group: str
    run: Callable[[Allocator], Figures]
    unit: str = "ns"
    timed: bool = True
    memory: bool = True
    threads: int = 1
    paper: str = ""
    figure: str = ""
    # A run that records the latency of each call into a file; its other figures are not to be used.
    latency: Callable[[Allocator, Path], object] | None = None
    # For the simulated caches: the row whose addresses of a lap are listed, or a command for cachegrind.
    row: index_rows.Row | None = None
    traced: tuple[str, ...] = ()
    what: str = ""
    prepare: Callable[[], None] | None = None
    # Uses no allocator: stands beside the others in the paper's figure, and in no mean.
    baseline: bool = False
    most_rounds: int = 1000  # more would say little for the time that they take
    # Shows what an idea of the papers is worth: run under their own allocators, too, though nobody named them.
    with_papers: bool = False
    # Its figure is that of single calls, which differ by powers of ten: it stands in a table of its own, and in no mean
    # of times.
    single: bool = False
    # Allocators that cannot run it.
    without: tuple[str, ...] = ()

    def takes(self, allocator: Allocator) -> bool:
        if allocator.name in self.without:
            return False
        return self.with_papers or allocator.name not in PAPER_ALLOCATORS


@dataclass(frozen=True)
class Settings:
    build_dir: Path
    quick: bool = False
    scale: float = 1.0  # of everything, beyond what quick does
    threads: tuple[int, ...] = ()  # empty: what each workload says, as far as there are processors
    timeout: float = 90.0
    with_papers: bool = False  # the papers' allocators in every workload: they were named

    @property
    def bench_dir(self) -> Path:
        return self.build_dir.resolve() / "bench"

    def choose_threads(self, listed: Iterable[int]) -> list[int]:
        """1, 2, 4 … as far as there are processors; quick: the most of them."""
        listed = list(listed)
        if not listed:
            return [0]
        if self.threads:
            return list(self.threads)
        most = len(os.sched_getaffinity(0))
        if listed == [1, 2]:
            listed += [1 << power for power in range(2, 10)]
        fit = [count for count in listed if count <= most] or [min(listed)]
        return fit[-1:] if self.quick else fit
