# SPDX-License-Identifier: MIT
"""Figures that are counted, not timed: cycles of the simulated machine, instructions, bytes, blocks, cache indices.
They are the same on a machine that does other work. A row of docs/results/verdicts.json names one of MEASURES and its
arguments; `reduced` are those that a test takes in their place."""

from __future__ import annotations

import functools
import json
import os
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "bench"), str(TOP / "bench" / "papers"), str(TOP / "tools")]

import cif
import hoard
import options
from coffer.index import geometry
from coffer.index.survey import Sizes, survey
from coffer_bench import processes
from coffer_bench.allocators import Allocator, BenchError, find
from coffer_bench.counts import CASES, count_cases
from coffer_bench.index_rows import Row
from coffer_bench.simulate import list_accesses
from coffer_bench.workload import Settings
from rules import Figure

Spec = dict[str, Any]


@dataclass(frozen=True)
class Place:
    build_dir: Path
    jobs: int = 1

    def allocator(self, name: str, options_text: str = "") -> Allocator:
        (found,) = find([name], self.build_dir)
        return Allocator(name, found.library, options_text)


@functools.cache
def record(build_dir: Path, allocator: str, options_text: str, workload: str, cores: int, seed: int,
           scale: float) -> dict[str, Any]:
    """One run of the simulated machine: the same on every machine, for one build."""
    path = build_dir / "libexec" / "coffer" / f"simulate_{allocator}"
    if not path.exists():
        raise BenchError(f"{path} is missing: cmake --build {build_dir} --target coffer_simulators")
    command = [str(path), f"workload={workload}", f"cores={cores}", f"seed={seed}", f"scale={scale:g}"]
    environment = {**os.environ, f"{allocator.upper().replace('-', '_')}_CONF": options_text}
    return json.loads(processes.execute(command, environment, timeout=600.0, name=allocator).stdout)


def cycles(place: Place, spec: Spec, cores: int, options_text: str, allocator: str = "") -> float:
    """Of an operation, on the clock of the whole machine: the median of so many seeds."""
    runs = [record(place.build_dir, allocator or spec["allocator"], options_text, spec["workload"], cores, seed,
                   spec.get("scale", 1.0)) for seed in range(1, spec.get("seeds", 1) + 1)]
    return statistics.median(run["cycles"] / run["operations"] for run in runs)


def speed_up(place: Place, spec: Spec) -> Figure:
    one = cycles(place, spec, 1, spec.get("options", ""))
    return {cores: one / cycles(place, spec, cores, spec.get("options", "")) for cores in spec["cores"]}


def slower(place: Place, spec: Spec) -> Figure:
    """With options, over the time without them (or with those of `without`), by cores."""
    return {cores: cycles(place, spec, cores, spec["options"]) / cycles(place, spec, cores, spec.get("without", ""))
            for cores in spec["cores"]}


def over_others(place: Place, spec: Spec) -> Figure:
    """Time over that of the other allocator, by cores."""
    return {cores: cycles(place, spec, cores, "") / cycles(place, spec, cores, "", spec["other"])
            for cores in spec["cores"]}


def shared_lines(place: Place, spec: Spec) -> Figure:
    """Lines of blocks that move between cores, a write of the program: the most of the workloads."""
    runs = [record(place.build_dir, spec["allocator"], "", workload, cores, 1, spec.get("scale", 1.0))
            for workload in ("active-false", "passive-false") for cores in spec["cores"]]
    return max(run["calls"]["program"]["transfers"] / run["operations"] for run in runs)


def free_cycles(place: Place, spec: Spec) -> Figure:
    """Of a free, by allocator."""
    runs = {name: record(place.build_dir, name, "", spec["workload"], spec["cores"], 1, spec.get("scale", 1.0))
            ["calls"]["free"] for name in spec["allocators"]}
    return {name: free["cycles"] / free["calls"] for name, free in runs.items()}


