#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Table 1 and figures 5 to 14 of paper 2 (scalloc), measured anew: scalloc.py [--figures 1,5,6 ...].

The experiments are those of bench/suite (suite.json has their arguments). Each figure is a table of times and one of
memory, an allocator a column: the peers, or for figures 12 to 14 scalloc's own ablations (section 7.7) and
Coffer. Medians of
rounds in which the allocators run in turn, in an order shuffled anew for each row and round. SCALE (or --scale) shrinks
what is timed, and the first line says so; docs/papers.md says what of the paper's conclusions holds.

Figures 10 and 12 have 40 threads, and the paper a core for each. Where there are fewer, a fast allocator's threads are
through one after the other, and its peak is of less live memory. So these figures show the peak over what was live at
most as well, and that of a second run, once through the cycles, in which all threads hold their most at once.

Figure 5 is 483.xalancbmk, which is not free: another transformation of XML by style sheets stands for it. The paper's
40 cores are as many here as the machine has, and twice that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "bench")]

from coffer_bench.allocators import PAPERS, PEERS, Allocator, BenchError, describe, find, machine_facts
from coffer_bench.suite import read_suite, suite_workload
from coffer_bench.tables import format_table
from coffer_bench.workload import Figures, Settings, Workload

Found = dict[str, dict[str, dict[str, float]]]  # by row, allocator and figure

# Ablations of section 7.7, by the paper's names.
NO_REUSE = {"no-reuse": "reuse:false"}
VIRTUAL_SPANS = {
    "no-madvise": "madvise:false",
    "no-virtual-spans": "huge:true",
    "no-madvise-no-virtual-spans": "huge:true,madvise:false",
}
SPAN_POOL = {"no-span-pool": "stacks:1"}
FRONT_END = {"reclaim-in-allocation": "reclaim:allocation"}
TLAB = {"CLAB": "lab:core"}


@dataclass(frozen=True)
class Figure:
    title: str
    rows: str  # how the names of its rows in suite.json begin
    variants: dict[str, str]  # of scalloc
    peers: bool = True  # False: of them Coffer alone
    memory: bool = True
    live: bool = False  # the program counts what is live, and has `together`


FIGURES = {
    "5": Figure("single-threaded: XML to HTML for 483.xalancbmk", "XML to HTML", {}, memory=False),
    "6": Figure("threadtest, 64 bytes", "threadtest 64", TLAB),
    "7": Figure("shbench, 1 to 8 bytes", "shbench 1-8", NO_REUSE),
    "8": Figure("larson, 7 bytes, threads that end", "larson 7", NO_REUSE),
    "9": Figure("producers and consumers", "producer-consumer", {}),
    "10": Figure("object sizes 2^x to 2^(x+2)", "object sizes", {}, live=True),
    "11": Figure("access to objects, in part in the order of allocation", "locality", {"100 %": "reusability:100"},
                 memory=False),
    "12": Figure("virtual spans, by object size", "object sizes", VIRTUAL_SPANS, peers=False, live=True),
    "13": Figure("span pool: threadtest, 256 bytes", "threadtest 256", SPAN_POOL, peers=False),
    "14": Figure("front end: threadtest, 64 bytes", "threadtest 64", FRONT_END, peers=False),
}
# Table 1's columns that follow from the programs: object sizes, remote frees, threads that end.
TABLE_1 = {
    "XML to HTML": ("1-2M", "0%", "no"),
    "threadtest 64": ("64", "0%", "no"),
    "shbench 1-8": ("1-8", "0%", "no"),
    "larson 7": ("7", "< 1%", "yes"),
    "producer-consumer": ("16-512", "1 - 1/threads", "no"),
    "active-false": ("8", "0%", "no"),
    "passive-false": ("8", "first frees", "no"),
    "object sizes": ("16-4M", "0%", "no"),
    "locality": ("16-32", "0%", "no"),
    "threadtest 256": ("256", "0%", "no"),
}


@dataclass(frozen=True)
class Recipe:
    settings: Settings
    peers: list[Allocator]
    scalloc: Allocator
    rounds: int

    def allocators(self, figure: Figure) -> list[Allocator]:
        own = [Allocator(name, self.scalloc.library, options) for name, options in figure.variants.items()]
        return [self.scalloc, *own, *(one for one in self.peers if figure.peers or one.name == "coffer")]

    def workloads(self, figure: Figure, **more: int) -> list[Workload]:
        found = []
        for entry in read_suite():
            if not entry["name"].startswith(figure.rows) or not (self.settings.bench_dir / entry["program"]).exists():
                continue
            threads = [0] if len(entry.get("threads", [])) < 2 else thread_counts()
            found += [suite_workload(self.shrunk(entry, more), count, self.settings) for count in threads]
        return found

    def shrunk(self, entry: dict, more: dict[str, int]) -> dict:
        """Rounds that a program repeats inside shrink, too, to one at least. `more` are arguments of this run."""
        full = dict(entry.get("full", {}))
        if "repeat" in full:
            full["repeat"] = max(1, round(full["repeat"] * min(1.0, self.settings.scale)))
        return {**entry, "full": {**full, **more}}

    def measure(self, figure: Figure) -> Found:
        """Median time and peak memory, by row and allocator."""
        found = self.medians(figure, self.workloads(figure))
        if figure.live:
            together = self.medians(figure, self.workloads(figure, repeat=1, together=1))
            for row, by_name in found.items():
                for name, medians in by_name.items():
                    medians["together"] = together[row][name]["ratio"]
        return found

    def medians(self, figure: Figure, workloads: list[Workload]) -> Found:
        chosen = self.allocators(figure)
        shuffle = random.Random(1)
        found: Found = {}
        for workload in workloads:
            samples: dict[str, list[dict[str, float]]] = {one.name: [] for one in chosen}
            for number in range(self.rounds):
                progress(f"{workload.name}: round {number + 1} of {self.rounds}")
                for allocator in shuffle.sample(chosen, len(chosen)):
                    samples[allocator.name].append(sample(figure, workload.run(allocator)))
            found[workload.name] = {
                name: {what: statistics.median(one[what] for one in taken) for what in taken[0]}
                for name, taken in samples.items()
            }
        progress("")
        return found


