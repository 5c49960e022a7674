# SPDX-License-Identifier: MIT
"""The parts of the report: the table at the top, the lists of losses, all rows, the papers' figures, and what is
counted once; each as plain values that a page, Markdown or a terminal can show."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from coffer_bench import charts, samples, scaling
from coffer_bench import summary as sums
from coffer_bench.allocators import is_used
from coffer_bench.errors import BenchError
from coffer_bench.passes import QUICK_LATENCIES
from coffer_bench.stats import Estimate
from coffer_bench.summary import DRAW, OURS, Row, Summary

PAPERS = Path(__file__).resolve().parent / "papers.json"
SHOWN_LOSSES = 10


def names_of(found: Summary) -> list[str]:
    return [name for name in [OURS, *found.peers] if name in found.allocators]


def show(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def mark(found: Estimate | None) -> str:
    return "" if found is None or abs(found.value - 1) < DRAW else "lost" if found.value > 1 else "won"


def warnings(found: Summary) -> list[str]:
    plan = found.header["plan"]
    result = []
    if plan["quick"]:
        result.append("A quick run: experiments are smaller than the papers', and intervals wide.")
    if plan["scale"] != 1:
        result.append(f"SCALE={plan['scale']:g}: experiments are shrunk by this.")
    if not found.finished:
        result.append("The run is not finished: what it has so far.")
    if single := sum(1 for row in [*found.time, *found.calls, *found.memory] if row.verdict == "undecided"):
        where = "One round" if found.rounds == 1 else f"{single} rows have one round"
        result.append(f"{where}: no interval, any difference may be chance, and they count as even.")
    if found.cut:
        result.append(f"Out of time for {len(found.cut)} workloads, named at the end.")
    load = found.header["machine"].get("load", 0)
    if load > 0.5:
        result.append(f"The machine did other work at the start (load {load:.1f}): see the intervals.")
    return result


# The table at the top.


def top_lines(found: Summary) -> list[dict]:
    def part(rows: Sequence[Row], peer: str | None) -> dict:
        mean = sums.mean_versus(rows, peer) if peer else sums.mean_versus_best(rows)
        lost, even, won = sums.tally(rows, peer)
        return {
            "value": f"{mean.value:.2f}" if mean else "-",
            "interval": str(mean or ""),
            "mark": mark(mean),
            "lost": lost,
            "even": even,
            "won": won,
        }

    def said(peer: str) -> str:
        rows = sum(1 for row in found.time if peer in row.versus)
        return peer if is_used(peer) else f"{peer}, in {rows} row{'s' if rows != 1 else ''}"

    lines = [
        ("the best of each row", None),
        *((peer, peer) for peer in found.used),
        *((said(peer), peer) for peer in found.peers if not is_used(peer)),
    ]
    return [
        {
            "name": name,
            "time": part(found.time, peer),
            "memory": part(found.memory, peer),
            "used": peer is None or is_used(peer),
        }
        for name, peer in lines
    ]


def loss_lists(found: Summary) -> list[dict]:
    result = []
    for title, rows in (
        ("Time: where Coffer loses", found.time),
        ("Single calls: where Coffer loses", found.calls),
        ("Memory: where Coffer loses", found.memory),
    ):
        if rows is found.calls and not rows:
            continue
        lost, undecided = sums.losses(rows), sums.undecided(rows)
        result.append(
            {
                "title": f"{title} ({len(lost)} of {len(rows)} rows)",
                "undecided": undecided_text(undecided),
                "more": max(0, len(lost) - SHOWN_LOSSES),
                "lost": [
                    {"value": f"{row.versus_best.value:.2f}×", "name": row.name, "best": row.best}
                    for row in lost[:SHOWN_LOSSES]
                ],
            }
        )
    return result


def undecided_text(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    shown = [f"{row.name} {row.versus_best.value:.2f}×" for row in rows[:SHOWN_LOSSES]]
    return f"In one round, which decides nothing, {len(rows)} more look so: {'; '.join(shown)}" + (
        " …" if len(rows) > SHOWN_LOSSES else "."
    )


# All rows.


def cell(row: Row, name: str) -> dict:
    if name in row.failed:
        return {"text": "failed", "mark": "lost", "title": row.failed[name]}
    if name not in row.measured:
        return {"text": "", "mark": "", "title": ""}
    value, least = row.median(name), row.least
    verdict = row.verdict if name == OURS and row.verdict in ("lost", "won") else ""
    return {"text": f"{value / least:.2f}", "mark": verdict, "title": f"{show(value)} {row.unit}"}


def row_tables(found: Summary) -> list[dict]:
    result = []
    for title, rows in (
        ("Time", found.time),
        ("Single calls", found.calls),
        ("Peak memory", found.memory),
        ("Memory when all is freed", found.end),
        ("Page faults", found.faults),
    ):
        unit = sums.common_unit(rows)
        lines = [
            {
                "name": row.name,
                "group": row.group,
                "what": row.what,
                "least": sums.with_rest(show(row.least), row, unit) if row.measured else "-",
                "interval": str(row.versus_best or ""),
                "cells": [cell(row, name) for name in names_of(found)],
            }
            for row in sums.ordered(rows)
        ]
        if lines:
            means = [show(sums.mean_ratio_to_best(rows, name)) for name in names_of(found)]
            result.append({"title": title, "unit": unit, "rows": lines, "means": means})
    return result


# The papers' figures.


def pattern_rows(results: samples.Results, figure: str) -> list[Row]:
    """Rows of a figure that memory patterns have: only these."""
    patterns = {**results.header, "workloads": [one for one in results.header["workloads"] if not one["timed"]]}
    return sums.make_rows(samples.Results(patterns, results.records), figure, "memory", unit="A/U")


def paper_figures(found: Summary, results: samples.Results) -> list[dict]:
    try:
        papers = json.loads(PAPERS.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(f"{PAPERS}: {error}") from error
    result = []
    for paper in papers:
        rows = pattern_rows(results, paper["figure"]) if "figure" in paper else [*found.time, *found.baselines]
        chosen = [row for row in rows if row.measured and row.name.startswith(tuple(paper["workloads"]))]
        if not chosen:
            continue
        parts = [charts.versus_chart(chosen, names_of(found), "")]
        for phase in paper.get("phases", []):
            of_phase = phase_rows(results, phase, tuple(paper["workloads"]))
            chosen += of_phase
            parts += [charts.versus_chart(of_phase, names_of(found), phase)] if of_phase else []
        memory = [row for row in found.memory if row.measured and row.name in {one.name for one in chosen}]
        if "figure" not in paper and memory:
            parts.append(charts.versus_chart(memory, names_of(found), "Peak memory"))
        result.append({**paper, "here": here(chosen, paper.get("rate", "")), "html": parts})
    return result


def phase_rows(results: samples.Results, phase: str, workloads: tuple[str, ...]) -> list[Row]:
    """What a program times apart, in milliseconds."""

    def milliseconds(figures: samples.Record) -> float | None:
        value = figures.get(f"phase.{phase}_ns")
        return value / 1e6 if value else None

    rows = [row for row in sums.make_rows(results, milliseconds, "timed", unit="ms") if row.name.startswith(workloads)]
    for row in rows:
        row.name = f"{phase} of {row.name}"
    return [row for row in rows if row.measured]


def here(rows: Sequence[Row], rate: str = "") -> str:
    """What this run shows, in a line. `rate`: and how many that is a millisecond, of what an operation is."""
    parts = []
    for row in rows:
        own = row.median(OURS)
        if row.baseline:
            least = min(row.median(name) for name in row.measured)
            parts.append(f"{row.name}: {show(least)} {row.unit} without an allocator")
            continue
        place = 1 + sum(1 for name in row.measured if row.median(name) < own) if OURS in row.measured else 0
        others = f", {row.versus_best.value:.2f} of {row.best}" if row.versus_best else ""
        if rate and own > 0:
            others += f", {1e6 / own:,.0f} {rate}"
        parts.append(
            f"{row.name}: Coffer {show(own)} {row.unit}, {ordinal(place)} of {len(row.measured)}{others}"
            if place
            else f"{row.name}: Coffer failed"
        )
    return "; ".join(parts) + "."


def ordinal(place: int) -> str:
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place if place < 20 else place % 10, 'th') }".replace(" ", "")


# What is counted once.


def count_tables(found: Summary) -> list[dict]:
    result = latency_table(found)
    if found.instructions:
        result.append(
            count_table(
                "Instructions inside malloc and free",
                "the same on every run; by callgrind",
                "case",
                found,
                {record["workload"]: {} for record in found.instructions},
                [(record["workload"], record["allocator"], record["instructions"]) for record in found.instructions],
            )
        )
    for key, title in (
        ("l1_misses", "Misses of the first-level cache"),
        ("tlb_misses", "Misses of a TLB of 64 pages"),
        ("pages", "Distinct pages"),
    ):
        values = [(record["workload"], record["allocator"], record[key]) for record in found.misses if key in record]
        if values:
            note = (
                "Simulated: rings, lists and programs by the addresses of a lap, of 100 accesses; locality and the "
                "ring of threads by cachegrind, of a whole run."
            )
            result.append(count_table(title, note, "row", found, {workload: {} for workload, _, _ in values}, values))
    return result


def count_table(title: str, note: str, head: str, found: Summary, by_row: dict[str, dict], values: list) -> dict:
    for workload, allocator, value in values:
        by_row[workload][allocator] = value
    names = [name for name in names_of(found) if any(name in line for line in by_row.values())]
    return {
        "title": title,
        "note": note,
        "head": head,
        "names": names,
        "lines": [
            {"name": workload, "cells": [show(line[name]) if name in line else "-" for name in names]}
            for workload, line in by_row.items()
        ],
    }


# Scaling on simulated cores.


def scaling_tables(found: Summary) -> list[dict]:
    return scaling.tables(found.scaling, found.walls, found.cpus)


def scaling_parts(found: Summary) -> list[dict]:
    return [
        {**table, "html": charts.scaling_chart(table["curves"], table["real"])}
        for table in scaling_tables(found)
    ]


# The rows whose latencies are drawn; those of all others are in the table.
DRAWN = QUICK_LATENCIES


def latency_charts(found: Summary) -> list[str]:
    return [
        charts.latency_chart(by_allocator, names_of(found), f"{workload}: {call}")
        for (workload, call), by_allocator in latencies(found).items()
        if workload.startswith(DRAWN)
    ]


def latencies(found: Summary) -> dict[tuple[str, str], dict[str, dict]]:
    """By workload and kind of call, by allocator."""
    result: dict[tuple[str, str], dict[str, dict]] = {}
    for record in found.latencies:
        for call, figures in record["calls"].items():
            result.setdefault((record["workload"], call), {})[record["allocator"]] = figures
    return result


def latency_table(found: Summary) -> list[dict]:
    by_row = latencies(found)
    names = [name for name in names_of(found) if any(name in one for one in by_row.values())]

    def text(figures: dict | None) -> str:
        return f"{figures['p50']:,} / {figures['p99']:,} / {figures['p99.9']:,}" if figures else "-"

    lines = [
        {"name": f"{workload}: {call}", "cells": [text(by_allocator.get(name)) for name in names]}
        for (workload, call), by_allocator in by_row.items()
    ]
    note = (
        f"{sums.LATENCY_UNIT} that half of the calls, 99 % and 99.9 % of them take at most, one reading of the clock "
        "included."
    )
    return [{"title": "Latencies", "note": note, "head": "row", "names": names, "lines": lines}] if lines else []
