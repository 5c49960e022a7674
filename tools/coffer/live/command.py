# SPDX-License-Identifier: MIT
"""The sub-commands stat and top."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from coffer import loading, places, signals
from coffer.errors import CofferError
from coffer.files import check_inputs, programs_files
from coffer.live import figures, page, processes

TARGET = "The number of a process; or a program and its arguments, after --. None: all processes that show a page."
START_SECONDS = 10.0


class Form(Enum):
    lines = "lines"
    json = "json"
    prometheus = "prometheus"


class Out:
    """Where the figures of a program go. When that is full it is said once, and the program goes on without them."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            self.stream = path.open("a") if path else sys.stderr
        except OSError as error:
            raise CofferError(f"{path}: {error.strerror}") from error
        self.lost = False

    def begin(self) -> None:
        """The program has started: what was in the file gives way only now."""
        if self.path and self.path.is_file():
            self.stream.truncate(0)

    def write(self, text: str) -> None:
        if self.lost:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError as error:
            self.lost = True
            if self.path:
                print(f"coffer: {self.path}: {error.strerror}: figures are lost", file=sys.stderr)

    def close(self) -> None:
        if self.path:
            with contextlib.suppress(OSError):  # what could not be written is told already
                self.stream.close()


def metrics_text(readings: list[tuple[int, page.Reading]]) -> str:
    from coffer.live import metrics  # here, for most forms do without

    return metrics.text(readings)


def print_now(text: str) -> None:
    print(text, end="", flush=True)


class Show:
    """Writes readings of one process in one form."""

    def __init__(self, form: Form, pid: int, write: Callable[[str], None]) -> None:
        self.form = form
        self.pid = pid
        self.write = write
        self.before: page.Reading | None = None
        self.shown = 0

    def show(self, reading: page.Reading) -> None:
        rates = figures.rates_between(self.before, reading)
        if self.form is Form.json:
            text = json.dumps({**figures.as_json(reading, rates), "pid": self.pid}) + "\n"
        elif self.form is Form.prometheus:
            text = metrics_text([(self.pid, reading)])
        else:
            text = (figures.HEADING + "\n" if self.shown % 20 == 0 else "") + figures.line(reading, rates) + "\n"
        self.write(text)
        self.before = reading
        self.shown += 1


def follow(watched: processes.Watched, show: Show, interval: float, count: int | None) -> None:
    """Until the process ends, or `count` readings were shown."""
    while processes.is_running(show.pid):
        began = time.monotonic()
        try:
            show.show(watched.read())
        except CofferError:
            if not processes.is_running(show.pid):
                return
            raise
        if count is not None and show.shown >= count:
            return
        deadline = began + interval
        while (left := deadline - time.monotonic()) > 0 and processes.is_running(show.pid):
            time.sleep(min(left, 0.1))


def list_processes(form: Form) -> None:
    pages = processes.shown_processes()
    if not pages and form is Form.lines:
        raise CofferError("no process shows a page: start one with COFFER_CONF=share:true")
    readings = processes.read_all(pages)
    if form is Form.prometheus:  # one text: each metric stands once in it
        return print_now(metrics_text(readings))
    if form is Form.lines:
        print("    pid" + figures.HEADING + "  program")
    for pid, reading in readings:
        if form is Form.lines:
            print(f"{pid:7d}" + figures.line(reading, figures.Rates()) + f"  {reading.program}")
        else:
            Show(form, pid, print_now).show(reading)


def run_program(program: list[str], form: Form, interval: float, count: int | None, output: Path | None) -> int:
    """The program keeps its streams; the figures go to stderr, or to a file."""
    if output is not None:
        check_inputs(output, programs_files(program))
    loading.tell("stat", program[0])
    out = Out(output)
    try:
        with signals.started(program, places.environment(last="share:true")) as process:
            out.begin()
            show_until_it_ends(process, Show(form, process.pid, out.write), interval, count)
            return signals.status_of(process)
    finally:
        out.close()


def show_until_it_ends(process: subprocess.Popen[bytes], show: Show, interval: float, count: int | None) -> None:
    """Or as long as it can be looked at."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None:
        try:
            with processes.Watched(process.pid) as watched:
                return follow(watched, show, interval, count)
        except CofferError as error:
            if not processes.is_running(process.pid):
                return
            # Not yet; or not any more, if it became another program that runs without Coffer, or another user's.
            is_early = not show.shown and time.monotonic() < deadline
            if not (is_early and isinstance(error, (processes.NotShown, page.PageError))):
                print(f"coffer: {error}", file=sys.stderr)
                return
            time.sleep(0.02)


def stat(
    target: Annotated[Optional[list[str]], typer.Argument(
        metavar="PID | PROGRAM [ARGUMENT]...", help=TARGET, show_default=False)] = None,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds from line to line.")] = 1.0,
    count: Annotated[Optional[int], typer.Option(min=1, help="Ends after so many.", show_default="no end")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, with all classes and heaps.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Prometheus text, once unless --count.")] = False,
    signal: Annotated[Optional[int], typer.Option(
        help="The process's share_signal, when it shows no page yet.", show_default=False)] = None,
    output: Annotated[Optional[Path], typer.Option(help="With a program: the figures go here.",
                                                   show_default="stderr")] = None,
) -> None:
    """What a process holds, a line a second: live, held, resident, bound, allocations, purges."""
    if as_json and prometheus:
        raise CofferError("--json or --prometheus, not both")
    form = Form.json if as_json else Form.prometheus if prometheus else Form.lines
    if not target:
        return list_processes(form)
    if prometheus and count is None:
        count = 1
    if len(target) != 1 or not target[0].isascii() or not target[0].isdigit():
        raise typer.Exit(run_program(target, form, interval, count, output))
    pid = int(target[0])
    with processes.Watched(pid, signal) as watched:
        try:
            follow(watched, Show(form, pid, print_now), interval, count)
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: not worth a word


def top(
    pid: Annotated[int, typer.Argument(metavar="PID", min=1, help="The number of a process.", show_default=False)],
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds from look to look.")] = 1.0,
    signal: Annotated[Optional[int], typer.Option(
        help="The process's share_signal, when it shows no page yet.", show_default=False)] = None,
) -> None:
    """A screen of what a process holds: by size class, by heap, by kind of memory."""
    watched = processes.Watched(pid, signal)
    watched.read()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # where the screen's keys come from, and what it is drawn on
        raise CofferError(f"top is a screen, and here is no terminal; coffer stat {pid} prints lines")
    from coffer.live.top import Top  # here, for textual takes half a second to load

    Top(watched, interval).run()
