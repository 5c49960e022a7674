# SPDX-License-Identifier: MIT
"""Progress of what takes time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

SECONDS = 2.0  # what takes less shows nothing


@contextlib.contextmanager
def bar(what: str, steps: int | None) -> Iterator[Callable[[str], None]]:
    """On standard error, if that is a terminal. Gives what is called after each step, with its name. Steps None: their
    number is not known."""
    if not is_watched():
        yield lambda _: None
        return
    from rich import progress  # here, since it is seldom needed and takes a while to load

    with late(progress.MofNCompleteColumn()) as shown:
        task = shown.add_task(what, total=steps)

        def step(text: str) -> None:
            shown.update(task, advance=1, description=f"{what}: {text}" if text else what)

        yield step


@contextlib.contextmanager
def counted(what: str, unit: str) -> Iterator[Callable[[float, float | None], None]]:
    """Of what is counted by the million: gives what is told how many are done, and of how many, and shows the rate."""
    if not is_watched():
        yield lambda _, __: None
        return
    from rich import progress

    with late(progress.TaskProgressColumn(), progress.TextColumn("{task.fields[rate]}")) as shown:
        task, began = shown.add_task(what, total=None, rate=""), time.monotonic()

        def tell(done: float, of: float | None) -> None:
            rate = done / max(1e-9, time.monotonic() - began)
            shown.update(task, completed=done, total=of, rate=f"{rate / 1e6:.1f} million {unit} a second")

        yield tell


def is_watched() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@contextlib.contextmanager
def late(*columns: Any) -> Iterator[Any]:
    """A picture of rich's that is shown from its first update after some time on, and then in turns of its own."""
    from rich import progress
    from rich.console import Console

    began = time.monotonic()

    class Shown(progress.Progress):
        def update(self, *arguments: Any, **fields: Any) -> None:
            if not self.live.is_started and time.monotonic() - began > SECONDS:
                self.start()
            super().update(*arguments, **fields)

    shown = Shown(
        progress.TextColumn("{task.description}"), progress.BarColumn(), *columns, progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    try:
        yield shown
    finally:
        shown.stop()
