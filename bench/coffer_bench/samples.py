# SPDX-License-Identifier: MIT
"""The file of raw samples: JSON lines, one a sample, the first a header with the plan and the machine's facts. A run
that was interrupted, even in the middle of a line, goes on from it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coffer_bench.errors import BenchError

FORMAT = 1
Record = dict[str, Any]


def parse(data: bytes) -> tuple[list[Record], int]:
    """The records up to the first that is not whole, and the number of bytes that they take."""
    records: list[Record] = []
    end = 0
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not isinstance(record, dict) or "kind" not in record:
            break
        if record["kind"] == "sample" and not {"workload", "allocator", "round", "figures"} <= record.keys():
            break
        records.append(record)
        end += len(line)
    return records, end


@dataclass(frozen=True)
class Results:
    """What a file says."""

    header: Record
    records: list[Record] = field(default_factory=list)

    @property
    def plan(self) -> Record:
        return self.header["plan"]

    @property
    def finished(self) -> bool:
        return any(record["kind"] == "end" for record in self.records)

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record["kind"] == kind]


def read(path: Path) -> Results:
    try:
        records, _ = parse(path.read_bytes())
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}") from error
    if not records or not is_header(records[0]):
        raise BenchError(f"{path} is no file of samples")
    if records[0].get("format") != FORMAT:
        raise BenchError(f"{path} has format {records[0].get('format')}; this is format {FORMAT}")
    return Results(records[0], records[1:])


# What is left of a file whose first line was being written when the process ended.
UNFINISHED = b'{"kind": "header"'


def is_unfinished_header(data: bytes) -> bool:
    return b"\n" not in data and (data.startswith(UNFINISHED) or UNFINISHED.startswith(data))


def is_header(record: Record) -> bool:
    return record["kind"] == "header" and "plan" in record


class Writer:
    """Appends to the file. One process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BenchError(f"{path} cannot be written: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise BenchError(f"{path} is no file that samples can be kept in")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise BenchError(f"{path} is being written by another run") from error
        data = path.read_bytes()
        records, _ = parse(data)
        if not is_unfinished_header(data) and (not records or not is_header(records[0])):
            os.close(self._file)
            raise BenchError(f"{path} is there, and is no file of samples: nothing was done to it")

    def close(self) -> None:
        """Of a run that never came to its first line, nothing is left."""
        if os.fstat(self._file).st_size == 0:
            self.path.unlink(missing_ok=True)
        os.close(self._file)

    def append(self, record: Record) -> None:
        data = json.dumps(record, allow_nan=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise BenchError(
                f"{self.path} cannot be written: {error.strerror}. What it has is kept: the same command "
                "goes on from there"
            ) from error

    def begin(self, header: Record, fresh: bool = False) -> tuple[list[Record], str]:
        """The records of an interrupted run with the same plan, and what was done with the file. One that is finished,
        or is of another plan, is put aside under another name, never deleted. What never was one is left as it is."""
        data = self.path.read_bytes()
        records, end = parse(data)
        if is_unfinished_header(data):
            os.ftruncate(self._file, 0)
            self.append(header)
            return [], ""
        same = records[0].get("plan") == header["plan"] and records[0].get("format") == FORMAT
        if same and not fresh and not Results(records[0], records[1:]).finished:
            if end < len(data):
                os.ftruncate(self._file, end)
            taken = sum(1 for record in records if record["kind"] == "sample")
            return records[1:], f"going on after {taken} samples of an interrupted run"
        aside = free_name(self.path)
        os.rename(self.path, aside)
        os.close(self._file)
        self.__init__(self.path)
        self.append(header)
        return [], f"the samples of the run before are in {aside}"


def free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    candidates = [
        path.with_name(f"{path.stem}-{stamp}{suffix}{path.suffix}") for suffix in ("", *map(str, range(1, 99)))
    ]
    return next(candidate for candidate in candidates if not candidate.exists())
