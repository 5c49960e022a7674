"""The coffer command: one typer application. A sub-command is a function in a package of its own, added here; help,
arguments and shell completion come from its signature."""

from __future__ import annotations

import sys

import typer

from coffer.errors import CofferError
from coffer.index.command import index
from coffer.live.command import stat, top
from coffer.profile.command import profile
from coffer_bench.cli import app as bench

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"max_content_width": 100})


@app.callback()
def coffer() -> None:
    """Tools around the Coffer memory allocator."""


app.command()(index)
app.command()(stat)
app.command()(top)
app.command()(profile)
app.add_typer(bench, name="bench")


def main() -> None:
    try:
        app(prog_name="coffer")
    except CofferError as error:
        sys.exit(f"coffer: {error}")
