# SPDX-License-Identifier: MIT
"""Puts the page together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coffer.errors import CofferError
from coffer.files import whole
from coffer.heap import sites, stacks, verdicts
from coffer.heap.show import from_whom
from coffer.heap.taken import Taken
from coffer.page import render
from coffer.profile import of_trace
from coffer.replay import command as replay_command
from coffer.replay import play
from coffer.report import charts, over_time
from coffer.trace import program, tables
from coffer.trace.tables import duration, size
from coffer_bench.allocators import Allocator

HERE = Path(__file__).resolve().parent
TOP = 20
FRAMES = 12
WORTH_SAYING = 0.2  # of all calls: freed at once
NO_STACKS = "The recording has no call stacks, so nothing says who holds memory: coffer record --stacks unwind."


def write(trace: Path, target: Path, chosen: list[Allocator], options: play.Options, window: int) -> None:
    found = program.survey(trace, window)
    description = tables.describe(trace)
    if not tables.has_calls(found):
        missing = f"; {description['shortfall']}" if description["shortfall"] else ""
        raise CofferError(f"{trace}: nothing to report: the trace has no allocation and no free{missing}")
    facts: dict[str, Any] = {}
    results: list[play.Result] = []
    if chosen and found["peak_bytes"]:
        facts, results = play.replay(trace, chosen, options)
    text = render.page(HERE / "page.html.j2", **sections(trace, found, description, facts, results))
    with whole(target, trace) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def sections(trace: Path, found: dict[str, Any], description: dict[str, Any], facts: dict[str, Any],
             results: list[play.Result]) -> dict[str, Any]:
    recorded = of_trace.Recorded(description, found, of_trace.flows(trace))
    seen = verdicts.with_names(Taken(end=recorded.profile(), moments=recorded.moments(),
                                     is_program=recorded.has_ended))
    by_number = {one["stack"]: stack for one, stack in zip(recorded.flows.stacks, seen.last.stacks, strict=True)}
    worst = found.get("at_worst") or {}
    pinning = sorted(worst.get("by_stack", []), key=lambda one: -one["pinned"])[:TOP]
    notes = tables.notes(description)
    if facts:
        notes += [text for text in replay_command.warnings(facts, "all") if text not in notes]
    if not description["stacks"]:
        notes.append(NO_STACKS)
    return {
        "title": trace.name,
        "program": tables.command_line(description["information"]),
        "verdicts": [*verdicts.verdicts_of(seen, is_peak_first=True), *at_once(recorded, seen.last),
                     *replayed(results)],
        "tiles": tiles(found),
        "facts": tables.facts(description, found),
        "notes": notes,
        "data": render.safe(over_time.data(found, recorded.flows, seen.last)),
        "waste": charts.waste(found),
        "remote": charts.remote(found),
        "remote_share": remote_share(found),
        "moment": moment_lines(worst),
        "pins": [pin_line(by_number.get(one["stack"]), one, worst) for one in pinning if one["pinned"]],
        "replay_head": replay_command.HEAD,
        "replays": [replay_command.line(result) for result in results if not result.failure],
        "failures": [f"{result.name}: {result.failure}" for result in results if result.failure],
        "memory": charts.replays(results),
        "latency": charts.latencies(results),
    }


def tiles(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The three figures that matter."""
    result = [(size(found["peak_bytes"]), f"most live, at {duration(found['peak_ns'])}")]
    if series := found["figures"].get("resident"):
        time_ns, most = max(series, key=lambda point: point[1])
        result.append((size(most), f"most resident of the process, at {duration(time_ns)}"))
    elif worst := found.get("at_worst"):
        result.append((size(worst["pinned"]), f"pinned in half-empty spans, at {duration(worst['time_ns'])}"))
    return [*result, (size(found["end_bytes"]), f"in {found['end_blocks']:,} blocks live at the end")]


def at_once(recorded: of_trace.Recorded, heap: stacks.Heap) -> list[str]:
    """What is allocated to be freed before anything else is, if much is."""
    calls, temporary = 0, stacks.Heap(heap.program, heap.period, heap.time_ns, heap.duration_ns)
    for found, stack in zip(recorded.flows.stacks, heap.stacks, strict=True):
        calls += sum(row[2] for row in found["flows"])
        blocks, count = (sum(row[at] for row in found["flows"]) for at in (6, 5))
        figure = stacks.Sum(blocks, count, blocks)
        temporary.stacks.append(stacks.Stack(stack.places, stack.group, stack.site, figure, figure))
    sites_of = sites.sites(temporary, sites.LIVE, with_callers=True)
    blocks = sites.whole(sites_of).blocks
    if blocks < WORTH_SAYING * calls:
        return []
    return [f"{blocks / calls:.0%} of the calls are freed before their thread allocates again:"
            f" {size(sites.whole(sites_of).bytes)}, {from_whom(sites_of)}."]


def replayed(results: list[play.Result]) -> list[str]:
    done = [result for result in results if not result.failure]
    if len(done) < 2:
        return []
    return ["Replayed: " + "; ".join(
        f"{result.name} {size(1024 * result.figures['memory']['peak_kib'])} at most,"
        f" {duration(result.figures['calls']['all']['ns'])} in its calls" for result in done) + "."]


def pin_line(stack: stacks.Stack | None, one: dict[str, Any], worst: dict[str, Any]) -> dict[str, Any]:
    share = one["pinned"] / max(1, worst["pinned"])
    places = stack.places[stack.site:][:FRAMES] if stack else ()
    return {"name": over_time.title(stack) if stack else "(no stack recorded)",
            "frames": [f"{place.function}  {place.source}" for place in places],
            "share": f"{share:.0%}", "percent": f"{100 * share:.1f}",
            "cells": [size(one["pinned"]), str(one["pinning"]), size(one["live"])]}


def moment_lines(worst: dict[str, Any]) -> str:
    if not worst:
        return ""
    how = "" if worst["addresses"] == "recorded" else (
        " The trace has no addresses: this is how a plain allocator with a span for each size class would hold it.")
    return (f"At {duration(worst['time_ns'])} {size(worst['live'])} were live in {size(worst['used'])} of spans of "
            f"{size(worst['window'])}; {worst['half_empty']} of {worst['windows']} were less than half full, and "
            f"{size(worst['pinned'])} were pinned in those.{how}")


def remote_share(found: dict[str, Any]) -> str:
    frees = sum(count for _, _, count, _ in found["remote"])
    remote = sum(count for maker, freer, count, _ in found["remote"] if maker != freer)
    return f"{remote} of {frees} frees ({remote / max(1, frees):.1%}) were of blocks that another thread allocated."
