# SPDX-License-Identifier: MIT
"""Runs libexec/coffer/trace, which does the heavy work on traces."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from coffer import places
from coffer.errors import CofferError
from coffer.replay.play import describe_status


def check_input(path: Path) -> None:
    """What is found before a pipe is waited for."""
    if not path.is_file():
        raise CofferError(f"{path}: {'no regular file' if path.exists() else 'no such file'}")


def check_output(path: Path) -> None:
    """A trace is renamed to its name when it is whole: what is there must be a file, lest a device be replaced."""
    if path.exists() and not path.is_file():
        raise CofferError(f"{path}: no regular file, and a trace takes the place of what is there")


def run(command: str, inputs: list[Path], **options: object) -> str:
    """Options that are None are left out; a list is given one by one."""
    for path in inputs:
        check_input(path)
    words = [str(places.program("trace")), command, *(f"in={path}" for path in inputs)]
    for key, value in options.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [f"{key}={int(one) if isinstance(one, bool) else one}" for one in values]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise CofferError(done.stderr.strip() or f"trace {command} ended with {describe_status(done.returncode)}")
    if done.stderr:
        sys.stderr.write(f"coffer: {done.stderr}")
    return done.stdout


@lru_cache(maxsize=4)
def survey(path: Path, window: int = 32768) -> dict[str, Any]:
    """All that a trace says of itself: tools/analyse/statistics.hpp and moment.hpp."""
    return json.loads(run("survey", [path], window=window))
