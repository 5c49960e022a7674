# SPDX-License-Identifier: MIT
"""The sub-command: the program takes this process's place."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Optional

import typer

from coffer import loading, places


def run(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...", help="What is run.")],
    conf: Annotated[Optional[str], typer.Option(
        metavar="KEY:VALUE,...", help="Options of Coffer, before those of COFFER_CONF.")] = None,
    hardened: Annotated[bool, typer.Option(
        "--hardened", help="With the hardened build, which looks for misuse and costs time and memory.")] = False,
) -> None:
    """Runs a program with Coffer as its malloc, wherever Coffer is installed."""
    obstacle = loading.obstacle(program[0])
    if obstacle:
        print(f"coffer run: {obstacle}", file=sys.stderr)
    if not (obstacle and obstacle.breaks):
        os.environ.update(places.environment(first=conf, hardened=hardened))
    try:
        places.become(program[0], program)
    except OSError as error:
        # As a shell: not found, or found and not to be run.
        print(f"coffer run: {program[0]}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(127 if isinstance(error, FileNotFoundError) else 126) from error
