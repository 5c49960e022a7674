# SPDX-License-Identifier: MIT
"""The same calls served by software on the same processor (the thesis's tables A.3 and A.4): coffer-rt's Knuth policy,
which is the algorithm of HBS, word for word, and coffer-rt proper, compiled for rv32im; qemu counts each call's
instructions (rt/tools/replay.py)."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runs import HEAP, ReportError, Runs, Setup
from tables import Program, number, table, thesis_setup

RT_TOOLS = Path(__file__).resolve().parent.parent.parent / "rt" / "tools"
# A processor of 400 MHz that ends one instruction a clock, as the gaps are counted.
NANOSECONDS = 2.5
# For Knuth's policy, the heap's own state: its blocks are the 32 MB that HBS has.
STATE = 4096
KNUTH, TREE, LISTS = 1, 0, 4
# More than so many, rt/tools/replay.c has no room for.
MOST_CALLS = 100_000


@dataclass(frozen=True)
class Software:
    """Of one program's allocations, nanoseconds: mean and most."""
    program: str
    knuth: tuple[float, float]   # caches that never miss
    missing: tuple[float, float]  # each word that HBS moves takes a transfer: caches that never hit
    free: tuple[float, float]
    tree: tuple[float, float]
    lists: tuple[float, float]
    ohebs: tuple[float, float]
    fast: tuple[float, float]    # with Fast Return, after the program's own work


def counter():
    """rt/tools/replay.py; its name is that of sim/replay.py."""
    spec = importlib.util.spec_from_file_location("rt_replay", RT_TOOLS / "replay.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls_of(trace: Path, free: int) -> list[int]:
    """As rt/tools/replay.c has them: bytes of a request, or which request's block is given back. What the model has
    refused is left out."""
    calls: list[int] = []
    block_of: dict[str, int] = {}
    requests = 0
    with trace.open(encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "a" and words[2] != "ffffffff":
                calls.append(int(words[1]))
                block_of[words[2]] = requests
                requests += 1
            elif words[0] == "f":
                calls.append(free + block_of[words[1]])
            if len(calls) == MOST_CALLS:
                break
    return calls


def measure(runs: Runs, programs: Sequence[Program]) -> list[Software]:
    rt = counter()
    found = []
    for one in programs:
        calls = calls_of(one.trace, rt.FREE)
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder) / "calls"
            packed.write_bytes(struct.pack(f"<{len(calls)}I", *calls))
            try:
                counts = rt.counted(packed, HEAP + STATE, Path(folder))
            except (SystemExit, OSError, subprocess.SubprocessError) as error:
                raise ReportError(f"{one.name}, in software: {error}") from error
        times = {policy: [(each.mean * NANOSECONDS, each.most * NANOSECONDS) for each in pair]
                 for policy, pair in counts.items()}
        hbs = runs.one(one.trace, thesis_setup("hbs_reference")).row("a", "total")
        unit = runs.one(one.trace, thesis_setup("ohebs")).row("a", "total")
        fast = runs.one(one.trace, Setup("ohebs", True)).row("a", "answer")
        knuth = times[KNUTH][0]
        found.append(Software(one.name, knuth, (knuth[0] + hbs.mean, knuth[1] + hbs.most), times[KNUTH][1],
                              times[TREE][0], times[LISTS][0], (unit.mean, unit.most), (fast.mean, fast.most)))
    return found


def software_table(found: Sequence[Software]) -> str:
    names = ("knuth", "missing", "tree", "lists", "ohebs", "fast")
    rows = [[one.program, *(" / ".join(number(round(value, 1)) for value in getattr(one, name)) for name in names)]
            for one in found]
    return table(["mean / max of allocations, ns", "Knuth, caches that never miss", "that never hit", "coffer-rt",
                  "coffer-rt, lists", "OHEBS", "OHEBS + Fast Return"], rows)


def ratios(found: Sequence[Software], unit: str, which: int) -> tuple[float, float]:
    """How much longer Knuth's allocations take than the unit's: mean (0) or longest (1), averaged as the thesis does;
    with caches that never miss, and that never hit."""
    theirs = [sum(getattr(one, name)[which] for one in found) for name in ("knuth", "missing")]
    ours = sum(getattr(one, unit)[which] for one in found)
    return theirs[0] / ours, theirs[1] / ours
