# SPDX-License-Identifier: MIT
"""What the thesis leaves open or promises without a table: k-tolerance (section 5.3.2), buffers of other sizes and
other marks (7.1), posted frees and recombination (7.2, 7.3), the program's loads and stores (7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runs import CYCLE, THESIS_LEAD, ReportError, Run, Runs, Setup, cut, make_trace
from tables import Program, number, shares, table, thesis_setup, triple, ways

from replay import buffer_generics  # isort: skip

BURST = 14
DEPTHS = (2, 4, 8, 16, 32)
# One transfer with the memory that the tables use, and what a refresh or the arbiter can add to it.
TRANSFER = 205
REST = 500  # cycles in which everything comes to rest


def burst(direction: str, level: str) -> str:
    """Calls at rest till the buffers are at one of their marks, and then as many at once."""
    lines, live = [], []

    def allocate(name: int) -> None:
        lines.append(f"a {name} 60")
        live.append(name)

    def rest() -> None:
        lines.append(f"g {REST}")

    for name in range(1, 61):
        allocate(name)
        rest()
    # Back go more than the buffer has places: it stands at its high mark, and the rest is on the lists.
    for _ in range(40):
        lines.append(f"f {live.pop(0)}")
        rest()
    if level == "low":
        for name in range(101, 113):
            allocate(name)
            rest()
    for name in range(201, 201 + BURST):
        if direction == "allocations":
            allocate(name)
        else:
            lines.append(f"f {live.pop()}")
    return "\n".join(lines) + "\n"


def tolerated(run: Run) -> int:
    """How many of the last calls were answered within one transfer of their own and one of others."""
    calls = run.calls[-BURST:]
    if len({call.kind for call in calls}) != 1:
        raise ReportError("the burst is not of one kind")
    for count, call in enumerate(calls):
        if call.answer > 2 * TRANSFER + 60:
            return count
    return BURST


def k_tolerance(runs: Runs, folder: Path) -> tuple[str, dict[str, int]]:
    """For each direction and mark; and the least of both marks, which is what can be relied on."""
    choices = {"8 places, marks 2 and 6 (thesis)": {}, "8 places, marks 4 and 4": {"marks": (4, 4)},
               "16 places, marks 4 and 12": {"depth": 16}, "4 places, marks 1 and 3": {"depth": 4}}
    rows, least = [], {}
    for name, options in choices.items():
        found = {}
        for direction in ("allocations", "frees"):
            for level in ("low", "high"):
                trace = folder / f"burst_{direction}_{level}.txt"
                calls = trace.with_suffix(".calls")
                calls.write_text(burst(direction, level), encoding="ascii")
                make_trace(calls, trace)
                setup = Setup("ohebs", True, THESIS_LEAD, buffers(**options))
                found[direction, level] = tolerated(runs.one(trace, setup))
        rows.append([name, *(at_least(found[key]) for key in found)])
        if not options:
            least = {key: min(found[key, "low"], found[key, "high"]) for key in ("allocations", "frees")}
    return table(["calls at once, none waiting", "allocations from the low mark", "from the high mark",
                  "frees at the low mark", "at the high mark"], rows), least


def at_least(count: int) -> str:
    return f"{count} or more" if count == BURST else str(count)


CUT_SIZES = tuple(range(4, 25, 2))  # powers of two, in bytes


def cuts(runs: Runs, folder: Path, unit: str) -> list[int]:
    """The block time of the first allocation of a heap that is one block, by size, smallest first: each halves the
    whole heap as often as its size wants. Nothing has happened before, so that nothing but the depth can differ."""
    wanted = []
    for power in CUT_SIZES:
        calls = folder / f"cut_{power}.calls"
        calls.write_text(f"a 1 {(1 << power) - 4}\n", encoding="ascii")
        make_trace(calls, calls.with_suffix(".txt"))
        wanted.append((calls.with_suffix(".txt"), thesis_setup(unit)))
    return [run.of("a")[0].block for run in runs.get(wanted)]


def buffers(**options: int | tuple[int, int]) -> tuple[tuple[str, int], ...]:
    """For a Setup; nothing where nothing is to be other than usual."""
    return tuple(buffer_generics(**options).items()) if options else ()


def buffers_table(runs: Runs, programs: Sequence[Program]) -> tuple[str, list[tuple[int, float, float]]]:
    """Depths and marks. Also, for the plot: depth, mean allocation, mean free over the programs."""
    choices: list[tuple[str, dict]] = [(f"{depth} places, marks at a quarter and three",
                                        {"depth": depth} if depth != 8 else {}) for depth in DEPTHS]
    choices += [(f"8 places, marks {low} and {high} set by register", {"set_marks": (low, high)})
                for low, high in ((1, 7), (0, 8), (2, 2), (4, 4), (6, 6))]
    choices.append(("32 places up to 128 bytes, 2 beyond", {"small_depth": 32, "small_to": 7, "depth": 2}))
    rows, points = [], []
    setups = [Setup("ohebs_waiting", buffers=buffers(**options)) for _, options in choices]
    found = runs.get([(one.trace, setup) for setup in setups for one in programs])
    for (name, options), here in zip(choices, split(found, len(programs)), strict=True):
        allocations = [run.row("a", "total") for run in here]
        frees = [run.row("f", "total") for run in here]
        cells = [f"{number(a.mean)} / {number(a.most)}; {number(f.mean)} / {number(f.most)}"
                 for a, f in zip(allocations, frees, strict=True)]
        rows.append([name, *cells, number(sum(run.transfers for run in here) / sum(len(run.calls) for run in here))])
        if set(options) == {"depth"} or not options:
            points.append((options.get("depth", 8), sum(a.mean for a in allocations) / len(here),
                           sum(f.mean for f in frees) / len(here)))
    head = ["mean / max of allocations; of frees, ns", *(one.name for one in programs), "transfers a call"]
    return table(head, rows), points


def split(found: Sequence[Run], width: int) -> list[Sequence[Run]]:
    return [found[i:i + width] for i in range(0, len(found), width)]


def doubling(count: int = 200, sizes: Sequence[int] = (12, 28, 60, 124)) -> str:
    """A program whose blocks double in size: of each size it has so many, frees them in order, and goes on."""
    lines, name = [], 0
    for size in sizes:
        first = name + 1
        for _ in range(count):
            name += 1
            lines.append(f"a {name} {size}")
        lines += [f"f {number_of}" for number_of in range(first, name + 1)]
    return "\n".join(lines) + "\n"


def pairs_table(runs: Runs, programs: Sequence[Program], folder: Path) -> str:
    """A pair serves an allocation only if its own index has nothing, and buddies of the index below have met on their
    way to the lists: how often is the one so, and how often then the other."""
    calls = folder / "doubling.calls"
    calls.write_text(doubling(), encoding="ascii")
    make_trace(calls, calls.with_suffix(".txt"))
    rows = []
    for name, trace in [*((one.name, one.trace) for one in programs), ("sizes that double", calls.with_suffix(".txt"))]:
        cells = []
        for setup in (thesis_setup("ohebs"), Setup("ohebs_waiting", buffers=buffers(depth=2))):
            direct, pair, cut_up = ways(runs.one(trace, setup))
            cells += [f"{100 * (pair + cut_up) / (direct + pair + cut_up):.1f}",
                      f"{100 * pair / (pair + cut_up):.2f}" if pair + cut_up else "none"]
        rows.append([name, *cells])
    return table(["of allocations, %", "own index had nothing", "of these, a pair below", "own index, 2 places",
                  "a pair below, 2 places"], rows)


def versions_table(runs: Runs, programs: Sequence[Program]) -> str:
    """Sections 7.2 and 7.3, with the recorded gaps: what the processor waits for."""
    units = {"ohebs": "OHEBS", "ohebs_posted": "frees posted (7.2)", "ohebs_joining": "recombining (7.3)"}
    rows = []
    for one in programs:
        for unit, name in units.items():
            run = runs.one(one.trace, Setup(unit, True))
            rows.append([one.name, name, triple(run.row("a", "answer")),
                         triple(run.row("f", "answer")),
                         number(run.transfers / len(run.calls))])
    return table(["program", "unit", "allocation, answer, ns", "free, answer, ns", "transfers a call"], rows)


@dataclass(frozen=True)
class Traffic:
    """A program's loads and stores through one cache, or none at all, between its calls."""
    program: str
    cache: str
    misses: float  # of a hundred accesses
    run: Run


