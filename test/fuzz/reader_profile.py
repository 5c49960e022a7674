# SPDX-License-Identifier: MIT
"""The reader of heap profiles over any bytes, and what writes them with functions over what it read: they do it, or say
what is wrong by an error of their own. An odd first byte: the rest is a file; an even one: what a file has packed."""

from __future__ import annotations

import gzip
from pathlib import Path

from reader import fuzz, imports

with imports():
    from coffer.profile import proto


def content(data: bytes) -> bytes:
    return data[1:] if data[:1] and data[0] % 2 else gzip.compress(data[1:], 1, mtime=0)


def read(path: str) -> None:
    profile = proto.read(Path(path))
    again = proto.parse(proto.with_functions(profile, {1: "name", 2: "other"}))
    assert [values for _, values in again.samples] == [values for _, values in profile.samples]


fuzz(content, read)
