#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each option of HOARD_CONF, SCALLOC_CONF and CIF_CONF does, on a workload where it shows: options.py
[--allocators hoard,scalloc,cif] [--only OPTION].

A row is one option beside the default (or beside another option, that goes with it), in turn, medians of rounds. Times
are processor time, so that others' work disturbs little. What is counted (locks, bytes held, indices, lines) is the
same on every machine but for chance between threads, and is checked: --check ends with status 1 if an option's effect
is not as large as its row says. docs/papers.md has the figures. SCALE (or --scale) shrinks what is run.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "bench"), str(TOP / "tools")]

from coffer.errors import CofferError
from coffer.index import geometry
from coffer.index.survey import Sizes, survey
from coffer_bench import processes
from coffer_bench.allocators import PAPERS, Allocator, BenchError, describe, find, machine_facts
from coffer_bench.suite import pairs, parse_suite
from coffer_bench.tables import format_table

Measure = Callable[["Recipe", Allocator], float]
# Blocks of 56 bytes and the lines of the cache that they lie on.
LINES = """
import ctypes, ctypes.util
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
starts = [malloc(56) for _ in range(1000)]
print(sum((start + 55) // 64 - start // 64 + 1 for start in starts) / len(starts))
"""


@dataclass(frozen=True)
class Recipe:
    build_dir: Path
    scale: float

    def run(self, allocator: Allocator, program: str, arguments: dict[str, object]) -> tuple[dict[str, str], str]:
        """`operations` and the like shrink with the scale; so do rounds, to one at least."""
        shrunk = {key: max(1, round(value * self.scale)) if key in SHRINK and isinstance(value, int) else value
                  for key, value in arguments.items()}
        command = [str(self.build_dir / "bench" / "suite" / program), *pairs(shrunk)]
        # One thread stays on its processor: elsewhere it would meet another heap of CIF's, and fill that one, too.
        allowed = os.sched_getaffinity(0)
        with processes.on_processors({min(allowed)} if arguments.get("threads", 1) == 1 else allowed):
            outcome = processes.execute(command, allocator.environment(), timeout=600.0, name=allocator.name)
        return parse_suite(outcome.stdout.decode()), outcome.stderr.decode()


SHRINK = ("operations", "rounds", "blocks", "repeat")


def with_options(allocator: Allocator, options: str) -> Allocator:
    return Allocator(allocator.name, allocator.library, ",".join(filter(None, [allocator.options, options])))


def time(program: str, **arguments: object) -> tuple[str, Measure]:
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        results, _ = recipe.run(allocator, program, arguments)
        if "allocator_cpu_ns" in results:
            return float(results["allocator_cpu_ns"]) / float(results["operations"])
        return float(results["cpu_ns"]) / float(results["operations"])

    return f"{named(program, arguments)}: CPU ns an operation", measure


def peak(program: str, **arguments: object) -> tuple[str, Measure]:
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        results, _ = recipe.run(allocator, program, arguments)
        return (float(results["rss_peak_kib"]) - float(results["rss_start_kib"])) / 1024

    return f"{named(program, arguments)}: peak MiB", measure


def end(program: str, **arguments: object) -> tuple[str, Measure]:
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        results, _ = recipe.run(allocator, program, arguments)
        return (float(results["rss_end_kib"]) - float(results["rss_start_kib"])) / 1024

    return f"{named(program, arguments)}: MiB when all is freed", measure


def count(line: str, program: str, **arguments: object) -> tuple[str, Measure]:
    """A line of what stats:true prints at the end."""
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        _, printed = recipe.run(with_options(allocator, "stats:true"), program, arguments)
        if not (found := re.search(rf"^{re.escape(line)} += +(\d+)$", printed, re.MULTILINE)):
            raise BenchError(f"{allocator.name} prints no line {line!r}")
        return float(found[1])

    return f"{named(program, arguments)}: {line}", measure


def share(machine: str = "") -> tuple[str, Measure]:
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        where = geometry.MACHINES[machine] if machine else geometry.this_machine()
        found = survey(allocator, Sizes(low=64, high=8192, step=128), where, aligned=False).sizes
        return statistics.fmean(one["l1"]["share"] for one in found)

    return f"survey{', T2' * bool(machine)}: share of indices, 64 to 8,192 bytes", measure


