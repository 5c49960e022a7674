# SPDX-License-Identifier: MIT
"""Whether a program that is about to be started can be given Coffer by LD_PRELOAD: what its file says."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from coffer.errors import CofferError

_PT_INTERP = 3
_GO = b"\xff Go buildinf:"
_LINKED_IN = b"COFFER_CONF"  # in a program that has libcoffer.a
_MOST_INTERPRETERS = 5  # the kernel's limit of scripts whose interpreter is a script


@dataclass(frozen=True)
class Obstacle:
    """Why a program does without Coffer, wholly or in part."""

    reason: str
    result: str = "it runs without Coffer"
    breaks: bool = False  # with LD_PRELOAD it would not even start

    def __str__(self) -> str:
        return f"{self.reason}: {self.result}"


def obstacle(program: str) -> Obstacle | None:
    """None: there is none, or the program cannot be read, which whoever starts it finds out."""
    found = shutil.which(program)
    if found is None:
        return None
    path, said = Path(found), program
    try:
        for _ in range(_MOST_INTERPRETERS):
            interpreter = _interpreter_of(path)
            if interpreter is None:
                return _of_file(path, said)
            path, said = interpreter, f"{program}, which {interpreter} runs,"
    except (OSError, struct.error, ValueError):
        pass
    return None


def tell(command: str, program: str) -> None:
    """For commands that are of no use without Coffer in the program: says so, or fails where it would not start."""
    found = obstacle(program)
    if found and found.breaks:
        raise CofferError(f"{found.reason}: coffer {command} cannot see into it")
    if found:
        print(f"coffer {command}: {found}", file=sys.stderr)


def _interpreter_of(script: Path) -> Path | None:
    """Of a script, as its first line names it. `env NAME` is NAME."""
    with script.open("rb") as file:
        line = file.readline(256)
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and Path(words[0]).name == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if names and (found := shutil.which(names[0])):
            return Path(found)
    return Path(words[0]) if words else None


def _of_file(path: Path, said: str) -> Obstacle | None:
    with path.open("rb") as file, Path(sys.executable).open("rb") as own:
        kind = _kind(file)
        if kind is None:
            return None  # no ELF file: a script that the shell runs
        if kind != _kind(own):
            return Obstacle(f"{said} is for another machine than Coffer")
        if _gets_rights(path):
            return Obstacle(f"{said} gets rights that its caller has not (setuid, setgid or capabilities), and"
                            " LD_PRELOAD has no effect on such a program")
        loader = _loader(file)
        is_go = _contains(file, _GO)
        if loader is None and not path.name.startswith(("ld-", "ld.so")) and not _contains(file, _LINKED_IN):
            kind_of_file = "a static Go program" if is_go else "linked statically"
            return Obstacle(f"{said} is {kind_of_file}, and LD_PRELOAD has no effect on such a program")
        if loader is not None and _has_musl(loader) != _has_musl(_loader(own)):
            its, ours = ("musl", "glibc") if _has_musl(loader) else ("glibc", "musl")
            return Obstacle(f"{said} is linked with {its} ({loader}), and this Coffer with {ours}", breaks=True)
        if loader is not None and is_go:
            return Obstacle(f"{said} is a Go program, and Go has an allocator of its own",
                            "Coffer serves only what is C in it")
    return None


def _kind(file: BinaryIO) -> tuple[int, int] | None:
    """Word size and machine of an ELF file; None: it is none."""
    file.seek(0)
    head = file.read(20)
    if head[:4] != b"\x7fELF" or len(head) < 20:
        return None
    return head[4], struct.unpack_from("<H", head, 18)[0]


def _has_musl(loader: str | None) -> bool:
    return loader is not None and Path(loader).name.startswith("ld-musl")


def _loader(file: BinaryIO) -> str | None:
    """The dynamic loader that a 64-bit ELF file names; None: none."""
    file.seek(0)
    head = file.read(64)
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for index in range(count):
        file.seek(table + size * index)
        kind, _, offset, _, _, length = struct.unpack("<IIQQQQ", file.read(40))
        if kind == _PT_INTERP:
            file.seek(offset)
            return os.fsdecode(file.read(min(length, 4096)).split(b"\0")[0])
    return None


def _contains(file: BinaryIO, text: bytes) -> bool:
    file.seek(0)
    before = b""
    while part := file.read(1 << 20):
        if text in before + part:
            return True
        before = part[-len(text):]
    return False


def _gets_rights(path: Path) -> bool:
    status = path.stat()
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        return True
    if status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP and status.st_gid != os.getegid():
        return True
    try:
        return os.geteuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
