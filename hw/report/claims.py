"""The thesis's claims beside what was measured here: whether each holds, and why."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from runs import Setup, row
from studies import TRANSFER, Traffic
from tables import Tables, average, number, table, thesis_setup, ways


def mean_of(tables: Tables, unit: str, collector: str, kind: str) -> tuple[float, float, float]:
    return average(tables.times(unit, collector, kind, "total"))


def cut_times(tables: Tables) -> tuple[int, int]:
    """The least block time of a cut for each size asked for: the lowest and the highest of them."""
    least: dict[int, int] = {}
    for one in tables.programs:
        for call in tables.runs.one(one.trace, thesis_setup("ohebs")).of("a"):
            if call.how == "c":
                size = (call.bytes + 3).bit_length()
                least[size] = min(least.get(size, call.block), call.block)
    return min(least.values()), max(least.values())


# Claim, the thesis's figure, the one found here, whether it holds (None: open), why.
Claim = tuple[str, str, str, bool | None, str]


def of_times(tables: Tables) -> list[Claim]:
    """Chapter 6, sections 2 and 3."""
    rows: list[Claim] = []
    ohebs, hbs = (mean_of(tables, unit, "msa", "a") for unit in ("ohebs", "hbs"))
    rows.append(("6.2.1: mean allocation five times better than HBS's", "5.0", f"{hbs[1] / ohebs[1]:.1f}",
                 hbs[1] / ohebs[1] >= 5, "OHEBS pays one transfer where HBS pays two and three for each halving; how "
                 "many allocations cut, and how deep, is the program's"))
    rows.append(("6.2.1: longest allocation three times shorter than HBS's", "3.3", f"{hbs[2] / ohebs[2]:.1f}",
                 hbs[2] / ohebs[2] >= 3, "HBS's longest is the first cut of the whole heap, the same in each program; "
                 "OHEBS's is a fetch behind a drain"))
    ohebs_f, hbs_f = (mean_of(tables, unit, "msa", "f") for unit in ("ohebs", "hbs"))
    rows.append(("6.2.2: under mark-sweep OHEBS's mean free is slightly slower than HBS's", "1.07",
                 f"{ohebs_f[1] / hbs_f[1]:.2f}", ohebs_f[1] > hbs_f[1], "sweeps fill the buffers, so that each "
                 "free waits for a drain of 4 to 7 transfers; HBS takes 5 and more for each join: the more neighbours "
                 "die together, the worse for HBS"))
    rows.append(("6.2.2: OHEBS's longest free is far shorter", "4.2 times", f"{hbs_f[2] / ohebs_f[2]:.1f} times",
                 hbs_f[2] > 2 * ohebs_f[2], "no free joins more than once"))
    ohebs_r, ohebs_rf = (mean_of(tables, "ohebs", "rcgc", kind) for kind in "af")
    rows.append(("6.3.3: reference counting makes OHEBS's mean free faster", "2.4 times",
                 f"{ohebs_f[1] / ohebs_rf[1]:.1f} times", ohebs_rf[1] < ohebs_f[1], "frees and allocations alternate, "
                 "and the buffer takes them both"))
    rows.append(("6.3.3: its allocations become slightly slower", "1.29 times", f"{ohebs_r[1] / ohebs[1]:.2f} times",
                 ohebs_r[1] > ohebs[1], "where lists exist, allocations come from them and not from cuts; it depends "
                 "on how much a program keeps"))
    rows.append(("6.3.3: its longest free becomes longer", "1.61 times", f"{ohebs_rf[2] / ohebs_f[2]:.2f} times",
                 ohebs_rf[2] > ohebs_f[2], "the longest is a drain behind other indices' transfers; what else is under "
                 "way at that moment decides"))
    part = {}
    for collector in ("msa", "rcgc"):
        counts = [ways(tables.runs.one(one.trace, thesis_setup("ohebs"))) for one in tables.of(collector)]
        part[collector] = sum(sum(one[:2]) for one in counts) / sum(map(sum, counts))
    rows.append(("6.3.3: direct and pair are half of the allocations under mark-sweep, 80 % under reference counting",
                 "0.50, 0.80", f"{part['msa']:.2f}, {part['rcgc']:.2f}",
                 abs(part["msa"] - 0.5) < 0.1 and part["rcgc"] > 0.7,
                 "the more a program frees while it works, the less is cut; these are short stretches in which "
                 "CPython builds more than it drops"))
    return rows


def of_promises(tables: Tables, tolerance: dict[str, int], traffic: Sequence[Traffic]) -> list[Claim]:
    """What chapters 5 and 7 say of the parts, and 6.4 of Fast Return."""
    rows: list[Claim] = []
    shortest, longest = cut_times(tables)
    rows.append(("5.3.3: a cut takes the same time however deep it is", "yes",
                 f"{number(shortest)} to {number(longest)} ns, the least for each size", longest - shortest <= 80,
                 "all halves go into buffers in one cycle; what is left is the memory's refresh and phase"))
    always = all(one.arrivals.least_between_allocations >
                 row(call.block for call in tables.runs.one(one.trace, thesis_setup("ohebs")).of("a")).most
                 for one in tables.programs)
    least = min(one.arrivals.least_between_allocations for one in tables.programs)
    rows.append(("6.4: OHEBS's longest block time is below the shortest gap between allocations", "12,315 ns and more",
                 f"{number(least)} ns", always, "the thesis's gaps were taken with a clock of the system around a "
                 "function of a Java machine; counted in instructions, programs allocate twice within a few dozen"))
    fast = tables.fast_return_rows()
    most = max(times["ohebs_fast"].most for _, times in fast)
    middle = sum(times["ohebs_fast"].mean for _, times in fast) / len(fast)
    rows.append(("6.4: with Fast Return every allocation takes 25 ns", "25 ns", f"mean {number(middle)}, max "
                 f"{number(most)} ns", most <= 25, "it holds while the buffer has a block and the last call is done; "
                 "the thesis's figure is its longest total minus its longest block time, not a simulation"))
    ratio = max(times["hbs_fast"].most / times["ohebs_fast"].most for _, times in fast)
    rows.append(("6.4: up to two orders better than HBS with Fast Return", "135 times", f"{ratio:.1f} times",
                 ratio >= 100, "HBS too answers when the link is read; it then waits for cuts that are not done, "
                 "OHEBS for its header"))
    rows.append(("5.3.2: k requests at once do not wait, k = 2 each way (marks 2 and 6 of 8)", "2 and 2",
                 f"{tolerance['allocations']} and {tolerance['frees']}",
                 min(tolerance.values()) >= 2, "exactly the blocks below the low mark; of frees one more, since a "
                 "drain begins with the first"))
    plain, equal = (sum(tables.runs.one(one.trace, Setup("ohebs_waiting", buffers=key)).transfers
                        for one in study(tables)) for key in (thesis_marks(), equal_marks()))
    rows.append(("5.4.1: equal marks cause many needless memory operations", "not measured",
                 f"{equal / plain:.2f} times the transfers", equal > 1.1 * plain, "runs of one kind move the same "
                 "words with any marks; only calls that alternate around the one level would cost more"))
    by_program: dict[str, list[Traffic]] = {}
    for one in traffic:
        by_program.setdefault(one.program, []).append(one)
    change = [statistics.mean(call.answer for call in of[1].run.of("a")) /
              statistics.mean(call.answer for call in of[0].run.of("a")) for of in by_program.values()]
    rows.append(("7.4: loads and stores between the calls may help the allocator as well as hinder it", "not measured",
                 f"with 4 KiB of cache answers of allocations take {min(change):.2f} to {max(change):.2f} times as "
                 "long",
                 None if max(abs(one - 1) for one in change) < 0.01 else min(change) < 0.99,
                 "the processor waits for its misses, and meanwhile buffers are filled; but a miss "
                 "right after a call waits for the call's own header"))
    rows.append(("5.5: 1 + 1 transfers at best; at worst 3 + 1 for an allocation, 8 + 1 for a free", "not measured",
                 f"the longest take the time of {most_transfers(tables, 'a')} and {most_transfers(tables, 'f')} "
                 "transfers", False, "whoever waits also waits for a sequence that has begun "
                 "(hw/doc/decisions.md, 1); the bounds that are proved are in hw/doc/formal.md"))
    rows.append(("6.2.1, 6.4: five times (mean), ten times (longest), a thousand times (Fast Return) better than "
                 "software", "5.1 and 3.9 (Knuth, the JVM's)", "not measured", None, "no software allocator ran on "
                 "this processor; in the thesis's own tables the JVM's mean is 3.9 times, and one longest 2.8 times"))
    return rows


def most_transfers(tables: Tables, kind: str) -> str:
    most = max(one.most for collector in tables.collectors() for one in tables.times("ohebs", collector, kind, "total"))
    return number(most / TRANSFER)


def claims(tables: Tables, tolerance: dict[str, int], traffic: Sequence[Traffic]) -> str:
    rows = of_times(tables) + of_promises(tables, tolerance, traffic)
    verdicts = {True: "holds", False: "does not hold", None: "open"}
    return table(["claim", "thesis", "here", "", "why"],
                 [[claim, theirs, ours, verdicts[holds], why] for claim, theirs, ours, holds, why in rows])


def study(tables: Tables) -> list:
    """The programs that the buffers are studied with: the first of each collector."""
    return [tables.of(collector)[0] for collector in tables.collectors()]


def thesis_marks() -> tuple[tuple[str, int], ...]:
    from replay import buffer_generics

    return tuple(buffer_generics(depth=8).items())


def equal_marks() -> tuple[tuple[str, int], ...]:
    from replay import buffer_generics

    return tuple(buffer_generics(marks=(4, 4)).items())
