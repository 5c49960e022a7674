"""The report of a run: a page that needs nothing but itself, the same as Markdown, and a picture."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import jinja2
import plotly.offline
from rich.console import Console
from rich.table import Table

from coffer_bench import allocators, charts, samples
from coffer_bench import summary as sums
from coffer_bench.errors import BenchError
from coffer_bench.stats import Estimate
from coffer_bench.summary import DRAW, OURS, Row, Summary

HERE = Path(__file__).resolve().parent
PAPERS = HERE / "papers.json"
SHOWN_LOSSES = 10


def write(results: Path, directory: Path, clock: str = "wall") -> None:
    found = sums.summarise(samples.read(results), clock)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace(directory / "index.html", page(found, samples.read(results)))
        replace(directory / "report.md", markdown(found))
        charts.overview(found, directory / "overview.png")
    except OSError as error:
        raise BenchError(f"{directory}: the report cannot be written: {error.strerror}") from error


def replace(path: Path, text: str) -> None:
    """Whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text)
    os.replace(unfinished, path)


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
    if found.rounds == 1:
        result.append("One round: no row has an interval, and any difference may be chance.")
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

    lines = [("the best of each row", None), *((peer, peer) for peer in found.peers)]
    return [{"name": name, "time": part(found.time, peer), "memory": part(found.memory, peer)} for name, peer in lines]


def loss_lists(found: Summary) -> list[dict]:
    result = []
    for title, rows in (("Time: where Coffer loses", found.time), ("Memory: where Coffer loses", found.memory)):
        lost = sums.losses(rows)
        result.append(
            {
                "title": f"{title} ({len(lost)} of {len(rows)} rows)",
                "more": max(0, len(lost) - SHOWN_LOSSES),
                "lost": [
                    {"value": f"{row.versus_best.value:.2f}×", "name": row.name, "best": row.best}
                    for row in lost[:SHOWN_LOSSES]
                ],
            }
        )
    return result


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
    for title, rows in (("Time", found.time), ("Peak memory", found.memory), ("Memory when all is freed", found.end)):
        lines = [
            {
                "name": row.name,
                "group": row.group,
                "what": row.what,
                "least": show(row.least) if row.measured else "-",
                "interval": str(row.versus_best or ""),
                "cells": [cell(row, name) for name in names_of(found)],
            }
            for row in sums.ordered(rows)
        ]
        if lines:
            means = [show(sums.mean_ratio_to_best(rows, name)) for name in names_of(found)]
            result.append(
                {"title": title, "unit": "ns" if rows is found.time else "KiB", "rows": lines, "means": means}
            )
    return result


# The papers' figures.


def pattern_rows(results: samples.Results, figure: str) -> list[Row]:
    """Rows of a figure that memory patterns have: only these."""
    patterns = {**results.header, "workloads": [one for one in results.header["workloads"] if not one["timed"]]}
    rows = sums.make_rows(samples.Results(patterns, results.records), figure, "memory")
    for row in rows:
        row.unit = "A/U"
    return rows


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
        memory = [row for row in found.memory if row.measured and row.name in {one.name for one in chosen}]
        if "figure" not in paper and memory:
            parts.append(charts.versus_chart(memory, names_of(found), "Peak memory"))
        result.append({**paper, "here": here(chosen), "html": parts})
    return result


def here(rows: Sequence[Row]) -> str:
    """What this run shows, in a line."""
    parts = []
    for row in rows:
        own = row.median(OURS)
        place = 1 + sum(1 for name in row.measured if row.median(name) < own) if OURS in row.measured else 0
        others = f", {row.versus_best.value:.2f} of {row.best}" if row.versus_best else ""
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
    result = []
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


def latency_charts(found: Summary) -> list[str]:
    by_workload: dict[tuple[str, str], dict[str, dict]] = {}
    for record in found.latencies:
        for call, figures in record["calls"].items():
            by_workload.setdefault((record["workload"], call), {})[record["allocator"]] = figures
    return [
        charts.latency_chart(by_allocator, names_of(found), f"{workload}: {call}")
        for (workload, call), by_allocator in by_workload.items()
    ]


# The page, Markdown, and the terminal.


