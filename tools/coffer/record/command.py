# SPDX-License-Identifier: MIT
"""The sub-command: which libraries are preloaded, and the collector is started in this process's place."""

from __future__ import annotations

import platform
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from coffer import places
from coffer.elf import defines
from coffer.errors import CofferError
from coffer.files import check_inputs, programs_files
from coffer_bench.allocators import Allocator, find
from coffer_bench.errors import BenchError

COULD_NOT_BEGIN = 125  # the collector's own, which no status of the program is likely to be
ALLOCATORS = "coffer, glibc, jemalloc and the other names of coffer bench list, or a library's path with a slash."


class Stacks(str, Enum):
    none = "none"
    frames = "frames"
    unwind = "unwind"


def record(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...", help="What is recorded.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace.")],
    allocator: Annotated[str, typer.Option(help=ALLOCATORS)] = "coffer",
    stacks: Annotated[Optional[Stacks], typer.Option(
        help="Call stacks of allocations: by unwind tables (x86-64), or by frame pointers, where callers that were "
             "compiled without end the stack.",
        show_default="unwind, where that can be had, else frames; none with --instructions")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, max=256, help="Frames of a stack, at most.")] = 32,
    instructions: Annotated[bool, typer.Option(
        "--instructions", help="Counts the instructions between calls, too: the program runs under valgrind, slowly.")
    ] = False,
    children: Annotated[bool, typer.Option(
        "--children", help="Records the processes that it starts, too: each into OUTPUT.PID.")] = False,
    level: Annotated[int, typer.Option(min=-7, max=19, help="zstd's level. Less when the program is faster.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary at the end.")] = False,
) -> None:
    """Runs a program and records its allocations, for coffer replay, trace and report.

    Ends with the program's status. The format is in docs/reference/trace.md.
    """
    try:
        preload = libraries(allocator, "_count" if instructions else "")
        check_inputs(output, [*programs_files(program), *map(Path, preload.split(":"))])
        tool = counting_tool() if instructions else None
    except CofferError as error:
        error.status = COULD_NOT_BEGIN
        raise
    if has_own_malloc(program[0]):
        print(f"coffer record: {program[0]} brings its own malloc, and what goes through it is not recorded",
              file=sys.stderr)
    arguments = [str(places.program("record")), "--output", str(output), "--preload", preload,
                 "--stacks", (stacks or default_stacks(instructions)).value, "--depth", str(depth),
                 "--level", str(level)]
    arguments += ["--instructions", str(tool)] * instructions
    arguments += ["--children"] * children + ["--quiet"] * quiet
    places.become(arguments[0], [*arguments, "--", *program])


def default_stacks(instructions: bool) -> Stacks:
    """Whoever records wants to know who allocates. Where instructions are counted, a walk would be counted, too."""
    if instructions:
        return Stacks.none
    return Stacks.unwind if platform.machine() == "x86_64" else Stacks.frames


def has_own_malloc(program: str) -> bool:
    """Whether it comes before every library that is preloaded."""
    found = shutil.which(program)
    try:
        return found is not None and defines(Path(found), "malloc")
    except CofferError:
        return False  # a script, or what the collector will have something to say about


def counting_tool() -> Path:
    """Valgrind's tool of this build, which works only with what else the same valgrind brings."""
    path = places.build_dir() / "libexec" / "coffer" / "valgrind" / "coffer_count-amd64-linux"
    if not path.exists():
        raise CofferError("--instructions: this build has no tool for valgrind. It is built on x86-64, where "
                          "valgrind's headers and libraries are: Debian and Ubuntu have them in the package valgrind")
    if shutil.which("valgrind") is None:
        raise CofferError("--instructions: valgrind is not installed")
    return path


def libraries(name: str, kind: str = "") -> str:
    """The recorder before the allocator, as LD_PRELOAD takes them."""
    if name == "coffer":
        chosen = Allocator(name, places.library())
    elif "/" in name:
        chosen = Allocator(name, Path(name).resolve())
    else:
        try:
            (chosen,) = find([name], places.build_dir())
        except BenchError as error:
            raise CofferError(str(error)) from error
    # glibc comes after the recorder by name, so that a program linked with another allocator is recorded over glibc.
    library = str(chosen.library) if chosen.library else "libc.so.6"
    has_operators = chosen.library is not None and defines(chosen.library, "_Znwm")
    forms = "" if has_operators else "_malloc"
    recorder = places.shared_library(f"libcoffer_record{forms}{kind}.so")
    return places.preload(str(recorder), library)
