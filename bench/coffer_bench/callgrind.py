# SPDX-License-Identifier: MIT
"""Instructions counted by callgrind: of a whole run, and of each address of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from coffer_bench.allocators import Allocator, BenchError, parse_line, verify_library

Address = tuple[str, int]  # file, address in it
UNKNOWN = "???"  # callgrind's name for the file of code that it knows none for


class Code(NamedTuple):
    """A range of code in a process; an address minus the bias is one in the file."""

    start: int
    end: int
    bias: int
    file: str


def require_tools() -> None:
    for tool, package in (("valgrind", "valgrind"), ("objdump", "binutils")):
        if shutil.which(tool) is None:
            raise BenchError(f"{tool} is missing; Debian and Ubuntu have it in the package {package}")


def require_countable(allocator: Allocator) -> None:
    if allocator.has_sequences:
        raise BenchError(f"{allocator.name} is not counted: valgrind has no restartable sequences, without which it "
                         "takes its slow path")


def steady_environment(allocator: Allocator) -> dict[str, str]:
    """Without Coffer's colours, which differ from process to process, and with them the counts of some rows by a few
    percent. What the caller sets comes later and wins."""
    environment = allocator.environment()
    options = ["colour:false", environment.get("COFFER_CONF", "")]
    return {**environment, "COFFER_CONF": ",".join(filter(None, options))}


def run_callgrind(allocator: Allocator, command: list[str], options: list[str]) -> tuple[str, str]:
    """The profile of a run, as text, and what the program printed."""
    require_countable(allocator)
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *options]
        environment = steady_environment(allocator)
        done = subprocess.run([*valgrind, *command], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)} under {allocator.name} and valgrind: status {done.returncode}: "
                             f"{done.stderr.strip()}")
        verify_library(allocator, parse_line(done.stdout).get("library", "nothing"))
        return profile.read_text(), done.stdout


def count_all(allocator: Allocator, command: list[str]) -> int:
    """Instructions of the whole run, all threads."""
    profile, _ = run_callgrind(allocator, command, [])
    return int(re.search(r"^summary: (\d+)", profile, re.MULTILINE)[1])


def count_by_address(allocator: Allocator, command: list[str]) -> Counter[Address]:
    """How often each instruction ran. The program must know the argument code=1 (workloads/instructions.cpp)."""
    options = ["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"]
    profile, output = run_callgrind(allocator, [*command, "code=1"], options)
    return name_files(parse_profile(profile), parse_code(output, command[0]))


def parse_code(output: str, program: str) -> list[Code]:
    """The lines in which a program says where its code lies."""
    return [
        Code(int(match[1], 16), int(match[2], 16), int(match[3], 16), match[4] or program)
        for match in re.finditer(r"^code (\w+) (\w+) (\w+) (.*)$", output, re.MULTILINE)
    ]


def name_files(counts: Counter[Address], code: list[Code]) -> Counter[Address]:
    """Finds the file of the addresses that callgrind has none for. Valgrind 3.22 does not know the linkage table
    .plt.sec, which linkers make where indirect calls are guarded (-fcf-protection, Ubuntu's default)."""
    named: Counter[Address] = Counter()
    for (file, address), count in counts.items():
        found = [part for part in code if file == UNKNOWN and part.start <= address < part.end]
        named[(found[0].file, address - found[0].bias) if found else (file, address)] += count
    return named


def parse_profile(text: str) -> Counter[Address]:
    """Counts of a profile whose positions are addresses, by file and address."""
    counts: Counter[Address] = Counter()
    file = ""
    skip = False
    for line in text.splitlines():
        if line.startswith("ob="):
            file = line[3:]
        elif line.startswith("calls="):
            skip = True  # the next line is what the called function cost
        elif line.startswith("0x"):
            if not skip:
                address, _, count = line.split()
                counts[file, int(address, 16)] += int(count)
            skip = False
    return counts


def disassemble(file: str) -> dict[int, str]:
    """The text of each instruction of a library, by address."""
    listing = subprocess.run(["objdump", "-d", "-w", "--no-show-raw-insn", file], capture_output=True, text=True)
    if listing.returncode != 0:
        raise BenchError(f"objdump {file}: {listing.stderr.strip()}")
    lines: dict[int, str] = {}
    for match in re.finditer(r"^\s+([0-9a-f]+):\s+(.*\S)", listing.stdout, re.MULTILINE):
        lines[int(match[1], 16)] = match[2].replace("\t", " ")
    return lines


def function_length(file: Path, symbol: str) -> int:
    """Instructions of a function that has no branches, its ret included."""
    listing = subprocess.run(["objdump", "-d", f"--disassemble={symbol}", "--no-show-raw-insn", str(file)],
                             capture_output=True, text=True, check=True).stdout
    body = re.search(rf"<{symbol}>:\n((?:\s+[0-9a-f]+:.*\n?)+)", listing)
    instructions = body[1].splitlines() if body else []
    for number, instruction in enumerate(instructions):
        if re.search(r"\sret\b", instruction):
            return number + 1
    raise BenchError(f"{symbol} in {file} has no ret")
