# SPDX-License-Identifier: MIT
"""The readers of what a process shows of itself, its page and its profile, over damaged files: they say what is wrong,
by an error of their own. The same changes each time; FUZZ_SECONDS=60 goes on with others for so long."""

from __future__ import annotations

import gzip
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coffer.errors import CofferError
from coffer.live import page
from coffer.profile import proto

RUNS = 1000
INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1]


def a_page() -> bytes:
    """With few entries, so that most changes meet something."""
    entries = 3
    layout = page.Layout(page.HEADER.size + 8 * len(page.NOW), 0, len(page.FIGURES), len(page.NOW), entries,
                         len(page.CLASS_FIELDS), entries, len(page.HEAP_FIELDS))
    spans = 3 + entries * len(page.SPAN_FIELDS)
    copy_bytes = layout.end_at + 8 * (1 + spans)
    header = page.HEADER.pack(page.MAGIC, page.VERSION, 4096, layout.copies_offset, copy_bytes, layout.figures,
                              layout.now_figures, entries, layout.class_fields, entries, layout.heap_fields,
                              os.getpid(), 1, 2, 10, b"program", 3)
    data = header + struct.pack(f"<{len(page.NOW)}Q", *range(len(page.NOW)))
    for turn in (2, 3):
        words = [turn, *range(layout.figures), 2, 2, *range(entries * (layout.class_fields + layout.heap_fields)), turn,
                 entries, len(page.SPAN_FIELDS), 2, *range(entries * len(page.SPAN_FIELDS))]
        data += struct.pack(f"<{len(words)}Q", *words)
    return data


def a_profile() -> bytes:
    number, chunk = proto.number, proto.chunk
    strings = [b"", b"objects", b"count", b"/bin/sample", b"abcd", b"function", b"file.py"]
    content = b"".join(chunk(proto.STRING, text) for text in strings)
    content += chunk(proto.SAMPLE_TYPE, number(1, 1) + number(2, 2))
    content += chunk(proto.MAPPING, number(1, 1) + number(2, 0x1000) + number(3, 0x9000) + number(5, 3) + number(6, 4))
    content += chunk(proto.FUNCTION, number(1, 1) + number(2, 5) + number(4, 6))
    content += chunk(proto.LOCATION, number(1, 1) + number(2, 1) + number(3, 0x1234))
    content += chunk(proto.LOCATION, number(1, 2) + number(3, 0x55) + chunk(4, number(1, 1) + number(2, 7)))
    for value in (5, 300):
        content += chunk(proto.SAMPLE, chunk(1, b"\x01\x02") + chunk(2, proto.varint(value)))
    return content + number(9, 10**18) + number(10, 10**9) + number(12, 512)


def change(data: bytes, source: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(result)) if result else 0
        kind = source.randrange(6)
        if kind == 0 and result:
            result[at] ^= 1 << source.randrange(8)
        elif kind == 1 and result:
            result[at] = source.choice(INTERESTING) & 0xFF
        elif kind == 2:  # a whole word
            at -= at % 4
            result[at:at + 8] = struct.pack("<Q", source.choice(INTERESTING))[:max(0, len(result) - at)]
        elif kind == 3:
            del result[at:at + source.randint(1, 16)]
        elif kind == 4:
            result[at:at] = result[:source.randint(0, 16)]
        else:
            del result[at:]
    return bytes(result)


def changes(data: bytes) -> Iterator[bytes]:
    source = random.Random(1)
    for _ in range(RUNS):
        yield change(data, source)
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "0"))
    seed = random.SystemRandom().randrange(1 << 32)
    source = random.Random(seed)
    print("seed", seed)
    while time.monotonic() < end:
        yield change(data, source)


def read_page(path: Path) -> None:
    with page.Page(path) as opened:
        opened.taken_ns()
        reading = opened.try_read()
        if reading is not None:
            assert len(reading.classes) <= 4096 and len(reading.spans) <= page.MOST_BYTES
            str(reading.is_stale)


def read_profile(path: Path) -> None:
    profile = proto.read(path)
    try:
        proto.with_functions(profile, {1: "name", 2: "other"})
    except CofferError:
        pass


def plain(data: bytes) -> bytes:
    return data


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


@pytest.mark.parametrize(("data", "pack", "read"), [
    (a_page(), plain, read_page), (a_profile(), zipped, read_profile), (zipped(a_profile()), plain, read_profile),
], ids=["page", "profile", "packed profile"])
def test_damage_is_told(tmp_path: Path, data: bytes, pack: Callable[[bytes], bytes],
                        read: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(data))
    read(path)  # whole as it is
    told = whole = 0
    for changed in changes(data):
        path.write_bytes(pack(changed))
        try:
            read(path)
            whole += 1
        except CofferError:
            told += 1
        except Exception:
            print("input:", changed.hex())
            raise
    assert told > RUNS // 50
    assert whole > 0
