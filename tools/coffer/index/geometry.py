# SPDX-License-Identifier: MIT
"""The shape of this machine's caches, as the kernel tells it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError

SYSFS = Path("/sys/devices/system/cpu")
# glibc's names, where the kernel says nothing: bytes, ways and bytes a line.
SYSCONF = {level: [f"SC_LEVEL{level}_{part}CACHE_{what}" for part, what in parts] for level, parts in {
    1: [("D", "SIZE"), ("D", "ASSOC"), ("D", "LINESIZE")],
    2: [("", "SIZE"), ("", "ASSOC"), ("", "LINESIZE")],
}.items()}


@dataclass(frozen=True)
class Geometry:
    line: int
    sets: int
    ways: int

    @property
    def page(self) -> int:
        """Addresses this far apart have the same index (paper 3: the cache page)."""
        return self.line * self.sets

    def __str__(self) -> str:
        return f"{self.line}:{self.sets}:{self.ways}"

    def describe(self) -> str:
        return f"{self.page * self.ways // 1024} KiB, {self.sets} indices, {self.ways} ways, lines of {self.line} bytes"

    @classmethod
    def parse(cls, text: str) -> Geometry:
        match = re.fullmatch(r"([1-9]\d*):([1-9]\d*):([1-9]\d*)", text)
        if not match or int(match[1]) & (int(match[1]) - 1):
            raise CofferError(f"a cache is LINE:SETS:WAYS with a power of two of bytes a line, not {text!r}")
        return cls(*(int(part) for part in match.groups()))


@dataclass(frozen=True)
class Machine:
    l1: Geometry
    l2: Geometry
    origin: str  # who said so
    level: int = 1  # of the cache that is judged: 2 where l1 is a second-level cache

    def judging_second(self) -> Machine:
        """The second level in place of the first one, for all figures and tables that are about one cache."""
        return Machine(self.l2, self.l2, self.origin, level=2)

    def describe(self) -> str:
        if self.level == 2:
            return f"judged: L2 {self.l2.describe()} ({self.origin})"
        return f"L1 {self.l1.describe()}; L2 {self.l2.describe()} ({self.origin})"


# What most machines have; used where neither the kernel nor the C library knows, which is said.
COMMON = {1: Geometry(64, 64, 8), 2: Geometry(64, 1024, 16)}
# The paper's machine (appendix A): 8 threads share an L1. Its L2 is 8 banks of 512 indices, taken as one cache of
# 4,096 here.
MACHINES = {
    "t2": Machine(Geometry(16, 128, 4), Geometry(64, 4096, 16), "UltraSPARC T2"),
    "common": Machine(COMMON[1], COMMON[2], "what many machines have"),
}


def first_processor() -> int:
    return min(os.sched_getaffinity(0))


def read_number(path: Path) -> int:
    """0 where the file is missing, or does not say. Sizes end in K or M."""
    try:
        match = re.fullmatch(r"(\d+)([KM]?)", path.read_text().strip())
    except OSError:
        return 0
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20}[match[2]] if match else 0


def complete(line: int, sets: int, ways: int, size: int) -> Geometry | None:
    """Kernels of some machines leave one of them out; size = line x sets x ways."""
    if line and sets and not ways and size:
        ways = size // (line * sets)
    if line and ways and not sets and size:
        sets = size // (line * ways)
    return Geometry(line, sets, ways) if line and sets and ways and not line & (line - 1) else None


def from_sysfs(processor: Path) -> dict[int, Geometry]:
    """Data caches by level, of one processor (cpuN of sysfs)."""
    found: dict[int, Geometry] = {}
    for directory in sorted(processor.glob("cache/index*")):
        try:
            kind = (directory / "type").read_text().strip()
        except OSError:
            continue
        if kind not in ("Data", "Unified"):
            continue
        geometry = complete(*(read_number(directory / name) for name in (
            "coherency_line_size", "number_of_sets", "ways_of_associativity", "size")))
        if geometry:
            found[read_number(directory / "level")] = geometry
    return found


def from_sysconf() -> dict[int, Geometry]:
    """What glibc has read from the processor itself."""
    found = {}
    for level, names in SYSCONF.items():
        size, ways, line = (os.sysconf(name) if name in os.sysconf_names else 0 for name in names)
        if min(size, ways, line) > 0 and (geometry := complete(line, 0, ways, size)):
            found[level] = geometry
    return found


def differing_processors(root: Path, known: dict[int, Geometry]) -> list[int]:
    """Processors of this machine that have another L1 or L2: those of a machine with two kinds of cores."""
    differing = []
    for path in root.glob("cpu[0-9]*"):
        other = from_sysfs(path)
        if any(level in other and other[level] != known[level] for level in (1, 2) if level in known):
            differing.append(int(path.name[3:]))
    return sorted(differing)


def this_machine(root: Path = SYSFS) -> Machine:
    number = first_processor()
    known = from_sysfs(root / f"cpu{number}")
    origins = [f"the kernel, processor {number}"] if known else []
    if differing := differing_processors(root, known):
        origins.append(f"others have other caches: {', '.join(map(str, differing))}")
    for level, geometry in from_sysconf().items():
        if level in (1, 2) and level not in known:
            known[level] = geometry
            origins.append(f"L{level}: the C library")
    for level, geometry in COMMON.items():
        if level not in known:
            known[level] = geometry
            origins.append(f"L{level}: NOT KNOWN, taken as {geometry}; --l{level} states it")
    return Machine(known[1], known[2], "; ".join(origins))


def choose(name: str, l1: str | None, l2: str | None, root: Path = SYSFS) -> Machine:
    """`this`, one of MACHINES, and what is stated instead of its caches."""
    if name == "this":
        machine = this_machine(root)
    elif name in MACHINES:
        machine = MACHINES[name]
    else:
        raise CofferError(f"no machine is called {name}; there are: this {' '.join(MACHINES)}")
    origin = machine.origin + "".join(f"; L{level} as stated" for level, text in ((1, l1), (2, l2)) if text)
    return Machine(Geometry.parse(l1) if l1 else machine.l1, Geometry.parse(l2) if l2 else machine.l2, origin)
