# SPDX-License-Identifier: MIT
"""Settings of the whole machine that a case changes, and that come back whatever happens.

The old value is put back by a process of its own, which waits for the end of a pipe: it acts when the case is over,
when the driver fails, and when the driver is killed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driver import Skip

OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
OVERCOMMIT_RATIO = Path("/proc/sys/vm/overcommit_ratio")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def read_setting(path: Path) -> str:
    """The value; of a list of choices the one in brackets."""
    text = path.read_text().strip()
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen.group(1) if chosen else text


@contextmanager
def changed(settings: dict[Path, str]) -> Iterator[None]:
    """Sets each path to its value; every old value is restored afterwards, in reverse order."""
    old: dict[Path, str] = {}
    for path in settings:
        if not os.access(path, os.W_OK):
            raise Skip(f"{path} cannot be written here")
        old[path] = read_setting(path)
    reading, writing = os.pipe()
    guardian = os.fork()
    if guardian == 0:
        restore_when_closed(reading, writing, old)
    os.close(reading)
    try:
        for path, value in settings.items():
            try:
                path.write_text(value)
            except OSError as error:
                raise Skip(f"{path} cannot be set to {value}: {error.strerror}") from error
        yield
    finally:
        os.close(writing)
        _, status = os.waitpid(guardian, 0)
        if status != 0 or any(read_setting(path) != value for path, value in old.items()):
            raise SystemExit(f"could not restore {old}")


def restore_when_closed(reading: int, writing: int, old: dict[Path, str]) -> None:
    """The guardian: a session of its own, deaf to the signals that end a test run."""
    status = 0
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        os.close(writing)
        os.read(reading, 1)
        for path, value in reversed(list(old.items())):
            path.write_text(value)
    except OSError:
        status = 1
    os._exit(status)