def lines() -> tuple[str, Measure]:
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        done = subprocess.run(["/usr/bin/python3", "-I", "-c", LINES], env=allocator.environment(), check=True,
                              capture_output=True, text=True)
        return float(done.stdout)

    return "1,000 blocks of 56 bytes: lines each lies on", measure


def colours_repeat() -> tuple[str, Measure]:
    """In how many of the sizes two processes have their blocks at the same offsets in a page."""
    def measure(recipe: Recipe, allocator: Allocator) -> float:
        first, second = (survey(allocator, Sizes(low=1024, high=8192, step=1024), geometry.this_machine(),
                                aligned=False).sizes for _ in range(2))
        return statistics.fmean(one["l1"] == other["l1"] for one, other in zip(first, second))

    return "two processes: share of sizes with the same indices", measure


def named(program: str, arguments: dict[str, object]) -> str:
    return " ".join([program, *pairs(arguments)])


@dataclass(frozen=True)
class Row:
    paper: str
    option: str
    what: tuple[str, Measure]
    least: float = 0.0  # what is counted: at least so many times the default's (below 1: at most). 0: not counted
    beside: str = ""  # other options, in both columns


LARSON = {"threads": 2, "low": 10, "high": 100, "slots": 10000, "rounds": 1, "operations": 2_000_000}
SMALL = {"threads": 2, "size": 64, "objects": 100000, "rounds": 100}
SIXTEEN = {"threads": 2, "size": 16, "objects": 100000, "rounds": 50}  # with a header of 8 bytes before them: 32
PAGES = {"threads": 2, "x": 12, "cycles": 30, "repeat": 4}
LITTLE = {"threads": 2, "x": 4, "cycles": 30, "repeat": 60}
ROWS = (
    Row("hoard", "lookup:mask", count("A bytes", "threadtest", **{**SIXTEEN, "threads": 1}), 0.6),
    Row("hoard", "lookup:mask", time("threadtest", **SIXTEEN)),
    Row("hoard", "release:true", end("threadtest", **SMALL), 0.5),
    Row("hoard", "release:true", count("system calls", "threadtest", **SMALL), 10),
    Row("hoard", "assign:processor", count("falsely shared", "larson", **LARSON), 0.1),
    Row("hoard", "assign:processor", count("A bytes", "larson", **LARSON), 0.9),
    Row("hoard", "assign:adaptive", count("falsely shared", "larson", **LARSON)),
    Row("hoard", "k:0", count("global heap locks", "larson", **LARSON), 1.1),
    Row("hoard", "k:100", count("global heap locks", "larson", **LARSON), 0.5),
    Row("hoard", "f:1/16", count("A bytes", "larson", **LARSON)),
    Row("hoard", "f:3/4", count("A bytes", "larson", **LARSON), 1.03),
    Row("hoard", "superblock:64K", count("global heap locks", "threadtest", **SMALL), 0.5),
    Row("hoard", "b:1.5", count("U bytes", "shbench", low=8, high=1000, blocks=1_000_000), 1.05, "peaks:true"),
    Row("hoard", "b:1.1", count("U bytes", "shbench", low=8, high=1000, blocks=1_000_000), 0.99, "peaks:true"),
    Row("hoard", "heaps:1", time("threadtest", **SMALL)),
    Row("hoard", "peaks:true", time("threadtest", **SMALL)),
    Row("scalloc", "madvise:false", time("object_sizes", **PAGES)),
    Row("scalloc", "madvise:false", peak("object_sizes", **PAGES)),
    Row("scalloc", "madvise_threshold:2M", count("system calls", "object_sizes", **PAGES), 0.5),
    Row("scalloc", "huge:true", peak("object_sizes", **LITTLE), 3),
    Row("scalloc", "stacks:1", time("threadtest", threads=4, size=256, objects=100000, rounds=30)),
    Row("scalloc", "reclaim:allocation", peak("threadtest", threads=4, size=64, objects=100000, rounds=100)),
    Row("scalloc", "reuse:false", count("peak held bytes", "shbench", low=1, high=8, blocks=1_000_000), 1.1),
    Row("scalloc", "reusability:100", time("locality", lists=0, scale=0.02)),
    Row("scalloc", "lab:core", time("threadtest", threads=4, size=64, objects=100000, rounds=100)),
    Row("scalloc", "labs:1", time("threadtest", threads=4, size=64, objects=100000, rounds=100)),
    Row("scalloc", "protect:false", count("system calls", "threadtest", **SMALL), 0.5),
    Row("scalloc", "virtual_span:128M", peak("threadtest", **SMALL)),
    Row("scalloc", "arena:16M", count("reserved bytes", "threadtest", threads=1, size=64, objects=1000, rounds=2), 0.1),
    Row("scalloc", "account:true", time("threadtest", **SMALL)),
    Row("cif", "colours:1", share(), 0.6),
    Row("cif", "colours:64", share(), 1.7),
    Row("cif", "superblock:1M", share(), 1.7),
    Row("cif", "array:ciu", share(), 0.8),
    Row("cif", "array:multiple", share(), beside="classes:halves"),
    Row("cif", "classes:halves", count("peak held bytes", "shbench", low=8, high=1000, blocks=1_000_000), 0.98),
    Row("cif", "classes:odd", share(), 1.4),
    Row("cif", "classes:adjusted", share()),
    Row("cif", "colour:none", share(), 0.6),
    Row("cif", "colour:after", share()),
    Row("cif", "line:16,page:2K", share("t2"), 1.05),
    Row("cif", "align:false", lines(), 1.5),
    Row("cif", "seed:7", colours_repeat(), 1.5),
    Row("cif", "f:1/16", count("global locks", "larson", **LARSON)),
    Row("cif", "k:0", count("global locks", "larson", **LARSON), 1.1),
    Row("cif", "heaps:1", time("threadtest", **SMALL)),
    Row("cif", "release:true", end("threadtest", **SMALL), 0.5),
)


