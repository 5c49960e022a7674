#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tables 2 to 7 and figures 3a to 3f and 4 of paper 1 (Hoard), measured anew: hoard.py [--exhibits table2,figure3,...].

The programs are those of bench/suite, with the papers' arguments as far as this machine bears them (suite.json). Each
figure is the median of rounds in which the allocators run in turn, in an order shuffled anew each round. The paper's
machine has 14 processors; figures here go as far as this one has, and to twice that. docs/papers.md says what of the
paper's conclusions holds. SCALE (or --scale) shrinks the programs further, and the first line says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "bench")]

from coffer_bench import processes
from coffer_bench.allocators import PAPERS, PEERS, Allocator, BenchError, describe, find, machine_facts
from coffer_bench.errors import Unavailable
from coffer_bench.programs.base import INPUTS, directory, find_program
from coffer_bench.suite import pairs, parse_suite, read_suite, scaled
from coffer_bench.tables import format_table
from coffer_bench.workload import Settings

# The paper's names for the programs of suite.json. Those of Wilson and Johnstone's that are not free software are
# programs of the same kind; Ghostscript is itself, from Debian.
SINGLE = {"espresso": "logic minimiser", "Ghostscript": "", "LRUsim": "LRU stack", "p2c": "Pascal to C"}
SEVERAL = {"threadtest": "threadtest 8", "shbench": "shbench 8-100", "Larson": "larson 10-100",
           "BEMengine": "boundary elements", "Barnes-Hut": "Barnes-Hut"}
FALSE_SHARING = {"active-false": "active-false", "passive-false": "passive-false"}
PROGRAMS = SINGLE | SEVERAL | FALSE_SHARING
# Figure 3's parts. BEMengine's are of phases of one program: its mostly parallel parts, and the solver alone.
PARTS = {"3a threadtest": ("threadtest", ""), "3b shbench": ("shbench", ""), "3c Larson": ("Larson", ""),
         "3d Barnes-Hut": ("Barnes-Hut", ""), "3e BEMengine, all": ("BEMengine", ""),
         "3f BEMengine, solver": ("BEMengine", "phase.solver_ns")}
# Which heap a thread uses: by the thread, the default; or by the processor, as the paper's measurements by LWP.
ASSIGNED = {"": "", ", by processor": "assign:processor"}
USUAL = "glibc,hoard,coffer"
FRACTIONS = ("1/8", "1/4", "1/2")
EXHIBITS = ("table2", "table3", "table4", "table5", "table6", "table7", "figure3", "figure4")
Results = dict[str, str]
Table = dict[str, dict[str, float]]  # by row, by column


@dataclass(frozen=True)
class Recipe:
    settings: Settings
    allocators: list[Allocator]
    rounds: int
    others: list[Allocator]  # table 7 has them, too

    @property
    def hoard(self) -> Allocator:
        return next(one for one in self.allocators if one.name == "hoard")

    def run(self, allocator: Allocator, program: str, threads: int = 0) -> tuple[Results, str]:
        """What the program printed, and what was written to stderr."""
        if program == "Ghostscript":
            return self.run_ghostscript(allocator)
        entry = next(one for one in read_suite() if one["name"] == PROGRAMS[program])
        arguments = {**scaled(entry, self.settings), **({"threads": threads} if threads else {})}
        command = [str(self.settings.bench_dir / entry["program"]), *pairs(arguments)]
        outcome = processes.execute(command, allocator.environment(), timeout=self.settings.timeout,
                                    name=allocator.name)
        return parse_suite(outcome.stdout.decode()), outcome.stderr.decode()

    def run_ghostscript(self, allocator: Allocator) -> tuple[Results, str]:
        """Four pages to the printer that is none; an operation is a page. Fewer dots where the programs shrink."""
        dots = max(40, round(200 * min(1.0, self.settings.scale) ** 0.5))
        with directory() as work:
            command = [find_program("gs", "ghostscript"), "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=ppmraw",
                       f"-r{dots}", "-o", "page%d.ppm", str(INPUTS / "picture.ps")]
            outcome = processes.execute(command, allocator.program_environment(work), timeout=self.settings.timeout,
                                        cwd=work, name=allocator.name)
            pages = len(list(work.glob("page*.ppm")))
        if pages != 4:
            raise BenchError(f"Ghostscript under {allocator.name}: {pages} pages, not 4")
        return {"wall_ns": str(outcome.wall_ns), "operations": "4"}, outcome.stderr.decode()

    def medians(self, rows: Sequence[tuple[str, str, int, str]], allocators: Sequence[Allocator]) -> Table:
        """Nanoseconds of wall time an operation, by row and allocator. A row: name, program, threads, and the key of
        its time ("": all of it)."""
        samples: dict[str, dict[str, list[float]]] = {row[0]: {one.name: [] for one in allocators} for row in rows}
        shuffle = random.Random(1)
        for number in range(self.rounds):
            for name, program, threads, key in rows:
                progress(f"round {number + 1} of {self.rounds}: {name}")
                for allocator in shuffle.sample(list(allocators), len(allocators)):
                    results, _ = self.run(allocator, program, threads)
                    time = float(results[key or "wall_ns"]) / max(1.0, float(results["operations"]))
                    samples[name][allocator.name].append(time)
        progress("")
        return {row: {name: statistics.median(taken) for name, taken in by_name.items()}
                for row, by_name in samples.items()}


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def show(title: str, table: Table, digits: int = 2) -> Table:
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    lines = [[name, *(f"{row[column]:,.{digits}f}" if column in row else "" for column in columns)]
             for name, row in table.items()]
    print(format_table([title, *columns], lines) + "\n", flush=True)
    return table


