# SPDX-License-Identifier: MIT
"""The sub-commands leaks and heap."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from coffer import consoles
from coffer.errors import CofferError
from coffer.files import check_inputs, programs_files
from coffer.heap import show, sites, stacks, taken
from coffer.live.figures import size as short_size
from coffer.profile import proto, symbols
from coffer.profile.command import is_profile, is_rate
from coffer.trace.tables import duration

TARGET = "A program and its arguments, after --; or profiles, in order of time."
METAVAR = "PROGRAM [ARGUMENT]... | PROFILE..."
View = Literal["live", "peak", "temporary", "growing", "allocated"]
MEASURES = {"live": sites.LIVE, "peak": sites.LIVE, "temporary": sites.TEMPORARY, "allocated": sites.ALLOCATED,
            "growing": sites.LIVE}


@dataclass(frozen=True)
class Shown:
    """How much of it, and where else it goes."""

    top: int
    depth: int
    as_json: bool
    output: Path | None


@dataclass
class Seen:
    """What was taken, with names."""

    last: stacks.Heap
    peak: stacks.Heap | None
    moments: list[stacks.Heap]
    is_end: bool  # the last one is from the program's end


def with_names(found: taken.Taken) -> Seen:
    profiles = [found.last, *filter(None, [found.peak]), *found.moments]
    heaps = stacks.named(profiles)
    moments = heaps[len(heaps) - len(found.moments):]
    return Seen(heaps[0], heaps[1] if found.peak else None, moments, found.end is not None)


@contextlib.contextmanager
def source(command: str, target: list[str] | None, pid: int | None, signal: int | None, rate: str, every: float,
           count: int, with_moments: bool, outputs: list[Path | None]) -> Iterator[taken.Taken]:
    if not is_rate(rate):
        raise CofferError(f"--rate {rate}: a size from 1 to 1T, such as 512K")
    if (pid is None) == (not target):
        raise CofferError("a program, profiles, or --pid: one of them is needed")
    for output in filter(None, outputs):
        if output.is_dir() or not output.absolute().parent.is_dir():
            raise CofferError(f"{output}: {'is a directory' if output.is_dir() else 'no such directory'}")
    if pid is not None:
        yield taken.of_process(pid, signal, every, count)
    elif target and all(is_profile(one) for one in target):
        for output in filter(None, outputs):
            check_inputs(output, map(Path, target))
        yield taken.of_files([Path(one) for one in target])
    elif target:
        if len(target) == 1 and target[0].isdecimal() and shutil.which(target[0]) is None:
            raise CofferError(f"{target[0]}: a program or a profile is wanted; a process that runs is named by --pid")
        for output in filter(None, outputs):
            check_inputs(output, programs_files(target))
        with taken.of_program(command, target, rate, with_moments) as found:
            yield found


def keep(found: taken.Taken, output: Path | None) -> None:
    """The last profile, with the names of functions."""
    if output is None:
        return
    proto.write(output, proto.with_functions(found.last, symbols.names_of(found.last)))


def sampling_note(heap: stacks.Heap, measure: sites.Measure) -> list[str]:
    figure = stacks.total(measure(stack) for stack in heap.stacks)
    if not figure.blocks or stacks.is_exact(figure):
        return []
    return [f"A sample each {short_size(heap.period)}: {figure.samples:,.0f} samples stand behind this; of n samples a"
            " figure is off by about 1/sqrt(n)."]


def print_json(view: str, verdicts: list[str], heap: stacks.Heap, found: list[sites.Site], shown: Shown) -> None:
    measure = MEASURES[view]
    apart = {group: {"bytes": round(one.bytes), "blocks": round(one.blocks)}
             for group, one in sites.groups(heap, measure).items()}
    total = sites.whole(found)
    print(json.dumps({"program": heap.program, "view": view, "verdicts": verdicts, "period": heap.period,
                      "bytes": round(total.bytes), "blocks": round(total.blocks),
                      "error": round(stacks.error_of(total), 4), "apart": apart,
                      "sites": show.as_json(found[:shown.top], shown.depth)}))


def leaks(
    target: Annotated[Optional[list[str]], typer.Argument(metavar=METAVAR, show_default=False, help=TARGET)] = None,
    pid: Annotated[Optional[int], typer.Option(
        metavar="PID", min=1, help="A process that runs with dump_signal: what of it is live now.")] = None,
    signal: Annotated[Optional[int], typer.Option(help="The process's dump_signal.", show_default="as it was told")
                      ] = None,
    rate: Annotated[str, typer.Option(help="Mean bytes between samples: 64K is cheaper, 1 is every block.")] = "1",
    top: Annotated[int, typer.Option(min=1, help="Places shown.")] = 8,
    depth: Annotated[int, typer.Option(min=0, help="Callers shown above each.")] = 8,
    fail: Annotated[Optional[int], typer.Option(
        "--exit-code", min=1, max=255, metavar="N", help="The status if there are leaks.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Keeps the profile.")] = None,
) -> None:
    """What a program never freed: how much, from where, and by whose calls."""
    with source("leaks", target, pid, signal, rate, 1.0, 1, False, [output]) as found:
        keep(found, output)
        heap = stacks.named([found.last])[0]
        leaked = sites.sites(heap, sites.LIVE)
        if found.end is not None:
            what, nothing = "never freed", "No leaks: the program freed all that it allocated."
        else:
            what, nothing = "live now", "Nothing that the program allocated is live."
        verdicts = [show.sentence(leaked, what, nothing), *show.apart(heap, sites.LIVE, "kept")]
        if as_json:
            print_json("live", verdicts, heap, leaked, Shown(top, depth, True, output))
        else:
            notes = found.notes + sampling_note(heap, sites.LIVE)
            tree = show.tree_of(leaked, f"{what}, by who allocated it", top, depth) if leaked else None
            show.show(consoles.console(), verdicts, notes, tree)
        status = found.status
    if fail is not None and leaked:
        status = fail
    raise typer.Exit(status)


def peak_words(seen: Seen, found: taken.Taken) -> str:
    assert seen.peak is not None
    after = f", {duration(seen.peak.duration_ns)} after the start" if found.end is not None and found.file else ""
    return f"held at the highest moment{after}"


def verdicts_of(seen: Seen, found: taken.Taken) -> list[str]:
    """What there is to say, in the order of what people ask."""
    result = []
    growing = sites.growing(seen.moments)
    if seen.peak is not None:
        result.append(show.sentence(sites.sites(seen.peak, sites.LIVE), peak_words(seen, found),
                                    "Nothing was held at the moments that were looked at."))
    if growing:
        result.append(show.growth_sentence(growing))
    what = "left at the end" if seen.is_end and seen.peak is not None else "live"
    nothing = "Nothing is left at the end." if seen.is_end else "Nothing that the program allocated is live."
    result.append(show.sentence(sites.sites(seen.last, sites.LIVE), what, nothing))
    return result + show.apart(seen.last, sites.LIVE, "kept")


def view_of(seen: Seen, view: View) -> tuple[stacks.Heap, list[sites.Site], str]:
    """The heap and the sites that a view shows, with its title."""
    if view == "peak":
        if seen.peak is None:
            raise CofferError("--view peak: one profile of a file has no peak; run the program, or give several")
        return seen.peak, sites.sites(seen.peak, sites.LIVE), "at the highest moment, by who allocated it"
    if view == "growing":
        if len(seen.moments) < 3:
            raise CofferError("--view growing: three moments are needed: a program that runs longer, --count 3 with"
                              " --pid, or three profiles")
        keys = {(one.site.place.function, one.site.place.file) for one in sites.growing(seen.moments)}
        grown = sites.changes(seen.moments[0], seen.moments[-1], sites.LIVE)[0]
        found = [one for one in sites.sites(grown, sites.LIVE) if (one.place.function, one.place.file) in keys]
        return grown, found, "grown all the time, by who allocated it"
    titles = {"live": "left at the end" if seen.is_end else "live", "temporary": "allocated and freed again",
              "allocated": "allocated in all"}
    return seen.last, sites.sites(seen.last, MEASURES[view]), f"{titles[view]}, by who allocated it"


def heap(
    target: Annotated[Optional[list[str]], typer.Argument(metavar=METAVAR, show_default=False, help=TARGET)] = None,
    view: Annotated[Optional[View], typer.Option(
        "--view", help="What the tree is of.", show_default="peak of a program, else live")] = None,
    pid: Annotated[Optional[int], typer.Option(metavar="PID", min=1, help="A process that runs with dump_signal.")
                   ] = None,
    signal: Annotated[Optional[int], typer.Option(help="The process's dump_signal.", show_default="as it was told")
                      ] = None,
    every: Annotated[float, typer.Option(min=0.05, help="With --pid: seconds from moment to moment.")] = 1.0,
    count: Annotated[int, typer.Option(min=1, help="With --pid: moments; three and more show what grows.")] = 1,
    rate: Annotated[str, typer.Option(help="Mean bytes between samples: 512K is cheaper, 1 is every block.")] = "16K",
    top: Annotated[int, typer.Option(min=1, help="Places shown.")] = 8,
    depth: Annotated[int, typer.Option(min=0, help="Callers shown above each.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Keeps the last profile.")] = None,
) -> None:
    """Who holds memory: at the peak, at the end, what grows, what is freed again."""
    with source("heap", target, pid, signal, rate, every, count, True, [output]) as found:
        keep(found, output)
        seen = with_names(found)
        chosen: View = view or ("live" if seen.peak is None or pid is not None else "peak")
        shown_heap, sites_shown, title = view_of(seen, chosen)
        verdicts = verdicts_of(seen, found)
        measure = MEASURES[chosen]
        if as_json:
            print_json(chosen, verdicts, shown_heap, sites_shown, Shown(top, depth, True, output))
        else:
            tree = show.tree_of(sites_shown, title, top, depth) if sites_shown else None
            show.show(consoles.console(), verdicts, found.notes + sampling_note(shown_heap, measure), tree)
        status = found.status
    raise typer.Exit(status)
