# SPDX-License-Identifier: MIT
"""What a signal to the command means: to the program that it has started, which decides itself, as under a shell; or to
the command, which puts away what it has made and then ends by that signal, as it does without the program's name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

from coffer.errors import CannotStart

ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """A signal has come; on the way out everything is put away."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def put_away_first() -> None:
    """From here on. What is ignored stays so, as under nohup."""

    def end(number: int, _: object) -> None:
        for other in (*ENDING, signal.SIGINT):
            signal.signal(other, signal.SIG_IGN)  # a second one would come into the putting away
        raise Ended(number)

    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def by_default() -> None:
    """Nothing is left to be put away."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def started(program: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program, and in the block the signals are its own: it has what a terminal sends by itself, and the time that it
    needs to end; what is sent to this command alone is passed on."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if process is None:
            early.append(number)
            return
        try:
            process.send_signal(number)
        except PermissionError:
            raise Ended(number) from None  # it has become another user's, and goes on alone

    # Handlers, which the program does not inherit, and not SIG_IGN, which it would: they are there before it is.
    ways: dict[int, Callable[[int, object], None]] = {
        **dict.fromkeys((signal.SIGINT, signal.SIGQUIT), lambda *_: None), **dict.fromkeys(ENDING, pass_on)}
    before = {number: signal.signal(number, way) for number, way in ways.items()
              if signal.getsignal(number) is not signal.SIG_IGN}
    try:
        try:
            process = subprocess.Popen(program, env=environment)
        except OSError as error:
            raise CannotStart(program[0], error) from error
        for number in early:
            pass_on(number, None)
        yield process
    finally:
        for number, way in before.items():
            signal.signal(number, way)


def status_of(process: subprocess.Popen[bytes]) -> int:
    """When it has ended, as a shell says it."""
    status = process.wait()
    return 128 - status if status < 0 else status
