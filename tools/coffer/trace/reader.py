# SPDX-License-Identifier: MIT
"""Reads a trace (docs/reference/trace.md) through the C++ reader, so that both reject the same files.

    with Trace("program.trace") as trace:
        for events in trace:                 # numpy arrays of EVENT, in order
            allocated = events["size"][np.isin(events["op"], ALLOCATIONS)].sum()
        print(trace.describe()["summary"])
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from coffer import places
from coffer.errors import CofferError


class Op(IntEnum):
    MALLOC = 0
    CALLOC = 1
    ALIGNED = 2
    REALLOC = 3
    FREE = 4
    THREAD_START = 5
    THREAD_END = 6
    FORK = 7
    TAKE = 8
    GIVE = 9
    FIGURE = 10
    STACK = 11
    LOST = 12


ALLOCATIONS = (Op.MALLOC, Op.CALLOC, Op.ALIGNED)

FAILED = 1
IMPLIED = 2
UNKNOWN_BEFORE = 4
COUNTED = 8

# struct Event of tools/trace/reader.hpp, which says what the fields mean.
EVENT = np.dtype([
    ("time", "<u8"), ("block", "<u8"), ("size", "<u8"), ("old_size", "<u8"), ("alignment", "<u8"), ("address", "<u8"),
    ("instructions", "<u8"), ("thread", "<u4"), ("stack", "<u4"), ("op", "u1"), ("flags", "u1"), ("detail", "u1"),
    ("zero", "u1"), ("stated_size", "<u4"),
])


class TraceError(CofferError):
    """The trace cannot be read; the message names file and byte."""


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(places.program("libcoffer_trace.so")))
    library.coffer_trace_open.restype = ctypes.c_void_p
    library.coffer_trace_open.argtypes = [ctypes.c_char_p]
    library.coffer_trace_close.restype = None
    library.coffer_trace_close.argtypes = [ctypes.c_void_p]
    library.coffer_trace_error.restype = ctypes.c_char_p
    library.coffer_trace_next.restype = ctypes.c_int64
    library.coffer_trace_next.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.coffer_trace_describe.restype = ctypes.c_char_p
    library.coffer_trace_describe.argtypes = [ctypes.c_void_p]
    return library


def _fail() -> TraceError:
    return TraceError(_library().coffer_trace_error().decode(errors="replace"))


class Trace:
    """An open trace. Iterating gives its events in arrays of up to `batch`; once."""

    def __init__(self, path: str | os.PathLike[str], batch: int = 65536) -> None:
        self.path = Path(path)
        self.batch = batch
        self._handle = _library().coffer_trace_open(os.fsencode(path))
        if not self._handle:
            raise _fail()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._handle:
            _library().coffer_trace_close(self._handle)
            self._handle = None

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            events = np.empty(self.batch, dtype=EVENT)
            count = _library().coffer_trace_next(self._open(), events.ctypes.data, self.batch)
            if count < 0:
                raise _fail()
            if count == 0:
                return
            yield events[:count]

    def describe(self) -> dict[str, Any]:
        """Everything but the events; `summary`, `modules`, `stacks`, `missing` and `shortfall` (what is missing, in
        words; empty: nothing) speak of what was read so far."""
        text = _library().coffer_trace_describe(self._open())
        if text is None:
            raise _fail()
        return json.loads(text)

    def information(self) -> dict[str, str]:
        return self.describe()["information"]

    def _open(self) -> int:
        if not self._handle:
            raise TraceError(f"{self.path}: closed")
        return self._handle