CACHES: dict[str, tuple[int, int, int] | None] = {"no accesses": None, "4 KiB, 2 ways": (4096, 2, 32),
                                                  "32 KiB, 4 ways": (32768, 4, 32)}


def traffic(runs: Runs, recordings: Sequence[tuple[str, Path]], count: int, folder: Path) -> list[Traffic]:
    result, wanted = [], []
    for name, calls in recordings:
        part = folder / f"{name}_accesses.calls"
        cut(calls, count, part, accesses=True)
        for number_of, (cache, sizes) in enumerate(CACHES.items()):
            trace = folder / f"{name}_cache{number_of}.txt"
            words = make_trace(part, trace, cache=sizes).split()
            misses = 100 * int(words[3]) / int(words[1]) if sizes else 0.0
            wanted.append((name, cache, misses, trace))
        part.unlink()
    found = runs.get([(trace, Setup("ohebs", True)) for *_, trace in wanted])
    for (name, cache, misses, _), run in zip(wanted, found, strict=True):
        result.append(Traffic(name, cache, misses, run))
    return result


def traffic_table(found: Sequence[Traffic]) -> str:
    rows = []
    for one in found:
        # Those that found a block in the buffer are answered by the logic alone.
        allocations = one.run.of("a")
        at_once = sum(call.answer - call.stall <= 8 * CYCLE for call in allocations)
        access = one.run.times.get("access answer")
        rows.append([one.program, one.cache, f"{one.misses:.2f}",
                     triple(access) if access else "none",
                     triple(one.run.row("a", "answer")),
                     f"{100 * at_once / len(allocations):.1f}",
                     triple(one.run.row("f", "answer")), " / ".join(shares(ways(one.run)))])
    return table(["program", "cache", "misses, %", "a word, ns", "allocation, answer, ns", "from a buffer, %",
                  "free, answer, ns", "direct / pair / cut"], rows)
