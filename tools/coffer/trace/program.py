# SPDX-License-Identifier: MIT
"""Runs libexec/coffer/trace, which does the heavy work on traces."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from coffer import patience, places
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
    out = options.get("out")
    with contextlib.ExitStack() as stack:
        passed = []
        if isinstance(out, Path) and out.is_file():
            # As a descriptor: a program that a signal leaves behind cannot make the file anew.
            passed.append(os.open(out, os.O_RDWR))
            stack.callback(os.close, passed[0])
            options["out"] = f"/dev/fd/{passed[0]}"
        words = [str(places.program("trace")), command, *(f"in={path}" for path in inputs)]
        for key, value in options.items():
            values = value if isinstance(value, list) else [] if value is None else [value]
            words += [f"{key}={int(one) if isinstance(one, bool) else one}" for one in values]
        done = watched(words, passed, f"reading {inputs[0].name}")
    said = done.stderr.strip().replace(f"{options.get('out')}:", f"{out}:")
    if done.returncode != 0:
        raise CofferError(said or f"trace {command} ended with {describe_status(done.returncode)}")
    if said:
        print(f"coffer: {said}", file=sys.stderr)
    return done.stdout


def watched(words: list[str], passed: list[int], what: str) -> subprocess.CompletedProcess[str]:
    """Runs the program. It tells its progress through a pipe, if somebody watches."""
    if not patience.is_watched():
        return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, pass_fds=passed)
    told, tells = os.pipe()
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile(
            "w+", errors="replace") as complaint, os.fdopen(told) as lines, patience.counted(what, "records") as tell:
        try:
            process = subprocess.Popen([*words, f"progress={tells}"], stdout=output, stderr=complaint,
                                       pass_fds=[*passed, tells])
        finally:
            os.close(tells)
        with process:
            for line in lines:
                done, of = map(int, line.split())
                tell(done, of)
        output.seek(0)
        complaint.seek(0)
        return subprocess.CompletedProcess(words, process.returncode, output.read(), complaint.read())


@lru_cache(maxsize=4)
def survey(path: Path, window: int = 32768) -> dict[str, Any]:
    """All that a trace says of itself: tools/analyse/statistics.hpp and moment.hpp."""
    return json.loads(run("survey", [path], window=window))
