# SPDX-License-Identifier: MIT
"""What bench/index.py measures: one row is one program with its arguments. All but the last two print an address list
of a lap with list=1 (llubenchmark: -a) for the simulator."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from coffer_bench import index_inputs

DNAPENNY = Path("/usr/lib/phylip/bin/dnapenny")


@dataclass(frozen=True)
class Row:
    name: str
    program: str
    arguments: dict[str, int | str] = field(default_factory=dict)
    operations: int = 8_000_000
    steps: bool = True  # goes over blocks, so that a lap of it can be listed
    processes: int = 1  # as many at the same time
    cores: int = 1  # that the simulator deals the streams out to

    @property
    def ring(self) -> bool:
        """Blocks that the program can place itself, as evenly as can be."""
        return self.program == "mcache" and self.processes == 1 and "threads" not in self.arguments

    def command(self, programs: Path, scale: float) -> list[str]:
        operations = max(1000, int(self.operations * scale))
        return [str(programs / self.program), *self.pairs(), f"operations={operations}"]

    def list_command(self, programs: Path) -> list[str]:
        return [str(programs / self.program), *self.pairs(), "list=1"]

    def pairs(self) -> list[str]:
        return [f"{key}={value}" for key, value in self.arguments.items()]


@dataclass(frozen=True)
class ListRow(Row):
    """llubenchmark has the command line of the original."""

    NODES = 341

    def options(self, iterations: int) -> list[str]:
        return ["-i", str(iterations), "-n", "1", "-l", str(self.NODES), "-g", "0.0", "-s", str(self.arguments["size"])]

    def command(self, programs: Path, scale: float) -> list[str]:
        iterations = max(10, int(self.operations * scale / self.NODES))
        return [str(programs / self.program), *self.options(iterations)]

    def list_command(self, programs: Path) -> list[str]:
        return [str(programs / self.program), *self.options(1), "-a"]


@dataclass(frozen=True)
class ProgramRow:
    """A program that knows nothing of benchmarks: seconds of its processor time."""

    name: str
    command: list[str]  # inputs are in its working directory
    standard_input: str = ""

    def available(self) -> bool:
        return os.access(self.command[0], os.X_OK)


def ring(blocks: int, size: int, order: str) -> Row:
    name = f"ring of {blocks}, {size}{', random' if order == 'random' else ''}"
    return Row(name, "mcache", {"blocks": blocks, "size": size, "order": order}, operations=10_000_000)


ORDERS = ("ascending", "random")
# Figure 2 has 256 blocks, in ascending order. With 512, the target compares these sizes with the best of all.
RINGS_256 = [ring(256, size, order) for order in ORDERS for size in (256, 512, 1024, 2048, 4096, 8192)]
JUDGED_SIZES = (1024, 2048, 4096)
RINGS_512 = [ring(512, size, order) for order in ORDERS for size in (64, 512, *JUDGED_SIZES)]
PAIRS = {"blocks": 2, "size": 100}

ROWS = [
    *RINGS_256,
    *RINGS_512,
    # Large blocks begin a page, where nothing is done about it.
    ring(64, 1 << 20, "random"),
    Row("2 arrays of 1 MiB, 8 threads", "mcache", {"blocks": 2, "size": 1 << 20, "threads": 8}),
    Row("2 blocks, 8 threads", "mcache", {**PAIRS, "threads": 8}),
    Row("2 blocks, 8 processes", "mcache", PAIRS, operations=4_000_000, processes=8),
    Row("mmicro, 1 thread", "mmicro", {}, steps=False),
    Row("mmicro, 4 threads", "mmicro", {"threads": 4}, steps=False),
    *(ListRow(f"llubenchmark, {size}", "llubenchmark", {"size": size}) for size in (250, 500, 1000, 2000, 4000, 8000)),
    Row("stdmap", "stdmap"),
    Row("xml", "xml"),
    Row("gauss 200x200", "matrix", {"kernel": "gauss"}),
    Row("dot product 200x200", "matrix", {"kernel": "dot"}),
    Row("matcher, 1 KiB tables", "dfa"),
    Row("many sizes", "spacing", operations=4_000_000),
]

# Figure 4 on the paper's machine: 8 cores with 8 threads each. Only the simulator can show it here.
SIMULATED_ONLY = [
    Row("2 blocks, 64 threads", "mcache", {**PAIRS, "threads": 64}, cores=8),
    Row("2 blocks, 64 processes", "mcache", PAIRS, processes=64, cores=8),
]

PROGRAMS = [
    ProgramRow("GNU grep", ["/usr/bin/grep", "-hcE", index_inputs.grep_pattern(), *["nucleotides.txt"] * 10]),
    ProgramRow("dnapenny", [str(DNAPENNY)], "Y\n"),
]
