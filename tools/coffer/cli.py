# SPDX-License-Identifier: MIT
"""The coffer command: one typer application. A sub-command is a function in a package of its own, added here; help,
arguments and shell completion come from its signature."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from coffer import consoles, files, places, signals, streams
from coffer.errors import CofferError
from coffer.index.command import index
from coffer.record.command import record
from coffer.run.command import run
from coffer.replay.command import replay
from coffer.report.command import report
from coffer.trace.command import app as trace
from coffer.live.command import stat, top
from coffer.profile.command import profile
from coffer.heap.command import heap, leaks
from coffer.explain.command import explain
from coffer.retainers.command import retainers
from coffer.serve.command import serve
from coffer.tune.command import tune
from coffer_bench.cli import app as bench

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"max_content_width": 100})


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"coffer {places.version()}")
        raise typer.Exit


@app.callback()
def coffer(version: Annotated[bool, typer.Option(
        "--version", callback=show_version, is_eager=True, help="Prints the version and ends.")] = False) -> None:
    """Tools around the Coffer memory allocator."""


# What comes after the program's name is the program's.
starts_program = {"ignore_unknown_options": True, "allow_interspersed_args": False}

app.command()(index)
app.command(context_settings=starts_program)(record)
app.command(context_settings=starts_program)(run)
app.command()(replay)
app.command()(report)
app.command()(tune)
app.add_typer(trace, name="trace")
app.command()(stat)
app.command()(top)
app.command()(profile)
app.command()(leaks)
app.command()(heap)
app.command()(explain)
app.command()(retainers)
app.command()(serve)
app.add_typer(bench, name="bench")


def main() -> None:
    signals.put_away_first()
    streams.open_closed()
    streams.take_all_names()
    consoles.make_help_plain()
    status: int | str | None = 0
    signal = 0
    try:
        try:
            app(prog_name="coffer")
        except signals.Ended as end:
            status, signal = end.code, end.number
        except SystemExit as end:
            status = end.code
        except CofferError as error:
            status = error.status
            streams.complain(f"coffer: {error}")
        finally:
            files.put_away()
        sys.stdout.flush()
    except BrokenPipeError:
        streams.give_up(sys.stdout)  # nobody reads on: not worth a word
    except OSError as error:
        streams.give_up(sys.stdout)
        streams.complain(f"coffer: {error.filename or 'cannot write'}: {error.strerror}")
        status = status or 1
    streams.end()
    if signal:
        signals.end_by(signal)
    sys.exit(status)
