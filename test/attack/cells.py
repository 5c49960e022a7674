# SPDX-License-Identifier: MIT
"""One cell of the attack corpus: a crime, a size, a number of live neighbours, one thread or two. Runs it as a process
under an allocator and says how it ended, by a letter:

  C  caught: the process was stopped in the midst of the crime
  L  caught later, before any harm
  H  harmless: the process went on, and the oracle (ledger.hpp) found no harm
  X  crashed: the process ended by a memory fault that is no catch, or hung, or Coffer reported something else
  M  missed: two owners of one block, a live block changed, an address of the attacker's choice, or bytes read that
     belong to others
  .  no case: the cell says nothing
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(TOP / "bench"), str(HERE.parent / "misuse"), str(HERE.parent / "conformance")]
import run_misuse  # noqa: E402
from coffer_bench.allocators import Allocator, verify_library  # noqa: E402

SIZES = (8, 16, 24, 48, 100, 256, 1000, 4096, 20000, 32768, 100_000, 1 << 20)
# Of the table that compares allocators: every other one.
COMPARED_SIZES = SIZES[::2]
NEIGHBOURS = (0, 64, 20_000)
THREADS = (1, 2)
# Coffer's builds that have a file of what is expected.
DEFAULT, HARDENED = "coffer", "coffer-hardened"
EXPECTED = {DEFAULT: HERE / "expected.txt", HARDENED: HERE / "expected_hardened.txt"}
# From best to worst.
ORDER = "CLHXM"
NO_CASE = "."
WORDS = {"C": "caught", "L": "caught later", "H": "harmless", "X": "crashed", "M": "missed", NO_CASE: "no case"}
SECONDS = 15.0

GROUPS = {
    "double": "Double frees",
    "invalid": "Frees of what is no block",
    "mismatch": "The wrong function, size or alignment",
    "link": "Writes into free blocks, where allocators keep links",
    "bounds": "Reads and writes beside a block",
    "stale": "Use after free, and before it is written",
}
# Freeing is the allocator's own code, which must not fault; in the others a fault is the machine's way to stop it.
FAULT_IS_A_CATCH = ("link", "bounds", "stale")


@dataclass(frozen=True)
class Crime:
    """An entry of crimes.toml."""

    name: str
    group: str
    what: str
    says: tuple[str, ...] = ()  # kinds of run_misuse.KINDS: one of these Coffer must say when it stops the crime
    not_knowable: bool = False  # no allocator that goes by addresses can tell it from a right call
    why: dict[str, str] = field(default_factory=dict)  # letter: why Coffer does no better
    why_hardened: dict[str, str] = field(default_factory=dict)  # the same of its hardened build: of M and X


@dataclass(frozen=True)
class Cell:
    crime: str
    size: int
    neighbours: int
    threads: int

    def __str__(self) -> str:
        return f"{self.crime} {self.size} {self.neighbours} {self.threads}"


@dataclass(frozen=True)
class Ending:
    letter: str
    detail: str


def read_crimes(path: Path = HERE / "crimes.toml") -> dict[str, Crime]:
    entries: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
    letters = {word.replace(" ", "_"): letter for letter, word in WORDS.items()}
    result = {}
    for name, entry in entries.items():
        why, why_hardened = ({letters[word]: text for word, text in entry.pop(key, {}).items()}
                             for key in ("why", "why_hardened"))
        says = tuple(entry.pop("says", ()))
        result[name] = Crime(name, says=says, why=why, why_hardened=why_hardened, **entry)
        if result[name].group not in GROUPS or not set(says) <= set(run_misuse.KINDS):
            raise SystemExit(f"{path.name}: {name} has no such group, or says what is no kind of run_misuse.py")
    return result


def cells_of(crimes: Iterable[str], sizes: Sequence[int] = SIZES) -> list[Cell]:
    return [Cell(crime, size, neighbours, threads)
            for crime in crimes for threads in THREADS for neighbours in NEIGHBOURS for size in sizes]


def worst(letters: Iterable[str]) -> str:
    """A cell that is no case in one run and a case in another is judged by the latter."""
    return max(letters, key=lambda letter: ORDER.find(letter))


def is_worse(found: str, expected: str) -> bool:
    """Of a cell that was no case nothing is expected: where blocks lie decides, and differs from run to run."""
    return expected != NO_CASE and ORDER.find(found) > ORDER.find(expected)


# How a process ended.

def wrong_report(crime: Crime, lines: list[str], address: str | None) -> str:
    """What is wrong with Coffer's words; empty: nothing. address: that of the crime, where it was stopped in its midst;
    what is found later may be found at another block, and by other words."""
    if len(lines) != 1:
        return f"{len(lines)} lines of Coffer where one was expected"
    if not crime.says or address is None:
        return ""
    match = run_misuse.LINE.fullmatch(lines[0])
    texts = [text for kind in crime.says for text in run_misuse.KINDS[kind]]
    if match is None or not any(re.fullmatch(text, match["what"]) for text in texts):
        return f"not what is to be said: {lines[0]}"
    if int(match["address"], 16) != int(address, 16):
        return f"another address than {address}: {lines[0]}"
    return ""


def classify(crime: Crime, status: int | None, out: str, err: str, is_coffer: bool) -> Ending:
    """status: as of subprocess, None where it did not end in time."""
    stages = [line.split() for line in out.splitlines()]
    ends = [words for words in stages if words[:1] == ["end"]]
    told = next((line.strip() for line in err.splitlines() if line.strip()), "")
    at = next((words[1] for words in stages if words[:1] == ["crime"]), None)
    done = ["done"] in stages
    if status is None:
        return Ending("X", "hung")
    if ends and ends[0][1] == "harmed":
        return Ending("M", " ".join(ends[0][2:]))
    if status == 0 and ends:
        return Ending({"harmless": "H", "none": NO_CASE}[ends[0][1]], " ".join(ends[0][2:]))
    if at is None or status >= 0:
        raise SystemExit(f"{crime.name} did not get to its crime: status {status}\n{out}{err}")
    name = signal.Signals(-status).name
    if name in ("SIGSEGV", "SIGBUS"):
        if not done and crime.group in FAULT_IS_A_CATCH:
            return Ending("C", f"a fault; {told}")
        return Ending("X", f"{name}; {told}")
    if is_coffer:
        lines = [line for line in err.splitlines() if line.startswith("coffer:")]
        wrong = wrong_report(crime, lines, None if done else at)
        if wrong:
            return Ending("X", wrong)
    return Ending("L" if done else "C", f"{name}; {told}")


def is_coffer(allocator: Allocator) -> bool:
    return allocator.library is not None and "coffer" in allocator.library.name


def run_once(program: Path, crime: Crime, cell: Cell, allocator: Allocator) -> Ending:
    command = [str(program), cell.crime, str(cell.size), str(cell.neighbours), str(cell.threads)]
    status: int | None
    try:
        done = subprocess.run(command, env=allocator.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=SECONDS)
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        status, out, err = None, late.stdout or b"", late.stderr or b""
    text = out.decode(errors="replace")
    library = re.search(r"^library (.*)$", text, re.MULTILINE)
    if library is not None:
        verify_library(allocator, library[1])
    elif status is not None and "end none " not in text:
        raise SystemExit(f"{' '.join(command)} under {allocator.name}: {err.decode(errors='replace')}")
    return classify(crime, status, text, err.decode(errors="replace"), is_coffer(allocator))


def run_cell(program: Path, crime: Crime, cell: Cell, allocator: Allocator, rounds: int = 1) -> Ending:
    """The worst of several runs. What did not end in time is run once more: the machine may have been held up."""
    endings = []
    for _ in range(rounds):
        ending = run_once(program, crime, cell, allocator)
        if ending.detail == "hung":
            ending = run_once(program, crime, cell, allocator)
        endings.append(ending)
    letter = worst(ending.letter for ending in endings)
    return next(ending for ending in endings if ending.letter == letter)


def run_cells(program: Path, crimes: dict[str, Crime], cells: Sequence[Cell], allocator: Allocator, rounds: int = 1,
              jobs: int = 0, each: Callable[[Cell, Ending], None] | None = None) -> dict[Cell, Ending]:
    jobs = jobs or len(os.sched_getaffinity(0))
    result = {}
    with ThreadPoolExecutor(jobs) as pool:
        runs = pool.map(lambda cell: run_cell(program, crimes[cell.crime], cell, allocator, rounds), cells)
        for cell, ending in zip(cells, runs, strict=True):
            result[cell] = ending
            if each is not None:
                each(cell, ending)
    return result


@cache
def listed(program: Path) -> tuple[str, ...]:
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True, timeout=20)
    return tuple(sorted(done.stdout.split()))


# expected.txt and expected_hardened.txt: how Coffer's cells end.

HEAD = """\
# How the cells of the attack corpus end over {build}: the worst of several runs. Written by
# `corpus.py bless`; the reasons are in crimes.toml. A letter a cell: C caught, L caught later, H harmless, X crashed,
# M missed, . no case. Six words a crime: one thread with {neighbours} neighbours, then two; a letter a size:
# {sizes}
"""


def read_expected(path: Path = EXPECTED[DEFAULT]) -> dict[Cell, str]:
    result: dict[Cell, str] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("#") or not line.strip():
            continue
        crime, *words = line.split()
        letters = "".join(words)
        cells = cells_of([crime])
        if len(letters) != len(cells):
            raise SystemExit(f"{path.name}: {crime} has {len(letters)} cells, not {len(cells)}")
        result.update(zip(cells, letters, strict=True))
    return result


def expected_text(expected: dict[Cell, str], crimes: Iterable[str], build: str = DEFAULT) -> str:
    name = "Coffer's default build" if build == DEFAULT else "Coffer's hardened build"
    lines = [HEAD.format(build=name, neighbours=", ".join(map(str, NEIGHBOURS)), sizes=" ".join(map(str, SIZES)))]
    for crime in crimes:
        letters = "".join(expected[cell] for cell in cells_of([crime]))
        words = [letters[i:i + len(SIZES)] for i in range(0, len(letters), len(SIZES))]
        lines.append(f"{crime:<45} {' '.join(words)}\n")
    return "".join(lines)
