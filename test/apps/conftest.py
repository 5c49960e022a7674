"""Fixtures: the allocator under test, and a directory that is gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

import harness


@pytest.fixture(scope="session")
def coffer() -> Iterator[harness.Allocator]:
    """The library named by COFFER_LIB (any allocator will do), else the one in build/lib. It is copied to a place that
    every user may read: PostgreSQL runs as another user, and a project under a private home would be out of reach."""
    default = Path(__file__).resolve().parents[2] / "build/lib/libcoffer.so"
    library = Path(os.environ.get("COFFER_LIB", default)).resolve()
    assert library.is_file(), f"{library} is missing: build it, or name an allocator in COFFER_LIB"
    directory = Path(tempfile.mkdtemp(prefix="coffer-library-"))
    directory.chmod(0o755)
    copy = directory / library.name
    shutil.copyfile(library, copy)
    copy.chmod(0o755)
    yield harness.Allocator("coffer", str(copy))
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def both(coffer: harness.Allocator) -> list[harness.Allocator]:
    """The allocator under test first: when it fails, nothing else need run."""
    return [coffer, harness.GLIBC]


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path, since the path of a unix socket may have 107 bytes at most."""
    directory = Path(tempfile.mkdtemp(prefix="coffer-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