def sample(figure: Figure, figures: Figures) -> dict[str, float]:
    taken = {"time": float(figures["time_ns"]), "memory": float(figures.get("peak_kib", 0)) / 1024}
    if figure.live:
        # Without the process as it was before its first allocation, and the program's own tables.
        own = float(figures["start_kib"]) + float(figures["own_kib"])
        taken["live"] = float(figures["live_kib"]) / 1024
        taken["ratio"] = (float(figures["peak_kib"]) - own) / float(figures["live_kib"])
    return taken


def thread_counts() -> list[int]:
    most = len(os.sched_getaffinity(0))
    return sorted({count for count in (1, 2, 4, 8, 16, 32, 39) if count <= most} | {most, 2 * most})


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


TABLES = (
    ("time", "ns an operation", 1),
    ("memory", "peak MiB", 1),
    ("live", "MiB that were live at most in this run", 1),
    ("ratio", "peak over that", 2),
    ("together", "peak over live where all threads hold their most at once", 2),
)


def show(number: str, figure: Figure, found: Found, names: list[str]) -> None:
    for what, unit, digits in TABLES:
        if what != "time" and not (figure.memory if what == "memory" else figure.live):
            continue
        lines = [[row, *(f"{by_name[name][what]:,.{digits}f}" for name in names)] for row, by_name in found.items()]
        print(format_table([f"{number}: {figure.title}, {unit}", *names], lines) + "\n", flush=True)


def table_1(recipe: Recipe) -> dict[str, list[str]]:
    """What is run: the paper's columns, and the arguments of the suite."""
    table = {}
    for entry in read_suite():
        for name, columns in TABLE_1.items():
            if entry["name"].startswith(name) and name not in table:
                own = {**entry.get("arguments", {}), **entry.get("full", {})}
                table[name] = [*columns, " ".join(f"{key}={value}" for key, value in own.items())]
    print(format_table(["1: experiments", "bytes", "remote frees", "threads end", "as run here"],
                       [[name, *columns] for name, columns in table.items()]) + "\n")
    if len(table) != len(TABLE_1):
        raise BenchError(f"the suite lacks {', '.join(TABLE_1.keys() - table.keys())}")
    return table


def choose(names: str | None, build_dir: Path) -> list[Allocator]:
    """The peers: all that are here, unless they are named."""
    if names:
        return [one for one in find(names.split(","), build_dir) if one.name != "scalloc"]
    found = []
    for name in ["coffer", "glibc", *PEERS, *(name for name in PAPERS if name != "scalloc")]:
        try:
            found += find([name], build_dir)
        except BenchError as error:
            print(f"left out: {error}")
    return found


def parse_arguments() -> argparse.Namespace:
    known = ["1", *FIGURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--figures", default=",".join(known), metavar="N,N", help="1 is table 1; default %(default)s")
    parser.add_argument("--allocators", metavar="NAMES", help="beside scalloc; default: all that are here")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=os.environ.get("SCALE") or 1.0, help="of what is timed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every figure, with facts of the machine")
    arguments = parser.parse_args()
    if unknown := set(arguments.figures.split(",")) - set(known):
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {','.join(known)}")
    if not math.isfinite(arguments.scale) or arguments.scale <= 0 or arguments.rounds < 1:
        parser.error("--scale and --rounds must be above 0")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    build_dir = arguments.build_dir.resolve()
    settings = Settings(build_dir, scale=arguments.scale, timeout=600.0)
    recipe = Recipe(settings, choose(arguments.allocators, build_dir), find(["scalloc"], build_dir)[0],
                    arguments.rounds)
    facts = machine_facts([recipe.scalloc, *recipe.peers])
    shrunk = f"\nSHRUNK: {arguments.scale:g} of the operations" if arguments.scale < 1 else ""
    print(f"{describe(facts)}{shrunk}\n", flush=True)
    kept: dict[str, object] = {}
    for number in sorted(arguments.figures.split(","), key=int):
        if number == "1":
            kept["1"] = table_1(recipe)
            continue
        figure = FIGURES[number]
        found = recipe.measure(figure)
        if not found:
            raise BenchError(f"figure {number}: no program of it in {settings.bench_dir}/suite: "
                             f"cmake --build {build_dir} --target bench_programs")
        show(number, figure, found, [one.name for one in recipe.allocators(figure)])
        kept[number] = found
    if arguments.json:
        content = {"machine": facts, "scale": arguments.scale, "figures": kept}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"papers/scalloc: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
