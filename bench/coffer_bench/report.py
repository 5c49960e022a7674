# SPDX-License-Identifier: MIT
"""The report of a run: a page that needs nothing but itself, the same as Markdown, and a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2
import plotly.offline
from rich.console import Console
from rich.table import Table

from coffer_bench import allocators, charts, samples
from coffer_bench import summary as sums
from coffer_bench.errors import BenchError
from coffer_bench.sections import (
    count_tables,
    latency_charts,
    loss_lists,
    names_of,
    paper_figures,
    row_tables,
    scaling_parts,
    scaling_tables,
    top_lines,
    warnings,
)
from coffer_bench.summary import DRAW, Summary
from coffer_bench.tables import markdown_table

HERE = Path(__file__).resolve().parent
SCALING_NOTE = (
    "Speed-up over the same allocator on one core, on a simulated machine that counts how cache lines move between "
    "cores (docs/design/simulation.md). Beside it what Coffer's real threads reached in this run, medians over its "
    "rounds with their intervals: by the wall clock, and by processor time (threads times the time of one over that of "
    "all), in which is nothing of what else the machine does; and the simulation over the latter."
)


def write(results: Path, directory: Path, clock: str = "wall") -> None:
    read = samples.read(results)
    found = sums.summarise(read, clock)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace(directory / "index.html", lambda path: path.write_text(page(found, read)))
        replace(directory / "report.md", lambda path: path.write_text(markdown(found, read)))
        replace(directory / "overview.png", lambda path: charts.overview(found, path))
    except OSError as error:
        raise BenchError(f"{directory}: the report cannot be written: {error.strerror}") from error


def replace(path: Path, make: Callable[[Path], object]) -> None:
    """Whole or not at all, and nothing beside it is left."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        make(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


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
        peers=found.used,
        papers=[name for name in found.peers if name in allocators.PAPERS],
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
        scaling=scaling_parts(found),
        scaling_note=SCALING_NOTE,
        versions=versions(found),
        failures=failure_lines(found),
        skipped=left_out(found),
    )


def figure_lines(figure: dict) -> list[str]:
    return [f"### {figure['title']}", f"{figure['source']}: {figure['claim']}", f"Here: {figure['here']}"]


def markdown(found: Summary, results: samples.Results) -> str:
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
            *([part["undecided"]] if part["undecided"] else []),
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
    for number, figure in enumerate(paper_figures(found, results)):
        parts += [*(["## The papers' figures"] if number == 0 else []), *figure_lines(figure)]
    for table in count_tables(found):
        parts += [
            f"## {table['title']}",
            table["note"],
            markdown_table(
                [table["head"], *table["names"]], [[line["name"], *line["cells"]] for line in table["lines"]]
            ),
        ]
    for number, table in enumerate(scaling_tables(found)):
        parts += [*(["## Scaling (simulated)", SCALING_NOTE] if number == 0 else []), f"### {table['title']}"]
        lines = [
            [line["name"], *line["cells"], line["real"], line["busy"], line["agreement"]] for line in table["lines"]
        ]
        head = ["cores", *table["names"], "coffer, real", "by processor time", "simulated over that"]
        parts.append(markdown_table(head, lines))
        if table["hot"]:
            parts.append("\n".join(f"- {text}" for text in table["hot"]))
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
        if part["undecided"]:
            console.print(f"  {part['undecided']}", markup=False)
    for line in failure_lines(found):
        console.print(f"FAILED: {line[:300]}", markup=False)
