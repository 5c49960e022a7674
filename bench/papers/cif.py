#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures 1 to 5 of paper 3 (cache index-aware allocation), measured anew: cif.py [--figures 1,2,3,4,5].

Each figure is a table: an allocator a column, beside CIF its own variants. Times are processor time, medians of rounds
in which the allocators run in turn, in an order shuffled anew for each row and round. docs/papers.md says what of the
paper's conclusions holds. SCALE (or --scale) shrinks what is timed, and the first line says so.

Figure 4 is of 64 threads on 8 cores that share caches; no thread here has a core with so many. So it is simulated: the
addresses of 8 to 64 processes, or threads, that have two blocks each, in eight L1s of the paper's machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "bench"), str(TOP / "tools")]

from coffer.errors import CofferError
from coffer.index import geometry
from coffer.index.survey import Sizes, survey
from coffer_bench import index_inputs
from coffer_bench.allocators import PAPERS, PEERS, Allocator, BenchError, describe, find, machine_facts, run
from coffer_bench.index_rows import ORDERS, PAIRS, PROGRAMS, ListRow, ProgramRow, Row
from coffer_bench.simulate import list_accesses, simulate
from coffer_bench.tables import format_table
from index import Settings, time_program

FIGURES = "1,2,3,4,5"
# As the paper has them: CIU is flat, CIF-NoColor has spacers and no colours. The last two are the shapes with which
# CIF reaches every index on lines of 64 bytes.
VARIANTS = {"ciu": "array:ciu", "cif-nocolour": "colour:none", "cif-64": "colours:64", "cif-1M": "superblock:1M"}
PAPERS_CACHE = "line:16,page:2048"
SIZES = [64, 120, 128, 248, 256, 504, 512, 1000, 1024, 2000, 2048, 4000, 4096, 8000, 8192]
Table = dict[str, dict[str, float]]  # by row, by allocator
AnyRow = Row | ProgramRow


@dataclass(frozen=True)
class Recipe:
    build_dir: Path
    allocators: list[Allocator]
    rounds: int
    scale: float

    @property
    def programs(self) -> Path:
        return self.build_dir.resolve() / "bench" / "index"

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.allocators]

    def medians(self, rows: Sequence[AnyRow], measure: Callable[[Allocator, AnyRow], float]) -> Table:
        samples: dict[str, dict[str, list[float]]] = {row.name: {name: [] for name in self.names} for row in rows}
        shuffle = random.Random(1)
        for number in range(self.rounds):
            for row in rows:
                progress(f"round {number + 1} of {self.rounds}: {row.name}")
                for allocator in shuffle.sample(self.allocators, len(self.allocators)):
                    samples[row.name][allocator.name].append(measure(allocator, row))
        progress("")
        return {row: {name: statistics.median(taken) for name, taken in by_name.items()}
                for row, by_name in samples.items()}


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--figures", default=FIGURES, metavar="N,N", help="default %(default)s")
    parser.add_argument("--allocators", metavar="NAMES", help="default: all that are here, and CIF's variants")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=os.environ.get("SCALE") or 1.0, help="of what is timed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every figure, with facts of the machine")
    arguments = parser.parse_args()
    if unknown := set(arguments.figures.split(",")) - set(FIGURES.split(",")):
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {FIGURES}")
    if not math.isfinite(arguments.scale) or arguments.scale <= 0 or arguments.rounds < 1:
        parser.error("--scale and --rounds must be above 0")
    return arguments


def choose(names: str | None, build_dir: Path) -> list[Allocator]:
    if names:
        found = find(names.split(","), build_dir)
    else:
        found = []
        for name in ["coffer", "cif", "glibc", *PEERS, *(name for name in PAPERS if name != "cif")]:
            try:
                found += find([name], build_dir)
            except BenchError as error:
                if name in ("coffer", "cif", "glibc"):
                    raise
                print(f"left out: {error}")
    for cif in [one for one in found if one.name == "cif"]:
        found += [Allocator(name, cif.library, options) for name, options in VARIANTS.items()]
    return found


def of_the_papers_cache(allocator: Allocator) -> Allocator:
    """CIF and its variants as they are on the paper's lines."""
    if allocator.variable != "CIF_CONF":
        return allocator
    return Allocator(allocator.name, allocator.library, ",".join(filter(None, [allocator.options, PAPERS_CACHE])))


def show(title: str, table: Table, names: Sequence[str], digits: int) -> None:
    lines = [[row, *(f"{by_name[name]:,.{digits}f}" if name in by_name else "" for name in names)]
             for row, by_name in table.items()]
    print(format_table([title, *names], lines) + "\n", flush=True)


def figure_1(recipe: Recipe) -> dict[str, Table]:
    """Distinct indices of 256 blocks of a size, on both machines."""
    tables: dict[str, Table] = {}
    for title, machine, prepare in (
        ("this machine", geometry.this_machine(), lambda one: one),
        ("UltraSPARC T2", geometry.MACHINES["t2"], of_the_papers_cache),
    ):
        table: Table = {str(size): {} for size in SIZES} | {"mean share, 64 to 8192": {}}
        for allocator in map(prepare, recipe.allocators):
            progress(f"{title}: {allocator.name}")
            found = survey(allocator, Sizes(low=64, high=8192, step=8), machine, aligned=False).sizes
            by_size = {one["size"]: one["l1"] for one in found}
            for size in SIZES:
                table[str(size)][allocator.name] = by_size[size]["distinct"]
            table["mean share, 64 to 8192"][allocator.name] = statistics.fmean(one["share"] for one in by_size.values())
        progress("")
        lines = [[row, *(f"{by_name[name]:.{2 if 'share' in row else 0}f}" for name in recipe.names)]
                 for row, by_name in table.items()]
        print(format_table([f"1: indices of {machine.l1.sets}, {title}", *recipe.names], lines) + "\n", flush=True)
        tables[title] = table
    return tables


