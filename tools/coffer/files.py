# SPDX-License-Identifier: MIT
"""Files that are there whole or not at all, and never take the place of what they are made of."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from coffer.errors import CofferError

_unfinished: set[Path] = set()
LONGEST_NAME = 255  # bytes, in the file systems of Linux


def is_same(one: Path, other: Path) -> bool:
    """By device and inode, and so through links of both kinds."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def check_inputs(target: Path, inputs: Iterable[Path]) -> None:
    """Before anything is done: an output that is one of the inputs is refused."""
    for path in inputs:
        if target.is_file() and is_same(target, path):
            raise CofferError(f"{target}: is read" + ("" if target == path else f", as {path}")
                              + ": the output must be another file")


def programs_files(program: list[str]) -> list[Path]:
    """What a program to be started is, and what it is told to read, as far as its arguments say."""
    return [Path(shutil.which(program[0]) or program[0]), *map(Path, program[1:])]


def beside(target: Path) -> Path:
    """A name in the same folder that nothing has."""
    ending = f".{secrets.token_hex(8)}.part"
    return target.with_name(os.fsdecode(os.fsencode(target.name)[: LONGEST_NAME - len(ending)]) + ending)


def put_away() -> None:
    """At the command's end: a signal may have come between `with` and what it guards."""
    while _unfinished:
        with contextlib.suppress(OSError):
            _unfinished.pop().unlink(missing_ok=True)


@contextlib.contextmanager
def whole(target: Path, *inputs: Path) -> Iterator[Path]:
    """A name to write to: the file gets its own when it is whole, and the old one stays until then. A link stays one. A
    device, or - for the standard output, is itself."""
    check_inputs(target, inputs)
    if str(target) == "-" or (target.exists() and not target.is_file()):
        try:
            yield target
        except OSError as error:
            raise CofferError(f"{target}: {error.strerror or error}") from error
        return
    place = Path(os.path.realpath(target))
    unfinished = beside(place)
    _unfinished.add(unfinished)
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if place.exists():
            unfinished.chmod(place.stat().st_mode & 0o7777)
        yield unfinished
        os.replace(unfinished, place)
    except OSError as error:
        raise CofferError(f"{target}: {error.strerror or error}") from error
    except CofferError as error:
        if str(unfinished) in str(error):  # of a program that knows no other name
            raise CofferError(str(error).replace(str(unfinished), str(target))) from error
        raise
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        _unfinished.discard(unfinished)
