# SPDX-License-Identifier: MIT
"""The command's own streams, as its caller has left them: closed, full, or without letters for every name."""

from __future__ import annotations

import contextlib
import os
import sys
from io import TextIOWrapper
from typing import TextIO


def open_closed() -> None:
    """What is opened next must not get a stream's number and be written to as that. Programs that the command starts
    find theirs closed all the same. Text for a closed standard output fails as in any other program; a complaint has
    nowhere else to go."""
    for number, name, flags in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)
            setattr(sys, name, open(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))


def take_all_names() -> None:
    """A file's name can be any bytes, and a table has lines that not every encoding knows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def give_up(stream: TextIO) -> None:
    """What it still holds cannot be written: else Python tries again at its end, and complains in its own way."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """If that cannot be told either, the status has to say it."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def end() -> None:
    """What standard error did not take does not change the status."""
    try:
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)