def steps_a_ms(recipe: Recipe) -> Callable[[Allocator, Row], float]:
    def measure(allocator: Allocator, row: Row) -> float:
        return 1e6 / float(run(allocator, row.command(recipe.programs, recipe.scale))["cpu_ns_per_op"])

    return measure


def figure_2(recipe: Recipe) -> Table:
    """Steps of a walk round the blocks in a millisecond. 512 blocks, not 256: the L1s of today have more lines. In
    random order, too, since prefetchers guess an ascending one."""
    rows = [Row(f"{size}, {order}", "mcache", {"blocks": 512, "size": size, "order": order}, operations=4_000_000)
            for order in ORDERS for size in (128, 504, 1000, 2000, 4000, 8000)]
    table = recipe.medians(rows, steps_a_ms(recipe))
    show("2: steps a ms, 512 blocks", table, recipe.names, 0)
    return table


def figure_3(recipe: Recipe) -> Table:
    """Times of the index-sensitive programs over the least of each row."""
    rows: list[AnyRow] = [
        ListRow("llubenchmark, 250", "llubenchmark", {"size": 250}),
        ListRow("llubenchmark, 2000", "llubenchmark", {"size": 2000}),
        *(program for program in PROGRAMS if program.available()),
        Row("stdmap", "stdmap"),
        *([Row("xml", "xml")] if (recipe.programs / "xml").exists() else []),
        Row("gauss 200x200", "matrix", {"kernel": "gauss"}),
        Row("dot product 200x200", "matrix", {"kernel": "dot"}),
    ]
    settings = Settings(recipe.build_dir, recipe.rounds, recipe.scale)
    index_inputs.write(settings.inputs)

    def measure(allocator: Allocator, row: AnyRow) -> float:
        if isinstance(row, ProgramRow):
            return time_program(allocator, row, settings)
        return float(run(allocator, row.command(recipe.programs, recipe.scale))["cpu_ns_per_op"])

    times = recipe.medians(rows, measure)
    table = {row: {name: value / min(by_name.values()) for name, value in by_name.items()}
             for row, by_name in times.items()}
    show("3: time over the best", table, recipe.names, 2)
    return times


def figure_4_cell(recipe: Recipe, allocator: Allocator, what: str, count: int) -> float:
    row = (Row(what, "mcache", PAIRS, processes=count, cores=8) if what == "processes"
           else Row(what, "mcache", {**PAIRS, "threads": count}, cores=8))
    text = list_accesses(of_the_papers_cache(allocator), row, recipe.programs)
    return simulate(text, recipe.build_dir, row.cores, geometry.MACHINES["t2"], l2=False)["l1"]


def figure_4(recipe: Recipe) -> Table:
    """Misses of the L1 of a hundred steps."""
    table: Table = {}
    for what in ("processes", "threads"):
        for count in (8, 16, 32, 64):
            name = f"{count} {what}"
            for allocator in recipe.allocators:
                progress(f"{name}: {allocator.name}")
                table.setdefault(name, {})[allocator.name] = figure_4_cell(recipe, allocator, what, count)
    progress("")
    show("4: L1 misses of 100 steps, T2, simulated", table, recipe.names, 1)
    return table


def figure_5(recipe: Recipe) -> Table:
    """Pairs of malloc and free in a millisecond, all threads together, of wall time as in the paper."""
    most = len(os.sched_getaffinity(0))
    counts = sorted({count for count in (1, 2, 4, 8, 16, 32, 64) if count <= most} | {most, 2 * most})
    rows = [Row(f"{count} threads", "mmicro", {"threads": count}) for count in counts]

    def measure(allocator: Allocator, row: Row) -> float:
        return 1e6 / float(run(allocator, row.command(recipe.programs, recipe.scale))["ns_per_op"])

    table = recipe.medians(rows, measure)
    show("5: malloc and free, pairs a ms", table, recipe.names, 0)
    return table


def main() -> int:
    arguments = parse_arguments()
    build_dir = arguments.build_dir.resolve()
    os.environ["COFFER_BUILD_DIR"] = str(build_dir)
    recipe = Recipe(build_dir, choose(arguments.allocators, build_dir), arguments.rounds, arguments.scale)
    if not recipe.programs.exists():
        raise BenchError(f"{recipe.programs} has no programs: cmake --build {build_dir} --target bench_programs")
    facts = machine_facts(recipe.allocators)
    shrunk = f"; SHRUNK: {recipe.scale:g} of the operations" if recipe.scale < 1 else ""
    print(f"{describe(facts)}\n{geometry.this_machine().describe()}{shrunk}\n", flush=True)
    found = {}
    for number in sorted(arguments.figures.split(",")):
        found[number] = globals()[f"figure_{number}"](recipe)
    if arguments.json:
        content = {"machine": facts, "scale": recipe.scale, "figures": found}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BenchError, CofferError) as problem:
        sys.exit(f"papers/cif: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
