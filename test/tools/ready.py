# SPDX-License-Identifier: MIT
"""Programs that say `ready` in a line and then go on, and what they do by then."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path


@contextlib.contextmanager
def ready(command: Sequence[object], **more: object) -> Iterator[subprocess.Popen[str]]:
    """From that line on, for as long as the block runs."""
    started = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **more)
    try:
        assert started.stdout.readline() == "ready\n"
        yield started
    finally:
        started.kill()
        started.communicate()


def state(process: int) -> str:
    """Its first thread's, as ps has it: R, S, T, Z ..."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def comes_to_rest(process: int) -> bool:
    """It waits in the kernel; on a busy machine it may not have come there yet."""
    deadline = time.monotonic() + 20
    while state(process) != "S" and time.monotonic() < deadline:
        time.sleep(0.01)
    return state(process) == "S"
