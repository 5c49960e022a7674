# SPDX-License-Identifier: MIT
"""Puts the page together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import plotly.offline

from coffer.errors import CofferError
from coffer.files import whole
from coffer.replay import command as replay_command
from coffer.replay import play
from coffer.report import charts
from coffer.trace import program, tables
from coffer.trace.symbols import Symbols, middle
from coffer.trace.tables import duration, size
from coffer_bench.allocators import Allocator

HERE = Path(__file__).resolve().parent
TOP = 20
FRAMES = 12
NAME = 80  # characters beside the figures; the frames have it whole


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
    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(HERE),
                                     undefined=jinja2.StrictUndefined)
    text = environment.get_template("page.html.j2").render(
        plotly=plotly.offline.get_plotlyjs(), **sections(trace, found, description, facts, results))
    with whole(target, trace) as unfinished:
        unfinished.write_text(text)


def sections(trace: Path, found: dict[str, Any], description: dict[str, Any], facts: dict[str, Any],
             results: list[play.Result]) -> dict[str, Any]:
    symbols = Symbols(description)
    worst = found.get("at_worst") or {}
    hottest = sorted(found["sites"], key=lambda site: -site["allocations"])[:TOP]
    pinning = sorted(worst.get("by_stack", []), key=lambda one: -one["pinned"])[:TOP]
    symbols.resolve([one["stack"] for one in (*hottest, *pinning)])
    notes = tables.notes(description)
    if facts:
        notes += [text for text in replay_command.warnings(facts, "all") if text not in notes]
    return {
        "title": trace.name,
        "program": tables.command_line(description["information"]),
        "facts": tables.facts(description, found),
        "notes": notes,
        "over_time": charts.over_time(found),
        "sizes": charts.sizes(found),
        "lifetimes": charts.lifetimes(found),
        "waste": charts.waste(found),
        "remote": charts.remote(found),
        "remote_share": remote_share(found),
        "sites": [site_line(symbols, site) for site in hottest],
        "moment": moment_lines(worst),
        "pins": [pin_line(symbols, one, worst) for one in pinning if one["pinned"]],
        "replay_head": replay_command.HEAD,
        "replays": [replay_command.line(result) for result in results if not result.failure],
        "failures": [f"{result.name}: {result.failure}" for result in results if result.failure],
        "memory": charts.replays(results),
        "latency": charts.latencies(results),
    }


def frames(symbols: Symbols, number: int) -> list[str]:
    return [str(frame) for frame in symbols.stack(number)[:FRAMES]]


def site_line(symbols: Symbols, site: dict[str, Any]) -> dict[str, Any]:
    return {"name": middle(symbols.name(site["stack"]), NAME), "frames": frames(symbols, site["stack"]),
            "cells": [str(site["allocations"]), size(site["bytes"]), size(site["most_live"]),
                      tables.lifetime(site), size(site["live_at_end"])]}


def pin_line(symbols: Symbols, one: dict[str, Any], worst: dict[str, Any]) -> dict[str, Any]:
    share = one["pinned"] / max(1, worst["pinned"])
    return {"name": middle(symbols.name(one["stack"]), NAME), "frames": frames(symbols, one["stack"]),
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
