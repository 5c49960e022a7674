# SPDX-License-Identifier: MIT
"""The sub-command itself: arguments, and what is done in which order."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from coffer import consoles
from coffer.errors import CofferError
from coffer.files import check_inputs, whole
from coffer.index import figures, geometry, report
from coffer.index.plot import check_plot, plot
from coffer.index.survey import Allocator, Result, Sizes, read_list, survey

NOTE = """\
share: indices that blocks start on, of as many as this number of blocks could reach. conflicts: of 100 steps of a walk
round the blocks' first lines, those that miss (least recently used replaced). cycles: what they add to a step, an L1
miss 10, an L2 miss 35. L2 figures are of virtual addresses: they hold where memory is in huge pages."""

FIRST_LEVEL_BLOCKS = 256  # those of the paper's figure 1
ALLOCATORS = (
    "glibc, coffer, hoard, scalloc, cif, a library's path, a name the loader knows (libjemalloc.so.2), or NAME=one of "
    "these; those of this build with options, too: cif,colours:64"
)


def not_nan(value: float) -> float:
    """A limit that nothing can miss is none, and a test with it tests nothing."""
    if math.isnan(value):
        raise typer.BadParameter("nan is no limit")
    return value


def index(
    allocators: Annotated[Optional[list[str]], typer.Argument(help=ALLOCATORS, show_default="coffer")] = None,
    addresses: Annotated[Optional[list[Path]], typer.Option(
        help="A recorded list instead: SIZE ADDRESS [ALIGNMENT [USABLE]] a line. May be repeated.")] = None,
    low: Annotated[int, typer.Option(min=1, help="Smallest size.")] = 64,
    high: Annotated[int, typer.Option(min=1, help="Largest size.")] = 65536,
    step: Annotated[int, typer.Option(min=1, help="From size to size.")] = 16,
    count: Annotated[Optional[int], typer.Option(
        min=1, max=1_000_000, show_default="256, for level 2 its sets", help="Blocks of each size.")] = None,
    together: Annotated[bool, typer.Option("--together", help="All sizes in one process, nothing freed.")] = False,
    aligned: Annotated[bool, typer.Option(help="Aligned requests, too: the memory that they hold.")] = True,
    machine: Annotated[str, typer.Option(help="Whose caches: this, t2 (the paper's), common.")] = "this",
    level: Annotated[int, typer.Option(min=1, max=2, help="The cache that is judged.")] = 1,
    l1: Annotated[Optional[str], typer.Option(metavar="LINE:SETS:WAYS", help="States the first-level cache.")] = None,
    l2: Annotated[Optional[str], typer.Option(metavar="LINE:SETS:WAYS", help="States the second-level cache.")] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst sizes are shown.")] = 5,
    size: Annotated[Optional[list[int]], typer.Option(help="Shows the indices of this size, too.")] = None,
    plot_file: Annotated[Optional[Path], typer.Option("--plot", help="Draws a picture: .svg, .png, .pdf.")] = None,
    json_file: Annotated[Optional[Path], typer.Option("--json", help="Writes every figure.")] = None,
    least_mean: Annotated[float, typer.Option(
        min=0, max=1, callback=not_nan, help="Fails if the mean share of a survey is less.")] = 0,
    least: Annotated[float, typer.Option(
        min=0, max=1, callback=not_nan, help="Fails if the share of a size is less.")] = 0,
) -> None:
    """How evenly an allocator's blocks fall on the cache: the survey of paper 3."""
    if plot_file:
        check_plot(plot_file)
    chosen = [Allocator.parse(text) for text in allocators or ([] if addresses else ["coffer"])]
    for path in filter(None, (plot_file, json_file)):
        check_writable(path)
        check_inputs(path, [*(addresses or []), *(Path(one.library) for one in chosen if one.library)])
    if low > high:
        raise CofferError(f"--low {low} is above --high {high}")
    shape = geometry.choose(machine, l1, l2)
    if level == 2:
        shape = shape.judging_second()
    count = count or (FIRST_LEVEL_BLOCKS if level == 1 else shape.l1.sets)
    # A file is as wide as the tables are.
    console = consoles.console()
    console.print(shape.describe())
    results = [read_list(path, shape) for path in addresses or []]
    sizes = Sizes(low, high, step, count, together)
    for allocator in chosen:
        results.append(survey(allocator, sizes, shape, aligned))

    show(console, results, worst, size or [])
    if plot_file:
        if not all(result.sizes for result in results):
            raise CofferError("nothing to draw: a list has aligned requests only")
        plot(results, shape, plot_file)
    if json_file:
        whole = {"machine": shape.describe(), "results": [vars(result) for result in results]}
        write(json_file, json.dumps(whole) + "\n")
    if failures := list(failed(results, least_mean, least)):
        raise CofferError("; ".join(failures))


def check_writable(path: Path) -> None:
    """Before the survey, which takes a minute."""
    place = path if path.exists() and not path.is_file() else path.parent
    if path.is_dir() or not place.exists() or not os.access(place, os.W_OK):
        why = "is a directory" if path.is_dir() else "cannot be written" if place.exists() else "no such directory"
        raise CofferError(f"{path}: {why}")


def write(path: Path, text: str) -> None:
    with whole(path) as unfinished:
        unfinished.write_text(text)


def show(console: Console, results: list[Result], worst: int, sizes: list[int]) -> None:
    for table in report.summary_tables(results):
        console.print(table)
    console.print(report.histogram_table(results))
    if worst:
        console.print(report.worst_table(results, worst))
    for size in sizes:
        for result in results:
            if not result.between(size, size):
                raise CofferError(f"{result.name}: no blocks of {size} bytes")
            console.print(report.index_table(result, size))
    if table := report.aligned_table(results):
        console.print(table)
    console.print(NOTE)


def failed(results: list[Result], least_mean: float, least: float):
    """What misses the targets; nothing without targets."""
    for result in results:
        for low, high in figures.ranges([result]):
            found = figures.summary(result, low, high)
            if found["mean_share"] < least_mean:
                yield f"{result.name}: mean share {found['mean_share']:.4f} of sizes {low} to {high}"
            if found["least_share"] < least:
                yield f"{result.name}: share {found['least_share']:.4f} at {found['least_size']} bytes"
