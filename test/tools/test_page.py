# SPDX-License-Identifier: MIT
"""The reader of the shared page on whatever a file may hold."""

from __future__ import annotations

import json
import os
import random
import struct
import time
from pathlib import Path

import pytest
from coffer.errors import CofferError
from coffer.live import figures, metrics, page
from live_program import Program, pages_of


@pytest.fixture(scope="module")
def real_page() -> bytes:
    program = Program("share:true")
    program.do("aaa")
    time.sleep(0.15)
    program.do("a")
    (path,) = pages_of(program.pid)
    data = path.read_bytes()
    program.end()
    path.unlink(missing_ok=True)
    return data


def read_file(path: Path) -> page.Reading:
    with page.Page(path) as opened:
        return opened.read(patience=0)


def test_a_copied_page_reads(tmp_path: Path, real_page: bytes) -> None:
    (tmp_path / "page").write_bytes(real_page)
    reading = read_file(tmp_path / "page")
    assert reading.figures["live"] > 0 and reading.classes and reading.heaps


@pytest.mark.parametrize(("at", "value", "message"), [
    (0, b"NOTAPAGE", "not a page"), (8, struct.pack("<I", 2), "version 2"), (16, struct.pack("<I", 1 << 31), "damaged"),
    (20, struct.pack("<I", 8), "damaged"), (24, struct.pack("<I", 0), "damaged"),
    (24, struct.pack("<I", 0xFFFFFFFF), "damaged"), (32, struct.pack("<I", 0xFFFFFFFF), "damaged"),
    (36, struct.pack("<I", 1), "damaged"), (40, struct.pack("<I", 4000), "damaged"), (96, bytes(8), "no whole set"),
])
def test_damage_is_named(tmp_path: Path, real_page: bytes, at: int, value: bytes, message: str) -> None:
    (tmp_path / "page").write_bytes(real_page[:at] + value + real_page[at + len(value):])
    with pytest.raises(CofferError, match=message):
        read_file(tmp_path / "page")


def test_spans_are_behind_the_end(tmp_path: Path, real_page: bytes) -> None:
    """A page of a Coffer that had none is read, too; one whose spans do not fit is refused."""
    copies, length = struct.unpack_from("<II", real_page, 16)
    (turn,) = struct.unpack_from("<Q", real_page, 96)
    with page.Page(write(tmp_path / "page", real_page)) as opened:
        assert opened.read(patience=0).spans
        end_at = opened.layout.end_at
    at = copies + turn % 2 * length + end_at + 8
    most, fields, _ = struct.unpack_from("<3Q", real_page, at)
    assert most * fields * 8 + 24 + end_at + 8 <= length
    for wrong in (struct.pack("<Q", most + 1), struct.pack("<Q", 1 << 63), struct.pack("<QQ", most, 3)):
        with pytest.raises(CofferError, match="spans do not fit"):
            read_file(write(tmp_path / "page", real_page[:at] + wrong + real_page[at + len(wrong):]))
    short = bytearray(real_page)
    short[20:24] = struct.pack("<I", end_at + 8)
    place = copies + turn % 2 * (end_at + 8)
    short[place:place + end_at + 8] = real_page[at - end_at - 8:at]
    assert read_file(write(tmp_path / "page", bytes(short))).spans == []


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_no_content_breaks_the_reader(tmp_path: Path, real_page: bytes) -> None:
    seed = int(os.environ.get("SEED", "7"))
    rounds = int(os.environ.get("ROUNDS", "3000"))
    source = random.Random(seed)
    path = tmp_path / "page"
    outcomes = {"read": 0, "refused": 0}
    for number in range(rounds):
        data = bytearray(real_page)
        kind = number % 4
        if kind == 0:
            data = data[:source.randrange(len(data))]
        elif kind == 1:
            for _ in range(source.randrange(1, 9)):
                data[source.randrange(208)] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
        elif kind == 2:
            for _ in range(source.randrange(1, 400)):
                data[source.randrange(len(data))] = source.randrange(256)
        else:
            data = bytearray(source.randbytes(source.randrange(5000)))
            data[:8] = page.MAGIC
        path.write_bytes(data)
        try:
            reading = read_file(path)
            figures.line(reading, figures.rates_between(reading, reading))
            metrics.text([(1, reading)])
            json.dumps(figures.as_json(reading, figures.Rates()))
            outcomes["read"] += 1
        except CofferError:
            outcomes["refused"] += 1
        except Exception as error:
            raise AssertionError(f"SEED={seed}, round {number}: {error!r}") from error
    assert min(outcomes.values()) > rounds // 20, outcomes


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(CofferError):
            read_file(path)


def test_another_users_file_is_refused(tmp_path: Path, real_page: bytes) -> None:
    (tmp_path / "page").write_bytes(real_page)
    with pytest.raises(CofferError, match="belongs to user"):
        page.Page(tmp_path / "page", owners={os.geteuid() + 1})