def hoard_counts(place: Place, spec: Spec) -> Figure:
    """What Hoard counts of the suite's programs, by program: `of` over `over`."""
    recipe = hoard.Recipe(Settings(place.build_dir, scale=spec.get("scale", 1.0), timeout=600.0),
                          [place.allocator("hoard")], 1, [])
    found = {}
    for program in spec["programs"]:
        threads = 0 if program in hoard.SINGLE else 2
        counts = hoard.counted(recipe, program, threads, spec.get("options", ""))
        found[program] = counts[spec["of"]] / max(1.0, counts[spec["over"]])
    return found


def option(place: Place, spec: Spec) -> Figure:
    """A row of bench/papers/options.py: with the option, over without it."""
    (row,) = [one for one in options.ROWS if one.paper == spec["allocator"] and one.option == spec["option"]
              and one.what[0].endswith(f": {spec['what']}")]
    without, with_it = options.measure(options.Recipe(place.build_dir, spec.get("scale", 1.0)), row,
                                       place.allocator(spec["allocator"]), 1)
    return with_it / max(without, 1e-9)


def indices(place: Place, spec: Spec) -> Figure:
    """Of 256 blocks of each size, the share of 64 cache indices that they start on: `of` is mean, or least."""
    sizes = Sizes(low=spec["low"], high=spec["high"], step=spec["step"])
    found = {}
    for shown, which in spec["allocators"].items():
        one = place.allocator(*which)
        shares = [size["l1"]["share"] for size in survey(one, sizes, geometry.MACHINES["common"], aligned=False).sizes]
        found[shown] = statistics.fmean(shares) if spec["of"] == "mean" else min(shares)
    return found


def shared_l1(place: Place, spec: Spec) -> Figure:
    """Figure 4 of paper 3: misses of a hundred steps, of so many processes or threads in eight simulated L1s."""
    chosen = {shown: place.allocator(*which) for shown, which in spec["allocators"].items()}
    recipe = cif.Recipe(place.build_dir, list(chosen.values()), 1, 1.0)
    return {shown: cif.figure_4_cell(recipe, one, spec["what"], spec["count"]) for shown, one in chosen.items()}


def starts(place: Place, spec: Spec) -> Figure:
    """Of so many processes, each with one block of 100 bytes: the cache indices, of 64, that these start on."""
    found = {}
    for shown, which in spec["allocators"].items():
        row = Row("first blocks", "mcache", {"blocks": 1, "size": 100}, processes=spec["count"])
        text = list_accesses(place.allocator(*which), row, place.build_dir / "bench" / "index").decode()
        blocks = re.findall(r"^0 (0x[0-9a-f]+)$", text, re.MULTILINE)
        found[shown] = len({int(block, 16) // 64 % 64 for block in blocks})
    return found


def blowup(place: Place, spec: Spec) -> Figure:
    """Sixteen threads that free what their neighbour allocated: the peak over what is live, by allocator."""
    return {name: json.loads(processes.execute([str(place.build_dir / "bench" / "patterns" / "ring")],
                                               place.allocator(name).environment(), timeout=600.0, name=name).stdout)
            ["ratio"] for name in spec["allocators"]}


def instructions(place: Place, spec: Spec) -> Figure:
    """Of a malloc and a free, with options over without them."""
    (case,) = [one for one in CASES if one.name == spec["case"]]
    name = spec["allocator"]
    pair = [Allocator(str(number), place.allocator(name).library, text)
            for number, text in enumerate((spec.get("without", ""), spec["options"]))]
    counts = count_cases([case], pair, place.build_dir / "bench", place.jobs)
    return counts[case.name, "1"] / counts[case.name, "0"]


MEASURES: dict[str, Callable[[Place, Spec], Figure]] = {
    one.__name__: one for one in (speed_up, slower, over_others, shared_lines, free_cycles, hoard_counts, option,
                                  indices, shared_l1, starts, blowup, instructions)
}


def measure(place: Place, spec: Spec, reduced: bool) -> Figure:
    if spec["by"] not in MEASURES:
        raise BenchError(f"no measure {spec['by']!r}; there are {', '.join(MEASURES)}")
    os.environ["COFFER_BUILD_DIR"] = str(place.build_dir)
    return MEASURES[spec["by"]](place, {**spec, **spec["reduced"]} if reduced else spec)
