#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which of the papers' claims hold here: docs/results/verdicts.json, and the tables that pages make of it.

  verdicts.py measure [--only TEXT]   counts anew what is counted, and writes the figures and the commit into the file
  verdicts.py check [--only TEXT]     counts at reduced size; status 1 where a verdict would turn
  verdicts.py pages [--check]         writes the tables into the pages; with --check only compares

A row has the claim, what the paper says, the figures found, where they are from, and rules over the figures that decide
(rules.py). Rows without `counted` were timed: their command measures them anew, and their figures are put into the file
by hand. The hardware's rows are written by hw/report/report.py.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE)]

import rules

FILE = TOP / "docs" / "results" / "verdicts.json"
# The marked tables, and the pages that have them.
PAGES = {"hoard": "docs/papers.md", "scalloc": "docs/papers.md", "cif": "docs/papers.md",
         "placement": "docs/design/placement.md", "hardware": "docs/results/hardware.md",
         "curves": "docs/design/simulation.md"}
BY = {"speed_up": "simulated", "slower": "simulated", "over_others": "simulated", "shared_lines": "simulated",
      "free_cycles": "simulated", "shared_l1": "simulated"}
DIGITS = 4


def keyed(figure: Any) -> Any:
    """JSON's keys are words; those that are numbers were numbers."""
    if isinstance(figure, dict):
        return {int(key) if re.fullmatch(r"\d+", key) else key: value for key, value in figure.items()}
    return figure


@dataclass(frozen=True)
class Row:
    """As it stands in the file."""

    content: dict[str, Any]

    @property
    def id(self) -> str:
        return self.content["id"]

    @property
    def counted(self) -> dict[str, dict[str, Any]]:
        return self.content.get("counted", {})

    @property
    def figures(self) -> dict[str, rules.Figure]:
        return {name: keyed(figure) for name, figure in self.content["figures"].items()}

    def verdict(self, figures: Mapping[str, rules.Figure]) -> str:
        return rules.verdict(self.content["holds"], self.content.get("in_part"), figures)

    @property
    def how(self) -> str:
        """Where the figures are from, in a word or two."""
        if "by" in self.content:
            return self.content["by"]
        found = {BY.get(spec["by"], "counted") for spec in self.counted.values()}
        if self.figures.keys() - self.counted.keys():
            found.add("timed")
        return ", ".join(sorted(found))

    def here(self) -> str:
        return self.content["here"].format(**self.figures)

    def cells(self) -> list[str]:
        verdict, why = self.verdict(self.figures), self.content.get("why", "").format(**self.figures)
        return [self.content["claim"], self.content["theirs"], self.here(), self.how,
                f"**{verdict}**" + (f": {why}" if why else "")]


def read(path: Path = FILE) -> list[Row]:
    rows = [Row(one) for one in json.loads(path.read_text(encoding="utf-8"))["rows"]]
    names = [row.id for row in rows]
    if twice := {name for name in names if names.count(name) > 1}:
        raise rules.RuleError(f"{path.name}: twice: {', '.join(sorted(twice))}")
    return rows


def write(rows: Iterable[Row], path: Path = FILE) -> None:
    text = json.dumps({"rows": [row.content for row in rows]}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


# Pages.


def markdown(head: list[str], lines: list[list[str]]) -> str:
    cells = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def curves(rows: Iterable[Row]) -> str:
    """The simulated speed-ups that verdicts rest on."""
    found: dict[tuple[str, str, str], Mapping[int, float]] = {}
    for row in rows:
        for name, spec in row.counted.items():
            if spec["by"] == "speed_up":
                found[spec["workload"], spec["allocator"], spec.get("options", "")] = row.figures[name]
    cores = sorted({count for curve in found.values() for count in curve})
    lines = [[workload, allocator, f"`{options}`" if options else "",
              *(f"{curve[count]:.3g}" if count in curve else "-" for count in cores)]
             for (workload, allocator, options), curve in sorted(found.items())]
    return markdown(["workload", "allocator", "options", *map(str, cores)], lines)


def table(name: str, rows: list[Row]) -> str:
    if name == "curves":
        return curves(rows)
    return markdown(["exhibit", "the paper", "here", "by", "verdict"],
                    [row.cells() for row in rows if row.content["table"] == name])


def section(name: str, rows: list[dict[str, Any]]) -> str:
    """A table between its marks, for a page that is written whole."""
    return f"<!-- verdicts {name} -->\n{table(name, [Row(one) for one in rows])}\n<!-- end verdicts -->\n"


def replace(name: str, rows: list[dict[str, Any]]) -> None:
    """All rows of a table, in the file."""
    write([*(row for row in read() if row.content["table"] != name), *(Row(one) for one in rows)])


def marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- verdicts {name} -->\n).*?(<!-- end verdicts -->)", re.DOTALL)


