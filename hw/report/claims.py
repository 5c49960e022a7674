# SPDX-License-Identifier: MIT
"""The thesis's claims beside what was measured here, as rows of docs/results/verdicts.json: figures, and rules over
them that decide (bench/papers/rules.py). Nothing here says whether a claim holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from runs import Setup
from software import Software, ratios
from studies import TRANSFER, Traffic, buffers
from tables import Tables, average, thesis_setup, ways

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "papers"))

import verdicts  # noqa: E402

TABLE = "hardware"
COMMAND = 'make hw-report REPORT_OPTIONS="--calls 100000 --accesses 5000 --output docs/results/hardware.md"'


def mean_of(tables: Tables, unit: str, collector: str, kind: str) -> tuple[float, float, float]:
    return average(tables.times(unit, collector, kind, "total"))


def claim(name: str, says: str, theirs: str, here: str, holds: str, why: str, in_part: str = "",
          **figures: float | Sequence[float]) -> dict[str, Any]:
    """`holds` and, weaker, `in_part`: rules. `here` and `why` may show the figures."""
    rounded = {key: [verdicts.rounded(one) for one in value] if isinstance(value, (list, tuple))
               else verdicts.rounded(value) for key, value in figures.items()}
    return {"id": f"{TABLE}-{name}", "table": TABLE, "claim": says, "theirs": theirs, "command": COMMAND,
            "by": "simulated", "figures": rounded, "here": here, "holds": holds,
            **({"in_part": in_part} if in_part else {}), "why": why, "commit": verdicts.commit("hw")}


def of_software(found: Sequence[Software]) -> Iterator[dict[str, Any]]:
    """6.2.1 and 6.4: better than software."""
    for name, says, theirs, unit, which, wanted, why in (
            ("6.2.1-software-mean", "6.2.1: mean allocation five times better than software's",
             "5.1 (Knuth), 3.9 (the JVM's)", "ohebs", 0, 5,
             "Knuth's allocation is some 170 instructions; where each word that it moves takes 200 ns besides, as in "
             "HBS, it takes as long as the thesis says"),
            ("6.2.1-software-longest", "6.2.1: longest allocation ten times shorter than software's",
             "23.5 (Knuth), one of the JVM's 2.8", "ohebs", 1, 10,
             "the thesis's 104,449 ns are not Knuth's cut, which is 21 halvings at most"),
            ("6.4-software", "6.4: with Fast Return the longest is a thousand times shorter", "2,850 to 8,230", "fast",
             1, 1000, "software's longest as above, against OHEBS's when the call before is not over yet")):
        cached, uncached = ratios(found, unit, which)
        yield claim(name, says, theirs, "{cached:.1f} with caches that never miss, {uncached:.1f} without any",
                    f"cached >= {wanted}", why, f"uncached >= {wanted}", cached=cached, uncached=uncached)


def of_times(tables: Tables) -> Iterator[dict[str, Any]]:
    """Chapter 6, sections 2 and 3."""
    ohebs, hbs = (mean_of(tables, unit, "msa", "a") for unit in ("ohebs", "hbs"))
    own_work = [times for one, times in tables.fast_return_rows() if one.collector == "msa"]
    spaced = sum(times["hbs"].mean for times in own_work) / sum(times["ohebs"].mean for times in own_work)
    yield claim("6.2.1-mean", "6.2.1: mean allocation five times better than HBS's", "5.0",
                "{ratio:.1f}; {spaced:.1f} with the program's own work between calls (A.11)", "ratio >= 4.95",
                "OHEBS pays one transfer where HBS pays two and three for each halving; but where each call comes as "
                "soon as the last is over, a block from a list waits for the fetch that the one before has begun",
                "spaced >= 4.5", ratio=hbs[1] / ohebs[1], spaced=spaced)
    yield claim("6.2.1-longest", "6.2.1: longest allocation three times shorter than HBS's", "3.3", "{ratio:.1f}",
                "ratio >= 3", "HBS's longest is the first cut of the whole heap, the same in each program; OHEBS's is "
                "a fetch behind a drain", ratio=hbs[2] / ohebs[2])
    ohebs_f, hbs_f = (mean_of(tables, unit, "msa", "f") for unit in ("ohebs", "hbs"))
    yield claim("6.2.2-mean", "6.2.2: under mark-sweep OHEBS's mean free is slightly slower than HBS's", "1.07",
                "{ratio:.2f}", "ratio > 1", "sweeps fill the buffers, so that each free waits for a drain of 4 to 7 "
                "transfers; HBS takes 5 and more for each join: the more neighbours die together, the worse for HBS",
                ratio=ohebs_f[1] / hbs_f[1])
    yield claim("6.2.2-longest", "6.2.2: OHEBS's longest free is far shorter", "4.2 times", "{ratio:.1f} times",
                "ratio > 2", "no free joins more than once", ratio=hbs_f[2] / ohebs_f[2])
    ohebs_r, ohebs_rf = (mean_of(tables, "ohebs", "rcgc", kind) for kind in "af")
    yield claim("6.3.3-free", "6.3.3: reference counting makes OHEBS's mean free faster", "2.4 times",
                "{ratio:.1f} times", "ratio > 1", "frees and allocations alternate, and the buffer takes them both",
                ratio=ohebs_f[1] / ohebs_rf[1])
    yield claim("6.3.3-allocation", "6.3.3: its allocations become slightly slower", "1.29 times",
                "{ratio:.2f} times", "ratio > 1", "where lists exist, allocations come from them and not from cuts; it "
                "depends on how much a program keeps", ratio=ohebs_r[1] / ohebs[1])
    yield claim("6.3.3-longest", "6.3.3: its longest free becomes longer", "1.61 times", "{ratio:.2f} times",
                "ratio > 1", "the longest is a drain behind other indices' transfers; what else is under way at that "
                "moment decides", ratio=ohebs_rf[2] / ohebs_f[2])
    part = {}
    for collector in ("msa", "rcgc"):
        counts = [ways(tables.runs.one(one.trace, thesis_setup("ohebs"))) for one in tables.of(collector)]
        part[collector] = sum(sum(one[:2]) for one in counts) / sum(map(sum, counts))
    yield claim("6.3.3-ways", "6.3.3: direct and pair are half of the allocations under mark-sweep, 80 % under "
                "reference counting", "0.50, 0.80", "{sweep:.2f}, {counting:.2f}",
                "abs(sweep - 0.5) < 0.1 and counting > 0.7", "the more a program frees while it works, the less is "
                "cut; both collectors' programs here come to a state in which most blocks are of those that were freed",
                "abs(sweep - 0.5) < 0.1 or counting > 0.7", sweep=part["msa"], counting=part["rcgc"])


def of_promises(tables: Tables, tolerance: dict[str, int], traffic: Sequence[Traffic],
                cuts: dict[str, list[int]]) -> Iterator[dict[str, Any]]:
    """What chapters 5 and 7 say of the parts, and 6.4 of Fast Return."""
    yield claim("5.3.3", "5.3.3: a cut takes the same time however deep it is", "yes",
                "the first call cuts the whole heap: 21 halvings {ohebs[0]:.0f} ns, one {ohebs[10]:.0f} ns; HBS "
                "{hbs[0]:,.0f} and {hbs[10]:,.0f}",
                "most(ohebs) <= 1.1 * least(ohebs) and most(hbs) >= 2 * least(hbs)",
                "all halves go into buffers in one cycle",
                ohebs=cuts["ohebs"], hbs=cuts["hbs"])
    gaps = [one.arrivals.least_between_allocations for one in tables.programs]
    longest = [tables.runs.one(one.trace, thesis_setup("ohebs")).row("a", "block").most for one in tables.programs]
    yield claim("6.4-gap", "6.4: OHEBS's longest block time is below the shortest gap between allocations",
                "12,315 ns and more", "gaps of {gap:.0f} ns; the longest block time is {over:.1f} times the gap, of "
                "the program with the least {over_least:.1f}", "over < 1",
                "the thesis's gaps were taken with a clock of the system around a function of a Java machine; counted "
                "in instructions, programs allocate twice within a few dozen", "over_least < 1",
                gap=min(gaps), over=max(one / gap for one, gap in zip(longest, gaps, strict=True)),
                over_least=min(one / gap for one, gap in zip(longest, gaps, strict=True)))
    fast = tables.fast_return_rows()
    yield claim("6.4-fast", "6.4: with Fast Return every allocation takes 25 ns", "25 ns",
                "mean {mean:.1f}, max {longest:.0f} ns", "longest <= 25", "it holds while the buffer has a block and "
                "the last call is done; the thesis's figure is its longest total minus its longest block time, not a "
                "simulation", "mean <= 25", mean=sum(times["ohebs_fast"].mean for _, times in fast) / len(fast),
                longest=max(times["ohebs_fast"].most for _, times in fast))
    yield claim("6.4-orders", "6.4: up to two orders better than HBS with Fast Return", "135 times",
                "{ratio:.0f} times", "ratio >= 100", "HBS too answers when the link is read; it then waits for cuts "
                "that are not done, OHEBS for its header",
                ratio=max(times["hbs_fast"].most / times["ohebs_fast"].most for _, times in fast))
    yield claim("5.3.2", "5.3.2: k requests at once do not wait, k = 2 each way (marks 2 and 6 of 8)", "2 and 2",
                "{allocations:.0f} and {frees:.0f}", "allocations >= 2 and frees >= 2", "exactly the blocks below the "
                "low mark; of frees one more, since a drain begins with the first", **tolerance)
    plain, equal = (sum(tables.runs.one(one.trace, Setup("ohebs_waiting", buffers=key)).transfers
                        for one in study(tables)) for key in ((), buffers(set_marks=(4, 4))))
    yield claim("5.4.1", "5.4.1: equal marks cause many needless memory operations", "not measured",
                "{ratio:.2f} times the transfers", "ratio > 1.1", "runs of one kind move the same words with any "
                "marks; only calls that alternate around the one level would cost more", ratio=equal / plain)
    change = {kind: changes(traffic, kind) for kind in "af"}
    yield claim("7.4", "7.4: loads and stores between the calls may help the allocator as well as hinder it",
                "not measured", "answers take {allocations[0]:.3f} to {allocations[1]:.3f} times as long "
                "(allocations), {frees[0]:.3f} to {frees[1]:.3f} (frees)",
                "least(allocations) < 0.99 and most(allocations) > 1.01 and least(frees) < 0.99 and most(frees) > 1.01",
                "every allocation here is from a buffer, so that nothing can help or hinder it, and a free waits for "
                "its own drain; programs whose buffers miss would have to tell",
                "least(allocations, frees) < 0.99 or most(allocations, frees) > 1.01",
                allocations=(min(change["a"]), max(change["a"])), frees=(min(change["f"]), max(change["f"])))
    best, worst = ({kind: chosen(getattr(one, which) for collector in tables.collectors()
                                       for one in tables.times("ohebs", collector, kind, "total")) / TRANSFER
                          for kind in "af"} for which, chosen in (("least", min), ("most", max)))
    yield claim("5.5", "5.5: 1 + 1 transfers at best; at worst 3 + 1 for an allocation, 8 + 1 for a free",
                "not measured", "the time of {best[0]:.1f} and {best[1]:.1f} transfers at least, {worst[0]:.1f} and "
                "{worst[1]:.1f} at most", "most(best) <= 2 and worst[0] <= 4 and worst[1] <= 9",
                "whoever waits also waits for a sequence that has begun (hw/doc/decisions.md, 1); the bounds that are "
                "proved are in hw/doc/formal.md", "most(best) <= 2",
                best=(best["a"], best["f"]), worst=(worst["a"], worst["f"]))


def changes(traffic: Sequence[Traffic], kind: str) -> list[float]:
    """Mean answers with each cache, by those of the same program without accesses."""
    alone = {one.program: one.run.row(kind, "answer").mean for one in traffic if one.misses == 0}
    return [one.run.row(kind, "answer").mean / alone[one.program] for one in traffic if one.misses != 0]


def rows(tables: Tables, tolerance: dict[str, int], traffic: Sequence[Traffic], software: Sequence[Software],
         cuts: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [*of_times(tables), *of_promises(tables, tolerance, traffic, cuts), *of_software(software)]


def study(tables: Tables) -> list:
    """The programs that the buffers are studied with: the first of each collector."""
    return [tables.of(collector)[0] for collector in tables.collectors()]
