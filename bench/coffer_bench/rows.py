# SPDX-License-Identifier: MIT
"""What bench/quick.py measures: one row is one program with its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    name: str
    program: str
    operations: int
    arguments: dict[str, int | str] = field(default_factory=dict)
    fast: bool = False  # spends its time on the fast path: compared by --vs
    memory: bool = False  # holds enough that its peak says something
    counted: bool = True  # has an argument `operations`

    def command(self, programs: str, scale: float) -> list[str]:
        arguments = dict(self.arguments)
        if self.counted:
            arguments["operations"] = max(20, int(self.operations * scale))
        return [f"{programs}/{self.program}", *(f"{key}={value}" for key, value in arguments.items())]


def pair(size: int, operations: int, fast: bool) -> Row:
    return Row(f"pair {size}", "pairs", operations, {"size": size}, fast=fast)


# Operations are set so that a run takes 20 to 150 ms under most allocators on a machine of 2025.
ROWS = [
    pair(16, 8_000_000, True),
    pair(64, 8_000_000, True),
    pair(256, 8_000_000, True),
    pair(1024, 8_000_000, True),
    pair(4096, 4_000_000, False),
    pair(32768, 4_000_000, False),
    Row("pair 64, 2 threads", "pairs", 16_000_000, {"size": 64, "threads": 2}),
    Row("batch lifo", "batch", 8_000_000, {"order": "lifo"}, fast=True),
    Row("batch fifo", "batch", 8_000_000, {"order": "fifo"}, fast=True),
    Row("batch random", "batch", 8_000_000, {"order": "random"}, fast=True),
    Row("batch of 48 bytes, lifo", "batch", 8_000_000, {"order": "lifo", "size": 48}),
    Row("batch of 48 bytes, fifo", "batch", 8_000_000, {"order": "fifo", "size": 48}),
    Row("batch of 48 bytes, random", "batch", 8_000_000, {"order": "random", "size": 48}),
    Row("window of 100", "batch", 8_000_000, {"order": "window", "count": 100}, fast=True),
    Row("batch random, 2 threads", "batch", 12_000_000, {"order": "random", "threads": 2}),
    Row("sizes 16-512", "random", 4_000_000, {"slots": 30_000}, fast=True, memory=True),
    Row("sizes 16-512, 2 threads", "random", 6_000_000, {"slots": 30_000, "threads": 2}, memory=True),
    Row("sizes to 32 KiB", "random", 800_000, {"high": 32768, "logarithmic": 1, "slots": 4000}, memory=True),
    Row(
        "sizes to 32 KiB, 2 threads",
        "random",
        1_000_000,
        {"high": 32768, "logarithmic": 1, "slots": 4000, "threads": 2},
        memory=True,
    ),
    Row("producer, consumer 64", "handover", 500_000),
    Row("producer, consumer 16-512", "handover", 500_000, {"low": 16, "high": 512}, memory=True),
    Row("beside a grower, 2 classes", "beside", 1_000_000, {"classes": 2}),
    Row("beside a grower, 40 classes", "beside", 1_000_000, {"classes": 40}),
    Row("larson, 1 thread", "larson", 3_000_000, {"threads": 1, "slots": 5000}, memory=True),
    Row("larson, 2 threads", "larson", 3_000_000, {"threads": 2, "slots": 5000}, memory=True),
    Row("calloc 64", "zeroed", 4_000_000, {"size": 64}, fast=True),
    Row("calloc 4096", "zeroed", 600_000, {"size": 4096}),
    Row("realloc to 30 MB", "grow", 0, {"step": 300_000, "repeat": 2}, memory=True, counted=False),
    Row(
        "realloc, 2 to 15 MB",
        "grow",
        0,
        {"step": 200_000, "limit": 15_000_000, "buffers": 2, "repeat": 2},
        memory=True,
        counted=False,
    ),
    Row("100 KB-1 MB", "large", 4_000, memory=True),
    Row("100 KB-1 MB, 2 threads", "large", 6_000, {"threads": 2}, memory=True),
    Row("5-25 MB", "large", 20, {"low": 5_000_000, "high": 25_000_000, "slots": 4}, memory=True),
    Row("threads, 2 at a time", "threads", 2_000, memory=True),
    Row("threads that leave blocks", "threads", 1_000, {"keep": 1}, memory=True),
    Row("start-up", "launch", 60, memory=True),
]