def with_tables(page: str, text: str, rows: list[Row]) -> str:
    for name in (one for one, path in PAGES.items() if path == page):
        made = table(name, rows) + "\n"
        text, count = marked(name).subn(lambda found, made=made: found[1] + made + found[2], text)
        if count != 1:
            raise rules.RuleError(f"{page}: {count} places for the table {name}")
    return text


def pages(rows: list[Row]) -> Iterator[tuple[Path, str, str]]:
    """Each page, its text, and what it should be."""
    for page in dict.fromkeys(PAGES.values()):
        text = (TOP / page).read_text(encoding="utf-8")
        yield TOP / page, text, with_tables(page, text, rows)


# What is counted.


def rounded(figure: Any) -> Any:
    if isinstance(figure, Mapping):
        return {str(key): rounded(value) for key, value in figure.items()}
    return float(f"{figure:.{DIGITS}g}")


def commit(folder: str = "src") -> str:
    """The last one that changed what is measured, by its subject, which outlives a rebase."""
    done = subprocess.run(["git", "-C", str(TOP), "log", "-1", "--format=%s", "--", folder],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measured(row: Row, build_dir: Path, reduced: bool) -> dict[str, rules.Figure]:
    """All figures of a row. Those that are counted are new; `reduced`: only those that have reduced arguments."""
    from counted import Place, measure  # what the bench needs is not needed for pages

    place = Place(build_dir)
    return row.figures | {name: measure(place, spec, reduced) for name, spec in row.counted.items()
                          if not reduced or "reduced" in spec}


def chosen(rows: list[Row], only: str, long: bool) -> list[Row]:
    return [row for row in rows if only in row.id and row.content.get("long", False) == long
            and any("reduced" in spec for spec in row.counted.values())]


def check(rows: list[Row], build_dir: Path) -> int:
    turned = 0
    for row in rows:
        figures = measured(row, build_dir, reduced=True)
        was, now = row.verdict(row.figures), row.verdict(figures)
        shown = {name: rounded(figures[name]) for name in row.counted}
        turned += was != now
        print(f"{row.id}: {now if was == now else f'{was}; now it {now}'}; {shown}", flush=True)
    if not rows:
        raise rules.RuleError("no row is counted")
    return 1 if turned else 0


def remeasure(rows: list[Row], only: str, build_dir: Path) -> int:
    for row in rows:
        if row.counted and only in row.id:
            figures = measured(row, build_dir, reduced=False)
            row.content["figures"] |= {name: rounded(figures[name]) for name in row.counted}
            row.content["commit"] = commit()
            print(f"{row.id}: {row.verdict(row.figures)}; {row.content['figures']}", flush=True)
            write([row if one.id == row.id else one for one in read()])
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "check", "pages"))
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose id contains it")
    parser.add_argument("--long", action="store_true", help="check: the rows that take long, in place of the others")
    parser.add_argument("--check", action="store_true", help="pages: status 1 where a page is not what the file makes")
    arguments = parser.parse_args()
    rows = read()
    if arguments.what == "check":
        return check(chosen(rows, arguments.only, arguments.long), arguments.build_dir.resolve())
    if arguments.what == "measure":
        return remeasure(rows, arguments.only, arguments.build_dir.resolve())
    differ = [(path, made) for path, text, made in pages(rows) if text != made]
    for path, made in differ:
        print(f"{path.relative_to(TOP)}: other tables than the file makes: verdicts.py pages")
        if not arguments.check:
            path.write_text(made, encoding="utf-8")
    return 1 if differ and arguments.check else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rules.RuleError as problem:
        sys.exit(f"papers/verdicts: {problem}")
