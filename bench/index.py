#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Placement on cache indices: paper 3's survey, its benchmarks, and both again in a simulated cache.

Allocators run in turn, in an order shuffled anew for each row and round; times are processor time, medians of the
rounds. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from coffer_bench import index_inputs
from coffer_bench.allocators import (
    PAPERS,
    TOP,
    Allocator,
    BenchError,
    describe,
    find,
    machine_facts,
    parse_line,
    run,
    verify_library,
)
from coffer_bench.index_rows import JUDGED_SIZES, ORDERS, PROGRAMS, RINGS_512, ROWS, SIMULATED_ONLY, ProgramRow, Row
from memory import choose_allocators
from coffer_bench.simulate import TLB, can_simulate, list_accesses, simulate
from coffer_bench.tables import format_table

sys.path.insert(0, str(TOP / "tools"))

from coffer.errors import CofferError
from coffer.index import figures, geometry
from coffer.index.survey import Sizes, survey

PARTS = ("survey", "time", "simulated")
# Coffer and CIF with parts of placement switched off, or more of it; left out where the library does not know the
# option. (`ciu` is paper 3's own name for CIF without spacers.)
VARIANTS = {"flat": ("coffer", "placement:flat"), "nocolour": ("coffer", "colour:false"),
            "ciu": ("cif", "array:ciu"), "cif-nocolour": ("cif", "colour:none"), "cif64": ("cif", "colours:64")}
MEAN_LINE, LEAST_LINE = "mean share, all sizes", "least share, all"
LEAST_MEAN_SHARE, LEAST_SHARE, RING_TARGET = 0.99, 0.9, 1.1
# Not an allocator: rings whose blocks the program places itself, as evenly as can be. What they cost is the machine's.
IDEAL = Allocator("ideal", None)


@dataclass(frozen=True)
class Settings:
    build_dir: Path
    rounds: int
    scale: float

    @property
    def programs(self) -> Path:
        return self.build_dir.resolve() / "bench" / "index"

    @property
    def inputs(self) -> Path:
        return self.build_dir.resolve() / "bench" / "inputs"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="operations, times this")
    parser.add_argument("--only", metavar="TEXT", help="rows whose name contains one of these, separated by commas")
    parser.add_argument("--peers", metavar="NAMES", help="default: all that Debian has, and those from crates")
    parser.add_argument("--parts", default=",".join(PARTS), help="default %(default)s")
    parser.add_argument("--high", type=int, default=65536, help="the survey's largest size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every sample, with facts of the machine")
    parser.add_argument("--assert", dest="strict", action="store_true", help="exit 1 if Coffer misses a target")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts.split(",")) - set(PARTS):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return arguments


def knows(allocator: Allocator, option: str, program: Path) -> bool:
    """Whether this library has the option: it warns of those that it does not know."""
    environment = {"LD_PRELOAD": str(allocator.library), allocator.variable: option}
    done = subprocess.run([program, "high=64", "count=1"], env=environment, capture_output=True, text=True, check=True)
    return not done.stderr


def add_variants(allocators: list[Allocator], build_dir: Path) -> list[Allocator]:
    result = list(allocators)
    for allocator in allocators:
        survey_program = build_dir.resolve() / "libexec" / "coffer" / "survey"
        result += [Allocator(name, allocator.library, options) for name, (of, options) in VARIANTS.items()
                   if of == allocator.name and knows(allocator, options, survey_program)]
    return result


# The survey.

LARGE = Sizes(low=128 << 10, high=4 << 20, step=128 << 10, count=64)


def survey_figures(allocator: Allocator, high: int) -> dict[str, float]:
    """By the names of their lines in the table."""
    here_machine = geometry.this_machine()
    here = survey(allocator, Sizes(high=high), here_machine, aligned=True)
    t2 = survey(allocator, Sizes(high=min(high, figures.PAPER[1])), geometry.MACHINES["t2"], aligned=False)
    large = survey(allocator, LARGE, here_machine, aligned=False)
    paper, whole = figures.summary(here, *figures.PAPER), figures.summary(here, Sizes.low, high)
    wastes = {one["size"]: figures.waste(one) for one in here.aligned}
    return {
        "mean share, 64 to 8192": paper["mean_share"],
        "least share": paper["least_share"],
        "sizes under 0.9": paper["under_0.9"],
        MEAN_LINE: whole["mean_share"],
        LEAST_LINE: whole["least_share"],
        "large, to 4 MiB: mean share": figures.summary(large, LARGE.low, LARGE.high)["mean_share"],
        "misses of 100 steps": whole["conflicts"],
        "L2: mean share": whole["l2_mean_share"],
        "blocks on a line": whole["on_line"],
        "aligned to 4096: waste": wastes[4096],
        "powers of two: mean waste": statistics.fmean(wastes.values()),
        "powers of two: worst": max(wastes.values()),
        "powers of two: NOT ALIGNED": sum(1 for one in here.aligned if one["misaligned"]),
        "T2: mean share, to 8192": figures.summary(t2, *figures.PAPER)["mean_share"],
    }


