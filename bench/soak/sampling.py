# SPDX-License-Identifier: MIT
"""Resident memory of a program's processes, from /proc."""

from __future__ import annotations

from dataclasses import dataclass

from coffer_bench.processes import Memory, read_proc, tree


@dataclass(frozen=True)
class Resident:
    """KiB, of all processes of a program together."""

    rss: int  # pages that several share count in each
    own: int  # anonymous memory; a page that several share, after a fork, counts once
    tables: int
    processes: int

    @property
    def judged(self) -> int:
        return self.own + self.tables


def anonymous(pid: int) -> int | None:
    """The share of one process: not of files and shared memory, which no allocator hands out, and of which its share
    depends on what else runs. None where the kernel does not say."""
    for line in read_proc(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1])
    return None


def resident(pid: int) -> Resident | None:
    """None if it has ended."""
    rss = own = tables = processes = 0
    for one in tree(pid):
        memory = Memory.of(one)
        if not memory:
            continue
        share = anonymous(one)
        rss += memory.resident
        own += memory.resident if share is None else share
        tables += memory.page_tables
        processes += 1
    return Resident(rss, own, tables, processes) if processes else None
