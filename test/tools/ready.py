# SPDX-License-Identifier: MIT
"""Programs that say `ready` in a line and then go on."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence


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
