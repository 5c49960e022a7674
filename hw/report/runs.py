# SPDX-License-Identifier: MIT
"""Replays of recorded calls, and what their logs say. Times are nanoseconds."""

from __future__ import annotations

import array
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "sim"), str(HERE.parent / "fast")]

import fast  # noqa: E402
from replay import SOURCES, Bench, Result, Row, generics_for  # noqa: E402

from record import built  # noqa: E402

CYCLE = 5  # nanoseconds
HEAP = 32 * 2**20
# Memory clocks before each transfer with which one takes 200 ns, as the thesis's tables imply (doc/decisions.md, 16).
THESIS_LEAD = 13
# Calls, loads and stores from which on a compilation by Verilator takes less time than it saves.
LONG = 10000


class ReportError(Exception):
    """What the user can mend, in one line."""


class Call(NamedTuple):
    """A line of a replay's log."""
    kind: str
    bytes: int
    find: int
    block: int
    total: int
    answer: int
    stall: int
    how: str


class Calls(Sequence[Call]):
    """The lines of a log, of which there may be hundreds of thousands: in columns."""

    def __init__(self) -> None:
        self.kinds, self.hows = bytearray(), bytearray()
        self.columns = {name: array.array("I") for name in Call._fields[1:-1]}

    def append(self, kind: str, how: str, numbers: Iterable[int]) -> None:
        self.kinds.append(ord(kind))
        self.hows.append(ord(how))
        for column, value in zip(self.columns.values(), numbers, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.kinds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calls) and vars(self) == vars(other)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return Call(chr(self.kinds[place]), *(column[place] for column in self.columns.values()),
                    chr(self.hows[place]))

    def __iter__(self) -> Iterator[Call]:
        return map(Call, map(chr, self.kinds), *self.columns.values(), map(chr, self.hows))


@dataclass(frozen=True)
class Setup:
    """How a trace is replayed."""
    unit: str
    # In line with the recorded gaps, or each call when the one before is done, as in the thesis.
    gaps: bool = False
    lead: int = THESIS_LEAD
    buffers: tuple[tuple[str, int], ...] = ()


@dataclass
class Run:
    calls: Sequence[Call]
    times: dict[str, Row] = field(default_factory=dict)
    message: str = ""
    rows: dict[tuple[str, str], Row] = field(default_factory=dict, repr=False, compare=False)

    @property
    def transfers(self) -> int:
        """Words that the unit has moved."""
        found = re.search(r" (\d+) transfers,", self.message)
        if found is None:
            raise ReportError(f"no transfers in: {self.message}")
        return int(found.group(1))

    def of(self, kind: str) -> list[Call]:
        return [call for call in self.calls if call.kind == kind]

    def row(self, kind: str, what: str) -> Row:
        """Of one kind of call and of time."""
        if (kind, what) not in self.rows:
            self.rows[kind, what] = row(getattr(call, what) for call in self.of(kind))
        return self.rows[kind, what]


def row(values: Iterable[int]) -> Row:
    numbers = list(values)
    if not numbers:
        raise ReportError("a trace without allocations or without frees has nothing to report")
    return Row(min(numbers), sum(numbers) / len(numbers), max(numbers))


def read_log(path: Path) -> Calls:
    calls = Calls()
    with path.open(encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if len(words) != 9 or words[0] not in ("a", "f"):
                raise ReportError(f"{path}:{number}: not a line of a log")
            calls.append(words[0], words[8], [int(words[1]), *(int(word) * CYCLE for word in words[3:8])])
    return calls


def cut(calls: Path, count: int, target: Path, accesses: bool) -> None:
    """The first so many calls of a recording, with what the program does between them, or only the time."""
    keep = "afgls" if accesses else "afg"
    done = 0
    try:
        with gzip.open(calls, "rt", encoding="ascii") as lines, target.open("w", encoding="ascii") as out:
            for line in lines:
                if line[0] in keep and (done > 0 or line[0] not in "ls"):
                    out.write(line)
                done += line[0] in "af"
                if done == count:
                    return
    except (OSError, EOFError) as error:
        raise ReportError(f"{calls}: {error}") from error
    if done == 0:
        raise ReportError(f"{calls}: no calls")


def make_trace(calls: Path, trace: Path, heap: int = HEAP, cache: tuple[int, int, int] | None = None) -> str:
    """Calls as a trace with the model's answers. Returns what the cache has counted."""
    command = [str(built("answers")), "knuth", str(heap), *(str(number) for number in cache or ())]
    trace.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: another report may be reading it.
    unfinished = trace.with_name(f"{trace.name}.{os.getpid()}")
    with unfinished.open("wb") as out:
        if calls.suffix == ".gz":
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE)
            assert process.stdin is not None and process.stderr is not None
            try:
                with gzip.open(calls, "rb") as text:
                    shutil.copyfileobj(text, process.stdin, 1 << 20)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it says why
            except (OSError, EOFError) as error:
                process.kill()
                unfinished.unlink()
                raise ReportError(f"{calls}: {error}") from error
            message = process.stderr.read().decode(errors="replace").strip()
            status = process.wait()
        else:
            with calls.open("rb") as text:
                done = subprocess.run(command, stdin=text, stdout=out, stderr=subprocess.PIPE, check=False)
            message, status = done.stderr.decode(errors="replace").strip(), done.returncode
    if status != 0:
        unfinished.unlink()
        raise ReportError(f"{calls}: {message}")
    os.replace(unfinished, trace)
    return message


