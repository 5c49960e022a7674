"""g++ compiles a large file, and make builds and runs a small project with two jobs."""

from __future__ import annotations

from pathlib import Path

import harness
from inputs import cxx, project


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


def test_make(both: list[harness.Allocator], home: Path) -> None:
    """Objects and the executable alike, and the executable prints alike (under the allocator too)."""
    make = harness.require("make", "make")
    results = []
    for allocator in both:
        project.write(home / "project", files=24)
        outcome = harness.run(allocator, [make, "--silent", "-j2", "check"], home=home, cwd=home / "project")
        built = {p.name: p.read_bytes() for p in (home / "project").iterdir() if p.suffix == ".o" or p.name == "program"}
        harness.run(allocator, [make, "--silent", "clean"], home=home, cwd=home / "project")
        results.append((outcome.stdout, built))
    assert len(results[1][1]) == 24 + 2
    assert results[0] == results[1]
