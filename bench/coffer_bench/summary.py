# SPDX-License-Identifier: MIT
"""What the samples say: of each workload and allocator the medians, Coffer's ratios to each other allocator and to the
best of the row, and the means over rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from coffer_bench import samples, stats
from coffer_bench.allocators import is_used
from coffer_bench.stats import ByRound, Estimate

OURS = "coffer"
TIME, CPU, MEMORY, END, FAULTS = "time_ns", "cpu_ns", "peak_kib", "end_kib", "faults"
# The units of what is not timed by a workload's own metric; tables, pictures and texts take a row's unit.
UNITS = {MEMORY: "KiB", END: "KiB", FAULTS: "faults"}
LATENCY_UNIT = "ns"
# With fewer, it is those of the process's own start.
FEW_FAULTS = 1000
# A difference below this is within what two runs of one library differ by on a quiet machine.
DRAW = 0.02


@dataclass
class Row:
    """One workload and one figure of it, which is better the less it is."""

    name: str
    group: str
    unit: str
    figure: str
    paper: str = ""
    paper_figure: str = ""
    what: str = ""
    baseline: bool = False
    by_allocator: dict[str, ByRound] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    versus: dict[str, Estimate] = field(default_factory=dict)  # Coffer over each other
    best: str = ""  # of the others that people use
    ratios: dict[str, list[float]] = field(default_factory=dict)

    def median(self, allocator: str) -> float:
        values = list(self.by_allocator.get(allocator, {}).values())
        return float(numpy.median(values)) if values else math.nan

    @property
    def measured(self) -> list[str]:
        return [name for name, values in self.by_allocator.items() if values]

    @property
    def least(self) -> float:
        """Of Coffer and what people use; of all, where none of these ran."""
        names = [name for name in self.measured if name == OURS or is_used(name)]
        return min(self.median(name) for name in names or self.measured)

    @property
    def versus_best(self) -> Estimate | None:
        return self.versus.get(self.best)

    @property
    def verdict(self) -> str:
        """lost, won, or even: where the interval contains 1, or the difference is too small to mean anything;
        undecided: one round says nothing of chance."""
        found = self.versus_best
        if found is None:
            return "failed" if OURS in self.failed else "alone"
        if abs(found.value - 1) <= DRAW:
            return "even"
        if math.isnan(found.low):
            return "undecided"
        return "lost" if found.value > 1 and found.above else "won" if found.value < 1 and found.below else "even"


@dataclass
class Summary:
    header: dict
    allocators: list[str]
    time: list[Row]
    calls: list[Row]  # of single calls
    memory: list[Row]
    end: list[Row]  # memory when all is freed
    faults: list[Row]
    walls: dict[str, ByRound]  # Coffer's wall time of an operation, by workload; and its processor time
    cpus: dict[str, ByRound]
    baselines: list[Row]
    instructions: list[dict]
    misses: list[dict]
    latencies: list[dict]
    scaling: list[dict]
    failures: list[dict]
    skipped: dict[str, str]
    cut: list[str]
    finished: bool
    rounds: int
    clock: str

    @property
    def peers(self) -> list[str]:
        return [name for name in self.allocators if name != OURS]

    @property
    def used(self) -> list[str]:
        """The peers that people use, without the papers' own."""
        return [name for name in self.peers if is_used(name)]

    @property
    def workloads(self) -> int:
        return len({row.name for row in [*self.time, *self.calls, *self.memory]})


def wall_of_an_operation(figures: samples.Record) -> float | None:
    """Where the workload's own metric is another, too: the time inside the allocator, say, or that of a phase."""
    wall, operations = figures.get("wall_ns"), figures.get("operations")
    return wall / operations if wall and operations else figures.get(TIME)


def by_round(
    records: Sequence[samples.Record], figure: str | Callable[[samples.Record], float | None]
) -> dict[str, dict[str, dict[int, float]]]:
    """By workload, by allocator, by round. What failed later is left out by the caller."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        value = figure(record["figures"]) if callable(figure) else record["figures"].get(figure)
        if isinstance(value, (int, float)) and value > 0:
            found.setdefault(record["workload"], {}).setdefault(record["allocator"], {})[record["round"]] = float(value)
    return found


def make_rows(
    results: samples.Results,
    figure: str | Callable[[samples.Record], float | None],
    wanted: str,
    baseline: bool = False,
    unit: str = "",
) -> list[Row]:
    """`wanted`: the workloads' mark that says whether this figure says something of them."""
    failed: dict[str, dict[str, str]] = {}
    for record in results.of("failure"):
        if "pass" not in record:
            failed.setdefault(record["workload"], {})[record["allocator"]] = record["message"]
    taken = by_round(results.of("sample"), figure)
    rows = []
    for workload in results.header["workloads"]:
        if not workload.get(wanted) or workload.get("baseline", False) != baseline:
            continue
        name = workload["name"]
        own_failures = failed.get(name, {})
        row = Row(
            name,
            workload["group"],
            unit or (workload["unit"] if wanted in ("timed", "single") else UNITS[figure]),
            figure if isinstance(figure, str) else TIME,
            workload.get("paper", ""),
            workload.get("figure", ""),
            workload.get("what", ""),
            baseline,
            {one: values for one, values in taken.get(name, {}).items() if one not in own_failures},
            own_failures,
        )
        if row.by_allocator or row.failed:
            compare(row)
            rows.append(row)
    return rows


