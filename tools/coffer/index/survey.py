# SPDX-License-Identifier: MIT
"""Runs the survey under an allocator, and has its address list, or a recorded one, measured."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from coffer import patience, places
from coffer.errors import CofferError
from coffer.index.geometry import Machine


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str | None  # what LD_PRELOAD says; None: the C library's own
    options: str = ""  # for the allocator's own variable, in place of the caller's

    @classmethod
    def parse(cls, text: str) -> Allocator:
        """glibc, one of this build, a library's path, or a name that the loader knows; before it a name of its own and
        after it options: NAME=LIBRARY,KEY:VALUE,KEY:VALUE."""
        name, equals, rest = text.partition("=")
        if not equals:
            name, rest = "", text
        library, _, options = rest.partition(",")
        given = library
        if library in places.OURS:
            library = str(places.library(library))
        elif "/" in library:
            if not Path(library).exists():
                raise CofferError(f"no library {library}")
            library = str(Path(library).resolve())
        elif library != "glibc" and ".so" not in library:
            names = ", ".join(("glibc", *places.OURS))
            raise CofferError(f"{text}: none of {names}, nor a library such as libjemalloc.so.2, nor a path")
        if re.search(r"[\s:]", library):
            raise CofferError(f"{library}: the loader takes no names with spaces or colons")
        own_name = re.sub(r"^lib|(_peer)?\.so.*$", "", Path(given).name) + (f",{options}" if options else "")
        result = cls(name or own_name, None if library == "glibc" else library, options)
        if options and result.stem not in places.OURS:
            raise CofferError(f"{text}: only {', '.join(places.OURS)} have options of this kind")
        return result

    @property
    def stem(self) -> str:
        """coffer of .../libcoffer.so.0.1.0"""
        return re.sub(r"^lib|\.so.*$", "", Path(self.library or "").name)

    def environment(self) -> dict[str, str]:
        """The caller's, so that an allocator's options work, with this library alone preloaded."""
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        if self.library:
            environment["LD_PRELOAD"] = self.library
        if self.options:
            environment[f"{self.stem.upper()}_CONF"] = f"{self.options},strict:true"
        return environment


ALIGNMENTS = 11  # from 64 to 65536


@dataclass(frozen=True)
class Sizes:
    low: int = 64
    high: int = 65536
    step: int = 16
    count: int = 256
    together: bool = False


@dataclass
class Result:
    """The figures of one allocator, or of one list: one dict a size, as tools/index/spread.cpp prints them."""

    name: str
    sizes: list[dict] = field(default_factory=list)
    aligned: list[dict] = field(default_factory=list)
    library: str = ""

    def between(self, low: int, high: int) -> list[dict]:
        return [figures for figures in self.sizes if low <= figures["size"] <= high]


def verify_library(allocator: Allocator, text: str) -> str:
    """A library that cannot be preloaded is only a warning to the loader; the survey says where its malloc was."""
    match = re.match(r"# library=(\S+)\n", text)
    if not match:
        raise CofferError(f"{allocator.name}: the survey does not say whose malloc it was")
    real, library = Path(match[1]).resolve(), str(allocator.library or "")
    if not library:
        loaded = bool(re.match(r"libc[.-]|ld-musl", real.name))
    elif "/" in library:
        loaded = real == Path(library).resolve()
    else:
        loaded = library.split(".so")[0] == real.name.split(".so")[0]
    if not loaded:
        raise CofferError(f"{allocator.name} was not loaded: malloc came from {real}")
    return str(real)


def run_survey(allocator: Allocator, arguments: list[str], expected: int) -> str:
    """expected: lines that it writes, about."""
    command = [str(places.program("survey")), *arguments]
    with tempfile.TemporaryFile("w+") as complaint, patience.counted(f"{allocator.name}: blocks", "blocks") as tell:
        process = subprocess.Popen(command, env=allocator.environment(), stdout=subprocess.PIPE, stderr=complaint,
                                   text=True)
        lines = []
        with process:
            for line in process.stdout or ():
                lines.append(line)
                if len(lines) % 4096 == 0:
                    tell(len(lines), expected)
        complaint.seek(0)
        done = subprocess.CompletedProcess(command, process.returncode, "".join(lines), complaint.read())
    if done.returncode != 0:
        raise CofferError(f"the survey under {allocator.name} failed: {complaints(done)}")
    # What an allocator says of its options concerns the caller. What the loader could not preload is an error anyway.
    for line in dict.fromkeys(done.stderr.splitlines()):
        if "ld.so" not in line:
            print(f"{allocator.name}: {line}", file=sys.stderr)
    return done.stdout


def complaints(done: subprocess.CompletedProcess[str]) -> str:
    """Each line once: the sizes are processes of their own and may all say the same."""
    lines = list(dict.fromkeys(done.stderr.split("\n")))
    if done.returncode < 0:
        lines.append(f"ended by a signal: {signal.strsignal(-done.returncode) or -done.returncode}")
    return "; ".join(filter(None, lines)) or f"status {done.returncode}"


def measure(text: str, machine: Machine, source: str) -> list[dict]:
    """The figures of an address list, one dict a size and alignment."""
    command = [str(places.program("spread")), f"l1={machine.l1}", f"l2={machine.l2}",
               f"page={os.sysconf('SC_PAGE_SIZE')}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise CofferError(f"{source}: {done.stderr.strip()}")
    return [json.loads(line) | {"level": machine.level} for line in done.stdout.splitlines()]


def survey(allocator: Allocator, sizes: Sizes, machine: Machine, aligned: bool) -> Result:
    arguments = [f"{name}={int(getattr(sizes, name))}" for name in ("low", "high", "step", "count", "together")]
    text = run_survey(allocator, arguments, sizes.count * ((sizes.high - sizes.low) // sizes.step + 1))
    result = Result(allocator.name, measure(text, machine, allocator.name), library=verify_library(allocator, text))
    if aligned:
        text = run_survey(allocator, ["aligned=1", "held=1", "low=64", "high=65536", f"count={sizes.count}"],
                          sizes.count * ALIGNMENTS)
        result.aligned = measure(text, machine, allocator.name)
    return result


def read_list(path: Path, machine: Machine) -> Result:
    try:
        text = path.read_text()
    except OSError as error:
        raise CofferError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CofferError(f"{path}: no text, so no address list") from error
    figures = measure(text, machine, str(path))
    return Result(path.stem, [one for one in figures if not one["alignment"]],
                  [one for one in figures if one["alignment"]])
