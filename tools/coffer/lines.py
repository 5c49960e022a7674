# SPDX-License-Identifier: MIT
"""Functions, files and lines at addresses of ELF files, by the tool that is there: LLVM's, elfutils' or binutils'. One
call a file for all addresses; what has debug information is remembered by build-id. Where DEBUGINFOD_URLS is set,
elfutils' is asked first, for it fetches what is missing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

SECONDS = 120
MOST_CACHED = 64 << 20  # bytes; then it begins anew
# Function and line of one place; before it what was inlined there, innermost first.
Places = list[tuple[str, str]]
TOOLS = {
    "llvm-symbolizer": ("--output-style=GNU", "-a", "-i", "-f", "-C", "--obj={}"),
    "eu-addr2line": ("-a", "-i", "-f", "-C", "-e", "{}"),
    "addr2line": ("-a", "-i", "-f", "-C", "-e", "{}"),
}
INLINED_AT = re.compile(r" inlined at .*? in \S.*$")  # elfutils says it twice
COLUMN = re.compile(r"^(.*:\d+):\d+$")


def tool() -> str | None:
    names = sorted(TOOLS, key=lambda name: name != "eu-addr2line") if os.environ.get("DEBUGINFOD_URLS") else TOOLS
    return next((name for name in names if shutil.which(name)), None)


def ask(name: str | None, path: str, addresses: list[int]) -> list[Places]:
    """Empty where nothing is known."""
    unknown: list[Places] = [[] for _ in addresses]
    if name is None or not addresses or not Path(path).is_file():
        return unknown
    text = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run([name, *(word.format(path) for word in TOOLS[name])], input=text, capture_output=True,
                              text=True, errors="replace", timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return unknown
    # Before each place its address; then function and line.
    found: list[Places] = []
    lines = iter(done.stdout.splitlines())
    for text in lines:
        if text.startswith("0x"):
            found.append([])
        elif found and text:
            line = COLUMN.sub(r"\1", next(lines, "").split(" (discriminator")[0])
            found[-1].append((INLINED_AT.sub("", text), line))
    known = [[place for place in places if place[0] != "??"] for places in found]
    return known if len(found) == len(addresses) else unknown


def has_line(places: Places) -> bool:
    return bool(places) and not places[0][1].startswith("?") and not places[0][1].endswith((":0", ":?"))


class Cache:
    """Of what is known by build-id. A cache that cannot be used is none."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coffer"
        self.base: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "lines.sqlite"
            if path.exists() and path.stat().st_size > MOST_CACHED:
                path.unlink()
            base = sqlite3.connect(path, timeout=2)
            base.execute("create table if not exists places (build text, address integer, found text,"
                         " primary key (build, address)) without rowid")
            self.base = base

    def get(self, build: str) -> dict[int, Places]:
        if self.base is None or not build:
            return {}
        with contextlib.suppress(sqlite3.Error, ValueError, TypeError):
            rows = self.base.execute("select address, found from places where build = ?", (build,))
            return {address: [(one, two) for one, two in json.loads(found)] for address, found in rows}
        return {}

    def put(self, build: str, found: dict[int, Places]) -> None:
        if self.base is None or not build or not found:
            return
        with contextlib.suppress(sqlite3.Error), self.base:
            self.base.executemany("insert or replace into places values (?, ?, ?)",
                                  ((build, address, json.dumps(places)) for address, places in found.items()))


def places_of(wanted: dict[tuple[str, str], set[int]]) -> Iterator[tuple[str, dict[int, Places]]]:
    """By path and build-id, which addresses; file after file. Only places that have a line are given."""
    cache, name = Cache(), tool()
    for (path, build), addresses in wanted.items():
        known = cache.get(build)
        missing = sorted(addresses - known.keys())
        found = {address: places for address, places in zip(missing, ask(name, path, missing)) if has_line(places)}
        cache.put(build, found)
        yield path, {**{one: known[one] for one in addresses & known.keys()}, **found}
