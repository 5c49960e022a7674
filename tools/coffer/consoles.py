# SPDX-License-Identifier: MIT
"""Where tables go. NO_COLOR (https://no-color.org), if it is not empty, leaves out every escape: colours, bold and dim
text, progress bars; also where FORCE_COLOR is set."""

from __future__ import annotations

import os
import sys

import typer.rich_utils
from rich.console import Console

FILE_COLUMNS = 160


def is_plain() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def console(columns: int = FILE_COLUMNS) -> Console:
    """Standard output: as wide as the terminal, or so many columns in a file."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else columns,
                   force_terminal=False if is_plain() else None)


def make_help_plain() -> None:
    """typer writes help and errors on a console of its own."""
    if is_plain():
        typer.rich_utils.FORCE_TERMINAL = False
