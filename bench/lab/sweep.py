#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What three options cost and save: slack (a heap's byte budget), empty_fraction (f) and span (least span size).

Hoard's paper (paper 1) shows the same for its own parameters in tables 5 (time) and 6 (fragmentation). Here a row is a
value of one option, the others at their defaults, and there are three workloads:

  larson     sets of blocks that pass from a thread to its successor: every block is freed by another thread in the end
  sizes      random replacement, 16 to 512 bytes
  octaves    the same with as many sizes in each octave to 32 KiB

each with two threads. Time is wall time of an operation (a free and a malloc) in one thread; with --cpu, processor time
over all operations. A/U is paper 1's fragmentation: A is the most that Coffer held or kept resident (its own "peak held
bytes"), U the most that the program had asked for and not freed. Figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from coffer_bench.allocators import (
    TOP,
    Allocator,
    BenchError,
    describe,
    find,
    machine_facts,
    parse_line,
    verify_library,
)

SEED = 7
OPTIONS = {
    "slack": ["0", "16K", "64K", "256K", "1M", "4M"],
    "empty_fraction": ["1/2", "1/4", "1/8", "1/16"],
    "span": ["32K", "64K", "128K", "256K"],
}
DEFAULTS = {"slack": "64K", "empty_fraction": "1/4", "span": "32K"}


@dataclass(frozen=True)
class Workload:
    name: str
    program: str
    operations: int
    arguments: dict[str, int]
    block: float  # mean bytes that a block is asked for with

    @property
    def blocks(self) -> int:
        return self.arguments["slots"] * self.arguments["threads"]

    def command(self, programs: Path, scale: float) -> list[str]:
        # The sets must be filled and turned over whatever the scale: the operations alone shrink.
        operations = max(2 * self.blocks, int(self.operations * scale))
        pairs = {**self.arguments, "operations": operations}
        return [str(programs / self.program), *(f"{key}={value}" for key, value in pairs.items())]


def mean_of_octaves(low: int, high: int) -> float:
    """bench.hpp, Sizes: an octave by chance, and a size in it by chance."""
    means = []
    while low * 2 <= high:
        means.append((low + low * 2) / 2)
        low *= 2
    return statistics.mean(means)


WORKLOADS = [
    Workload("larson", "larson", 3_000_000, {"threads": 2, "slots": 20_000, "low": 10, "high": 1000}, 505),
    Workload("sizes", "random", 4_000_000, {"threads": 2, "slots": 30_000, "low": 16, "high": 512}, 264),
    Workload(
        "octaves",
        "random",
        1_000_000,
        {"threads": 2, "slots": 8_000, "low": 16, "high": 32768, "logarithmic": 1},
        mean_of_octaves(16, 32768),
    ),
]


@dataclass(frozen=True)
class Sample:
    time: float  # ns an operation
    ratio: float  # A / U


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="times the operations of each run")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time (busy machine)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every sample, with facts of the machine")
    return parser.parse_args()


def measure(allocator: Allocator, workload: Workload, option: str, value: str, arguments: argparse.Namespace) -> Sample:
    environment = {
        "PATH": os.environ["PATH"],
        "LD_PRELOAD": str(allocator.library),
        "COFFER_CONF": f"{option}:{value},stats:true,strict:true",
    }
    command = workload.command(arguments.build_dir / "bench", arguments.scale)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} with {option}:{value}: status {done.returncode}: {done.stderr.strip()}")
    result = parse_line(done.stdout)
    verify_library(allocator, result["library"])
    peak = re.search(r"^peak held bytes\s*=\s*(\d+)$", done.stderr, re.MULTILINE)
    if not peak:
        raise BenchError(f"{' '.join(command)}: no peak among the statistics")
    time = float(result["cpu_ns_per_op" if arguments.cpu else "ns_per_op"])
    return Sample(time, int(peak[1]) / (workload.blocks * workload.block))


def sweep(allocator: Allocator, arguments: argparse.Namespace) -> dict[tuple[str, str, str], list[Sample]]:
    """All samples, by option, value and workload. Each round takes all of them once, in an order of its own, so that a
    machine that grows slower hits all alike."""
    cases = [(o, v, w) for o, values in OPTIONS.items() for v in values for w in WORKLOADS]
    samples: dict[tuple[str, str, str], list[Sample]] = {(o, v, w.name): [] for o, v, w in cases}
    shuffle = random.Random(SEED)
    for _ in range(arguments.rounds):
        for option, value, workload in shuffle.sample(cases, len(cases)):
            samples[option, value, workload.name].append(measure(allocator, workload, option, value, arguments))
    return samples


def table(samples: dict[tuple[str, str, str], list[Sample]], arguments: argparse.Namespace) -> list[str]:
    unit = "cpu ns" if arguments.cpu else "ns"
    heads = [head for w in WORKLOADS for head in (f"{w.name} {unit}", f"{w.name} A/U")]
    lines = ["| option | value | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(heads)]
    for option, values in OPTIONS.items():
        for value in values:
            cells = []
            for workload in WORKLOADS:
                taken = samples[option, value, workload.name]
                cells.append(f"{statistics.median(s.time for s in taken):.1f}")
                cells.append(f"{statistics.median(s.ratio for s in taken):.3f}")
            mark = " (default)" if DEFAULTS[option] == value else ""
            lines.append(f"| `{option}` | {value}{mark} | " + " | ".join(cells) + " |")
    return lines


def main() -> int:
    arguments = parse_arguments()
    try:
        (allocator,) = find(["coffer"], arguments.build_dir)
        facts = machine_facts([allocator])
        samples = sweep(allocator, arguments)
    except BenchError as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 1
    print(describe(facts) + f", {arguments.rounds} rounds\n")
    print("\n".join(table(samples, arguments)))
    if arguments.json:
        rows = [
            {"option": o, "value": v, "workload": w, "time": [s.time for s in taken], "ratio": [s.ratio for s in taken]}
            for (o, v, w), taken in samples.items()
        ]
        arguments.json.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
