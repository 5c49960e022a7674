# SPDX-License-Identifier: MIT
"""What the tests of `coffer bench` share: workloads that are functions, and files of samples made by hand. They run in
the command's own Python environment (build/venv)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDERS = ("bench", "bench/lab", "tools", "test/support")
sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in FOLDERS]

from coffer_bench import samples
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.runner import Limits, Run
from coffer_bench.workload import FAST, Figures, Workload

BUILD = Path(os.environ.get("COFFER_BUILD_DIR", TOP / "build"))
COMMAND = BUILD / "bin" / "coffer"
GLIBC = Allocator("glibc", None)
THREE = [Allocator("coffer", None), GLIBC, Allocator("tbb", None)]


def on_ubuntu() -> bool:
    return "ID=ubuntu" in Path("/etc/os-release").read_text().split("\n")


def interruptible(number: signal.Signals) -> dict:
    """For a process that gets this signal: whatever the tests' own caller ignores, and SIGTERM also where SIGINT is
    ignored, as it is in a script's background."""
    action = signal.SIG_DFL if number == signal.SIGINT else signal.SIG_IGN
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, action)}


def workload(name: str, run: Callable[[Allocator], Figures], **more: object) -> Workload:
    return Workload(name, FAST, run, **more)


def machine() -> dict:
    return {
        "time": "2025-01-01T00:00:00Z",
        "processor": "a processor",
        "processors": 2,
        "memory_kib": 1,
        "kernel": "6",
        "libc": "glibc",
        "system": "Debian",
        "huge_pages": "madvise",
        "load": 0.0,
        "commit": "abc",
        "coffer_conf": "",
        "libraries": {},
    }


def header(workloads: list[str], allocators: list[str], **plan: object) -> samples.Record:
    return {
        "kind": "header",
        "format": samples.FORMAT,
        "machine": machine(),
        "versions": {},
        "skipped": {},
        "plan": {"quick": False, "scale": 1, "allocators": allocators, "workloads": workloads, **plan},
        "workloads": [
            {"name": name, "group": FAST, "unit": "ns", "timed": True, "memory": True, "threads": 1}
            for name in workloads
        ],
    }


def results_of(times: dict[str, dict[str, list[float]]], memory: float = 100.0, **plan: object) -> samples.Results:
    """By workload and allocator: the figure of each round."""
    records = [
        {
            "kind": "sample",
            "workload": name,
            "allocator": allocator,
            "round": number + 1,
            "seconds": 0.1,
            "figures": {"time_ns": value, "cpu_ns": value, "peak_kib": memory},
        }
        for name, by_allocator in times.items()
        for allocator, values in by_allocator.items()
        for number, value in enumerate(values)
    ]
    allocators = list(dict.fromkeys(one for by_allocator in times.values() for one in by_allocator))
    return samples.Results(header(list(times), allocators, **plan), [*records, {"kind": "end", "cut": []}])


def write_results(path: Path, results: samples.Results) -> Path:
    writer = samples.Writer(path)
    for record in [results.header, *results.records]:
        writer.append(record)
    writer.close()
    return path


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """A run over these workloads into a file; called again, it goes on where the one before has stopped."""

    def make(workloads: list[Workload], rounds: int = 3, seconds: float = 1000.0, **options: object) -> Run:
        writer = samples.Writer(tmp_path / "samples.jsonl")
        records, _ = writer.begin(header([one.name for one in workloads], [one.name for one in THREE]))
        run = Run(THREE, workloads, writer, Limits(rounds, seconds), **options)
        run.take_over(records)
        return run

    return make


def finish(run: Run, rounds: int = 3) -> None:
    for number in range(1, rounds + 1):
        for _ in run.run_round(number, lambda text: None):
            pass
    run.writer.close()
