# SPDX-License-Identifier: MIT
"""The sub-commands leaks and heap."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from coffer import consoles
from coffer.errors import CofferError
from coffer.files import programs_files
from coffer.heap import owners, show, sites, stacks, taken
from coffer.heap.outputs import Files, Views, print_json
from coffer.heap.verdicts import NOTHING_LIVE, Seen, nothing, verdicts_of, with_names
from coffer.live.figures import size as short_size
from coffer.profile.command import is_profile, rate_of

TARGET = "A program and its arguments, after --; or profiles, in order of time; or a trace of coffer record."
METAVAR = "PROGRAM [ARGUMENT]... | PROFILE... | TRACE"
View = Literal["live", "peak", "temporary", "growing", "allocated"]
KINDS = {"live": "inuse_space", "peak": "peak_space", "temporary": "alloc_space", "allocated": "alloc_space",
         "growing": "inuse_space"}
MEASURES = {"live": sites.LIVE, "peak": sites.PEAK, "temporary": sites.TEMPORARY, "allocated": sites.ALLOCATED,
            "growing": sites.LIVE}
PROCESS_RATE = "64K"  # nobody who started it has agreed to more
NO_PEAK = "--view peak: the profile does not know its highest moment; an older version wrote it"

Target = Annotated[Optional[list[str]], typer.Argument(metavar=METAVAR, show_default=False, help=TARGET)]
Pid = Annotated[Optional[int], typer.Option(
    "--pid", metavar="PID", min=1, help="A process that runs under Coffer: what is live now.")]
Signal = Annotated[Optional[int], typer.Option(
    "--signal", help="With --pid: the process's dump_signal.", show_default="as it was told, else none is needed")]
Toggle = Annotated[Optional[int], typer.Option(
    "--profile-signal", help="With --pid: the process's profile_signal.",
    show_default="as it was told, else none is needed")]
Force = Annotated[bool, typer.Option(
    "--force", help="With --pid: also a process whose seccomp filter may end it for this.")]
Every = Annotated[float, typer.Option(
    "--every", min=0.05, help="With --pid: seconds from moment to moment, also to the first if sampling begins now.")]
Top = Annotated[int, typer.Option("--top", min=1, help="Places shown.")]
Depth = Annotated[int, typer.Option("--depth", min=0, help="Callers shown of each.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Html = Annotated[Optional[Path], typer.Option(
    "--html", metavar="FILE", help="A page with a flame graph, an icicle and a treemap, that needs nothing else.")]
Speedscope = Annotated[Optional[Path], typer.Option(
    "--speedscope", metavar="FILE", help="For https://www.speedscope.app.")]
Collapsed = Annotated[Optional[Path], typer.Option(
    "--collapsed", metavar="FILE", help="A line a stack, for flamegraph.pl and its like.")]
Output = Annotated[Optional[Path], typer.Option("--output", "-o", metavar="FILE", help="Keeps the last profile.")]


@dataclass(frozen=True)
class Asked:
    """Of whom, and how."""

    command: str
    target: list[str] | None
    pid: int | None
    signals: tuple[int | None, int | None]  # its dump_signal, its profile_signal
    rate: str
    force: bool
    every: float = 1.0
    count: int = 1
    with_moments: bool = False
    kind: str = "inuse_space"  # which of the profile's figures: the process that has most of it is shown


def rate_or(otherwise: str, rate: str | None, pid: int | None) -> str:
    return rate or (otherwise if pid is None else PROCESS_RATE)


@contextlib.contextmanager
def source(asked: Asked, files: Files) -> Iterator[taken.Taken]:
    target, pid = asked.target, asked.pid
    if rate_of(asked.rate) is None:
        raise CofferError(f"--rate {asked.rate}: a size from 1 to 1T, such as 512K")
    if (pid is None) == (not target):
        raise CofferError("a program, profiles, or --pid: one of them is needed")
    if pid is not None:
        files.check([])
        question = taken.Question(*asked.signals, rate_of(asked.rate) or 0, force=asked.force)
        yield taken.of_process(pid, question, asked.every, asked.count)
    elif target and all(is_profile(one) for one in target):
        files.check([Path(one) for one in target])
        yield taken.of_files([Path(one) for one in target])
    elif target:
        if len(target) == 1 and target[0].isdecimal() and shutil.which(target[0]) is None:
            raise CofferError(f"{target[0]}: a program or a profile is wanted; a process that runs is named by --pid")
        files.check(programs_files(target))
        with taken.of_program(asked.command, target, asked.rate, asked.with_moments, asked.kind) as found:
            yield found


def python_note(found: taken.Taken, heap: stacks.Heap) -> list[str]:
    """Of a program that was run here."""
    is_python = any(stack.group == owners.INTERPRETER or place.module == owners.INTERPRETED
                    for stack in heap.stacks for place in stack.places[stack.site:stack.site + 1])
    if not found.is_program or not is_python or os.environ.get("PYTHONMALLOC") == "malloc":
        return []
    return ["Python keeps small objects in memory of its own, which is not seen here: PYTHONMALLOC=malloc has it ask"
            " for each."]


def sampling_note(heap: stacks.Heap, measure: sites.Measure) -> list[str]:
    figure = stacks.total(measure(stack) for stack in heap.stacks)
    if not figure.blocks and not stacks.sees_every_block(heap.period):
        return [f"A sample each {short_size(heap.period)}: what is less than three times that is easily missed;"
                " --rate 1 sees every block."]
    if not figure.blocks or stacks.is_exact(figure):
        return []
    note = (f"A sample each {short_size(heap.period)}: {figure.samples:,.0f} samples stand behind this; of n samples a"
            " figure is off by about 1/sqrt(n).")
    if measure is sites.PEAK:
        note += (" The highest of many sums may be too high for a program that holds much the same all the time, by up"
                 " to twice that; --rate 1 is exact.")
    return [note]


def leaks(
    target: Target = None,
    pid: Pid = None,
    signal: Signal = None,
    profile_signal: Toggle = None,
    force: Force = False,
    every: Every = 1.0,
    rate: Annotated[Optional[str], typer.Option(
        help="Mean bytes between samples: 64K is cheaper, 1 is every block.",
        show_default=f"1, of a process {PROCESS_RATE}")] = None,
    top: Top = 8,
    depth: Depth = 8,
    fail: Annotated[Optional[int], typer.Option(
        "--exit-code", min=1, max=255, metavar="N", help="The status if there are leaks.", show_default=False)] = None,
    as_json: Json = False,
    html: Html = None,
    speedscope: Speedscope = None,
    collapsed: Collapsed = None,
    output: Output = None,
) -> None:
    """What a program never freed: how much, from where, and by whose calls."""
    files = Files(output, html, speedscope, collapsed)
    asked = Asked("leaks", target, pid, (signal, profile_signal), rate_or("1", rate, pid), force, every)
    with source(asked, files) as found:
        heap = stacks.named([found.last])[0]
        leaked = sites.sites(heap, sites.LIVE)
        if found.end is not None:
            what, none = "never freed", nothing(heap, "No leaks: the program freed all that it allocated.",
                                                "No leaks: the program freed all that was sampled.")
        else:
            what, none = "live now", nothing(heap, "Nothing that the program allocated is live.", NOTHING_LIVE)
        verdicts = [show.sentence(leaked, what, none), *show.apart(heap, sites.LIVE, "kept")]
        # Before anything is printed: whoever reads that may stop.
        files.write(found.last, verdicts, [(what, heap, sites.LIVE), ("freed again", heap, sites.TEMPORARY),
                                           ("allocated", heap, sites.ALLOCATED)], [])
        if as_json:
            print_json(what, verdicts, heap, leaked, sites.groups(heap, sites.LIVE), top, depth)
        else:
            notes = [*found.notes, *python_note(found, heap), *show.notes_on(heap, leaked),
                     *sampling_note(heap, sites.LIVE)]
            tree = show.tree_of(leaked, f"{what}, by who allocated it", top, depth) if leaked else None
            show.show(consoles.console(), verdicts, notes, tree)
        status = found.status
    if fail is not None and leaked:
        status = fail
    raise typer.Exit(status)


def grown_of(seen: Seen) -> tuple[stacks.Heap, list[sites.Growth]]:
    """What there is more at the last moment than at the first; and what of it grew all the time."""
    growing = seen.growing()
    last = max((one.last for one in growing), default=len(seen.moments) - 1)
    grown = sites.changes(seen.moments[0], seen.moments[last], sites.LIVE)[0]
    grown.peak_ns = seen.last.peak_ns
    return grown, growing


def view_of(seen: Seen, view: View) -> tuple[stacks.Heap, list[sites.Site], str]:
    """The heap and the sites that a view shows, with its title."""
    if view == "peak":
        if seen.last.peak_ns is None:
            raise CofferError(NO_PEAK)
        return seen.last, sites.sites(seen.last, sites.PEAK), "at the highest moment, by who allocated it"
    if view == "growing":
        if len(seen.moments) < 3:
            raise CofferError("--view growing: three moments are needed: a program that runs longer, --count 3 with"
                              " --pid, or three profiles")
        grown, growing = grown_of(seen)
        keys = {one.site.key for one in growing}
        found = [one for one in sites.sites(grown, sites.LIVE) if one.key in keys]
        return grown, found, "grown all the time, by who allocated it"
    titles = {"live": "left at the end" if seen.is_end else "live", "temporary": "allocated and freed again",
              "allocated": "allocated in all"}
    return seen.last, sites.sites(seen.last, MEASURES[view]), f"{titles[view]}, by who allocated it"


def views_of(seen: Seen, first: View) -> Views:
    """All that there are, the one that is shown first."""
    found: Views = [("live", seen.last, sites.LIVE), ("temporary", seen.last, sites.TEMPORARY),
                    ("allocated", seen.last, sites.ALLOCATED)]
    if seen.last.peak_ns is not None:
        found.insert(0, ("peak", seen.last, sites.PEAK))
    if len(seen.moments) >= 3:
        found.append(("growing", grown_of(seen)[0], sites.LIVE))
    return sorted(found, key=lambda view: view[0] != first)


def show_difference(target: list[str] | None, view: View, files: Files, top: int, depth: int, as_json: bool) -> None:
    if target is None or len(target) != 2:
        raise CofferError("--diff: two profiles or traces are needed, the earlier one first")
    if view == "growing":
        raise CofferError("--diff: two moments do not tell what grows all the time; give three profiles without it")
    measure = MEASURES[view]
    files.check([Path(one) for one in target])
    read = [taken.read(Path(one)) for one in target]
    profiles, told = [one for one, _ in read], [text for _, texts in read for text in texts]
    before, after = stacks.named(profiles)
    if view == "peak" and None in (before.peak_ns, after.peak_ns):
        raise CofferError(NO_PEAK)
    grown, shrunk = sites.changes(before, after, measure)
    more, less = sites.sites(grown, sites.LIVE), sites.sites(shrunk, sites.LIVE)
    of = {"live": "", "peak": " at the highest moment", "temporary": " freed again", "allocated": " allocated"}[view]
    verdicts = [show.sentence(more, f"more{of}", "Nothing grew."),
                show.sentence(less, f"less{of}", "Nothing shrank."), *show.apart(grown, sites.LIVE, "more kept")]
    files.write(profiles[1], verdicts, [("grew", grown, sites.LIVE), ("shrank", shrunk, sites.LIVE)], [])
    if as_json:
        print_json("diff", verdicts, grown, more, sites.groups(grown, sites.LIVE), top, depth)
    else:
        tree = show.tree_of(more, "what grew, by who allocated it", top, depth) if more else None
        notes = told + show.notes_on(after, more) + sampling_note(after, measure)
        show.show(consoles.console(), verdicts, notes, tree)


def heap(
    target: Target = None,
    view: Annotated[Optional[View], typer.Option(
        "--view", help="What the tree is of.", show_default="peak of a program, else live")] = None,
    pid: Pid = None,
    signal: Signal = None,
    profile_signal: Toggle = None,
    force: Force = False,
    every: Every = 1.0,
    count: Annotated[int, typer.Option(min=1, help="With --pid: moments; three and more show what grows.")] = 1,
    rate: Annotated[Optional[str], typer.Option(
        help="Mean bytes between samples: 512K is cheaper, 1 is every block.",
        show_default=f"16K, of a process {PROCESS_RATE}")] = None,
    top: Top = 8,
    depth: Depth = 8,
    diff: Annotated[bool, typer.Option("--diff", help="What grew from one profile or trace to another.")] = False,
    as_json: Json = False,
    html: Html = None,
    speedscope: Speedscope = None,
    collapsed: Collapsed = None,
    output: Output = None,
) -> None:
    """Who holds memory: at the peak, at the end, what grows, what is freed again."""
    files = Files(output, html, speedscope, collapsed)
    if diff:
        return show_difference(target, view or "live", files, top, depth, as_json)
    kind = KINDS[view or "peak"]
    asked = Asked("heap", target, pid, (signal, profile_signal), rate_or("16K", rate, pid), force, every, count,
                  with_moments=True, kind=kind)
    with source(asked, files) as found:
        seen = with_names(found)
        chosen: View = view or ("live" if pid is not None or seen.last.peak_ns is None else "peak")
        shown_heap, sites_shown, title = view_of(seen, chosen)
        verdicts = verdicts_of(seen, is_peak_first=pid is None)
        measure = MEASURES[chosen]
        files.write(found.last, verdicts, views_of(seen, chosen), seen.moments)
        if as_json:
            print_json(chosen, verdicts, shown_heap, sites_shown, sites.groups(shown_heap, measure), top, depth)
        else:
            tree = show.tree_of(sites_shown, title, top, depth) if sites_shown else None
            notes = [*found.notes, *python_note(found, seen.last), *show.notes_on(seen.last, sites_shown),
                     *sampling_note(shown_heap, measure)]
            show.show(consoles.console(), verdicts, notes, tree)
        status = found.status
    raise typer.Exit(status)
