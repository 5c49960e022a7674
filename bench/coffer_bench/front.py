# SPDX-License-Identifier: MIT
"""The figures that the documents show. A file of samples becomes docs/results/bench.json; the page, the pictures and
the figures of README.md are made of that file alone, so a test can make them again and compare."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coffer_bench import allocators, samples
from coffer_bench import summary as sums
from coffer_bench.errors import BenchError
from coffer_bench.report import replace
from coffer_bench.sections import top_lines
from coffer_bench.summary import OURS, Row
from coffer_bench.tables import markdown_table

Data = dict[str, Any]

RESULTS = Path("docs/results")
DATA, PAGE, README = RESULTS / "bench.json", RESULTS / "bench.md", Path("README.md")
PICTURES = {theme: RESULTS / f"time-memory-{theme}.svg" for theme in ("light", "dark")}
BEGIN, END = "<!-- figures: written by make figures -->", "<!-- end of figures -->"
# An allocator that ran in fewer rows has no mean that could be compared.
LEAST_SHARE = 0.9
SHOWN_LOSSES = 3
CLOCKS = {"cpu": "processor time", "wall": "wall time"}


def common(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows in which all of them ran: means over other rows would not be of the same thing."""
    return [row for row in rows if set(names) <= set(row.measured)]


def compared(found: sums.Summary) -> list[str]:
    """Coffer and those that people use, as far as they ran in most rows."""
    names = [OURS, *found.used]
    least = LEAST_SHARE * min(len(found.time), len(found.memory))
    return [name for name in names if all(sum(name in row.measured for row in rows) >= least
                                          for rows in (found.time, found.memory))]


def row_data(row: Row, names: Sequence[str]) -> Data:
    return {"name": row.name, "unit": row.unit, "least": float(f"{row.least:.4g}"),
            "ratios": {name: round(row.median(name) / row.least, 2) for name in names},
            "best": row.best, "verdict": row.verdict, "versus": round(row.versus_best.value, 2)}


def collect(results: Path, clock: str) -> Data:
    """What the documents say of a run."""
    found = sums.read(results, clock)
    names = compared(found)
    if OURS not in names or len(names) < 3:
        raise BenchError(f"{results} has not enough to draw: Coffer and two others in nine rows of ten")
    parts = {"time": common(found.time, names), "memory": common(found.memory, names)}
    if not all(parts.values()):
        raise BenchError(f"{results} has no row in which all allocators ran")
    machine = found.header["machine"]
    return {
        "facts": allocators.describe(machine), "commit": machine["commit"], "time": machine["time"],
        "quick": found.header["plan"]["quick"], "rounds": found.rounds, "clock": clock,
        "finished": found.finished, "failures": len(found.failures),
        "versions": {name: found.header["versions"].get(name, "") for name in names},
        "means": {name: {what: round(sums.mean_ratio_to_best(rows, name), 2) for what, rows in parts.items()}
                  for name in names},
        "against": [{"name": line["name"], **{what: {key: line[what][key] for key in ("value", "lost", "even", "won")}
                                              for what in ("time", "memory")}}
                    for line in top_lines(found) if line["used"]],
        "rows": {what: [row_data(row, names) for row in sums.ordered(rows)] for what, rows in parts.items()},
    }


def worst(data: Data, what: str) -> list[Data]:
    return [row for row in data["rows"][what] if row["verdict"] == "lost"][:SHOWN_LOSSES]


def command(data: Data) -> str:
    return "make bench QUICK=1" if data["quick"] else "make bench"


def said(rows: Sequence[Data]) -> str:
    return ", ".join(f"*{row['name']}* ({row['versus']:.2f} times {row['best']})" for row in rows) or "in no row"


def takes_less(data: Data, what: str) -> str:
    """Who has a lower mean than Coffer, with it."""
    means = sorted((mean[what], name) for name, mean in data["means"].items() if mean[what] < data["means"][OURS][what])
    names = [f"{name} ({mean:.2f})" for mean, name in means]
    if len(names) < 2:
        return f"{f'only {names[0]}' if names else 'no other allocator'} takes less {what}"
    return f"{', '.join(names[:-1])} and {names[-1]} take less {what}"


