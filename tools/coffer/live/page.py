# SPDX-License-Identifier: MIT
"""The shared page of a process that runs Coffer: reading it. docs/reference/shared-page.md describes it.

Whoever wrote the file may be anybody: nothing in it is believed before it was checked. It is read, never mapped, so
that a file that shrinks is an error here and no signal. One word of it is written: the time when somebody asked for new
figures.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError

MAGIC = b"COFFERPG"
VERSION = 1
MOST_BYTES = 1 << 20
# magic; version, page_bytes, copies_offset, copy_bytes, figures, now_figures, class_entries, class_fields,
# heap_entries, heap_fields; process, made_ns, made_unix_ns, refresh_signal; program; turn
HEADER = struct.Struct("<8s10I4Q16sQ")
WORD = 8

NOW = ["now_ns", "held", "free_resident", "committed", "metadata", "large", "large_blocks", "mixed_held", "peak_held",
       "system_calls", "purges", "purged_bytes", "asked_ns"]
FIRST_NOW = 12  # a process of an earlier Coffer has so many of NOW
FIGURES = ["taken_ns", "walk_ns", "live", "held", "resident", "free_resident", "committed", "reserved", "metadata",
           "large", "large_blocks", "heaps", "heaps_ever", "spans", "chunks", "system_calls", "limit", "bound",
           "peak_held", "mixed_spans", "mixed_held", "mixed_live", "mixed_resident", "mixed_bound", "purges",
           "purged_bytes", "allocated_blocks", "allocated_bytes", "large_allocated_blocks", "large_allocated_bytes"]
CLASS_FIELDS = ["block_bytes", "spans", "held", "live", "bound", "allocated_blocks"]
HEAP_FIELDS = ["index", "attached", "held", "slack", "mailed", "allocated_blocks"]
SPAN_FIELDS = ["address", "block_bytes", "state", "owner", "held", "live", "resident"]
# By their numbers. An earlier Coffer had "returning".
STATES = ["free", "hot", "floating", "reusable", "claimed", "shared", "listed", "returning", "mixed"]
# Older figures are called so. A process that answers does so within its step of a quarter second.
STALE_SECONDS = 1.0
NO_OWNER = (1 << 64) - 1


class PageError(CofferError):
    """The file is no page, or not one that can be read."""


@dataclass(frozen=True)
class Reading:
    """One look at a page. Figures are bytes or numbers as coffer_stats has them; times are nanoseconds."""

    process: int
    program: str
    refresh_signal: int
    now: dict[str, int]
    figures: dict[str, int]
    classes: list[dict[str, int]]
    heaps: list[dict[str, int]]
    spans: list[dict[str, int]]  # those with most free bytes, in no order
    age: float  # seconds since the walk over the spans, from which all but `now` come
    rss: int | None = None  # what the kernel says is resident of the whole process; None: it does not say

    @property
    def held(self) -> int:
        """Of the same moment as live, resident and bound, so that none is shown above its bound."""
        return self.figures["held"]

    @property
    def is_stale(self) -> bool:
        return self.age > STALE_SECONDS


def words(data: bytes, offset: int, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}Q", data, offset)


@dataclass(frozen=True)
class Layout:
    copies_offset: int
    copy_bytes: int
    figures: int
    now_figures: int
    class_entries: int
    class_fields: int
    heap_entries: int
    heap_fields: int

    @property
    def classes_at(self) -> int:
        return WORD * (1 + self.figures + 2)

    @property
    def heaps_at(self) -> int:
        return self.classes_at + WORD * self.class_entries * self.class_fields

    @property
    def end_at(self) -> int:
        return self.heaps_at + WORD * self.heap_entries * self.heap_fields

    def spans_in(self, data: bytes, copy: int) -> list[dict[str, int]]:
        """What lies behind `end`; a process of an earlier Coffer has nothing there."""
        at = copy + self.end_at + WORD
        room = (copy + self.copy_bytes - at) // WORD - 3
        if room < 0:
            return []
        most, fields, used = words(data, at, 3)
        if fields < len(SPAN_FIELDS) or most * fields > room:
            raise PageError("the page is damaged: its spans do not fit")
        return entries(data, at + 3 * WORD, used, most, fields, SPAN_FIELDS)

    def check(self, length: int) -> None:
        # The counts first: what is checked with them must not be astronomical.
        if max(self.figures, self.now_figures, self.class_entries, self.class_fields, self.heap_entries,
               self.heap_fields) > 4096:
            raise PageError("the page is damaged: it has more entries than any page has")
        too_few = (self.figures < len(FIGURES) or self.now_figures < FIRST_NOW
                   or self.class_fields < len(CLASS_FIELDS) or self.heap_fields < len(HEAP_FIELDS))
        if too_few or self.copy_bytes < self.end_at + WORD or self.copies_offset % WORD or self.copy_bytes % WORD:
            raise PageError("the page is damaged: its parts do not fit together")
        if self.copies_offset + 2 * self.copy_bytes > length:
            raise PageError(f"the page is damaged: {length} bytes are too few for what it says")


def entries(data: bytes, offset: int, used: int, most: int, fields: int, names: list[str]) -> list[dict[str, int]]:
    result = []
    for i in range(min(used, most)):
        values = words(data, offset + i * fields * WORD, len(names))
        result.append(dict(zip(names, values)))
    return result


class Page:
    """An open page. Closed by close(), or by the end of a with."""

    def __init__(self, path: Path, owners: set[int] | None = None) -> None:
        self.path = path
        try:
            self.file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise PageError(f"{path}: {error.strerror}") from error
        try:
            self.status = os.fstat(self.file)
            if not stat.S_ISREG(self.status.st_mode):
                raise PageError(f"{path}: not a file")
            if owners is not None and self.status.st_uid not in owners:
                raise PageError(f"{path}: belongs to user {self.status.st_uid}, and not to the process's")
            self.read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bytes_of(self) -> bytes:
        try:
            return os.pread(self.file, MOST_BYTES, 0)
        except OSError as error:
            raise PageError(f"{self.path}: {error.strerror}") from error

    def ask(self) -> int | None:
        """Asks for new figures. Returns the time from which on they are what was asked for; None: they cannot be asked
        for here."""
        place = NOW.index("asked_ns")
        if self.layout.now_figures <= place:
            return None
        try:
            file = os.open(f"/proc/self/fd/{self.file}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            now = time.monotonic_ns()
            os.pwrite(file, struct.pack("<Q", now), HEADER.size + place * WORD)
            return now
        except OSError:
            return None
        finally:
            os.close(file)

    def taken_ns(self) -> int:
        """When the newest figures were taken; 0: there are none."""
        data = self.read_header()
        turn = HEADER.unpack_from(data)[16]
        at = self.layout.copies_offset + turn % 2 * self.layout.copy_bytes
        return words(data, at + WORD * (1 + FIGURES.index("taken_ns")), 1)[0] if turn else 0

    def read_header(self) -> bytes:
        data = self.bytes_of()
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise PageError(f"{self.path}: not a page of Coffer's")
        magic, version, _, *layout = HEADER.unpack_from(data)[:11]
        if version != VERSION:
            raise PageError(f"{self.path}: version {version} of the page; this command reads version {VERSION}")
        self.layout = Layout(*layout)
        self.layout.check(len(data))
        self.process, _, _, self.refresh_signal, program = HEADER.unpack_from(data)[11:16]
        self.program = program.split(b"\0")[0].decode("utf-8", "replace")
        return data

    def turn(self) -> int:
        """Sets of figures written so far."""
        return HEADER.unpack_from(self.read_header())[16]

    def try_read(self) -> Reading | None:
        """None: nothing was written yet, or the writer was faster than this."""
        data = self.read_header()
        turn = HEADER.unpack_from(data)[16]
        if turn == 0:
            return None
        at = self.layout.copies_offset + turn % 2 * self.layout.copy_bytes
        (begin,) = words(data, at, 1)
        (end,) = words(data, at + self.layout.end_at, 1)
        (again,) = words(os.pread(self.file, WORD, at).ljust(WORD, b"\0"), 0, 1)
        if not begin == end == again == turn:
            return None
        figures = dict(zip(FIGURES, words(data, at + WORD, len(FIGURES))))
        classes_used, heaps_used = words(data, at + WORD * (1 + self.layout.figures), 2)
        layout = self.layout
        classes = entries(data, at + layout.classes_at, classes_used, layout.class_entries, layout.class_fields,
                          CLASS_FIELDS)
        heaps = entries(data, at + layout.heaps_at, heaps_used, layout.heap_entries, layout.heap_fields, HEAP_FIELDS)
        spans = layout.spans_in(data, at)
        now = dict(zip(NOW, words(data, HEADER.size, min(layout.now_figures, len(NOW)))))
        age = max(0.0, (time.monotonic_ns() - figures["taken_ns"]) / 1e9)
        return Reading(self.process, self.program, self.refresh_signal, now, figures, classes, heaps, spans, age)

    def read(self, patience: float = 2.0) -> Reading:
        deadline = time.monotonic() + patience
        while True:
            reading = self.try_read()
            if reading is not None:
                return reading
            if time.monotonic() > deadline:
                raise PageError(f"{self.path}: no whole set of figures in {patience:g} s")
            time.sleep(0.005)
