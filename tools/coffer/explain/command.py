# SPDX-License-Identifier: MIT
"""The sub-command explain."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.text import Text

from coffer import consoles, loading, places, signals
from coffer.errors import CofferError
from coffer.explain import mappings, picture, reasons
from coffer.explain.survivors import survivors
from coffer.heap import show, stacks, taken
from coffer.heap.outputs import Files
from coffer.live import page, processes
from coffer.profile import proto
from coffer.profile.command import is_rate
from coffer.trace.tables import size

LOOK_SECONDS = 0.1
HIGHER = 1.03  # another moment is taken when more by so much is above live
BAR = 24


@dataclass
class Found:
    explanation: reasons.Explanation
    reading: page.Reading
    time_ns: int  # since 1970
    others: list[str] = field(default_factory=list)


def look(watched: processes.Watched, number: int) -> Found:
    reading = watched.read(max_age=0)  # of now, as the kernel's
    maps = mappings.read(number)
    return Found(reasons.explain(reading, maps, number, mappings.page_tables(number)), reading, time.time_ns())


def split_rounding(found: Found, asked: stacks.Sum) -> None:
    """What was asked for, apart from what rounding up to size classes adds: where the profile knows all blocks, and
    its error does not hide it."""
    live = found.explanation.reasons[0]
    lost = round(min(found.reading.figures["live"] - asked.bytes, live.bytes))
    if lost > 2 * stacks.error_of(asked) * asked.bytes:
        live.name, live.bytes = "live blocks, as they were asked for", live.bytes - lost
        found.explanation.reasons.insert(1, reasons.Reason(
            "rounding of live blocks up to their classes", lost,
            "goes with the blocks; less where they have a class's size (coffer trace info: which do not)",
            is_live=True, key="rounding"))


def who(found: Found, profile: proto.Profile | None, knows_all: bool) -> list[dict[str, Any]]:
    """Names those that keep spans half empty."""
    if profile is None:
        return []
    heap = stacks.named([profile])[0]
    classes = [one["block_bytes"] for one in found.reading.classes]
    if knows_all:
        split_rounding(found, heap.live)
    result = []
    for one in survivors(heap, found.explanation.fullest, classes):
        result.append({"function": one.site.place.function, "source": one.site.source, "bytes": round(one.sum.bytes),
                       "blocks": round(one.sum.blocks), "error": round(stacks.error_of(one.sum), 4),
                       "text": f"{one.site.title}{show.caller_of(one.site)}: {show.amount(one.sum)}"})
    return result


def verdicts(explanation: reasons.Explanation, held_by: list[dict[str, Any]]) -> list[str]:
    result = [reasons.verdict(explanation)]
    if held_by and any(one.key == "spans" for one in explanation.reasons):
        block = reasons.class_name(explanation.fullest or 0)
        result.append(f"Live among them, in spans {block}: {'; '.join(one['text'] for one in held_by)}.")
    return result


def print_text(console: Console, found: Found, held_by: list[dict[str, Any]], title: str) -> None:
    explanation = found.explanation
    soft = not console.is_terminal
    for number, text in enumerate(verdicts(explanation, held_by)):
        console.print(Text(text, style="" if number else "bold"), soft_wrap=soft)
    for note in explanation.notes:
        console.print(Text(note, style="dim"), soft_wrap=soft)
    console.print(Text(f"\n{explanation.program} ({explanation.process}), resident memory by reason{title}",
                       style="bold"), soft_wrap=soft)
    for one in explanation.reasons:
        share = one.bytes / max(1, explanation.rss)
        console.print(Text.assemble((f"{size(one.bytes):>10} {share:>6.1%} ", "green"),
                                    ("█" * round(BAR * share)).ljust(BAR), "  ", (one.name, "bold")), soft_wrap=soft)
        for text in one.detail:
            console.print(Text(f"{'':20}{text}", style="dim"), soft_wrap=soft)
        console.print(Text(f"{'':20}→ {one.release}", style="cyan"), soft_wrap=soft)
    console.print(Text(f"{size(explanation.page_tables):>10}         besides, in page tables: not in RSS", style="dim"),
                  soft_wrap=soft)


def of_process(number: int, signal: int | None, with_profile: bool,
               dump_signal: int | None, force: bool) -> tuple[Found, proto.Profile | None, bool]:
    """With the profile, and whether that knows all blocks."""
    with processes.Watched(number, signal) as watched:
        found = look(watched, number)
    if not with_profile and dump_signal is None:
        return found, None, False
    asked = taken.of_process(number, taken.Question(dump_signal, force=force), 1.0, 1)
    return found, asked.last, asked.since_start


def nearest(folder: Path, number: int, time_ns: int) -> proto.Profile | None:
    """Of the profiles that the process wrote, that of the moment."""
    found = taken.read_folder(folder).get(number)
    if found is None:
        return None
    profiles = [*found.moments, *([found.end] if found.end else [])]
    return min(profiles, key=lambda one: abs(one.time_ns - time_ns), default=None)


def of_program(program: list[str], rate: str) -> tuple[Found, proto.Profile | None, int]:
    """At the moment when most was above live."""
    loading.tell("explain", program[0])
    folder = Path(tempfile.mkdtemp(prefix="coffer-explain-"))
    try:
        options = f"share:true,profile:true,profile_rate:{rate},profile_to:{folder}/coffer"
        environment = taken.with_moments(places.environment(last=options), folder, looks=True)
        with signals.started(program, environment) as process:
            most = watch(process)
            status = signals.status_of(process)
        if most is None:
            error = CofferError("the program ended before it could be looked at, or does not run under a preloaded"
                                " library")
            error.status = status or 1
            raise error
        return most, nearest(folder, process.pid, most.time_ns), status
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def watch(process: Any) -> Found | None:
    most: Found | None = None
    while process.poll() is None:
        with contextlib.suppress(CofferError):  # not yet, or not any more
            with processes.Watched(process.pid) as watched:
                while process.poll() is None:
                    found = look(watched, process.pid)
                    if most is None or found.explanation.above > HIGHER * most.explanation.above:
                        most = found
                    time.sleep(LOOK_SECONDS)
        time.sleep(0.02)
    return most


def explain(
    target: Annotated[Optional[list[str]], typer.Argument(
        metavar="PID | PROGRAM [ARGUMENT]...", show_default=False,
        help="The number of a process; or a program and its arguments, after --.")] = None,
    pid: Annotated[Optional[int], typer.Option("--pid", metavar="PID", min=1, help="The same.", show_default=False)
                   ] = None,
    signal: Annotated[Optional[int], typer.Option(
        help="The process's share_signal, when it shows no page yet.", show_default=False)] = None,
    with_profile: Annotated[bool, typer.Option(
        "--who", help="Of a process: asks who holds what is live, too. Of a program it is known."),
    ] = False,
    dump_signal: Annotated[Optional[int], typer.Option(
        help="The same, by this signal.", show_default=False)] = None,
    force: Annotated[bool, typer.Option(
        "--force", help="With --who: also a process whose seccomp filter may end it for this.")] = False,
    rate: Annotated[str, typer.Option(help="Of a program: mean bytes between samples.")] = "64K",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    html: Annotated[Optional[Path], typer.Option(
        metavar="FILE", help="A page with a picture of it, that needs nothing else.", show_default=False)] = None,
) -> None:
    """Why more is resident than live: memory by reason, and what would give each back."""
    if not is_rate(rate):
        raise CofferError(f"--rate {rate}: a size from 1 to 1T, such as 512K")
    if (pid is None) == (not target):
        raise CofferError("a process or a program: one of them is needed")
    Files(None, html, None, None).check([])
    status, title, knows_all = 0, "", True
    if pid is None and target and len(target) == 1 and target[0].isascii() and target[0].isdigit():
        pid = int(target[0])
    if pid is not None:
        found, profile, knows_all = of_process(pid, signal, with_profile, dump_signal, force)
    else:
        found, profile, status = of_program(target or [], rate)
        title = ", when most was above live"
    held_by = who(found, profile, knows_all)
    if html is not None:
        picture.write(html, found.explanation, verdicts(found.explanation, held_by), title)
        print(f"coffer: {html}", file=sys.stderr)
    if as_json:
        print(json.dumps(reasons.as_json(found.explanation, reasons.verdict(found.explanation), held_by)))
    else:
        print_text(consoles.console(), found, held_by, title)
    raise typer.Exit(status)