def measure(recipe: Recipe, row: Row, allocator: Allocator, rounds: int) -> tuple[float, float]:
    """Without the option and with it."""
    variants = [with_options(allocator, row.beside),
                with_options(allocator, ",".join(filter(None, [row.beside, row.option])))]
    samples: list[list[float]] = [[], []]
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            samples[side].append(row.what[1](recipe, variants[side]))
    return statistics.median(samples[0]), statistics.median(samples[1])


def holds(row: Row, without: float, with_it: float) -> bool:
    return with_it >= row.least * without if row.least > 1 else with_it <= row.least * without


def plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--allocators", default=",".join(PAPERS), metavar="NAMES", help="default %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="options that contain it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=os.environ.get("SCALE") or 1.0, help="of what is run")
    parser.add_argument("--check", action="store_true", help="only what is counted; status 1 if an effect is missing")
    arguments = parser.parse_args()
    arguments.allocators = arguments.allocators.split(",")
    if unknown := set(arguments.allocators) - set(PAPERS):
        parser.error(f"no allocator of a paper is called {', '.join(sorted(unknown))}")
    if not math.isfinite(arguments.scale) or arguments.scale <= 0 or arguments.rounds < 1:
        parser.error("--scale and --rounds must be above 0")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    build_dir = arguments.build_dir.resolve()
    os.environ["COFFER_BUILD_DIR"] = str(build_dir)
    recipe = Recipe(build_dir, arguments.scale)
    if not (build_dir / "bench" / "suite").exists():
        raise BenchError(f"{build_dir}/bench has no programs: cmake --build {build_dir} --target bench_programs")
    libraries = {one.name: one for one in find(arguments.allocators, build_dir)}
    rows = [row for row in ROWS if row.paper in libraries and arguments.only in row.option
            and (row.least or not arguments.check)]
    if not rows:
        raise BenchError(f"no row is about {arguments.only!r}")
    shrunk = f"; SHRUNK: {arguments.scale:g} of the operations" if arguments.scale < 1 else ""
    print(f"{describe(machine_facts(list(libraries.values())))}{shrunk}\n", flush=True)
    table, missed = [], 0
    for row in rows:
        without, with_it = measure(recipe, row, libraries[row.paper], arguments.rounds)
        verdict = "" if not row.least else "as said" if holds(row, without, with_it) else "MISSED"
        missed += verdict == "MISSED"
        ratio = f"{with_it / without:.2f}" if without else "-"
        table.append([row.paper, ",".join(filter(None, [row.option, row.beside and f"({row.beside})"])), row.what[0],
                      plain(without), plain(with_it), ratio, verdict])
        if sys.stderr.isatty():
            print(f"\r\033[K{row.paper} {row.option}", end="", file=sys.stderr, flush=True)
    print(format_table(["", "option", "workload and figure", "without", "with", "ratio", "counted"], table))
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BenchError, CofferError) as problem:
        sys.exit(f"papers/options: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