def survey_part(allocators: list[Allocator], high: int) -> dict[str, dict[str, float]]:
    found = {}
    for allocator in allocators:
        progress(f"survey: {allocator.name}")
        found[allocator.name] = survey_figures(allocator, high)
    names = list(found)
    lines = [[line, *(show_survey(line, found[name][line]) for name in names)] for line in found[names[0]]]
    progress("")
    print(format_table(["survey", *names], lines), flush=True)
    return found


def show_survey(line: str, value: float) -> str:
    if "waste" in line or "worst" in line or "on a line" in line:
        return f"{value:.1%}"
    digits = 0 if "under" in line or "NOT" in line else 1 if "misses" in line else 3
    return f"{value:.{digits}f}"


# Times.

Samples = dict[str, dict[str, list[float]]]  # by row, by allocator: ns of processor time an operation, or seconds


def time_row(allocator: Allocator, row: Row, settings: Settings) -> float:
    command = row.command(settings.programs, settings.scale)
    if allocator is IDEAL:
        command.append("placed=1")
    if row.processes == 1:
        return float(run(allocator, command)["cpu_ns_per_op"])
    started = [subprocess.Popen(command, env=allocator.environment(), stdout=subprocess.PIPE, text=True)
               for _ in range(row.processes)]
    texts = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise BenchError(f"{row.name} under {allocator.name}: a process failed")
    results = [parse_line(text) for text in texts]
    verify_library(allocator, results[0]["library"])
    return statistics.fmean(float(result["cpu_ns_per_op"]) for result in results)


