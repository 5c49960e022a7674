# SPDX-License-Identifier: MIT
"""The page of results, from the file of results alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from coffer_bench.allocators import describe
from coffer_bench.errors import BenchError
from coffer_bench.samples import Record, Results
from coffer_bench.stats import Estimate

from soak import latency, plot
from soak.trend import Trend
from soak.verdicts import OURS, Verdict, judge_ratio, of, verdicts

MOST_FAULTS = 10
FAULT_CHARACTERS = 300
MEMORY_SHARE = 0.6  # of the time, unless the command says otherwise; the rest is latencies


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int = 1) -> list[str]:
    """Columns from `right` on are figures."""
    rules = ["---" if number < right else "---:" for number in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rules, *rows)] + [""]


def slope(found: Trend | None) -> str:
    if found is None:
        return "not watched"
    if math.isnan(found.low):
        return found.verdict
    how = ", by steps" if found.by_steps else ""
    return f"{signed(found.slope / 1024)} ({signed(found.low / 1024)} to {signed(found.high / 1024)}{how})"


def signed(value: float) -> str:
    return f"{value:+.2f}"


def ratio(found: Estimate | None) -> str:
    return "no turns" if found is None else str(found)


def milliseconds(value: float) -> str:
    return "" if math.isnan(value) else f"{value / 1000:.3g}" if value < 1e6 else f"{value / 1000:.0f}"


def minutes(results: Results, program: str) -> float:
    return max((one["seconds"] for one in of(results, "memory", program, OURS)), default=0.0) / 60


def verdict_rows(results: Results, found: list[Verdict]) -> list[list[str]]:
    rows = []
    for one in found:
        trend = one.trends.get(OURS)
        rows.append([
            one.program, f"{minutes(results, one.program):.1f}", str(one.lives), str(len(one.faults)),
            f"{trend.level / 1024:.1f}" if trend else "", slope(trend),
            *(ratio(one.latencies[name].versus) for name in latency.JUDGED), f"**{one}**",
        ])
    return rows


def is_turns(record: Record) -> bool:
    return record["kind"] == "turn" or record["kind"] == "fault" and "round" in record


def with_latencies(results: Results, other: Results) -> Results:
    """Memory of one run, latencies of another. The first one may have been cut short when its memory part was over."""
    watched = {one["program"] for one in results.of("conducted")}
    if missing := set(results.plan["programs"]) - watched:
        raise BenchError(f"the memory of {', '.join(sorted(missing))} was not watched to the end")
    header = {**results.header, "versions": results.header["versions"] | other.header["versions"],
              "plan": {**results.plan, "allocators": other.plan["allocators"]}, "latencies": other.header}
    rest = [one for one in results.records if not is_turns(one) and one["kind"] != "end"]
    return Results(header, [*rest, *filter(is_turns, other.records), *other.of("end")])


def of_another_run(header: Record) -> list[str]:
    facts, plan = header["machine"], header["plan"]
    command = f"make soak HOURS={plan['hours']:g} SOAK_OPTIONS=\"--memory-share {plan['memory_share']:g}\""
    return [f"The latencies are of a run of their own: `{command}`, {facts['time']}, commit {facts['commit']}. "
            f"{describe(facts)}.", ""]


def loads_at_end(results: Results) -> list[float]:
    return [one["load"] for one in results.of("end")]


def versions_of(results: Results) -> str:
    return ", ".join(f"{name} {version}".strip() for name, version in results.header["versions"].items())


def head(results: Results) -> list[str]:
    plan, facts = results.plan, results.header["machine"]
    ends = loads_at_end(results)
    load = "".join(f", load at the end {value:.2f}" for value in ends)
    timed = results.header.get("latencies", results.header)["machine"]
    options = f"--programs {','.join(plan['programs'])}{' --together' if plan['together'] else ''}"
    if plan["memory_share"] != MEMORY_SHARE:
        options += f" --memory-share {plan['memory_share']:g}"
    how = "all programs at a time" if plan["together"] else "one program after the other"
    ended = "" if results.finished and not results.of("end")[-1].get("cut") else " **The run was cut short.**"
    return [
        "# Soak", "",
        f"Written by `make soak HOURS={plan['hours']:g} REPORT=1 SOAK_OPTIONS=\"{options}\"`, and not by hand: {how} "
        f"under load and disturbances for the memory part, then latencies by turns. What is measured and judged: "
        f"[soak.md](../design/soak.md).{ended}", "",
        f"{facts['time']}, commit {facts['commit']}. {describe(facts)}{load}.", "", f"{versions_of(results)}.", "",
        *(of_another_run(results.header["latencies"]) if "latencies" in results.header else []),
        *busy_note(timed, ends),
    ]


def busy_note(timed: Record, ends: list[float]) -> list[str]:
    if min([timed["load"], *ends]) <= timed["processors"]:
        return []
    return ["The machine did other work all the while: the latencies are those of waiting for a processor, and say "
            "little of the allocators.", ""]


def latency_section(found: list[Verdict], allocators: list[str]) -> list[str]:
    rows = []
    for one in found:
        for name, by in one.latencies.items():
            medians = [by.median(allocator) for allocator in allocators]
            if not all(map(math.isnan, medians)):
                rows.append([one.program, name, *map(milliseconds, medians)])
    counts = sorted({len(by) for one in found for by in one.latencies["p50"].by_round.values()})
    turns = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]]))) if counts else "no"
    return ["## Latencies", "",
            f"Milliseconds; the median of {turns} turns under each allocator. Where a turn had fewer than "
            f"{latency.BEYOND} requests beyond a percentile, it has none.", "",
            *table(["program", "", *allocators], rows, 2)]


def slopes_section(found: list[Verdict]) -> list[str]:
    """Where other allocators were watched, too."""
    rows = [[one.program, allocator, f"{one.rss[allocator] / 1024:.1f}", f"{trend.level / 1024:.1f}", slope(trend),
             str(trend.samples),
             "" if math.isnan(trend.effective) else f"{trend.effective:.0f}", str(trend.groups)]
            for one in found for allocator, trend in one.trends.items()]
    return ["## Slopes", "",
            "MiB an hour with the interval of 95 %, from settled samples; how many these are, how many they are worth "
            "as neighbours resemble each other, and how many levels they have (lives, settings). RSS is that of all "
            "processes with files and shared memory, in each process once.", "",
            *table(["program", "under", "RSS, MiB", "MiB", "slope", "samples", "worth", "levels"], rows, 2)]


def disturbance_section(results: Results, named: dict[str, str]) -> list[str]:
    done: dict[str, list[str]] = {}
    for one in results.of("event"):
        if one["allocator"] not in (OURS, ""):
            continue
        who = done.setdefault(one["what"], [])
        name = one["program"] or "all"
        text = f"{name}: not done, {one['missing']}" if "missing" in one else name
        if (one.get("begins") or "missing" in one) and text not in who:
            who.append(text)
    rows = [[named.get(what, ""), what, "; ".join(who)] for what, who in done.items()]
    return ["## What was done to them", "", *table(["", "what", "to"], rows, 3)]


def fault_section(found: list[Verdict]) -> list[str]:
    lines = ["## Faults", ""]
    for one in found:
        for fault in [*one.faults, *one.others][:MOST_FAULTS]:
            text = " ".join(fault["text"].split())[:FAULT_CHARACTERS].replace("`", "'")
            where = f", life {fault['life']} at {fault['seconds'] / 60:.1f} minutes" if "life" in fault else ""
            lines.append(f"- {one.program} under {fault['allocator']}{where}: {fault['what']}: `{text}`")
    if len(lines) == 2:
        lines.append("None: no process ended unasked, no request failed but while a disturbance explains it, and no "
                     "log has a report of Coffer or of a signal.")
    checks = sum(one.checks for one in found)
    lines += ["", f"`coffer_check` ran {checks} times in programs that can call it." if checks else
              "No program of this run can call `coffer_check`."]
    return [*lines, ""]


def text(results: Results, named: dict[str, str], picture: str) -> str:
    found = verdicts(results)
    lines = head(results)
    lines += table(["program", "minutes", "lives", "faults", "MiB", "slope, MiB an hour", "p99 over glibc's",
                    "p99.9 over glibc's", "verdict"], verdict_rows(results, found))
    lines += [f"![Resident memory of each program over time]({picture})", "",
              "Anonymous resident memory (a page that several processes share once) and page tables. A red line: "
              "something was done, by the letters below; a grey one: it was taken back.", ""]
    lines += disturbance_section(results, named) + slopes_section(found)
    lines += latency_section(found, results.plan["allocators"]) + fault_section(found)
    lines += ["## Programs", "", *table(["program", "what it is, and its load"],
                                        [[name, what] for name, what in results.header["programs"].items()], 2)]
    if missing := results.header["missing"]:
        lines += ["Left out: " + "; ".join(f"{name}, {why}" for name, why in missing.items()) + ".", ""]
    return "\n".join(lines)


def latency_rows(found: list[Verdict]) -> list[list[str]]:
    rows = []
    for one in found:
        versus = [one.latencies[name].versus for name in latency.JUDGED]
        rows.append([one.program, str(len(one.faults)), *map(ratio, versus), *map(judge_ratio, versus)])
    return rows


def latency_text(results: Results) -> str:
    """Of a run without a memory part."""
    found, plan, facts = verdicts(results), results.plan, results.header["machine"]
    options = f"--programs {','.join(plan['programs'])} --allocators {','.join(plan['allocators'])} --memory-share 0"
    return "\n".join([
        "# Latencies of real programs", "",
        f"Written by `make soak HOURS={plan['hours']:g} REPORT=1 SOAK_OPTIONS=\"{options}\"`, and not by hand: "
        "each program under each allocator by turns, undisturbed. What is measured and judged: "
        "[soak.md](../design/soak.md).", "",
        f"{facts['time']}, commit {facts['commit']}. {describe(facts)}.", "", f"{versions_of(results)}.", "",
        *busy_note(facts, loads_at_end(results)),
        *table(["program", "faults", *(f"{name} over glibc's" for name in latency.JUDGED), *latency.JUDGED],
               latency_rows(found), 1),
        *latency_section(found, plan["allocators"]), *fault_section(found)])


def write(results: Results, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if results.plan["memory_share"] == 0:
        page = folder / "soak-latencies.md"
        page.write_text(latency_text(results), encoding="utf-8")
        return page
    named = plot.draw(results, folder / "soak.svg")
    page = folder / "soak.md"
    page.write_text(text(results, named, "soak.svg"), encoding="utf-8")
    return page
