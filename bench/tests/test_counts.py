# SPDX-License-Identifier: MIT
"""Counts of instructions, with a callgrind that a busy machine disturbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from coffer_bench import counts
from coffer_bench.allocators import Allocator


def test_a_second_count_can_only_come_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 instructions a round: what the clock adds to either run is gone once that run was made undisturbed."""
    noise = iter([5_000, 0, 0, 9_000, 700, 300])

    def count_all(_: Allocator, command: list[str]) -> int:
        return 1_000_000 + 20 * int(command[-1].partition("=")[2]) + next(noise)

    monkeypatch.setattr(counts, "count_all", count_all)
    monkeypatch.setattr(counts, "least", {})
    one = [counts.count_rounds(Allocator("one", None), Path("program"), counts.CASES[0]) for _ in range(3)]
    assert one[0] == 20 - 5_000 / counts.ROUNDS
    assert one[1:] == [20, 20]
