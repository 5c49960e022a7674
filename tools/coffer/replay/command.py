# SPDX-License-Identifier: MIT
"""The sub-command: arguments, and the table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer
from rich.console import Console

from coffer import consoles
from coffer.errors import CofferError
from coffer.files import check_inputs, whole
from coffer.index.report import make_table
from coffer.replay import play
from coffer.replay.play import Options, Result

HEAD = ["", "in allocator", "ns a call", "p50", "p99", "p99.9", "max", "peak KiB", "final KiB", "A/U", "faults"]
NOTE = """\
in allocator: sum over all calls, less what reading the clock costs ({clock:.0f} ns a call, which the percentiles have).
KiB: resident memory and page tables that came since the first operation; {own} KiB of the replay's own are not in it.
A/U: the highest of that over the most bytes live at a time ({live} KiB), as Hoard's paper has it; headers are not
counted as live."""


def replay(
    trace: Annotated[Path, typer.Argument(help="A file that coffer record wrote.")],
    allocator: Annotated[str, typer.Option("--allocator", "-a", metavar="NAME,NAME", help=(
        "coffer, glibc, jemalloc and the other names of coffer bench list, or a library's path with a slash."))]
    = "coffer,glibc",
    touch: Annotated[Literal["all", "first", "none"], typer.Option(
        help="What is written to: all lines of a block, its first bytes, or none.")] = "all",
    gaps: Annotated[bool, typer.Option("--gaps", help="Waits between operations as the program did.")] = False,
    instructions: Annotated[bool, typer.Option("--instructions", help=(
        "Executes as many instructions between operations as the program did (coffer record --instructions)."))]
    = False,
    lead: Annotated[int, typer.Option(min=0, show_default="a thousandth of all, at least 1000", help=(
        "By how many operations a thread may be ahead of the slowest one."))] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="In turn; the round with least time is shown.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, max=1e6, help="Seconds that one round may take.")] = 600.0,
    json_file: Annotated[Optional[Path], typer.Option("--json", allow_dash=True, help=(
        "Writes every figure, memory over time too; - is the standard output, without the table."))] = None,
) -> None:
    """Does again what a program did with its memory, under any allocator: time, latency, memory."""
    chosen = play.choose(allocator)
    if json_file:
        check_inputs(json_file, [trace, *play.files_of(chosen)])
    facts, results = play.replay(trace, chosen, Options(touch, between(gaps, instructions), lead, rounds, timeout))
    if json_file:
        whole = {"trace": str(trace), **facts, "touch": touch, "gaps": gaps, "instruction_gaps": instructions,
                 "rounds": rounds,
                 "results": [result.as_json() for result in results]}
        write_json(json_file, whole)
    if json_file is None or str(json_file) != "-":
        console = consoles.console()
        show(console, trace, facts, results, touch)
    if failed := [result for result in results if result.failure]:
        raise CofferError("\ncoffer: ".join(f"{result.name}: {result.failure}" for result in failed))


def between(gaps: bool, instructions: bool) -> str:
    if gaps and instructions:
        raise CofferError("--gaps and --instructions: either the time between operations or the instructions")
    return "gaps" if gaps else "instructions" if instructions else ""


def write_json(path: Path, figures: dict[str, Any]) -> None:
    text = json.dumps(figures) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        return
    with whole(path) as unfinished:
        unfinished.write_text(text)


def show(console: Console, trace: Path, facts: dict[str, Any], results: list[Result], touch: str) -> None:
    console.print(f"{trace}: {facts['operations']} operations of {facts['threads']} threads in "
                  f"{facts['duration_ns'] / 1e9:.3f} s", markup=False)
    for text in warnings(facts, touch):
        console.print(f"note: {text}", markup=False)
    done = [result for result in results if not result.failure]
    if not done:
        return
    console.print(make_table("", HEAD, [line(result) for result in done]))
    first = done[0].figures
    console.print(NOTE.format(clock=first["clock_ns"], own=first["memory"]["own_kib"], live=facts["peak_live"] // 1024),
                  markup=False)


def warnings(facts: dict[str, Any], touch: str) -> list[str]:
    texts = []
    if facts["shortfall"]:
        texts.append(facts["shortfall"])
    if facts["lost"]:
        texts.append(f"the recorder lost {facts['lost']} records")
    if facts["unknown_frees"]:
        texts.append(f"{facts['unknown_frees']} frees of blocks from before the recording are left out")
    if facts["left_out"]:
        texts.append(f"{facts['left_out']} allocations that failed are left out")
    if touch != "all":
        texts.append("blocks are not written to as a whole: memory is less than the program's")
    return texts + list(filter(None, [play.load_warning()]))


def line(result: Result) -> list[str]:
    figures, calls = result.figures, result.figures["calls"]["all"]
    memory = figures["memory"]
    return [result.name, f"{calls['ns'] / 1e6:.2f} ms", f"{calls['ns'] / max(1, calls['count']):.1f}",
            *(f"{calls[key]:.0f}" for key in ("p50", "p99", "p99.9", "max")), str(memory["peak_kib"]),
            str(memory["final_kib"]), f"{result.fragmentation:.3f}", str(figures["faults"])]