def readme_block(data: Data) -> str:
    """Of README.md, with the marks around it."""
    ours, others = data["means"][OURS], len(data["means"]) - 1
    counts = {what: len(rows) for what, rows in data["rows"].items()}
    best = data["against"][0]
    lines = [
        BEGIN,
        f"Beside {others} other allocators (`{command(data)}`, commit {data['commit']}): Coffer takes "
        f"{ours['time']:.2f} times the {CLOCKS[data['clock']]} of the best allocator of each workload, itself included "
        f"({counts['time']} workloads) and {ours['memory']:.2f} times the peak memory ({counts['memory']} workloads), "
        "as geometric means. The best is another allocator in each workload. By these means "
        f"{takes_less(data, 'time')}, and {takes_less(data, 'memory')}.",
        "",
        f"**Where it is behind.** In time in {best['time']['lost']} workloads, most in {said(worst(data, 'time'))}. "
        f"In memory in {best['memory']['lost']}, most in {said(worst(data, 'memory'))}. "
        f"[Every row](docs/results/bench.md).",
        END,
    ]
    return "\n".join(lines)


def with_block(text: str, block: str) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise BenchError(f"{README} has no place for figures: one line '{BEGIN}', and later one line '{END}'")
    return re.sub(re.escape(BEGIN) + r".*?" + re.escape(END), lambda _: block, text, flags=re.DOTALL)


def page(data: Data) -> str:
    names = list(data["means"])
    clock = CLOCKS[data["clock"]]
    parts = [
        "# Coffer beside other allocators",
        f"Written by `make figures` from the samples of `{command(data)}` ({data['rounds']} rounds), and not by hand. "
        f"Commit {data['commit']}, {data['time'][:10]}. {data['facts']}.",
        *(["**The run is not finished.**"] if not data["finished"] else []),
        *([f"{data['failures']} runs failed, and have no figure."] if data["failures"] else []),
        "Time is " + clock + ". Each figure is a ratio to the best allocator of the row; a mean is geometric, over the "
        "rows in which all allocators ran. Less is better.",
        markdown_table(["allocator", "version", "time", "memory"],
                       [[name, data["versions"][name], *(f"{mean[what]:.2f}" for what in ("time", "memory"))]
                        for name, mean in sorted(data["means"].items(), key=lambda one: one[1]["time"])]),
        "## Coffer against each",
        "Rows are behind or ahead if their interval leaves out 1 and the difference is above 2 %.",
        markdown_table(["Coffer over", "time", "behind", "even", "ahead", "memory", "behind", "even", "ahead"],
                       [[line["name"], *(str(line[what][key]) for what in ("time", "memory")
                                         for key in ("value", "lost", "even", "won"))] for line in data["against"]]),
    ]
    for what, title in (("time", f"Every row: {clock}"), ("memory", "Every row: peak memory")):
        parts += [f"## {title}", "Worst rows of Coffer first.",
                  markdown_table(["row", "least", *names], [
                      [row["name"], f"{row['least']:,g} {row['unit']}",
                       *(f"{row['ratios'][name]:.2f}" for name in names)]
                      for row in data["rows"][what]])]
    return "\n\n".join(parts) + "\n"


def as_json(data: Data) -> str:
    """A line for each row, so that a change can be read."""
    plain = json.dumps({key: value for key, value in data.items() if key != "rows"}, indent=1).removesuffix("\n}")
    parts = [f'  "{what}": [\n' + ",\n".join(f"   {json.dumps(row)}" for row in rows) + "\n  ]"
             for what, rows in data["rows"].items()]
    return plain + ',\n "rows": {\n' + ",\n".join(parts) + "\n }\n}\n"


def write(results: Path, clock: str, top: Path) -> list[Path]:
    """All that the documents show of a run. The files that were written."""
    from coffer_bench import front_picture  # matplotlib takes a second

    data = collect(results, clock)
    readme = with_block((top / README).read_text(), readme_block(data))
    texts = {DATA: as_json(data), PAGE: page(data), README: readme,
             **{path: front_picture.draw(data, theme) for theme, path in PICTURES.items()}}
    for path, text in texts.items():
        replace(top / path, lambda unfinished, text=text: unfinished.write_text(text))
    return list(texts)


def stale(top: Path) -> list[Path]:
    """Files that are not what docs/results/bench.json says."""
    from coffer_bench import front_picture

    data = json.loads((top / DATA).read_text())
    found = []
    if readme_block(data) not in (top / README).read_text():
        found.append(README)
    if (top / PAGE).read_text() != page(data):
        found.append(PAGE)
    found += [path for theme, path in PICTURES.items() if (top / path).read_text() != front_picture.draw(data, theme)]
    return found