def with_options(allocator: Allocator, options: str, name: str = "") -> Allocator:
    return Allocator(name or allocator.name, allocator.library, ",".join(filter(None, [allocator.options, options])))


def counts_of(text: str) -> dict[str, float]:
    """The lines "name = number" that stats:true writes."""
    lines = re.finditer(r"^(\S[^=\n]*?) +=\s+(\d+)$", text, re.MULTILINE)
    return {match[1]: float(match[2]) for match in lines}


def counted(recipe: Recipe, program: str, threads: int, options: str = "") -> dict[str, float]:
    hoard = with_options(recipe.hoard, ",".join(filter(None, ["stats:true,peaks:true", options])))
    counts = counts_of(recipe.run(hoard, program, threads)[1])
    if "U bytes" not in counts:
        raise BenchError(f"{program}: hoard wrote no counts: is {hoard.library} Hoard?")
    return counts


def peak_of_coffer(recipe: Recipe, program: str, threads: int) -> float | None:
    """The most bytes that Coffer held at once; None: it is not among the allocators."""
    for coffer in (one for one in recipe.allocators if one.name == "coffer"):
        printed = recipe.run(with_options(coffer, "stats:true"), program, threads)[1]
        return counts_of(printed)["peak held bytes"]
    return None


def single() -> list[str]:
    """The programs of one thread that are here."""
    try:
        find_program("gs", "ghostscript")
    except Unavailable as missing:
        print(f"left out: {missing}")
        return [name for name in SINGLE if name != "Ghostscript"]
    return list(SINGLE)


def processors() -> int:
    return len(os.sched_getaffinity(0))


def thread_counts() -> list[int]:
    most = processors()
    return sorted({count for count in (1, 2, 4, 8, 16, 32, 64) if count <= most} | {most, 2 * most})


def table2(recipe: Recipe) -> Table:
    """Times on one processor; the change is against the C library's allocator, which stands for Solaris's."""
    # Without Larson, as in the paper.
    several = [name for name in SEVERAL | FALSE_SHARING if name != "Larson"]
    rows = [*((name, name, 0, "") for name in single()), *((name, name, 1, "") for name in several)]
    times = recipe.medians(rows, recipe.allocators)
    table: Table = {}
    for name, row in times.items():
        table[name] = dict(row)
        if "glibc" in row and "hoard" in row:
            table[name]["hoard/glibc"] = row["hoard"] / row["glibc"]
    ratios = [row["hoard/glibc"] for row in table.values() if "hoard/glibc" in row]
    if ratios:
        table["geometric mean"] = {"hoard/glibc": statistics.geometric_mean(ratios)}
    return show("2: ns an operation, one thread", table)


def table3(recipe: Recipe) -> Table:
    """Blocks that were in use in a superblock when a heap took it from the global heap."""
    table = {}
    for name in SEVERAL:
        for label, options in ASSIGNED.items():
            counts = counted(recipe, name, processors(), options)
            table[name + label] = {key: counts[key] for key in ("falsely shared", "from global heap", "mallocs")}
    return show(f"3: {processors()} threads", table, 0)


def table4(recipe: Recipe) -> Table:
    """U is of blocks, as Hoard counts them: what requests lose inside of blocks is not in A/U. The paper's U is of
    requests."""
    table = {}
    for name in [*single(), *SEVERAL]:
        for label, options in ASSIGNED.items():
            if name in SINGLE and label:
                continue
            counts = counted(recipe, name, 0 if name in SINGLE else processors(), options)
            table[name + label] = {
                "A/U": counts["A bytes"] / max(1.0, counts["U bytes"]),
                "U KiB": counts["U bytes"] / 1024,
                "A KiB": counts["A bytes"] / 1024,
                "blocks": counts["mallocs"],
            }
            if not label and (peak := peak_of_coffer(recipe, name, 0 if name in SINGLE else processors())):
                table[name]["Coffer, over the same U"] = peak / max(1.0, counts["U bytes"])
    return show("4: fragmentation of Hoard", table)


def table5(recipe: Recipe) -> Table:
    """Times with other empty fractions, over those with 1/4."""
    variants = [with_options(recipe.hoard, f"f:{fraction}", f"f = {fraction}") for fraction in FRACTIONS]
    times = recipe.medians([(name, name, processors(), "") for name in SEVERAL], variants)
    table = {name: {key: value / row["f = 1/4"] for key, value in row.items()} for name, row in times.items()}
    return show(f"5: time over f = 1/4, {processors()} threads", table)


