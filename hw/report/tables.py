# SPDX-License-Identifier: MIT
"""The report's tables as Markdown: thesis, appendix A, from replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import thesis
from runs import Arrivals, Call, ReportError, Row, Run, Runs, Setup

UNITS = {"hbs_reference": "HBS, reference", "hbs": "HBS, optimised", "ohebs": "OHEBS"}
COLLECTORS = {"msa": "mark-sweep (Lua)", "rcgc": "reference counting (CPython)"}


@dataclass(frozen=True)
class Program:
    name: str
    collector: str
    trace: Path
    arrivals: Arrivals


def number(value: float) -> str:
    text = f"{value:,.1f}" if value < 10000 and value != int(value) else f"{value:,.0f}"
    return text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An empty table is a fault, and so is a row of another length."""
    if not rows or any(len(one) != len(head) or any(cell == "" for cell in one) for one in rows):
        raise ReportError(f"a table has no rows, or cells without text: {head}")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(one) + " |" for one in rows]) + "\n"


def triple(values: Row | Sequence[float]) -> str:
    return " / ".join(number(value) for value in values)


def average(rows: Sequence[Row]) -> tuple[float, float, float]:
    """As the thesis does it: of the rows."""
    return (sum(one.least for one in rows) / len(rows), sum(one.mean for one in rows) / len(rows),
            sum(one.most for one in rows) / len(rows))


def thesis_setup(unit: str) -> Setup:
    """Its method: each call when the unit is at rest, no Fast Return."""
    return Setup("ohebs_waiting" if unit == "ohebs" else unit)


class Tables:
    """All tables of one report. The programs are those of both collectors, in order."""

    def __init__(self, programs: Sequence[Program], runs: Runs) -> None:
        self.programs = programs
        self.runs = runs

    def of(self, collector: str) -> list[Program]:
        return [one for one in self.programs if one.collector == collector]

    def collectors(self) -> list[str]:
        return [one for one in COLLECTORS if self.of(one)]

    def times(self, unit: str, collector: str, kind: str, what: str) -> list[Row]:
        found = self.runs.get([(one.trace, thesis_setup(unit)) for one in self.of(collector)])
        return [run.row(kind, what) for run in found]

    def programs_table(self) -> str:
        rows = []
        for one in self.programs:
            here = one.arrivals
            rows.append([one.name, COLLECTORS[one.collector], number(here.allocations), number(here.frees),
                         number(here.longest_free_run), number(here.refused), number(here.mean_between_calls)])
        return table(["program", "collector", "allocations", "frees", "longest run of frees", "refused by the model",
                      "mean gap, ns"], rows)

    def allocation(self, unit: str, collector: str) -> str:
        """A.1, A.2, A.7."""
        parts = {what: self.times(unit, collector, "a", what) for what in ("find", "block", "total")}
        rows = [[one.name, *(triple(parts[what][i]) for what in parts)] for i, one in enumerate(self.of(collector))]
        rows.append(["**mean of rows**", *(triple(average(parts[what])) for what in parts)])
        published = thesis.ALLOCATION.get((unit, collector))
        if published:
            rows.append(["thesis", *(triple(one) for one in published)])
        return table(["min / mean / max, ns", "find", "block", "total"], rows)

    def deallocation(self, collector: str) -> str:
        """A.5, A.6, A.8."""
        units = list(UNITS)
        parts = {unit: self.times(unit, collector, "f", "total") for unit in units}
        rows = [[one.name, *(triple(parts[unit][i]) for unit in units)] for i, one in enumerate(self.of(collector))]
        rows.append(["**mean of rows**", *(triple(average(parts[unit])) for unit in units)])
        rows.append(["thesis", *(triple(thesis.DEALLOCATION[unit, collector])
                                 if (unit, collector) in thesis.DEALLOCATION else "not measured" for unit in units)])
        return table(["min / mean / max, ns", *(UNITS[unit] for unit in units)], rows)

    def distribution(self) -> str:
        """A.9, weighted by operations."""
        rows = []
        for collector in self.collectors():
            sums = [0, 0, 0]
            for one in self.of(collector):
                counts = ways(self.runs.one(one.trace, thesis_setup("ohebs")))
                rows.append([one.name, *shares(counts)])
                sums = [total + count for total, count in zip(sums, counts, strict=True)]
            rows.append([f"**{COLLECTORS[collector]}**", *shares(sums)])
            rows.append(["thesis", *(f"{share:.3f}" for share in thesis.DISTRIBUTION[collector])])
        return table(["share of allocations", "direct", "pair", "decompositional"], rows)

    def arrival(self) -> str:
        """A.10."""
        rows = []
        for one in self.programs:
            most = {unit: self.runs.one(one.trace, thesis_setup(unit)).row("a", "block").most
                    for unit in ("ohebs", "hbs")}
            rows.append([one.name, number(one.arrivals.least_between_allocations),
                         number(one.arrivals.least_between_calls), *(number(most[unit]) for unit in most)])
        rows.append(["thesis", " to ".join(map(number, thesis.ARRIVAL)), "not measured",
                     *(" to ".join(map(number, thesis.MOST_BLOCK[unit])) for unit in ("ohebs", "hbs"))])
        return table(["ns", "least gap between allocations", "least gap between calls", "longest block, OHEBS",
                      "longest block, HBS"], rows)

    def fast_return_rows(self) -> list[tuple[Program, dict[str, Row]]]:
        """What the processor waits for, from its wish to its answer, with the recorded gaps between calls."""
        result = []
        for one in self.programs:
            setups = {"ohebs_fast": Setup("ohebs", True), "ohebs": Setup("ohebs_waiting", True),
                      "hbs_fast": Setup("hbs", True)}
            found = {name: self.runs.one(one.trace, setup).row("a", "answer")
                     for name, setup in setups.items()}
            found["hbs"] = self.runs.one(one.trace, thesis_setup("hbs")).row("a", "total")
            result.append((one, found))
        return result

    def fast_return(self) -> str:
        """A.11."""
        names = {"ohebs_fast": "OHEBS + Fast Return", "ohebs": "OHEBS", "hbs_fast": "HBS + Fast Return", "hbs": "HBS"}
        found = self.fast_return_rows()
        rows = [[one.name, *(triple(times[name]) for name in names)] for one, times in found]
        rows.append(["**mean of rows**", *(triple(average([times[name] for _, times in found])) for name in names)])
        rows.append(["thesis, max", *(number(thesis.FAST_RETURN[name]) for name in names)])
        return table(["min / mean / max, ns", *names.values()], rows)


def ways(run: Run) -> list[int]:
    found = Counter(call.how for call in run.calls if call.kind == "a")
    counts = [found[how] for how in "dpc"]
    if sum(counts) + found["-"] != found.total() or sum(counts) == 0:
        raise ReportError(f"direct, pair and cut are {counts}, refused {found['-']}: not all allocations")
    return counts


def shares(counts: Sequence[int]) -> list[str]:
    return [f"{count / sum(counts):.3f}" for count in counts]


def waits(calls: Sequence[Call]) -> int:
    """Calls that were answered later than the quickest of their kind could be: they found a buffer empty or full, the
    unit at work, or a refresh."""
    least = min(call.answer for call in calls)
    # A refresh of the memory delays by at most 70 ns, and the arbiter by one transfer.
    return sum(call.answer > least + 300 for call in calls)
