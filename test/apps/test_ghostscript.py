# SPDX-License-Identifier: MIT
"""Ghostscript: an interpreter, font renderer and rasteriser, on one thread and on two."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness

PICTURE = Path(__file__).parent / "inputs/picture.ps"
# A small band buffer makes Ghostscript cut the page into bands, which its rendering threads share.
BANDS = ["-dNumRenderingThreads=2", "-dMaxBitmap=0", "-dBufferSpace=2000000"]


def render(allocator: harness.Allocator, home: Path, options: list[str]) -> list[bytes]:
    directory = home / allocator.name
    directory.mkdir()
    command = [harness.require("gs", "ghostscript"), "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", *options]
    harness.run(allocator, [*command, "-o", directory / "page%d.png", PICTURE], home=home)
    return [page.read_bytes() for page in sorted(directory.iterdir())]


@pytest.mark.parametrize("threads", [[], BANDS], ids=["one-thread", "two-threads"])
@pytest.mark.parametrize("device", ["png16m", "pngalpha"])
def test_ghostscript(both: list[harness.Allocator], home: Path, device: str, threads: list[str]) -> None:
    got, expected = [render(allocator, home, [f"-sDEVICE={device}", "-r200", *threads]) for allocator in both]
    assert len(expected) == 4 and all(page.startswith(b"\x89PNG") for page in expected)
    assert got == expected
