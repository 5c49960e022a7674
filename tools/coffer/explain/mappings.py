# SPDX-License-Identifier: MIT
"""What is resident of each mapping of a process, as the kernel says, and whose it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError

HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ *(.*)$")
# Kinds, and what each is.
BLOCKS, METADATA, STACKS, FILES, SHARED, BRK, OTHERS = (
    "blocks", "metadata", "stacks", "files", "shared", "brk", "others")
CHUNK = 2 << 20  # memory of blocks is made writable in such pieces
LEAST_RESERVED = 128 << 20  # glibc's own reserve 64 MiB
MOST_GUARD = 1 << 20


@dataclass
class Mapping:
    begin: int
    end: int
    rights: str
    name: str
    rss: int = 0
    swap: int = 0
    huge: int = 0  # in huge pages

    @property
    def bytes(self) -> int:
        return self.end - self.begin

    @property
    def is_plain(self) -> bool:
        """Anonymous, or named by the allocator."""
        return not self.name or self.name.startswith("[anon:coffer")

    @property
    def is_reserved(self) -> bool:
        return self.is_plain and self.rights.startswith("---")


def parse(text: str) -> list[Mapping]:
    """Of /proc/PID/smaps."""
    found: list[Mapping] = []
    for line in text.splitlines():
        if match := HEAD.match(line):
            found.append(Mapping(int(match[1], 16), int(match[2], 16), match[3], match[4]))
            continue
        name, _, value = line.partition(":")
        if found and name in ("Rss", "Swap", "AnonHugePages"):
            setattr(found[-1], {"Rss": "rss", "Swap": "swap"}.get(name, "huge"), int(value.split()[0]) * 1024)
    return found


def read(process: int) -> list[Mapping]:
    try:
        return parse((Path("/proc") / str(process) / "smaps").read_text(errors="replace"))
    except PermissionError:
        raise CofferError(f"process {process}: permission denied") from None
    except (FileNotFoundError, ProcessLookupError):
        raise CofferError(f"there is no process {process}") from None


def page_tables(process: int) -> int:
    try:
        lines = (Path("/proc") / str(process) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmPTE:"))


def groups(mappings: list[Mapping]) -> list[list[Mapping]]:
    """Anonymous mappings that lie next to each other."""
    found: list[list[Mapping]] = []
    for one in mappings:
        if not one.is_plain:
            continue
        if found and found[-1][-1].end == one.begin:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def of_allocator(mappings: list[Mapping], spans: list[int]) -> dict[int, str]:
    """Kinds of the allocator's mappings, by their begin. Kernels that name mappings tell them; elsewhere they are known
    by what is reserved around them, and by the spans that they hold."""
    found: dict[int, str] = {}
    for group in groups(mappings):
        named = any(one.name for one in group)
        reserved = sum(one.bytes for one in group if one.is_reserved)
        holds = any(group[0].begin <= address < group[-1].end for address in spans)
        for one in group:
            if one.name:
                found[one.begin] = BLOCKS if one.name == "[anon:coffer arena]" else METADATA
            elif not named and (holds or reserved >= LEAST_RESERVED) and not one.is_reserved:
                is_chunk = one.begin % CHUNK == 0 and one.bytes % CHUNK == 0
                has_span = any(one.begin <= address < one.end for address in spans)
                found[one.begin] = BLOCKS if is_chunk or has_span else METADATA
    return found


def sums(mappings: list[Mapping], spans: list[int]) -> dict[str, int]:
    """Resident bytes by kind. All together they are the process's."""
    own = of_allocator(mappings, spans)
    found = dict.fromkeys((BLOCKS, METADATA, STACKS, FILES, SHARED, BRK, OTHERS), 0)
    before: Mapping | None = None
    for one in mappings:
        guarded = (before is not None and before.end == one.begin and before.is_reserved and before.bytes <= MOST_GUARD)
        if one.begin in own:
            kind = own[one.begin]
        elif one.name.startswith("[stack") or (not one.name and guarded):
            kind = STACKS
        elif one.name == "[heap]":
            kind = BRK
        elif one.name.startswith(("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")):
            kind = SHARED
        elif one.name.startswith("/"):
            kind = FILES
        else:
            kind = OTHERS
        found[kind] += one.rss
        before = one
    return found