class Arrivals(NamedTuple):
    """What a trace says of itself."""
    allocations: int
    frees: int
    refused: int
    least_between_allocations: int
    least_between_calls: int
    mean_between_calls: float
    longest_free_run: int


def arrivals(trace: Path) -> Arrivals:
    """The times between calls, which the program spends on its own work."""
    allocations = frees = refused = run = longest = 0
    gap = since_allocation = 0
    between_calls: list[int] = []
    between_allocations: list[int] = []
    with trace.open(encoding="ascii") as lines:
        for line in lines:
            kind = line[0]
            if kind == "g":
                gap += int(line[2:])
            elif kind in "af" and line[1] == " ":
                between_calls.append(gap)
                since_allocation += gap
                gap = 0
                if kind == "a":
                    allocations += 1
                    refused += line.split()[2] == "ffffffff"
                    between_allocations.append(since_allocation)
                    since_allocation = run = 0
                else:
                    frees += 1
                    run += 1
                    longest = max(longest, run)
    if allocations < 2 or frees == 0:
        raise ReportError(f"{trace}: fewer than two allocations, or no free: nothing to report")
    # The first call comes after nothing.
    return Arrivals(allocations, frees, refused, min(between_allocations[1:]) * CYCLE, min(between_calls[1:]) * CYCLE,
                    sum(between_calls[1:]) / len(between_calls[1:]) * CYCLE, longest)


class Runs:
    """Replays, each once, several at a time: long ones by Verilator."""

    def __init__(self, folder: Path, jobs: int = 1, bench: Bench | None = None,
                 tell: Callable[[str], None] = lambda text: None) -> None:
        self.folder = folder
        self.bench = bench or Bench()
        self.machine = fast.Machine()
        self.pool = ThreadPoolExecutor(jobs)
        self.tell = tell
        self.done: dict[tuple[Path, Setup], Run] = {}
        self.sources = b"".join(source.read_bytes() for source in [*SOURCES, *fast.OWN])
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, wanted: list[tuple[Path, Setup]]) -> list[Run]:
        missing = [one for one in dict.fromkeys(wanted) if one not in self.done]
        for one, run in zip(missing, self.pool.map(self._replay, missing), strict=True):
            self.done[one] = run
        return [self.done[one] for one in wanted]

    def one(self, trace: Path, setup: Setup) -> Run:
        return self.get([(trace, setup)])[0]

    def _replay(self, one: tuple[Path, Setup]) -> Run:
        trace, setup = one
        name = "-".join([trace.stem, setup.unit, "gaps" if setup.gaps else "rest", str(setup.lead),
                         *(f"{key}{value}" for key, value in setup.buffers)])
        log, done = self.folder / f"{name}.log", self.folder / f"{name}.json"
        # What has been replayed before, of the same trace by the same bench, is not replayed again.
        key = hashlib.sha256(trace.read_bytes() + self.sources).hexdigest()
        run = self._earlier(log, done, key)
        if run is None:
            done.unlink(missing_ok=True)
            result: Result = self.replays(trace).replay(trace, log, **generics_for(setup.unit), lead=setup.lead,
                                                        gap=0 if setup.gaps else -1, gaps=str(setup.gaps).lower(),
                                                        **dict(setup.buffers))
            if not result.ok:
                raise ReportError(f"{name}: {result.message}")
            run = Run(read_log(log), result.times, result.message)
            done.write_text(json.dumps({"key": key, "message": result.message, "times": result.times}))
        check(run, name)
        self.tell(f"{name}: {run.message}")
        return run

    def replays(self, trace: Path) -> Bench | fast.Machine:
        """Both give the same log (test/test_fast.py)."""
        work = 0
        with trace.open(encoding="ascii") as lines:
            for line in lines:
                work += int(line.split()[3]) if line[0] == "l" else line[0] in "afs"
                if work >= LONG:
                    return self.machine
        return self.bench

    @staticmethod
    def _earlier(log: Path, done: Path, key: str) -> Run | None:
        try:
            known = json.loads(done.read_text())
            if known["key"] != key:
                return None
            return Run(read_log(log), {name: Row(*times) for name, times in known["times"].items()}, known["message"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there, or not written to its end


def check(run: Run, name: str) -> None:
    """The log against the bench's own sums: a call more or less, or another mean, is a fault of either."""
    counts = {"a": len(run.of("a")), "f": len(run.of("f"))}
    if f": {counts['a']} allocations," not in run.message or f" {counts['f']} frees," not in run.message:
        raise ReportError(f"{name}: the log has {counts}, the bench says: {run.message}")
    for kind, word in (("a", "alloc"), ("f", "free")):
        for what in ("total", "answer"):
            told = run.times.get(f"{word} {what}")
            if counts[kind] == 0:
                continue
            found = run.row(kind, what)
            if told is None or abs(told.mean - found.mean) > 0.06 or told[::2] != found[::2]:
                raise ReportError(f"{name}: {word} {what}: the log has {found}, the bench says {told}")
