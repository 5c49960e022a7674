# SPDX-License-Identifier: MIT
"""The addresses that one lap of a benchmark uses, fed to caches and TLBs that build/libexec/coffer/simulate models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from coffer_bench.allocators import Allocator, BenchError, verify_library
from coffer_bench.index_rows import Row

if TYPE_CHECKING:
    from coffer.index import geometry

TLB = "4096:1:64"
TLB2 = "4096:256:8"


def list_accesses(allocator: Allocator, row: Row, programs: Path) -> bytes:
    """The addresses of a lap: each process's, one after the other."""
    command = row.list_command(programs)
    texts = []
    for _ in range(row.processes):
        done = subprocess.run(command, env=allocator.environment(), capture_output=True)
        if done.returncode:
            raise BenchError(f"{row.name} under {allocator.name}: {done.stderr.decode(errors='replace').strip()}")
        verify_library(allocator, done.stdout.split(b"\n", 1)[0].decode().removeprefix("# library="))
        texts.append(done.stdout)
    return b"process\n".join([b"", *texts])


def simulate(text: bytes, build_dir: Path, cores: int, caches: geometry.Machine, l2: bool) -> dict[str, float]:
    command = [
        str(build_dir.resolve() / "libexec" / "coffer" / "simulate"),
        f"l1={caches.l1}",
        f"cores={cores}",
        f"tlb={TLB}",
        f"tlb2={TLB2}",
        *([f"l2={caches.l2}"] if l2 else []),
    ]
    done = subprocess.run(command, input=text, capture_output=True)
    if done.returncode:
        raise BenchError(done.stderr.decode(errors="replace").strip())
    return json.loads(done.stdout)


def can_simulate(row: Row) -> bool:
    """No prefetcher is simulated, so that a ring in ascending order is the same as one in random order."""
    return row.steps and row.arguments.get("order") != "ascending"