def versions(found: Summary) -> list[dict]:
    libraries = found.header["machine"]["libraries"]
    return [
        {
            "name": name,
            "version": found.header["versions"].get(name, ""),
            "file": libraries.get(name, {}).get("file", "the C library"),
            "sum": libraries.get(name, {}).get("sha256", "")[:16],
        }
        for name in names_of(found)
    ]


def failure_lines(found: Summary) -> list[str]:
    return [f"{record['workload']}, {record['allocator']}: {record['message']}" for record in found.failures]


def left_out(found: Summary) -> list[str]:
    return [*found.skipped.values(), *(f"{name}: out of time" for name in found.cut)]


def page(found: Summary, results: samples.Results) -> str:
    machine = found.header["machine"]
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined
    )
    return environment.get_template("report.html.j2").render(
        plotly=plotly.offline.get_plotlyjs(),
        peers=found.peers,
        facts=allocators.describe(machine),
        commit=machine["commit"],
        when=machine["time"],
        workloads=found.workloads,
        rounds=found.rounds,
        clock=found.clock,
        warnings=warnings(found),
        top=top_lines(found),
        draw=f"{DRAW:.0%}",
        loss_lists=loss_lists(found),
        names=names_of(found),
        tables=row_tables(found),
        row_charts=[
            {"title": title, "html": charts.rows_chart(rows)}
            for title, rows in (("Time", found.time), ("Peak memory", found.memory))
            if rows
        ],
        figures=paper_figures(found, results),
        cores=machine["processors"],
        latencies=latency_charts(found),
        counts=count_tables(found),
        versions=versions(found),
        failures=failure_lines(found),
        skipped=left_out(found),
    )


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    escape = lambda text: str(text).replace("|", "\\|")  # noqa: E731
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(map(escape, line)) + " |" for line in [head, rule, *lines])


def markdown(found: Summary) -> str:
    machine = found.header["machine"]
    parts = [
        "# Coffer bench",
        f"{allocators.describe(machine)}. Coffer {machine['commit']}, {machine['time']}, "
        f"{found.workloads} workloads, {found.rounds} rounds.",
        *(f"**{text}**" for text in warnings(found)),
        "![Coffer against the others](overview.png)",
        markdown_table(
            ["Coffer against", "time", "behind", "even", "ahead", "memory", "behind", "even", "ahead"],
            [
                [
                    line["name"],
                    *(str(line[part][key]) for part in ("time", "memory") for key in ("value", "lost", "even", "won")),
                ]
                for line in top_lines(found)
            ],
        ),
    ]
    for part in loss_lists(found):
        parts += [
            f"## {part['title']}",
            "\n".join(f"- {row['value']} {row['name']} (best: {row['best']})" for row in part["lost"]) or "In no row.",
        ]
    for table in row_tables(found):
        lines = [
            [row["name"], row["least"], *(one["text"] for one in row["cells"]), row["interval"]]
            for row in table["rows"]
        ]
        lines.append(["geometric mean", "", *table["means"], ""])
        parts += [
            f"## {table['title']}",
            markdown_table(["row", table["unit"], *names_of(found), "Coffer/best"], lines),
        ]
    for table in count_tables(found):
        parts += [
            f"## {table['title']}",
            table["note"],
            markdown_table(
                [table["head"], *table["names"]], [[line["name"], *line["cells"]] for line in table["lines"]]
            ),
        ]
    parts += [
        "## Versions",
        markdown_table(
            ["allocator", "version", "file"], [[one["name"], one["version"], one["file"]] for one in versions(found)]
        ),
    ]
    for title, lines in (("Failed", failure_lines(found)), ("Left out", left_out(found))):
        if lines:
            parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def print_tables(found: Summary, console: Console) -> None:
    table = Table("Coffer against", "time", "behind", "even", "ahead", "memory", "behind", "even", "ahead", box=None)
    for line in top_lines(found):
        table.add_row(
            line["name"],
            *(str(line[part][key]) for part in ("time", "memory") for key in ("value", "lost", "even", "won")),
        )
    console.print(table)
    for part in loss_lists(found):
        console.print(part["title"])
        for row in part["lost"]:
            console.print(f"  {row['value']} {row['name']} (best: {row['best']})", markup=False)
    for line in failure_lines(found):
        console.print(f"FAILED: {line[:300]}", markup=False)
