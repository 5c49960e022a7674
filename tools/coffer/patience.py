# SPDX-License-Identifier: MIT
"""Progress of what takes time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

SECONDS = 2.0  # what takes less shows nothing


@contextlib.contextmanager
def bar(what: str, steps: int | None) -> Iterator[Callable[[str], None]]:
    """On standard error, if that is a terminal. Gives what is called after each step, with its name. Steps None: their
    number is not known."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        yield lambda _: None
        return
    from rich import progress  # here, since it is seldom needed and takes a while to load
    from rich.console import Console

    began = time.monotonic()
    shown = progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(), progress.TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = shown.add_task(what, total=steps)

    def step(text: str) -> None:
        if not shown.live.is_started and time.monotonic() - began > SECONDS:
            shown.start()
        shown.update(task, advance=1, description=f"{what}: {text}" if text else what)

    try:
        yield step
    finally:
        shown.stop()
