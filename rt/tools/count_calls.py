#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions of real calls on RISC-V, one by one: count_calls.py [--operations N] [--seed N].

Every policy gets the same calls on a heap of 256 KiB, once of mixed sizes and once first filled with the smallest
blocks, which is where buddy systems are slowest. qemu executes one instruction at a time and logs it; a call is what
lies between two probes. This is the software row of the thesis's table A.3 (there in nanoseconds) for each policy, and
a check from outside that no call takes longer than rt/tools/longest_path.py says.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

RT = Path(__file__).resolve().parent.parent
COMPILER = ["riscv64-unknown-elf-gcc", "-march=rv32im", "-misa-spec=2.2", "-mabi=ilp32", "-std=c11", "-ffreestanding",
            "-O2", "-DRT_NO_LIBC", "-DCOFFER_RT_MARKS=1", "-nostdlib", "-static"]
# By name: the policy's number, and whether blocks are sums of powers of two.
POLICIES = {"coffer-rt": (0, 0), "Knuth": (1, 0), "Estranged": (2, 0), "first fit": (3, 0), "coffer-rt, lists": (4, 0),
            "coffer-rt, sums": (0, 1), "coffer-rt, lists, sums": (4, 1)}


def build(folder: Path) -> Path:
    program = folder / "calls"
    subprocess.run([*COMPILER, f"-I{RT.parent / 'include'}", f"-I{RT / 'test'}", RT / "tools/calls.c",
                    RT / "test/start.c", *sorted((RT / "src").glob("*.c")), "-lgcc", "-o", program], check=True)
    return program


def counts(program: Path, policy: int, operations: int, seed: int, sums: int = 0) -> dict[str, list[int]]:
    """Instructions of each call: "alloc" and "free"."""
    symbols = subprocess.run(["riscv64-unknown-elf-nm", program], check=True, capture_output=True, text=True).stdout
    probes = {int(line.split()[0], 16): line.split()[2] for line in symbols.splitlines() if "rt_probe" in line}
    found: dict[str, list[int]] = {"alloc": [], "free": []}
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["qemu-riscv32", "-singlestep", "-d", "exec,nochain", "-D", log.name, program, str(policy),
                        str(operations), str(seed), str(sums)], check=True, capture_output=True, timeout=600)
        running = 0
        for line in log:  # ... [00000000/ADDRESS/ ...
            parts = line.split("/", 2)
            if len(parts) < 3:
                continue
            probe = probes.get(int(parts[1], 16))
            if probe == "rt_probe":
                running = 0
            elif probe in {"rt_probe_alloc", "rt_probe_free"}:
                found[probe.removeprefix("rt_probe_")].append(running)
            running += 1
    return found


def overhead(counted: dict[str, list[int]], empty: dict[str, list[int]]) -> dict[str, list[int]]:
    """Takes off what lies between two probes besides the call: a call that does nothing is two instructions."""
    return {call: [value - min(empty[call]) + 2 for value in values] for call, values in counted.items()}


def measure(operations: int = 300, seed: int = 1,
            policies: Iterable[str] = tuple(POLICIES)) -> dict[str, dict[str, list[int]]]:
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        empty = counts(program, 9, 10, seed)
        return {name: overhead(counts(program, number, operations, seed, sums), empty)
                for name, (number, sums) in ((name, POLICIES[name]) for name in policies)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| policy | alloc min | mean | max | free min | mean | max |\n|---|---|---|---|---|---|---|")
    for name, calls in measure(arguments.operations, arguments.seed).items():
        cells = [f"{min(values)} | {sum(values) / len(values):.1f} | {max(values)}" for values in calls.values()]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
