# SPDX-License-Identifier: MIT
"""The sub-command retainers."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from coffer import consoles, loading, places, signals
from coffer.errors import CofferError
from coffer.live import processes
from coffer.profile.command import is_rate
from coffer.retainers import show, tree

LOOK_SECONDS = 0.05


class Scan:
    """The program that copies a process and reads the copy."""

    def __init__(self, process: int, stops: bool) -> None:
        if platform.machine() != "x86_64":
            raise CofferError(f"coffer retainers reads processes on x86-64 only, and this is {platform.machine()}")
        self.process = process
        self.program = exe_of(process)
        command = [str(places.program("retain")), str(process), *(["--stop"] if stops else [])]
        self.running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def copied(self) -> dict[str, Any]:
        """When the process goes on."""
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        if not line:
            self.fail()
        return json.loads(line)

    def result(self, copied: dict[str, Any]) -> tree.Result:
        text, self.problem = self.running.communicate()
        if self.running.returncode != 0 or not text:
            self.fail(self.problem)
        return tree.result_of(self.process, self.program, copied, json.loads(text))

    def fail(self, said: str | None = None) -> None:
        if said is None:
            said = self.running.communicate()[1]
        raise CofferError(said.strip() or f"process {self.process} cannot be read: the scan was killed")

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running.poll() is None:  # the copy dies with it
            self.running.terminate()
            self.running.wait()


def exe_of(process: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def of_process(number: int, stops: bool) -> tree.Result:
    process = processes.find_process(number)
    maps = processes.maps_of(process)
    if maps is not None and not processes.runs_coffer(maps):
        raise CofferError(f"process {number} ({process.name}) does not run Coffer: start it by coffer run, or with"
                          " LD_PRELOAD")
    with Scan(number, stops) as scan:
        return scan.result(scan.copied())


@contextlib.contextmanager
def gate() -> Iterator[tuple[str, socket.socket]]:
    """Where the program waits at its end (tools/moments/moments.c); it goes on when its connection is closed."""
    name = f"coffer-retainers-{os.getpid()}-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(f"\0{name}")
        listening.listen(16)
        yield name, listening


def comes_to_its_end(listening: socket.socket, process: int) -> socket.socket | None:
    """The connection of the program itself. Other processes that it started do not wait."""
    if not select.select([listening], [], [], LOOK_SECONDS)[0]:
        return None
    connection, _ = listening.accept()
    peer, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if peer == process:
        return connection
    connection.close()
    return None


def wait_for_moment(running: Any, listening: socket.socket, after: float | None) -> socket.socket | None:
    """Until the time, or the program's end, at which it then waits; None: it does not wait."""
    began = time.monotonic()
    while running.poll() is None:
        if connection := comes_to_its_end(listening, running.pid):
            return connection
        if after is not None and time.monotonic() - began >= after:
            return None
    ended = CofferError("the program ended before it could be looked at: it was killed, ended by _exit, or does not run"
                        " under a preloaded library; --after SECONDS looks while it runs")
    ended.status = signals.status_of(running) or 1
    raise ended


def of_program(program: list[str], rate: str, after: float | None, stops: bool) -> tuple[tree.Result, int]:
    loading.tell("retainers", program[0])
    folder = Path(tempfile.mkdtemp(prefix="coffer-retainers-"))
    try:
        environment = places.environment(last=f"profile:true,profile_rate:{rate},profile_to:{folder}/coffer")
        library = places.shared_library("libcoffer_moments.so")
        environment["LD_PRELOAD"] = places.preload(*environment["LD_PRELOAD"].split(":"), str(library))
        with gate() as (name, listening):
            environment["COFFER_MOMENTS_END"] = name
            with signals.started(program, environment) as running:
                connection = wait_for_moment(running, listening, after)
                try:
                    with Scan(running.pid, stops) as scan:
                        copied = scan.copied()
                        if copied["copy"] and connection is not None:
                            connection.close()
                        result = scan.result(copied)
                finally:
                    if connection is not None:
                        connection.close()
                    listening.close()  # nobody else has to wait
                return result, signals.status_of(running)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def retainers(
    target: Annotated[Optional[list[str]], typer.Argument(
        metavar="PROGRAM [ARGUMENT]...", show_default=False, help="A program and its arguments, after --.")] = None,
    pid: Annotated[Optional[int], typer.Option(
        "--pid", metavar="PID", min=1, help="A process that runs under Coffer.", show_default=False)] = None,
    after: Annotated[Optional[float], typer.Option(
        "--after", metavar="SECONDS", min=0, help="Of a program: how long it runs until then.",
        show_default="at its end")] = None,
    rate: Annotated[str, typer.Option(
        help="Of a program: mean bytes between samples; 1 knows each block's call site.")] = "1",
    stops: Annotated[bool, typer.Option(
        "--stop", help="Reads the process itself, which stands still meanwhile, and makes no copy.")] = False,
    top: Annotated[int, typer.Option("--top", min=1, help="Holders shown, and places below each.")] = 8,
    depth: Annotated[int, typer.Option("--depth", min=0, help="Levels shown below each holder.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Who keeps memory alive: which variables, stacks and threads hold it, and what is lost."""
    if not is_rate(rate):
        raise CofferError(f"--rate {rate}: a size from 1 to 1T, such as 512K")
    if (pid is None) == (not target):
        raise CofferError("a program or --pid: one of them is needed")
    if pid is not None and after is not None:
        raise CofferError("--after: of a program that is run; a process is looked at now")
    status = 0
    if pid is not None:
        result = of_process(pid, stops)
    else:
        result, status = of_program(target or [], rate, after, stops)
    verdicts = show.verdicts_of(result)
    if as_json:
        print(json.dumps(show.as_json(result, verdicts, top, depth)))
    else:
        sys.stdout.flush()
        show.show(consoles.console(), result, verdicts, top, depth)
    raise typer.Exit(status)
