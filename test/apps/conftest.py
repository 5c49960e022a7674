# SPDX-License-Identifier: MIT
"""Fixtures: the allocator under test, and a directory that is gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

import harness


DEFAULT = Path(__file__).resolve().parents[2] / "build/lib/libcoffer.so"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--library", default=str(DEFAULT), help="the allocator under test; COFFER_LIB overrides it")


@pytest.fixture(scope="session")
def coffer(request: pytest.FixtureRequest) -> Iterator[harness.Allocator]:
    """The library named by COFFER_LIB, any allocator ("none": glibc itself), else that of --library. It is copied to a
    place that every user may read: PostgreSQL runs as another user, and a private home would be out of its reach."""
    named = os.environ.get("COFFER_LIB") or request.config.getoption("--library")
    if named == "none":
        yield harness.Allocator("none", harness.GLIBC.preload)
        return
    library = Path(named).resolve()
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
