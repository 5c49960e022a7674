# SPDX-License-Identifier: MIT
"""The coffer command inside the test's own process: a third of a second less for each call than a start of it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from coffer import cli


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def streams(out: int, errors: int) -> Iterator[None]:
    """Standard output and error are these files, for the programs that the command starts, too."""
    before = sys.stdout, sys.stderr, os.dup(1), os.dup(2)
    before[0].flush()
    before[1].flush()
    os.dup2(out, 1)
    os.dup2(errors, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before[:2]
        for number in (1, 2):
            os.dup2(before[number + 1], number)
            os.close(before[number + 1])


def call(*arguments: object, env: dict[str, str] | None = None) -> Done:
    words, variables = sys.argv, dict(os.environ)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            sys.argv = ["coffer", *map(str, arguments)]
            with streams(out.fileno(), errors.fileno()):
                try:
                    cli.main()
                    status = 0
                except SystemExit as end:
                    status = end.code if isinstance(end.code, int) else 0
        finally:
            sys.argv = words
            os.environ.clear()
            os.environ.update(variables)
        out.seek(0)
        errors.seek(0)
        return Done(status, out.read(), errors.read())


def run(*arguments: object, status: int = 0, env: dict[str, str] | None = None) -> Done:
    done = call(*arguments, env=env)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


