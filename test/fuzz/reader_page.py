# SPDX-License-Identifier: MIT
"""The reader of a process's shared page over damaged ones: it reads them, or says what is wrong by an error of its own.
An odd first byte: the rest is a file. An even one: it says which words of a good page are changed, and where that
ends."""

from __future__ import annotations

import os
import struct

from reader import fuzz, imports

with imports():
    from coffer.live import page

ENTRIES = 3  # so few that most changes meet something
MANY = [0, 1, 2, 3, 4, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]
CHANGE = struct.Struct("<HB")


def a_page() -> bytes:
    layout = page.Layout(page.HEADER.size + 8 * len(page.NOW), 0, len(page.FIGURES), len(page.NOW), ENTRIES,
                         len(page.CLASS_FIELDS), ENTRIES, len(page.HEAP_FIELDS))
    spans = 3 + ENTRIES * len(page.SPAN_FIELDS)
    copy_bytes = layout.end_at + 8 * (1 + spans)
    header = page.HEADER.pack(page.MAGIC, page.VERSION, 4096, layout.copies_offset, copy_bytes, layout.figures,
                              layout.now_figures, ENTRIES, layout.class_fields, ENTRIES, layout.heap_fields,
                              os.getpid(), 1, 2, 10, b"program", 3)
    data = header + struct.pack(f"<{len(page.NOW)}Q", *range(len(page.NOW)))
    for turn in (2, 3):
        words = [turn, *range(layout.figures), 2, 2, *range(ENTRIES * (layout.class_fields + layout.heap_fields)), turn,
                 ENTRIES, len(page.SPAN_FIELDS), 2, *range(ENTRIES * len(page.SPAN_FIELDS))]
        data += struct.pack(f"<{len(words)}Q", *words)
    return data


GOOD = a_page()


def changed(how: bytes) -> bytes:
    result = bytearray(GOOD)
    for at, value in CHANGE.iter_unpack(how[:len(how) // CHANGE.size * CHANGE.size]):
        place = at * 4 % (len(GOOD) + 100)
        if place + 4 > len(result):
            del result[value * len(result) // 256:]
        else:
            struct.pack_into("<I", result, place, MANY[value] if value < len(MANY) else value)
    return bytes(result)


def content(data: bytes) -> bytes:
    return data[1:] if data[:1] and data[0] % 2 else changed(data[1:])


def read(path: str) -> None:
    with page.Page(path) as opened:
        opened.taken_ns()
        reading = opened.try_read()
        if reading is not None:
            assert len(reading.classes) <= 4096 and len(reading.spans) <= page.MOST_BYTES
            assert reading.age >= 0 and reading.is_stale in (False, True)


fuzz(content, read)