def time_program(allocator: Allocator, row: ProgramRow, settings: Settings) -> float:
    """Seconds of user time. Programs write where they are run: into a directory of their own. What they print goes into
    a file: grep stops at the first match when it sees that nobody reads."""
    with tempfile.TemporaryDirectory() as directory, open(Path(directory) / "errors", "w+") as errors:
        for path in settings.inputs.iterdir():
            os.symlink(path, Path(directory) / path.name)
        (Path(directory) / "answers").write_text(row.standard_input)
        with open(Path(directory) / "answers") as answers, open(Path(directory) / "printed", "w") as printed:
            process = subprocess.Popen(row.command, env=allocator.environment(), cwd=directory, stdin=answers,
                                       stdout=printed, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
        # Popen did not wait itself, and shall not look for the process again.
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        complaints = errors.read().strip()
    # The loader's warning that it could not preload would be among them.
    if process.returncode != 0 or "LD_PRELOAD" in complaints:
        raise BenchError(f"{row.name} under {allocator.name}: status {process.returncode}: {complaints}")
    return usage.ru_utime


def time_part(
    allocators: list[Allocator], rows: list[Row | ProgramRow], settings: Settings
) -> tuple[Samples, list[str]]:
    samples: Samples = {row.name: {one.name: [] for one in [*allocators, *([IDEAL] if has_ideal(row) else [])]}
                        for row in rows}
    failures: dict[tuple[str, str], str] = {}
    shuffle = random.Random(1)
    for number in range(settings.rounds):
        for row in rows:
            progress(f"round {number + 1} of {settings.rounds}: {row.name}")
            for allocator in shuffle.sample([*allocators, IDEAL], len(allocators) + 1):
                if (row.name, allocator.name) in failures or (allocator is IDEAL and not has_ideal(row)):
                    continue
                measure = time_program if isinstance(row, ProgramRow) else time_row
                try:
                    samples[row.name][allocator.name].append(measure(allocator, row, settings))
                except BenchError as error:
                    failures[row.name, allocator.name] = str(error)
                    samples[row.name][allocator.name] = []
    progress("")
    print(time_table(samples, [*(allocator.name for allocator in allocators), IDEAL.name]), flush=True)
    return samples, list(failures.values())


def has_ideal(row: Row | ProgramRow) -> bool:
    return isinstance(row, Row) and row.ring


def median(samples: Samples, row: str, name: str) -> float | None:
    taken = samples.get(row, {}).get(name)
    return statistics.median(taken) if taken else None


def time_table(samples: Samples, names: list[str]) -> str:
    seconds = {row.name for row in PROGRAMS}
    lines = []
    for row, by_name in samples.items():
        values = [(median(samples, row, name), name in by_name) for name in names]
        lines.append([row, "s" if row in seconds else "ns",
                      *("" if not there else "failed" if value is None else f"{value:.3f}" for value, there in values)])
    for order in ORDERS:
        for title, ratio_of in (("best size", ring_over_best), ("ideal", ring_over_ideal)):
            ratios = [ratio_of(samples, name, order) for name in names]
            if any(ratios):
                lines.append([f"512, {order}: worst over {title}", "",
                              *(f"{ratio:.2f}" if ratio else "" for ratio in ratios)])
    return format_table(["processor time", "", *names], lines)


def ring_times(samples: Samples, name: str, order: str) -> dict[int, float] | None:
    """Of the rings of 512 blocks, by size; None unless all were measured."""
    by_size = {row.arguments["size"]: median(samples, row.name, name) for row in RINGS_512
               if row.arguments["order"] == order}
    return None if None in by_size.values() else by_size


def ring_over_best(samples: Samples, name: str, order: str) -> float | None:
    """The worst of the judged sizes over the best of all sizes."""
    times = ring_times(samples, name, order)
    return max(times[size] for size in JUDGED_SIZES) / min(times.values()) if times else None


def ring_over_ideal(samples: Samples, name: str, order: str) -> float | None:
    """The worst of the judged sizes, each over blocks of this size that are placed ideally: pages cost the same."""
    times, ideal = ring_times(samples, name, order), ring_times(samples, IDEAL.name, order)
    return max(times[size] / ideal[size] for size in JUDGED_SIZES) if times and ideal else None


# The simulator.

def simulated_part(allocators: list[Allocator], rows: list[Row], settings: Settings) -> dict[str, dict[str, dict]]:
    """By row and allocator: what misses on the paper's machine and on this one."""
    found: dict[str, dict[str, dict]] = {}
    for row in rows:
        progress(f"simulated: {row.name}")
        for allocator in allocators:
            text = list_accesses(allocator, row, settings.programs)
            t2 = simulate(text, settings.build_dir, row.cores, geometry.MACHINES["t2"], l2=False)
            here = simulate(text, settings.build_dir, row.cores, geometry.this_machine(), l2=True)
            found.setdefault(row.name, {})[allocator.name] = {
                "t2": t2["l1"], "l1": here["l1"], "l2": here["l2"], "pages": here["pages"], "tlb": here["tlb"],
                "indices": here["indices"], "lines": here["lines"]}
    progress("")
    names = [allocator.name for allocator in allocators]
    for key, title in (("t2", "L1 misses of 100 accesses, T2"), ("l1", "L1 misses of 100, this machine"),
                       ("l2", "L2 misses of 100, virtual index"), ("pages", "pages"),
                       ("tlb", f"TLB misses of 100 ({TLB})")):
        lines = [[row, *(f"{by_name[name][key]:.{0 if key == 'pages' else 1}f}" for name in names)]
                 for row, by_name in found.items()]
        print(format_table([title, *names], lines) + "\n", flush=True)
    return found


# All of it.

def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def missed(surveyed: dict[str, dict[str, float]], samples: Samples, name: str = "coffer") -> list[str]:
    """Targets of Coffer that are not reached, as far as they were measured."""
    result = []
    if found := surveyed.get(name):
        if found[MEAN_LINE] < LEAST_MEAN_SHARE:
            result.append(f"mean share {found[MEAN_LINE]:.3f}, target {LEAST_MEAN_SHARE}")
        if found[LEAST_LINE] < LEAST_SHARE:
            result.append(f"least share {found[LEAST_LINE]:.3f}, target {LEAST_SHARE}")
    for order in ORDERS:
        for title, ratio_of in (("the best size", ring_over_best), ("the ideal", ring_over_ideal)):
            ratio = ratio_of(samples, name, order)
            if ratio and ratio > RING_TARGET:
                result.append(f"ring of 512, {order}: {ratio:.2f} times {title}, target {RING_TARGET}")
    return result


def choose_rows(rows: list, only: str | None) -> list:
    return [row for row in rows if not only or any(text in row.name for text in only.split(","))]


def main() -> int:
    arguments = parse_arguments()
    settings = Settings(arguments.build_dir, arguments.rounds, arguments.scale)
    os.environ["COFFER_BUILD_DIR"] = str(arguments.build_dir.resolve())
    chosen = choose_allocators(arguments.peers, arguments.build_dir)
    if not arguments.peers:
        chosen += find([name for name in PAPERS if (arguments.build_dir / "lib" / f"lib{name}.so").exists()],
                       arguments.build_dir)
    allocators = add_variants(chosen, arguments.build_dir)
    rows, simulated_rows = (choose_rows(some, arguments.only) for some in (ROWS, [*ROWS, *SIMULATED_ONLY]))
    programs = [row for row in choose_rows(PROGRAMS, arguments.only)]
    for row in programs:
        if not row.available():
            raise BenchError(f"{row.command[0]} is missing: tools/setup.sh test installs it")
    index_inputs.write(settings.inputs)
    facts = machine_facts(allocators)
    print(describe(facts) + f"\n{geometry.this_machine().describe()}\n", flush=True)
    parts, started = arguments.parts.split(","), time.monotonic()
    surveyed, samples, simulated, failures = {}, {}, {}, []
    if "survey" in parts:
        surveyed = survey_part(allocators, arguments.high)
        print()
    if "time" in parts:
        samples, failures = time_part(allocators, [*rows, *programs], settings)
        print()
    if "simulated" in parts:
        simulated = simulated_part(allocators, [row for row in simulated_rows if can_simulate(row)], settings)
    if arguments.json:
        content = {"machine": facts, "survey": surveyed, "samples": samples, "simulated": simulated}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    for failure in failures:
        print(f"FAILED: {failure}")
    for line in (misses := missed(surveyed, samples)):
        print(f"MISSED: {line}")
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if failures or (arguments.strict and misses) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BenchError, CofferError) as problem:
        sys.exit(f"bench: {problem}")
