# SPDX-License-Identifier: MIT
"""Traces written byte by byte from docs/reference/trace.md, well formed or not; nothing here uses the C++ writer."""

from __future__ import annotations

import struct
import zlib

MAGIC = b"\x89COFTR\r\n"
OPERATIONS = {name: number for number, name in enumerate(
    ["malloc", "calloc", "aligned", "realloc", "free", "thread_start", "thread_end", "fork", "take", "give", "figure",
     "stack", "lost"])}


def information(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(struct.pack("<HI", len(key), len(value)) + key + value for key, value in pairs)


def head(info: bytes = information([(b"program", b"made")]), crc: int | None = None, **changes: object) -> bytes:
    fields = {"magic": MAGIC, "major": 1, "minor": 0, "length": len(info), "ticks": 0, "ns": 0, "realtime": 0,
              "blocks": 1, "zero": b"", **changes}
    plain = struct.pack("<8sHHIQQQB11s", *fields.values())
    return plain + struct.pack("<I", zlib.crc32(plain + bytes(4) + info) if crc is None else crc) + info


def frame(payload: bytes, kind: int = 1, **changes: object) -> bytes:
    fields = {"magic": b"CFRM", "kind": kind, "codec": 0, "zero": 0, "stored": len(payload), "plain": len(payload),
              "first": 0, "last": 1000, "ticks": 1000, "ns": 1000, "records": 0, "zero2": 0,
              "payload_crc": zlib.crc32(payload), **changes}
    plain = struct.pack("<4sBBHIIQQQQIII", *fields.values())
    return plain + struct.pack("<I", zlib.crc32(plain + bytes(4))) + payload


def frame2(payload: bytes, kind: int = 1, **changes: object) -> bytes:
    """Of version 2."""
    fields = {"magic": b"CFR2", "kind": kind, "codec": 0, "blocks": 1, "zero": 0, "stored": len(payload),
              "plain": len(payload), "first": 0, "last": 1000, "ticks": 1000, "ns": 1000, "records": 0, "index": 0,
              "before": 0, "start": 0, "start_ns": 0, "payload_crc": zlib.crc32(payload), **changes}
    plain = struct.pack("<4sBBBBIIQQQQIIQQQI", *fields.values())
    return plain + struct.pack("<I", zlib.crc32(plain + bytes(4))) + payload


def footer(pairs: list[tuple[bytes, bytes]] | None = None) -> bytes:
    return frame(information(pairs or [(b"end", b"exited")]), kind=255)


def number(value: int) -> tuple[int, bytes]:
    """Code and bytes."""
    length = (value.bit_length() + 7) // 8
    return (length, value.to_bytes(length, "little")) if length < 7 else (7, value.to_bytes(8, "little"))


def zigzag(distance: int) -> int:
    return 2 * distance if distance >= 0 else -2 * distance - 1


def record(op: str | int, time: int = 0, a: int = 0, b: int = 0, more: bytes = b"", bits: int = 0) -> bytes:
    """`time` and `b` as they are written: distances."""
    control = (OPERATIONS[op] if isinstance(op, str) else op) | bits
    body = b""
    for shift, value in ((4, time), (7, a), (10, b)):
        code, text = number(value)
        control |= code << shift
        body += text
    return struct.pack("<H", control) + body + more


def realloc(time: int, size: int, to: int, old: int, duration: int = 0) -> bytes:
    """`to` and `old` as written."""
    (first, text), (second, more) = number(old), number(duration)
    return record("realloc", time, size, to, bytes([first | second << 3]) + text + more)


def batch(given: list[bytes], thread: int = 1, **changes: int) -> bytes:
    body = b"".join(given)
    fields = {"thread": thread, "bytes": len(body), "records": len(given), "zero": 0, "time": 0, "block": 0, **changes}
    return struct.pack("<IIIIQQ", *fields.values()) + body


def of(*records: bytes, **changes: object) -> bytes:
    """A whole trace of one batch."""
    return head() + frame(batch(list(records)), records=len(records), **changes) + footer()


def module(start: int, end: int, zero: int = 0) -> bytes:
    return struct.pack("<QQQHBB", start, end, 0, 2, 3, zero) + b"/xabc"


ONE = record("malloc", 10, 100, zigzag(1))
FREED = record("free", 10)  # of the block before it


def bad_files() -> dict[str, tuple[bytes, str]]:
    """What is wrong with the file or a frame of it."""
    start = len(head())  # of the first frame
    good = of(ONE, FREED)
    zstd = good[:start] + frame(batch([ONE]), records=1, codec=1) + footer()

    return {
        "empty": (b"", "byte 0: the file is empty"),
        "no trace": (b"#!/bin/sh\n", "byte 0: no trace of Coffer"),
        "sent as text": (good.replace(b"\r\n", b"\n"), "byte 0: no trace of Coffer"),
        "head cut off": (good[:40], "byte 40: the head is cut off"),
        "information cut off": (good[:58], "byte 58: the head is cut off"),
        "version 3": (head(major=3), "byte 8: format version 3.0, and this reader knows 1.0 and 2.0"),
        "version 1.9": (head(minor=9), "byte 8: format version 1.9"),
        "long information": (head(length=1 << 21), "byte 12: the information is longer than 1 MiB"),
        "head's checksum": (head(crc=5), "byte 52: the head's checksum is wrong"),
        "kind of blocks": (head(blocks=2), "byte 40: blocks are neither addresses nor identities"),
        "head not zero": (head(zero=b"\1"), "byte 41: not zero"),
        "key without length": (head(information([(b"", b"x")])), "byte 56: a key of no length"),
        "key twice": (head(information([(b"a", b"1"), (b"a", b"2")])), "byte 64: a key is there twice: a"),
        "half a key": (head(b"\1\0\0"), "byte 56: the information ends within a key's length"),
        "value too long": (head(struct.pack("<HI", 1, 99) + b"k"), "byte 56: a key or value ends after"),
        "kind of frame": (head() + frame(b"", kind=7), f"byte {start + 4}: no such kind of frame: 7"),
        "codec": (head() + frame(b"", codec=2), f"byte {start + 5}: no such codec: 2"),
        "frame not zero": (head() + frame(b"", zero=1), f"byte {start + 6}: not zero"),
        "frame not zero 2": (head() + frame(b"", zero2=1), f"byte {start + 6}: not zero"),
        "two lengths": (head() + frame(b"ab", plain=3), f"byte {start + 8}: a stored payload of two lengths"),
        "too long": (head() + frame(b"", plain=1 << 25, codec=1), f"byte {start + 12}: a payload longer than 16 MiB"),
        "backwards": (head() + frame(b"", first=9, last=8), f"byte {start + 16}: the frame ends before it begins"),
        "records of modules": (head() + frame(b"", kind=2, records=1), f"byte {start + 48}: records in a frame of"),
        "frame before start": (head(ticks=2000) + frame(b""), f"byte {start + 32}: the frame was written before"),
        "footer of rubbish": (head() + frame(b"\1", kind=255), f"byte {start + 64}: the information ends within"),
        "no zstd": (zstd, f"byte {start + 64}: no zstd frame of"),
    }


def bad_frames2() -> dict[str, tuple[bytes, str]]:
    """What is wrong with a frame of version 2."""
    begin, start = head(major=2), len(head())
    second = start + len(frame2(b""))
    return {
        "other blocks": (begin + frame2(b"", blocks=0), f"byte {start + 6}: other blocks than the head says"),
        "frame2 not zero": (begin + frame2(b"", zero=1), f"byte {start + 7}: not zero"),
        "more than 1 MiB": (begin + frame2(b"", plain=(1 << 20) + 1, codec=1),
                            f"byte {start + 12}: a payload of records longer than 1 MiB"),
        "numbers": (begin + frame2(b"") + frame2(b""), f"byte {second + 52}: the frames' numbers do not rise"),
        "too few before": (begin + frame2(b"", before=9) + frame2(b"", index=1),
                           f"byte {second + 56}: the frames have more records than this one says"),
        "another trace": (begin + frame2(b"", start=1), f"byte {start + 64}: a frame of another trace"),
        "information after it": (begin + frame2(b"\1", kind=255), f"byte {start + 88}: the information ends within"),
    }


def damaged_traces() -> dict[str, tuple[bytes, dict[str, object], int]]:
    """Traces of which a part is read: what is missing, and how many events are left."""
    start, good = len(head()), of(ONE, FREED)
    flipped = bytearray(good)
    flipped[start + 64 + 33] ^= 1
    begin, payload = head(major=2), batch([ONE, FREED])
    later = batch([record("malloc", 10, 100, zigzag(5)), FREED], time=100)
    parts = [begin, frame2(payload, records=2), frame2(later, index=1, records=2, before=2),
             frame2(information([(b"end", b"exited")]), kind=255, index=2, before=4)]
    hole = bytearray(parts[1])
    hole[100] ^= 1
    one = len(parts[1])

    def missing(size: int, frames: int = 0, records: int = 0, is_head: bool = False) -> dict[str, object]:
        return {"bytes": size, "frames": frames, "records": records, "head": is_head}

    return {
        "no frame": (head() + b"rubbish" * 20, missing(140), 0),
        "no frame, short": (head() + b"rub", missing(3), 0),
        "frame header damaged": (good[:start + 20] + b"\7" + good[start + 21:],
                                 missing(len(good) - start - len(footer())), 0),
        "payload damaged": (bytes(flipped), missing(len(good) - start - len(footer()), 1, 2), 0),
        "after the footer": (good + frame(b""), missing(64), 2),
        "one of two": (parts[0] + bytes(hole) + parts[2] + parts[3], missing(one, 1, 2), 2),
        "the first is gone": (parts[0] + parts[2] + parts[3], missing(0, 1, 2), 2),
        "the second is gone": (parts[0] + parts[1] + parts[3], missing(0, 1, 2), 2),
        "the head is gone": (b"".join(parts[1:2] + parts[3:]), missing(0, 1, 2, True), 2),
        "no magic": (b"nonsense" + b"".join(parts)[8:], missing(start, 0, 0, True), 4),
        "bytes are gone": (parts[0] + parts[1][:-3] + parts[2] + parts[3], missing(one - 3, 1, 2), 2),
        "bytes are there too many": (parts[0] + parts[1] + b"CFR2" + parts[2] + parts[3], missing(4), 4),
        "cut within the second": (parts[0] + parts[1] + parts[2][:-1], missing(one - 1, 1, 2), 2),
        "cut within a header": (parts[0] + parts[1] + parts[2][:50], missing(50), 2),
        "another trace within": (parts[0] + parts[1] + b"x" + frame2(payload, index=1, records=2, before=2, start=9)
                                 + parts[3], missing(one + 1, 1, 2), 2),
    }


def bad_records() -> dict[str, tuple[bytes, str]]:
    """What is wrong within a frame."""
    return {
        "batch header": (head() + frame(b"\1" * 20) + footer(), "a batch header ends after the frame"),
        "batch not zero": (head() + frame(batch([ONE], zero=1), records=1), "not zero"),
        "batch too long": (head() + frame(batch([ONE], bytes=99), records=1), "a batch ends after the frame"),
        "empty batch": (head() + frame(batch([])), "a batch without records"),
        "frame's count": (head() + frame(batch([ONE]), records=2), "not as many records as the frame says"),
        "too few records": (head() + frame(batch([ONE], records=2), records=2), "fewer records than it says"),
        "too many records": (head() + frame(batch([ONE, FREED], records=1), records=1), "more bytes than records"),
        "operation": (of(record(13)), "no such operation"),
        "bit 15": (of(record(0, bits=0x8000)), "bit 15"),
        "short record": (of(record("malloc", 1, 1, 2)[:-1]), "the record ends after the batch"),
        "short control": (of(b"\0"), "the record ends after the batch"),
        "time overflows": (of(ONE, record("malloc", (1 << 64) - 1, 1, 2)), "the time overflows"),
        "before its frame": (of(ONE, FREED, first=15), "the record is earlier than its frame"),
        "after its frame": (of(ONE, FREED, last=15), "the record is later than its frame"),
        "back in time": (head() + frame(batch([ONE]) + batch([record("free", 1)], block=1), records=2) + footer(),
                         "the thread goes back in time"),
        "alignment": (of(record("aligned", 1, 1, 2, b"\x40")), "an alignment above 2^63"),
        "take": (of(record("take", 1, 1, 2, b"\5")), "no such way to take memory"),
        "give": (of(record("give", 1, 1, 2, b"\0")), "no such way to give memory back"),
        "figure": (of(record("figure", 1, 1, 0, b"\6")), "no such figure"),
        "figure with a block": (of(record("figure", 1, 1, 1, b"\1")), "a number where none belongs"),
        "lost": (of(record("lost", 1, 1, 0, b"\5")), "no such reason for lost records"),
        "thread with a block": (of(record("thread_start", 1, 1, 1)), "a number where none belongs"),
        "free of none": (of(record("free", 1)), "a free of block 0"),
        "realloc of none": (of(realloc(1, 1, zigzag(1), zigzag(-1))), "a realloc of block 0"),
        "realloc's codes": (of(record("realloc", 1, 1, 2, b"\xc0")), "the upper bits of a realloc's codes"),
        "realloc without end": (of(realloc(1, 1, 2, 0, (1 << 64) - 1)), "the time overflows"),
        "stack 0": (of(record("malloc", 1, 1, 2, bytes(4), bits=1 << 13)), "a stack has number 0"),
        "stack's number": (of(record("stack", 1, 0, 1, bytes(8))), "a stack's number is not from 1"),
        "stack of none": (of(record("stack", 1, 1, 0)), "a stack has not 1 to 256 frames"),
        "stack too deep": (of(record("stack", 1, 1, 257, bytes(8 * 257))), "a stack has not 1 to 256 frames"),
        "stack cut off": (of(record("stack", 1, 1, 2, bytes(8))), "the record ends after the batch"),
        "stack twice": (of(record("stack", 1, 1, 1, bytes(8)), record("stack", 1, 1, 1, b"\1" * 8)), "defined twice"),
        "module cut off": (head() + frame(module(1, 2)[:20], kind=2), "a module ends after the frame"),
        "module's path": (head() + frame(module(1, 2)[:-1], kind=2), "a module ends after the frame"),
        "module of nothing": (head() + frame(module(2, 2), kind=2), "a module of no length"),
        "modules overlap": (head() + frame(module(1, 9) + module(8, 10), kind=2), "modules overlap"),
        "module not zero": (head() + frame(module(1, 9, zero=1), kind=2), "not zero"),
        "freed twice": (of(ONE, FREED, FREED), "a free of block 1, which is not live"),
        "freed, never allocated": (of(record("free", 1, 0, zigzag(7))), "a free of block 7, which is not live"),
        "identity twice": (of(ONE, FREED, record("malloc", 1, 1, 0)), "identity 1 is given to a second block"),
        "identity twice at once": (of(ONE, record("malloc", 1, 1, 0)), "identity 1 is given to a second block"),
        "realloc changes identity": (of(ONE, realloc(1, 5, zigzag(1), zigzag(-1))), "changes its block's identity"),
        "realloc of a dead block": (of(ONE, FREED, realloc(1, 5, 0, 0)), "a realloc of block 1, which is not live"),
    }


def bad_traces() -> dict[str, tuple[bytes, str]]:
    """Malformed traces, and what must be said of each."""
    return bad_files() | bad_frames2() | bad_records()
