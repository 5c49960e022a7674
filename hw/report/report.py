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

import record  # noqa: E402
from runs import ReportError, Runs, arrivals, make_trace  # noqa: E402
from tables import COLLECTORS, UNITS, Program, Tables  # noqa: E402

from replay import ReplayError  # noqa: E402, isort: skip


def program(name: str, collector: str, calls: Path, folder: Path) -> Program:
    trace = folder / f"{name}.txt"
    make_trace(calls, trace)
    return Program(name, collector, trace, arrivals(trace))


def prepare(names: list[str], calls: int, folder: Path) -> list[Program]:
    programs = []
    for name in names:
        recorded = folder / "calls" / f"{name}-{calls}.calls.gz"
        if not recorded.exists():
            print(f"recording {name}", flush=True)
            record.record(name, calls, recorded)
        programs.append(program(name, record.RECIPES[name].collector, recorded, folder / "traces"))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=record.BUILD / "report" / "results.md")
    parser.add_argument("--calls", type=int, default=record.CALLS, help="of each program")
    parser.add_argument("--only", metavar="NAME", action="append", choices=record.RECIPES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.calls < 100 or arguments.jobs < 1:
        parser.error("--calls is at least 100, --jobs at least 1")
    folder = record.BUILD / "report"
    try:
        programs = prepare(arguments.only or list(record.RECIPES), arguments.calls, folder)
        runs = Runs(folder / "logs", arguments.jobs, tell=lambda text: print(text, flush=True))
        sections = appendix(Tables(programs, runs))
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text("".join(f"## {title}\n\n{text}\n" for title, text in sections), encoding="utf-8")
    except (ReportError, ReplayError, record.RecordError, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
