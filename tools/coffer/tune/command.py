# SPDX-License-Identifier: MIT
"""The sub-command tune."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from coffer import consoles, patience, places
from coffer.errors import CofferError
from coffer.files import check_inputs, whole
from coffer.replay import play
from coffer.replay.command import warnings, write_json
from coffer_bench import allocators
from coffer_bench.allocators import Allocator


def tune(
    traces: Annotated[list[Path], typer.Argument(
        metavar="TRACE", help="Files that coffer record wrote; each is tuned for itself.")],
    check: Annotated[Optional[Path], typer.Option(
        metavar="TRACE", help="Judges by this trace of the same program, and chooses by the whole first one.",
        show_default="by the trace's 2nd and 4th quarter")] = None,
    minutes: Annotated[float, typer.Option(min=0, max=1e5, help="For each trace, about.")] = 5.0,
    gaps: Annotated[bool, typer.Option("--gaps", help=(
        "Waits between operations as the program did: what a quiet program gives back shows, and it takes long."))]
    = False,
    jobs: Annotated[int, typer.Option(min=1, max=256, help=(
        "Replays at a time. More is sooner, and times are less sure."))] = 1,
    seed: Annotated[int, typer.Option(help="Of the order of replays and of what is drawn by chance.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, max=1e6, help="Seconds that one replay may take.")] = 600.0,
    output: Annotated[Optional[Path], typer.Option(
        "--output", "-o", metavar="FILE", help="Writes the result as a page of Markdown, too.")] = None,
    json_file: Annotated[Optional[Path], typer.Option("--json", allow_dash=True, help=(
        "Writes every figure; - is the standard output, without the text."))] = None,
) -> None:
    """Searches Coffer's options for a recorded program: less memory, less time, and whether that holds."""
    # Here, since numpy takes a tenth of a second that no other command shall wait.
    from coffer.tune import outcome
    from coffer.tune.parts import Replayer, split
    from coffer.tune.search import Budget

    if check and len(traces) > 1:
        raise CofferError("--check: of one trace")
    inputs = [*traces, *filter(None, [check])]
    for target in filter(None, [output, json_file]):
        check_inputs(target, inputs)
        if not target.parent.is_dir():  # before minutes are spent
            raise CofferError(f"{target.parent}: no such directory")
    outcomes = []
    for trace in traces:
        with split(trace, check, "gaps" if gaps else "") as parts:
            player = Replayer(parts.plans, play.Options(gaps="gaps" if gaps else "", timeout=timeout))
            with patience.bar(f"tuning {trace.name}", None) as step:
                found = outcome.find(trace, check, parts, player, Budget(60 * minutes), seed, jobs, step)
            for text in warnings(parts.facts, "all"):
                print(f"coffer: {trace}: {text}", file=sys.stderr)
        outcomes.append(found)
    if output:
        with whole(output, *inputs) as unfinished:
            asked = ["coffer tune", *(trace.name for trace in traces), *(["--check", check.name] if check else []),
                     f"--minutes {minutes:g}", *(["--gaps"] if gaps else [])]
            unfinished.write_text(outcome.as_markdown(outcomes, " ".join(asked), machine(player.coffer)))
    if json_file:
        figures = [outcome.as_json(one) for one in outcomes]
        write_json(json_file, figures[0] if len(figures) == 1 else {"traces": figures})

    # Last: whoever reads it may stop.
    if json_file is None or str(json_file) != "-":
        for found in outcomes:
            outcome.show(consoles.console(), found)


def machine(coffer: Allocator) -> str:
    """What another person needs to judge the figures."""
    facts = allocators.machine_facts([coffer])
    return f"Coffer {places.version()}, commit {facts['commit']}. {allocators.describe(facts)}."
