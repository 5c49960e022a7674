# SPDX-License-Identifier: MIT
"""Small tools: bash (forks that go on without exec), sort and xz (threads), tar, and make with two jobs."""

from __future__ import annotations

from pathlib import Path

import harness
from inputs import history, project

SCRIPT = Path(__file__).parent / "inputs/shell.sh"


def test_bash(both: list[harness.Allocator], home: Path) -> None:
    bash = harness.require("bash", "bash")
    got, expected = [harness.run(allocator, [bash, SCRIPT], home=home) for allocator in both]
    assert expected.text().endswith("done\n")
    assert got.stdout == expected.stdout


def test_tar_xz(both: list[harness.Allocator], home: Path) -> None:
    """The archive is the same byte for byte, and unpacks to what went in."""
    source = home / "source"
    source.mkdir()
    history.Tree(source, 800)
    for name in ("tar", "xz", "diff"):
        harness.require(name, {"xz": "xz-utils", "diff": "diffutils"}.get(name, name))
    create = ["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--create"]
    compress = ["--use-compress-program=xz -T2 -2 --block-size=512KiB", "--file=archive.tar.xz", "source"]
    archives = []
    for allocator in both:
        harness.run(allocator, [*create, *compress], home=home)
        unpacked = home / f"unpacked.{allocator.name}"
        unpacked.mkdir()
        extract = ["tar", "--extract", "--use-compress-program=xz -T2", "--file=../archive.tar.xz"]
        harness.run(allocator, extract, home=home, cwd=unpacked)
        harness.run(allocator, ["diff", "--recursive", "source", unpacked / "source"], home=home)
        archives.append((home / "archive.tar.xz").read_bytes())
    assert len(archives[1]) > 3_000_000
    assert archives[0] == archives[1]


def test_make(both: list[harness.Allocator], home: Path) -> None:
    """Objects and the executable alike, and the executable prints alike (under the allocator too)."""
    make = harness.require("make", "make")
    results = []
    for allocator in both:
        project.write(home / "project", files=24)
        outcome = harness.run(allocator, [make, "--silent", "-j2", "check"], home=home, cwd=home / "project")
        files = [*(home / "project").glob("*.o"), home / "project/program"]
        built = {file.name: file.read_bytes() for file in files}
        harness.run(allocator, [make, "--silent", "clean"], home=home, cwd=home / "project")
        results.append((outcome.stdout, built))
    assert len(results[1][1]) == 24 + 2
    assert results[0] == results[1]
