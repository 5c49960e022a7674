# SPDX-License-Identifier: MIT
"""Names for call stacks: by binutils' addr2line where the file is there, by module and offset where not."""

from __future__ import annotations

import re
import shutil
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coffer import lines

# Frames of these libraries say only that somebody allocates.
WRAPPER_FILES = ("libcoffer", "libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc", "libhoard", "libstdc++",
                 "libc++")
ALLOCATING = ("malloc", "calloc", "realloc", "free", "operator new", "operator new[]", "operator delete",
              "operator delete[]", "posix_memalign", "aligned_alloc", "memalign", "strdup", "__libc_malloc")
LIBRARY = ("std::", "__gnu_cxx::", "__gnu_debug::")
OPERATOR = re.compile(r"\boperator\b")
CALL, CALLED = re.compile(r"\boperator\(\)"), "operator\0"  # whose name is no list of arguments
INLINED = 3  # functions shown of those inlined at one place


@dataclass(frozen=True)
class Frame:
    """One address: where it is, and the functions there, if they could be found."""

    module: str
    offset: int
    places: tuple[tuple[str, str], ...] = ()  # function and line; before a function what was inlined into it
    skipped: int = 0  # of the places

    @property
    def place(self) -> str:
        return f"{self.module}+{self.offset:#x}" if self.module else f"{self.offset:#x}"

    def __str__(self) -> str:
        function, line = joined(list(self.places), self.skipped)
        if line:
            return f"{function} ({line})"
        # Without lines, the name is that of the last symbol before it: in a stripped file it may be another function's.
        return f"{self.place} (after {function})" if function else self.place


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
            for (address, _), found in zip(places, addr2line(path, [offset for _, offset in places])):
                self.frames[address] = replace(self.frames[address], places=tuple(found))

    def module_of(self, address: int) -> dict[str, Any] | None:
        for modules, starts in zip(self.sets, self.starts):
            at = bisect_right(starts, address) - 1
            if at >= 0 and address < modules[at]["end"]:
                return modules[at]
        return None

    def whole(self, number: int) -> list[Frame]:
        """Innermost first."""
        return [self.frames.get(address, Frame("", address)) for address in self.stacks.get(number, [])]

    def stack(self, number: int) -> list[Frame]:
        """Innermost first, from the first function of the program: what only passes the request on is left out."""
        frames = self.whole(number)
        steps = [(at, skipped, frame.module, bare(frame.places[skipped][0]) if frame.places else "")
                 for at, frame in enumerate(frames) for skipped in range(max(1, len(frame.places)))]
        for index, (at, skipped, module, name) in enumerate(steps):
            outer = steps[index + 1][3] if index + 1 < len(steps) else ""
            if not is_wrapper(module, name, outer):
                return [replace(frames[at], skipped=skipped), *frames[at + 1 :]]
        return frames

    def name(self, number: int) -> str:
        if number == 0:
            return "(no stack recorded)"
        frames = self.stack(number)
        return str(frames[0]) if frames else f"(stack {number} is not in the trace)"


def is_wrapper(module: str, name: str, outer: str) -> bool:
    """Whether it allocates for whoever calls it: an allocator, the C++ library, or an allocator that a program has
    given to one of that library's templates."""
    if module.startswith(WRAPPER_FILES) or name in ALLOCATING or name.startswith(LIBRARY):
        return True
    return name.endswith("::allocate") and outer.startswith(LIBRARY)


def addr2line(path: str, offsets: list[int]) -> list[lines.Places]:
    """Function and line of each place in the file, before it what was inlined there, innermost first; empty where that
    is not known."""
    return lines.ask("addr2line" if shutil.which("addr2line") else None, path, offsets)


def joined(places: list[tuple[str, str]], skipped: int = 0) -> tuple[str, str]:
    """Inlined functions with whom they are in, as `allocate < serve`, and where the innermost is called; or, where
    inner ones are left out, where the first that is shown calls them."""
    names = [bare(function) for function, _ in places[skipped:]]
    shown = names if len(names) <= INLINED else [names[0], *names[1 - INLINED :]]
    return " < ".join(dict.fromkeys(shown)), short(places[skipped or min(1, len(places) - 1)][1]) if places else ""


def bare(function: str) -> str:
    """Without arguments, and without what it returns, which templates have before their names: what differs in them
    only is told by the line."""
    text, depth = "", 0
    whole = CALL.sub(CALLED, re.sub(r" \[clone [^]]*\]", "", function.replace("(anonymous namespace)::", "")))
    for part in re.split(r"([()])", whole):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth == 0 and part != ")":
            text += part
    # Of a pointer to a function as a template's argument only what it returns is left, and a space.
    text = re.sub(r"(?<=\w) +(?=[,>])", "", re.sub(r"( const| volatile| &&?)+$", "", text))
    return named(text).replace(CALLED, "operator()") or function


def named(text: str) -> str:
    """The last word: a space within template arguments parts none, and an operator's name may have one."""
    start = depth = 0
    for at, character in enumerate(text):
        if depth == 0 and OPERATOR.match(text, at):
            break
        if character == "<":
            depth += 1
        elif character == ">" and text[at - 1] != "-":
            depth -= 1
        elif character == " " and depth == 0:
            start = at + 1
    return text[start:]


def middle(text: str, room: int) -> str:
    """Of a name that is too long, template arguments go first, then what is in the middle."""
    if len(text) > room:
        text = without_arguments(text)
    if len(text) <= room:
        return text
    tail = room // 2
    return f"{text[: room - 1 - tail]}…{text[len(text) - tail :]}"


def without_arguments(text: str) -> str:
    """`Table<…>::find` of a name with template arguments. The sign between inlined functions has spaces around it."""
    shown, depth = "", 0
    for at, character in enumerate(text):
        if character == "<" and text[at - 1 : at + 2] != " < " and not text[:at].endswith(("operator", "operator<")):
            shown += "" if depth else "<…>"
            depth += 1
        elif character == ">" and depth and text[at - 1] != "-":
            depth -= 1
        elif not depth:
            shown += character
    return text if depth else shown


def short(line: str) -> str:
    """`file.c:12` of `/a/b/file.c:12 (discriminator 3)`."""
    name = line.split(" ")[0].rsplit("/", 1)[-1]
    return "" if name.startswith("?") else name
