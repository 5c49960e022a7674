"""What the samples say: of each workload and allocator the medians, Coffer's ratios to each other allocator and to the
best of the row, and the means over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from coffer_bench import samples, stats
from coffer_bench.stats import ByRound, Estimate

OURS = "coffer"
TIME, CPU, MEMORY, END = "time_ns", "cpu_ns", "peak_kib", "end_kib"
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
    by_allocator: dict[str, ByRound] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    versus: dict[str, Estimate] = field(default_factory=dict)  # Coffer over each other
    best: str = ""  # of the others
    ratios: dict[str, list[float]] = field(default_factory=dict)

    def median(self, allocator: str) -> float:
        values = list(self.by_allocator.get(allocator, {}).values())
        return float(numpy.median(values)) if values else math.nan

    @property
    def measured(self) -> list[str]:
        return [name for name, values in self.by_allocator.items() if values]

    @property
    def least(self) -> float:
        return min(self.median(name) for name in self.measured)

    @property
    def versus_best(self) -> Estimate | None:
        return self.versus.get(self.best)

    @property
    def verdict(self) -> str:
        """lost, won, or even: where the interval contains 1, or the difference is too small to mean anything."""
        found = self.versus_best
        if found is None:
            return "failed" if OURS in self.failed else "alone"
        sure_loss = found.value > 1 + DRAW and (found.above or math.isnan(found.low))
        sure_win = found.value < 1 - DRAW and (found.below or math.isnan(found.low))
        return "lost" if sure_loss else "won" if sure_win else "even"


@dataclass
class Summary:
    header: dict
    allocators: list[str]
    time: list[Row]
    memory: list[Row]
    end: list[Row]  # memory when all is freed
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
    def workloads(self) -> int:
        return len({row.name for row in [*self.time, *self.memory]})


def by_round(records: Sequence[samples.Record], figure: str) -> dict[str, dict[str, dict[int, float]]]:
    """By workload, by allocator, by round. What failed later is left out by the caller."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        value = record["figures"].get(figure)
        if isinstance(value, (int, float)) and value > 0:
            found.setdefault(record["workload"], {}).setdefault(record["allocator"], {})[record["round"]] = float(value)
    return found


def make_rows(results: samples.Results, figure: str, wanted: str, baseline: bool = False) -> list[Row]:
    """`wanted`: the workloads' mark that says whether this figure says something of them."""
    failed: dict[str, dict[str, str]] = {}
    for record in results.of("failure"):
        if "pass" not in record:
            failed.setdefault(record["workload"], {})[record["allocator"]] = record["message"]
    taken = by_round(results.of("sample"), figure)
    rows = []
    for workload in results.header["workloads"]:
        if not workload[wanted] or workload.get("baseline", False) != baseline:
            continue
        name = workload["name"]
        own_failures = failed.get(name, {})
        row = Row(
            name,
            workload["group"],
            workload["unit"] if wanted == "timed" else "KiB",
            figure,
            workload.get("paper", ""),
            workload.get("figure", ""),
            workload.get("what", ""),
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
    if row.versus:
        row.best = min(row.versus, key=row.median)


def summarise(results: samples.Results, clock: str = "wall") -> Summary:
    """clock: `cpu` takes processor time instead of each workload's own metric, for a machine that does other work."""
    plan = results.plan
    ends = results.of("end")
    rounds = max((record["round"] for record in results.of("sample")), default=0)
    return Summary(
        header=results.header,
        allocators=list(plan["allocators"]),
        time=make_rows(results, CPU if clock == "cpu" else TIME, "timed"),
        memory=make_rows(results, MEMORY, "memory"),
        end=[row for row in make_rows(results, END, "memory") if row.measured],
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
    """Over the rows in which it ran: its median over the least of the row, of all allocators."""
    return stats.geometric_mean([row.median(allocator) / row.least for row in rows if allocator in row.measured])


def losses(rows: Sequence[Row]) -> list[Row]:
    """Worst first."""
    lost = [row for row in rows if row.verdict == "lost"]
    return sorted(lost, key=lambda row: row.versus_best.value, reverse=True)


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Losses first, worst first; what could not be compared last."""
    return sorted(rows, key=lambda row: -row.versus_best.value if row.versus_best else math.inf)


def tally(rows: Sequence[Row], peer: str | None = None) -> tuple[int, int, int]:
    """Rows lost, even and won, against one other or the best of each row."""
    counts = {"lost": 0, "even": 0, "won": 0}
    for row in rows:
        found = row.versus.get(peer) if peer else row.versus_best
        if found is None:
            continue
        one = Row(row.name, row.group, row.unit, row.figure, versus={"x": found}, best="x")
        counts[one.verdict] += 1
    return counts["lost"], counts["even"], counts["won"]


def last_line(summary: Summary) -> str:
    """The last line that `coffer bench` prints."""
    time, memory = mean_versus_best(summary.time), mean_versus_best(summary.memory)
    show = lambda found: f"{found.value:.2f}" if found else "-"  # noqa: E731
    return (
        f"bench: {summary.workloads} workloads, {len(summary.allocators)} allocators, time vs best {show(time)}, "
        f"memory vs best {show(memory)}"
    )