def compare(row: Row) -> None:
    ours = row.by_allocator.get(OURS)
    if not ours:
        return
    others = [name for name in row.measured if name != OURS]
    for name in others:
        row.ratios[name] = stats.ratios(ours, row.by_allocator[name])
        if found := stats.estimate(row.ratios[name]):
            row.versus[name] = found
    if used := [name for name in row.versus if is_used(name)]:
        row.best = min(used, key=row.median)


def common_unit(rows: Sequence[Row]) -> str:
    """What the units of all rows begin with, by words: ns of "ns an operation" and "ns a step"."""
    words = [row.unit.split() for row in rows]
    return " ".join(one[0] for one in itertools.takewhile(lambda one: len(set(one)) == 1, zip(*words)))


def with_rest(text: str, row: Row, unit: str) -> str:
    """The text, and what the row's unit says beyond that of the table or picture that it stands in."""
    rest = row.unit.removeprefix(unit).strip()
    return f"{text} {rest}" if rest else text


def is_faulting(row: Row) -> bool:
    return any(row.median(name) >= FEW_FAULTS for name in row.measured)


def summarise(results: samples.Results, clock: str = "wall") -> Summary:
    """clock: `cpu` takes processor time instead of each workload's own metric, for a machine that does other work."""
    plan = results.plan
    ends = results.of("end")
    rounds = max((record["round"] for record in results.of("sample")), default=0)
    own = [one for one in results.of("sample") if one["allocator"] == OURS]
    walls, cpus = by_round(own, wall_of_an_operation), by_round(own, CPU)
    faults = [row for row in make_rows(results, FAULTS, "memory") if is_faulting(row)]
    return Summary(
        header=results.header,
        allocators=list(plan["allocators"]),
        time=make_rows(results, CPU if clock == "cpu" else TIME, "timed"),
        calls=make_rows(results, TIME, "single"),
        memory=make_rows(results, MEMORY, "memory"),
        end=[row for row in make_rows(results, END, "memory") if row.measured],
        faults=faults,
        walls={name: by_allocator[OURS] for name, by_allocator in walls.items()},
        cpus={name: by_allocator[OURS] for name, by_allocator in cpus.items()},
        baselines=make_rows(results, TIME, "timed", baseline=True),
        instructions=results.of("instructions"),
        misses=results.of("misses"),
        latencies=results.of("latency"),
        scaling=results.of("scaling"),
        failures=results.of("failure"),
        skipped=results.header.get("skipped", {}),
        cut=ends[-1].get("cut", []) if ends else [],
        finished=results.finished,
        rounds=rounds,
        clock=clock,
    )


def read(path: Path, clock: str = "wall") -> Summary:
    return summarise(samples.read(path), clock)


def mean_versus(rows: Sequence[Row], peer: str) -> Estimate | None:
    return stats.mean_of_rows([row.ratios[peer] for row in rows if row.ratios.get(peer)])


def mean_versus_best(rows: Sequence[Row]) -> Estimate | None:
    return stats.mean_of_rows([row.ratios[row.best] for row in rows if row.best and row.ratios.get(row.best)])


def mean_ratio_to_best(rows: Sequence[Row], allocator: str) -> float:
    """Over the rows in which it ran: its median over the least of the row."""
    return stats.geometric_mean([row.median(allocator) / row.least for row in rows if allocator in row.measured])


def losses(rows: Sequence[Row]) -> list[Row]:
    """Worst first."""
    lost = [row for row in rows if row.verdict == "lost"]
    return sorted(lost, key=lambda row: row.versus_best.value, reverse=True)


def undecided(rows: Sequence[Row]) -> list[Row]:
    """Behind, in one round only; worst first."""
    found = [row for row in rows if row.verdict == "undecided" and row.versus_best.value > 1]
    return sorted(found, key=lambda row: row.versus_best.value, reverse=True)


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Losses first, worst first; what could not be compared last."""
    return sorted(rows, key=lambda row: -row.versus_best.value if row.versus_best else math.inf)


def tally(rows: Sequence[Row], peer: str | None = None) -> tuple[int, int, int]:
    """Rows lost, even or undecided, and won, against one other or the best of each row."""
    counts = {"lost": 0, "even": 0, "undecided": 0, "won": 0}
    for row in rows:
        found = row.versus.get(peer) if peer else row.versus_best
        if found is None:
            continue
        one = Row(row.name, row.group, row.unit, row.figure, versus={"x": found}, best="x")
        counts[one.verdict] += 1
    return counts["lost"], counts["even"] + counts["undecided"], counts["won"]


def last_line(summary: Summary) -> str:
    """The last line that `coffer bench` prints. The best of a row is the best of those that people use: the papers' own
    allocators, which this project wrote anew, are no measure of Coffer."""
    time, memory = mean_versus_best(summary.time), mean_versus_best(summary.memory)
    show = lambda found: f"{found.value:.2f}" if found else "-"  # noqa: E731
    return (
        f"bench: {summary.workloads} workloads, {len(summary.allocators)} allocators, time vs best {show(time)}, "
        f"memory vs best {show(memory)}"
    )
