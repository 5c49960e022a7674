# SPDX-License-Identifier: MIT
"""g++ compiles a large file."""

from __future__ import annotations

from pathlib import Path

import harness
from inputs import cxx


def compile_large(allocator: harness.Allocator, home: Path) -> bytes:
    """The driver, cc1plus and as all run under the allocator; the names are the same each time, since the object file
    holds them."""
    command = [harness.require("g++", "g++"), "-std=c++20", "-O2", "-g", "-fwrapv", "-c", "large.cpp", "-o", "large.o"]
    harness.run(allocator, command, home=home)
    return (home / "large.o").read_bytes()


def test_object_code(both: list[harness.Allocator], home: Path) -> None:
    (home / "large.cpp").write_text("\n".join(cxx.program(35)))
    got, expected = [compile_large(allocator, home) for allocator in both]
    assert len(expected) > 1_000_000
    assert got == expected