def table6(recipe: Recipe) -> Table:
    table: Table = {}
    for name in SEVERAL:
        for fraction in FRACTIONS:
            counts = counted(recipe, name, processors(), f"f:{fraction}")
            table.setdefault(name, {})[f"f = {fraction}"] = counts["A bytes"] / max(1.0, counts["U bytes"])
    return show(f"6: A/U, {processors()} threads", table)


def others(build_dir: Path) -> list[Allocator]:
    found = []
    for name in [*PEERS, *PAPERS]:
        try:
            found += [one for one in find([name], build_dir) if one.name not in USUAL.split(",")]
        except BenchError as error:
            print(f"left out: {error}")
    return found


def table7(recipe: Recipe) -> Table:
    """The taxonomy, measured. fast: threadtest on one thread, over the fastest. scalable: how much longer each thread
    takes when all processors run one. false sharing: the same of active- and passive-false. blowup: the peak of
    sixteen threads that free what their neighbour allocated, over what is live (patterns/ring)."""
    most = processors()
    programs = ("threadtest", *FALSE_SHARING)
    allocators = [*recipe.allocators, *recipe.others]
    times = recipe.medians([(f"{name} {count}", name, count, "") for name in programs for count in (1, most)],
                           allocators)
    fastest = min(times["threadtest 1"].values())
    table: Table = {}
    for allocator in allocators:
        name = allocator.name
        progress(f"blowup: {name}")
        command = [str(recipe.settings.bench_dir / "patterns" / "ring")]
        output = processes.execute(command, allocator.environment(), timeout=recipe.settings.timeout, name=name).stdout
        # An operation of all threads together takes 1/most of the time if nothing is in the way.
        table[name] = {
            "fast": times["threadtest 1"][name] / fastest,
            **{label: most * times[f"{program} {most}"][name] / times[f"{program} 1"][name]
               for label, program in zip(("scalable", "active sharing", "passive sharing"), programs)},
            "blowup": json.loads(output)["ratio"],
        }
    progress("")
    return show(f"7: 1 is best, {most} threads", table)


def speedups(recipe: Recipe, parts: dict[str, tuple[str, str]], title: str) -> dict[str, Table]:
    """Speedup with respect to the C library's allocator on one thread, as the paper's is to Solaris's."""
    found = {}
    for part, (program, key) in parts.items():
        times = recipe.medians([(str(count), program, count, key) for count in thread_counts()], recipe.allocators)
        base = times["1"].get("glibc") or times["1"]["hoard"]
        table = {f"{count} threads": {name: base / value for name, value in row.items()}
                 for count, row in times.items()}
        found[part] = show(f"{title}{part}: speedup", table)
    return found


def figure3(recipe: Recipe) -> dict[str, Table]:
    return speedups(recipe, PARTS, "")


def figure4(recipe: Recipe) -> dict[str, Table]:
    return speedups(recipe, {"4a active-false": ("active-false", ""), "4b passive-false": ("passive-false", "")}, "")


def positive(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0")
    return value


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--exhibits", default=",".join(EXHIBITS), metavar="NAME,NAME", help="default %(default)s")
    parser.add_argument("--allocators", metavar="NAMES", help="hoard must be among them; default glibc,hoard,coffer, "
                        "and for table 7 all that are here")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=positive, default=os.environ.get("SCALE") or 1.0, help="of the programs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every figure, with facts of the machine")
    arguments = parser.parse_args()
    arguments.exhibits = arguments.exhibits.split(",")
    if unknown := set(arguments.exhibits) - set(EXHIBITS):
        parser.error(f"no exhibit is called {', '.join(sorted(unknown))}; there are {', '.join(EXHIBITS)}")
    if arguments.rounds < 1:
        parser.error("--rounds must be above 0")
    if arguments.allocators and "hoard" not in arguments.allocators.split(","):
        parser.error("--allocators must have hoard among them")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    settings = Settings(arguments.build_dir, scale=arguments.scale, timeout=600.0)
    chosen = find((arguments.allocators or USUAL).split(","), arguments.build_dir)
    recipe = Recipe(settings, chosen, arguments.rounds, [] if arguments.allocators else others(arguments.build_dir))
    if not (settings.bench_dir / "suite").exists():
        raise BenchError(f"{settings.bench_dir} has no programs: cmake --build {arguments.build_dir} --target "
                         "bench_programs")
    facts = machine_facts(recipe.allocators)
    shrunk = f"; SHRUNK: programs at {arguments.scale:g} of suite.json's size" if arguments.scale < 1 else ""
    print(f"{describe(facts)}{shrunk}\n", flush=True)
    recipes: dict[str, Callable[[Recipe], object]] = {name: globals()[name] for name in EXHIBITS}
    found = {name: recipes[name](recipe) for name in EXHIBITS if name in arguments.exhibits}
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": facts, "scale": arguments.scale, "exhibits": found}, indent=1)
                                  + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"papers/hoard: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
