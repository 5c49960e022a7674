# SPDX-License-Identifier: MIT
"""The sub-command: a trace as one page that needs nothing but itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from coffer.errors import CofferError
from coffer.files import check_inputs
from coffer.replay import play
from coffer.trace import program


def report(
    trace: Annotated[Path, typer.Argument(help="A file that coffer record wrote.")],
    output: Annotated[Optional[Path], typer.Option("--output", "-o", show_default="beside the trace, .html")] = None,
    allocator: Annotated[str, typer.Option("--allocator", "-a", metavar="NAME,NAME", help=(
        "Under which the trace is replayed, as coffer replay has it; none: under none."))] = "coffer,glibc",
    rounds: Annotated[int, typer.Option(min=1, help="Of each replay; the one with least time is shown.")] = 3,
    window: Annotated[int, typer.Option(help="Bytes that can be given back only as a whole.")] = 32768,
    timeout: Annotated[float, typer.Option(min=0.1, max=1e6, help="Seconds that one replay may take.")] = 600.0,
) -> None:
    """One HTML page: live and held over time, sizes, lifetimes, call sites, what pins memory, every allocator."""
    program.check_input(trace)
    target = output or trace.with_suffix(".html")
    check_inputs(target, [trace])
    if not target.parent.is_dir():
        raise CofferError(f"{target.parent}: no such directory")
    if target.is_dir():
        raise CofferError(f"{target}: is a directory")
    from coffer.report import page  # here, since plotly takes a second that no other command shall wait

    chosen = [] if allocator == "none" else play.choose(allocator)
    check_inputs(target, play.files_of(chosen))
    page.write(trace, target, chosen, play.Options(rounds=rounds, timeout=timeout), window)
    print(target)
