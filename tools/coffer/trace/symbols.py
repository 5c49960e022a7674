# SPDX-License-Identifier: MIT
"""Names for call stacks: by binutils' addr2line where the file is there, by module and offset where not."""

from __future__ import annotations

import re
import shutil
import subprocess
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Frames of these libraries say only that somebody allocates.
ALLOCATOR_FILES = ("libcoffer", "libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc", "libhoard")
ALLOCATING = ("malloc", "calloc", "realloc", "free", "operator new", "operator delete", "posix_memalign",
              "aligned_alloc", "memalign", "strdup", "__libc_malloc")
SECONDS = 60
INLINED = 3  # functions shown of those inlined at one place


@dataclass(frozen=True)
class Frame:
    """One address: where it is, and the function, if it could be found."""

    module: str
    offset: int
    function: str = ""
    line: str = ""

    @property
    def is_allocator(self) -> bool:
        return self.module.startswith(ALLOCATOR_FILES) or self.function in ALLOCATING

    def __str__(self) -> str:
        if self.line:
            return f"{self.function} ({self.line})"
        place = f"{self.module}+{self.offset:#x}" if self.module else f"{self.offset:#x}"
        # Without lines, the name is that of the last symbol before it: in a stripped file it may be another function's.
        return f"{place} (after {self.function})" if self.function else place


class Symbols:
    """Of one trace: `description` is what the reader's describe() says after the whole was read."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.stacks: dict[int, list[int]] = {int(key): frames for key, frames in description["stacks"].items()}
        # Later sets replace earlier ones; a module that was unloaded meanwhile is found in those.
        self.sets = [one["modules"] for one in reversed(description["modules"])]
        self.starts = [[module["start"] for module in one] for one in self.sets]
        self.frames: dict[int, Frame] = {}

    def resolve(self, numbers: list[int]) -> None:
        """All at once, since addr2line takes long to start."""
        wanted: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number in numbers:
            for position, address in enumerate(self.stacks.get(number, [])):
                if address in self.frames:
                    continue
                module = self.module_of(address)
                if module is None:
                    self.frames[address] = Frame("", address)
                    continue
                offset = address - module["start"] + module["offset"]
                self.frames[address] = Frame(Path(module["path"]).name, offset)
                # A return address is that of the next instruction, which may be another line's.
                wanted[module["path"]].append((address, max(0, offset - 1)))
        for path, places in wanted.items():
            for (address, _), (function, line) in zip(places, addr2line(path, [offset for _, offset in places])):
                known = self.frames[address]
                self.frames[address] = Frame(known.module, known.offset, function, line)

    def module_of(self, address: int) -> dict[str, Any] | None:
        for modules, starts in zip(self.sets, self.starts):
            at = bisect_right(starts, address) - 1
            if at >= 0 and address < modules[at]["end"]:
                return modules[at]
        return None

    def stack(self, number: int) -> list[Frame]:
        """Innermost first, from the first function that is not an allocator's."""
        frames = [self.frames.get(address, Frame("", address)) for address in self.stacks.get(number, [])]
        first = next((at for at, frame in enumerate(frames) if not frame.is_allocator), 0)
        return frames[first:]

    def name(self, number: int) -> str:
        if number == 0:
            return "(no stack recorded)"
        frames = self.stack(number)
        return str(frames[0]) if frames else f"(stack {number} is not in the trace)"


def addr2line(path: str, offsets: list[int]) -> list[tuple[str, str]]:
    """Function and line of each place in the file; empty where that is not known."""
    unknown = [("", "")] * len(offsets)
    if not shutil.which("addr2line") or not Path(path).is_file():
        return unknown
    text = "".join(f"{offset:#x}\n" for offset in offsets)
    try:
        done = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-e", path], input=text, capture_output=True,
                              text=True, errors="replace", timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return unknown
    # Before each place its address; then function and line of what was inlined there, innermost first.
    found: list[list[tuple[str, str]]] = []
    lines = iter(done.stdout.splitlines())
    for text in lines:
        if text.startswith("0x"):
            found.append([])
        elif found:
            found[-1].append((text, next(lines, "")))
    return [joined(places) for places in found] if len(found) == len(offsets) else unknown


def joined(places: list[tuple[str, str]]) -> tuple[str, str]:
    """Inlined functions with whom they are in, as `allocate < serve`, and where the innermost is called."""
    names = [bare(function) for function, _ in places if function != "??"]
    shown = names if len(names) <= INLINED else [names[0], *names[1 - INLINED :]]
    return " < ".join(dict.fromkeys(shown)), short(places[min(1, len(places) - 1)][1]) if places else ""


def bare(function: str) -> str:
    """Without arguments: what differs in them only is told by the line."""
    text, depth = "", 0
    for part in re.split(r"([()])", function.replace("(anonymous namespace)::", "")):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part != ")":
            text += part
    return text.removesuffix(" const") or function


def short(line: str) -> str:
    """`file.c:12` of `/a/b/file.c:12 (discriminator 3)`."""
    name = line.split(" ")[0].rsplit("/", 1)[-1]
    return "" if name.startswith("?") else name
