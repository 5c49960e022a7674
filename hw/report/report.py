#!/usr/bin/env python3
"""The tables and plots of the thesis, from replays of recorded programs: report.py [--output FILE] [--quick].

What is not recorded yet is recorded first (record.py). `make hw-report` runs it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import claims  # noqa: E402
import record  # noqa: E402
import studies  # noqa: E402
from runs import ReportError, Runs, arrivals, cut, make_trace  # noqa: E402
from tables import COLLECTORS, UNITS, Program, Tables  # noqa: E402

from replay import ReplayError  # noqa: E402, isort: skip


def program(name: str, collector: str, calls: Path, folder: Path) -> Program:
    trace = folder / f"{name}.txt"
    make_trace(calls, trace)
    return Program(name, collector, trace, arrivals(trace))


def recording(name: str, calls: int, folder: Path) -> Path:
    """Recorded now, if it has not been, or is too short."""
    count = max(calls, record.CALLS)
    path = folder / "calls" / f"{name}-{count}.calls.gz"
    if not path.exists():
        print(f"recording {name}", flush=True)
        record.record(name, count, path)
    return path


def prepare(names: list[str], calls: int, folder: Path) -> list[Program]:
    programs = []
    for name in names:
        recorded = recording(name, calls, folder)
        part = folder / "traces" / f"{name}.calls"
        part.parent.mkdir(parents=True, exist_ok=True)
        cut(recorded, calls, part, accesses=False)
        programs.append(program(name, record.RECIPES[name].collector, part, folder / "traces"))
    return programs


def appendix(tables: Tables) -> list[tuple[str, str]]:
    """Titles and tables, as the appendix has them."""
    sections = [("The programs", tables.programs_table())]
    both = tables.collectors()
    if "msa" in both:
        sections += [("A.1 Allocation, OHEBS, mark-sweep", tables.allocation("ohebs", "msa")),
                     ("A.2 Allocation, HBS, mark-sweep: optimised", tables.allocation("hbs", "msa")),
                     ("A.2 Allocation, HBS, mark-sweep: reference", tables.allocation("hbs_reference", "msa")),
                     ("A.5, A.6 Deallocation, mark-sweep", tables.deallocation("msa"))]
    if "rcgc" in both:
        sections += [("A.7 Allocation, OHEBS, reference counting", tables.allocation("ohebs", "rcgc")),
                     ("Allocation, HBS, reference counting", tables.allocation("hbs", "rcgc")),
                     ("A.8 Deallocation, reference counting", tables.deallocation("rcgc"))]
    return [*sections, ("A.9 How OHEBS serves allocations", tables.distribution()),
            ("A.10 The shortest gap and the longest block time", tables.arrival()),
            ("A.11 What the processor waits for, with and without Fast Return", tables.fast_return())]


def whole(tables: Tables, accesses: int, folder: Path,
          plots: Path | None) -> tuple[list[tuple[str, str]], list[str]]:
    """All tables in the order of the page, and the names of the plots."""
    runs = tables.runs
    traces = folder / "traces"
    studied = claims.study(tables)
    tolerance, least = studies.k_tolerance(runs, traces)
    buffers, depths = studies.buffers_table(runs, studied)
    recordings = [(one.name, recording(one.name, accesses, folder)) for one in studied]
    traffic = studies.traffic(runs, recordings, accesses, traces)
    sections = [("What the thesis claims", claims.claims(tables, least, traffic)), *appendix(tables),
                ("k-tolerance (5.3.2)", tolerance), ("Buffers and marks (7.1)", buffers),
                ("Posted frees, recombination (7.2, 7.3)", studies.versions_table(runs, studied)),
                (f"Loads and stores between the calls (7.4), {accesses} calls", studies.traffic_table(traffic))]
    if plots is None:
        return sections, []
    from plots import draw

    return sections, [path.name for path in draw(tables, depths, plots)]


def page(sections: list[tuple[str, str]], calls: int, plots: list[str]) -> str:
    text = f"""# The hardware's results beside the thesis's

Made by `make hw-report REPORT_OPTIONS="--calls {calls}"`: programs recorded instruction by instruction, replayed \
through HBS and OHEBS in ghdl (logic at 200 MHz, SDRAM at 100 MHz, a heap of 32 MB). How: \
[hw/doc/bench.md](../../hw/doc/bench.md). The thesis used SPECjvm98 under a Java machine, which is closed; here are \
Lua, its collector stopped and run at a threshold, and CPython, which counts references. The loads differ, so it is \
the shape that can be compared. All times are nanoseconds.

- **Method**, as the thesis's: {calls} calls of each program, each when the unit is at rest, no Fast Return, a \
transfer of memory in 200 ns as its tables imply. The buffers go on draining and fetching behind the answer. In A.11, \
and for 7.2 to 7.4, calls come after the program's own work: half a cycle an instruction, a processor of 400 MHz.
- *find* and *block* are counted in whole cycles: the lists' search takes one (5 ns) in both units, where the thesis \
measured 10 to 40 and 60.
- Fast Return is given as the time that the processor waits, mean and longest included.

"""
    for title, body in sections:
        text += f"## {title}\n\n{body}\n"
    for name, what in zip(plots, ("Least, mean and longest times", "How allocations are served",
                                  "Mean times over the buffers' depth"), strict=False):
        text += f"![{what}]({name})\n\n"
    return text.rstrip("\n") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=record.BUILD / "report" / "results.md")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--calls", type=int, default=record.CALLS, help="of each program")
    parser.add_argument("--accesses", type=int, default=120, help="calls between which loads and stores are replayed")
    parser.add_argument("--only", metavar="NAME", action="append", choices=record.RECIPES,
                        help="the appendix's tables of these programs, and nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if min(arguments.calls, arguments.accesses) < 100 or arguments.jobs < 1:
        parser.error("--calls and --accesses are at least 100, --jobs at least 1")
    folder = record.BUILD / "report"
    plots = None if arguments.no_plots else arguments.output.parent
    try:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        programs = prepare(arguments.only or list(record.RECIPES), arguments.calls, folder)
        tables = Tables(programs, Runs(folder / "logs", arguments.jobs, tell=lambda text: print(text, flush=True)))
        sections, drawn = (appendix(tables), []) if arguments.only else whole(tables, arguments.accesses,
                                                                              folder, plots)
        arguments.output.write_text(page(sections, arguments.calls, drawn), encoding="utf-8")
    except (ReportError, ReplayError, record.RecordError, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
