# SPDX-License-Identifier: MIT
"""What a suite is: where its tests come from, how they are built, which are run, and which are not and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["crate", "debian source", "debian package", "directory"]


@dataclass(frozen=True)
class Origin:
    """A package by name. A crate's version is exact; Debian's is the one that the distribution has, and it is recorded.
    "debian source": its sources; "debian package": it is installed, or unpacked where `unpack` says so."""

    kind: Kind
    name: str
    version: str = ""
    unpack: bool = False
    inner: str = ""  # an archive in what is unpacked, and which of its members are wanted
    members: str = "*"


@dataclass(frozen=True)
class Test:
    """One program. `source` is a file of the package or of the suite's shims; "" where `command` is all there is."""

    __test__ = False  # it is no test of pytest's

    name: str
    source: str = ""
    command: tuple[str, ...] = ()  # run instead of a program that is built
    arguments: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # files of the package that are copied beside the source
    together: tuple[str, ...] = ()  # files of the package that are compiled and linked with it
    flags: tuple[str, ...] = ()
    timeout: float = 120.0
    needs: tuple[str, ...] = ()  # functions that the test is about: a library without them leaves them to glibc
    # The program has many cases. It names them where OUTSIDE_CASE is empty, and runs the one that it names otherwise:
    # each in a process of its own.
    cases: bool = False
    cases_left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    origin: Origin
    how: str  # built and run, in a sentence of the page
    tests: tuple[Test, ...]
    root: str = "."  # where the tests are in the package; may hold * for a version
    present: tuple[str, ...] = ()  # patterns below root: the tests that the package brings, each known here or reported
    left_out: dict[str, str] = field(default_factory=dict)  # by the stem of the file
    includes: tuple[str, ...] = ()  # below root, after the shims
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    # Where the tests are only known when the sources are there.
    find: Callable[[Path], tuple[Test, ...]] | None = None
    # Makes what building needs in the directory of the suite's programs, and says with which flags.
    prepare: Callable[[Path], tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Program:
    """What is run: built, or not and why."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    timeout: float
    trouble: str = ""
    needs: tuple[str, ...] = ()
