# SPDX-License-Identifier: MIT
"""coffer trace: what a trace says, and traces made from traces."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal, Optional, get_args

import typer
from rich.console import Console

from coffer import consoles
from coffer.errors import CofferError
from coffer.files import whole
from coffer.trace import program, tables

app = typer.Typer(no_args_is_help=True, help="Looks at recorded traces, and makes others of them.")
Input = Annotated[Path, typer.Argument(help="A file that coffer record wrote.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The new trace.")]
Window = Annotated[int, typer.Option(help="Bytes that can be given back only as a whole; a power of two.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Every figure, for programs.")]
TimeFrom = Annotated[Optional[str], typer.Option("--from", metavar="TIME", help="From the start: 1.5s, 200ms, 30us.")]
TimeTo = Annotated[Optional[str], typer.Option("--to", metavar="TIME", help="From the start.")]
Format = Literal["csv", "parquet", "chrome", "perfetto", "rt", "hw"]
UNITS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}


def console() -> Console:
    return consoles.console()


@app.command()
def info(trace: Input, as_json: JsonFlag = False) -> None:
    """What was recorded: program, threads, operations, sizes, lifetimes, hottest call sites."""
    found = program.survey(trace)
    description = tables.describe(trace)
    if as_json:
        print(json.dumps({**description, "survey": found}))
        return
    tables.show_info(console(), trace, description, found)


@app.command()
def frag(trace: Input, window: Window = 32768, top: Annotated[int, typer.Option(min=1)] = 15,
         as_json: JsonFlag = False) -> None:
    """Who pins half-empty spans: in the moment when most memory is held by few blocks."""
    found = program.survey(trace, window)
    if as_json:
        print(json.dumps({key: found.get(key) for key in ("at_worst", "at_peak")}))
        return
    tables.show_frag(console(), found, tables.describe(trace), top)


@app.command()
def stack(trace: Input, numbers: Annotated[list[int], typer.Argument(
        metavar="N", min=1, help="Of the stacks, as info and frag show them.")]) -> None:
    """Call stacks with their whole names, line by line, and what is inlined there."""
    description = tables.describe(trace)
    for number in numbers:
        if str(number) not in description["stacks"]:
            raise CofferError(f"{trace}: no stack {number}; it has {len(description['stacks'])}")
    tables.show_stacks(console(), description, numbers)


def make(command: str, traces: list[Path], output: Path, **options: object) -> None:
    program.check_output(output)
    with whole(output, *traces) as unfinished:
        records = program.run(command, traces, out=unfinished, **options)
    print(f"{output}: {json.loads(records)['records']} records, {output.stat().st_size} bytes")


@app.command()
def cut(trace: Input, output: Output, time_from: TimeFrom = None, time_to: TimeTo = None,
        events: Annotated[Optional[str], typer.Option(metavar="FIRST:LAST", help="By number, from 0.")] = None,
        live: Annotated[bool, typer.Option(help="Begins with what is live there.")] = True) -> None:
    """A part of a trace, by time or by number. It can be replayed: it begins with what is live there."""
    first, last = parse_range("--events", events)
    make("cut", [trace], output, time_from=parse_time("--from", time_from), time_to=parse_time("--to", time_to),
         event_from=first, event_to=last, live=live)


@app.command("filter")
def filter_blocks(trace: Input, output: Output,
                  thread: Annotated[Optional[list[int]], typer.Option(min=1, help="That allocates; again: more.")]
                  = None,
                  stack: Annotated[Optional[list[int]], typer.Option(min=0, help="By number; again: more.")] = None,
                  size: Annotated[Optional[str], typer.Option(metavar="LEAST:MOST", help="As asked for first.")]
                  = None) -> None:
    """The blocks of some threads, call sites or sizes, with all that happened to them."""
    least, most = parse_range("--size", size)
    make("filter", [trace], output, thread=thread, stack=stack, size_from=least, size_to=most)


@app.command()
def merge(traces: Annotated[list[Path], typer.Argument(help="Two or more.")], output: Output,
          together: Annotated[bool, typer.Option("--together", help="All begin at the same time.")] = False) -> None:
    """Several traces as one, as if it had been one process; as far apart in time as they were recorded."""
    if len(traces) < 2:
        raise CofferError("merge takes two traces or more")
    make("merge", traces, output, together=together)


@app.command()
def anonymize(trace: Input, output: Output,
              size_step: Annotated[int, typer.Option(min=1, help="Rounds sizes up to a multiple.")] = 1,
              time_step: Annotated[str, typer.Option(metavar="TIME", help="Rounds times down to a multiple.")] = "1ns"
              ) -> None:
    """Takes out names, paths, arguments, addresses and dates: what is left is sizes, times, threads and their order."""
    step = parse_time("--time-step", time_step)
    if not step:
        raise CofferError("--time-step 0: at least 1ns")
    make("anonymize", [trace], output, size_step=size_step, time_step=step)


@app.command()
def export(trace: Input, output: Annotated[Path, typer.Option("--output", "-o", allow_dash=True,
                                                              help="- is the standard output (csv, chrome).")],
           form: Annotated[Optional[Format], typer.Option(
               "--format", "-f", show_default="by the output's name",
               help="perfetto is chrome's JSON, which its viewer opens.")] = None,
           least: Annotated[int, typer.Option(min=0, help="chrome: blocks from this size on are shown as slices.")]
           = 65536,
           policy: Annotated[Optional[Literal["knuth", "estranged"]], typer.Option(
               help="rt, hw: whose answers.", show_default="rt: estranged, hw: knuth")] = None,
           heap: Annotated[Optional[int], typer.Option(min=64, help="rt, hw: bytes of the heap, a power of two.",
                                                       show_default="rt: 1 MiB, hw: 32 MiB")] = None,
           cycles_per_instruction: Annotated[float, typer.Option(help="hw: of the logic, between calls, where the "
                                                                 "trace has instructions.")] = 0.5,
           cycles_per_ns: Annotated[float, typer.Option(help="hw: where it has not.")] = 0.2,
           longest_gap: Annotated[int, typer.Option(min=0, help="hw: cycles; longer ones are cut.")] = 20000
           ) -> None:
    """The events for other programs: a table, or a picture in the Perfetto viewer (ui.perfetto.dev)."""
    endings = {".csv": "csv", ".parquet": "parquet", ".json": "chrome"}
    form = form or endings.get(output.suffix)  # type: ignore[assignment]
    if form is None:
        raise CofferError(f"{output}: the name says no format: one of {', '.join(get_args(Format))} with --format")
    rates = {"cycles_per_instruction": cycles_per_instruction, "cycles_per_ns": cycles_per_ns,
             "longest_gap": longest_gap}
    options: dict[str, object] = {"rt": {"policy": policy, "heap": heap}, "csv": {},
                                  "hw": {"policy": policy, "heap": heap, **rates}}.get(form, {"least": least})
    if form == "parquet" and str(output) == "-":
        raise CofferError("a parquet table goes to a file")
    with whole(output, trace) as target:
        if form == "parquet":
            from coffer.trace import parquet  # here, since it takes long to load

            program.check_input(trace)
            parquet.write(trace, target)
        else:
            command = form if form in ("rt", "hw", "csv") else "chrome"
            sys.stdout.write(program.run(command, [trace], out=target, **options))


def parse_time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    unit = next((unit for unit in ("ns", "us", "ms", "s") if text.endswith(unit)), "")
    try:
        value = round(float(text.removesuffix(unit)) * UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        value = -1
    if value < 0:
        raise CofferError(f"{option} {text}: a time is a number with its unit: 1.5s, 200ms, 30us, 5ns")
    return value


def parse_range(option: str, text: str | None) -> tuple[int | None, int | None]:
    """Either end may be missing."""
    if text is None:
        return None, None
    parts = text.split(":")
    if len(parts) != 2 or not all(part == "" or part.isdecimal() for part in parts):
        raise CofferError(f"{option} {text}: FIRST:LAST, each a number or nothing")
    first, last = (int(part) if part else None for part in parts)
    if first is not None and last is not None and first > last:
        raise CofferError(f"{option} {text}: {first} is above {last}")
    return first, last
