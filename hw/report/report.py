#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables and plots of the thesis, from replays of recorded programs: report.py [--output FILE] [--quick].

What is not recorded yet is recorded first (record.py). `make hw-report` runs it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import claims  # noqa: E402
import record  # noqa: E402
import software  # noqa: E402
import studies  # noqa: E402
from claims import verdicts  # noqa: E402
from runs import ReportError, Runs, arrivals, cut, make_trace  # noqa: E402
from tables import COLLECTORS, UNITS, Program, Tables  # noqa: E402

from replay import ReplayError  # noqa: E402, isort: skip


def program(name: str, collector: str, calls: Path, folder: Path) -> Program:
    trace = folder / f"{name}.txt"
    make_trace(calls, trace)
    return Program(name, collector, trace, arrivals(trace))


def recordings(names: list[str], calls: int, accesses: int, folder: Path, jobs: int) -> dict[str, Path]:
    """Recorded now, if they have not been."""
    paths = {name: folder / "calls" / f"{name}-{calls}-{accesses}.calls.gz" for name in names}

    def make(name: str) -> None:
        print(f"recording {name}", flush=True)
        record.record(name, calls, paths[name], accesses=accesses)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(make, (name for name in names if not paths[name].exists())))
    return paths


def prepare(recorded_of: dict[str, Path], calls: int, folder: Path) -> list[Program]:
    programs = []
    for name, recorded in recorded_of.items():
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


def whole(tables: Tables, recorded: dict[str, Path], accesses: int, folder: Path,
          plots: Path | None) -> tuple[list[tuple[str, str]], list[str], list[dict]]:
    """All tables in the order of the page, the names of the plots, and the rows of claims."""
    runs = tables.runs
    traces = folder / "traces"
    studied = claims.study(tables)
    tolerance, least = studies.k_tolerance(runs, traces)
    sizes, depths = studies.buffers_table(runs, studied)
    traffic = studies.traffic(runs, [(one.name, recorded[one.name]) for one in studied], accesses, traces)
    counted = software.measure(runs, tables.programs)
    cuts = {unit: studies.cuts(runs, traces, unit) for unit in ("ohebs", "hbs")}
    found = claims.rows(tables, least, traffic, counted, cuts)
    sections = [("What the thesis claims", verdicts.section(claims.TABLE, found)), *appendix(tables),
                ("A.3 Allocation by software on the same processor", software.software_table(counted)),
                ("Why pairs are rare (A.9)", studies.pairs_table(runs, tables.programs, traces)),
                ("k-tolerance (5.3.2)", tolerance), ("Buffers and marks (7.1)", sizes),
                ("Posted frees, recombination (7.2, 7.3)", studies.versions_table(runs, studied)),
                (f"Loads and stores between the calls (7.4), {accesses:,} calls", studies.traffic_table(traffic))]
    if plots is None:
        return sections, [], found
    from plots import draw

    return sections, [path.name for path in draw(tables, depths, plots)], found


def revision(folder: Path = record.TOP) -> str:
    """Of which text the figures are: the day of its last commit. A commit's name may not outlive a rebase."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)

    try:
        asked = git("log", "-1", "--format=%cs")
        changed = ", changed since" if git("diff", "--quiet", "HEAD").returncode != 0 else ""
    except OSError:
        return "an unknown day, for there is no git"
    return asked.stdout.strip() + changed if asked.returncode == 0 else "an unknown day, outside its repository"


def page(sections: list[tuple[str, str]], calls: int, accesses: int, of: str, plots: list[str]) -> str:
    text = f"""# The hardware's results beside the thesis's

Of Coffer as of {of}, and {calls:,} calls of each program, loads and stores before {accesses:,} of them. Made by \
`make hw-report REPORT_OPTIONS="--calls {calls} --accesses {accesses}"`: programs recorded instruction by \
instruction, replayed through HBS and OHEBS by Verilator, short ones in ghdl (logic at 200 MHz, SDRAM at 100 MHz, a \
heap of 32 MB). How: \
[hw/doc/bench.md](../../hw/doc/bench.md). The thesis used SPECjvm98 under a Java machine, which is closed; here are \
Lua, its collector stopped and run at a threshold, and CPython, which counts references. The loads differ, so it is \
the shape that can be compared. All times are nanoseconds.

- **Method**, as the thesis's: {calls:,} calls of each program, each when the unit is at rest, no Fast Return, a \
transfer of memory in 200 ns as its tables imply. The buffers go on draining and fetching behind the answer. In A.11, \
and for 7.2 to 7.4, calls come after the program's own work: half a cycle an instruction, a processor of 400 MHz.
- *find* and *block* are counted in whole cycles: the lists' search takes one (5 ns) in both units, where the thesis \
measured 10 to 40 and 60.
- Fast Return is given as the time that the processor waits, mean and longest included.
- Software (A.3) is coffer-rt's, counted on rv32im in qemu: 2.5 ns an instruction, as if caches never missed; or that \
and all that HBS's allocation takes, as if they never hit, for Knuth's policy moves the same words.

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
    parser.add_argument("--accesses", type=int, default=500, help="calls between which loads and stores are replayed")
    parser.add_argument("--only", metavar="NAME", action="append", choices=record.RECIPES,
                        help="the appendix's tables of these programs, and nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if min(arguments.calls, arguments.accesses) < 100 or arguments.jobs < 1:
        parser.error("--calls and --accesses are at least 100, --jobs at least 1")
    folder = record.BUILD / "report"
    accesses = min(arguments.accesses, arguments.calls)
    of = revision()  # what is read now, not what is there at the end
    plots = None if arguments.no_plots else arguments.output.parent
    try:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        recorded = recordings(arguments.only or list(record.RECIPES), arguments.calls, accesses, folder, arguments.jobs)
        programs = prepare(recorded, arguments.calls, folder)
        tables = Tables(programs, Runs(folder / "logs", arguments.jobs, tell=lambda text: print(text, flush=True)))
        sections, drawn, found = (appendix(tables), [], []) if arguments.only else whole(tables, recorded, accesses,
                                                                                         folder, plots)
        if arguments.output.resolve() == verdicts.TOP / verdicts.PAGES[claims.TABLE] and found:
            verdicts.replace(claims.TABLE, found)
        arguments.output.write_text(page(sections, arguments.calls, accesses, of, drawn), encoding="utf-8")
    except (ReportError, ReplayError, record.RecordError, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
