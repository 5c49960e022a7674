# SPDX-License-Identifier: MIT
"""Functions that a program makes at run time: JavaScript's, Java's. Who makes them tells perf, and so us, of them in
/tmp/perf-PID.map: a line each, with address, length and name."""

from __future__ import annotations

import bisect
import os
import re
import stat
from functools import lru_cache
from pathlib import Path

MOST_BYTES = 256 << 20
# Of a profile that the library or `coffer heap` named.
OF_PROCESS = re.compile(r"\.(\d+)\.(?:\d+|moment\.\d+)\.pb\.gz$")
LINE = re.compile(r"^(?:0x)?([0-9a-fA-F]+) (?:0x)?([0-9a-fA-F]+) (.+)$")
# V8's: how it was compiled, name, file, line, column.
SCRIPT = re.compile(r"^(?:JS|LazyCompile|Function|Script|Eval|InterpretedFunction):[~^*+!]?(.*?) (\S.*?):(\d+):\d+$")
# Java's: what it gives, name, what it takes.
METHOD = re.compile(r"^[\w.$\[\]]+ ((?:[\w$]+\.)+(?:[\w$]+|<init>|<clinit>))\([^()]*\)$")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
SECOND = 10**9

Function = tuple[str, str, int]  # name, file, line


class Map:
    """Of functions that were moved or freed, the last that was said."""

    def __init__(self, text: str) -> None:
        found: dict[int, tuple[int, str]] = {}
        for line in text.splitlines():
            if match := LINE.match(line):
                begin = int(match[1], 16)
                found[begin] = begin + int(match[2], 16), match[3]
        self.begins = sorted(found)
        self.functions = [found[begin] for begin in self.begins]

    def at(self, address: int) -> Function | None:
        index = bisect.bisect_right(self.begins, address) - 1
        if index < 0 or address >= self.functions[index][0]:
            return None
        name = UNPRINTABLE.sub("?", self.functions[index][1])
        if match := SCRIPT.match(name):
            return match[1] or "(anonymous)", match[2].removeprefix("file://"), int(match[3])
        if match := METHOD.match(name):
            return match[1], "", 0
        return name, "", 0


@lru_cache(maxsize=4)
def read(path: str, _: int) -> Map:
    with open(path, encoding="utf-8", errors="replace") as file:
        return Map(file.read(MOST_BYTES))


def began_ns(process: int) -> int | None:
    """Since 1970; None: it has ended."""
    try:
        ticks = int((Path("/proc") / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        boot = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
        return None if boot is None else int(boot[1]) * SECOND + ticks * SECOND // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def map_of(profile: Path, began: int) -> Map | None:
    """That of the process that wrote the profile, which samples since then; in its own file system, where the profile
    is read from there. A file of an earlier process with its number, or of another user, is not."""
    if not (match := OF_PROCESS.search(profile.name)):
        return None
    parts = profile.parts
    inside = len(parts) > 3 and parts[1] == "proc" and parts[2].isdigit()
    started = began_ns(int(parts[2] if inside else match[1]))
    path = Path(f"/proc/{parts[2]}/root" if inside else "/") / "tmp" / f"perf-{match[1]}.map"
    try:
        found, owner = path.lstat(), profile.stat().st_uid
        since = began if started is None else min(began, started)
        if (not stat.S_ISREG(found.st_mode) or found.st_uid not in (owner, os.geteuid())
                or found.st_mtime_ns < since - SECOND):
            return None
        return read(str(path), found.st_mtime_ns)
    except OSError:
        return None
