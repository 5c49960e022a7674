# SPDX-License-Identifier: MIT
"""Runs a process with a time limit, so that nothing it starts outlives it, and watches the memory and the mappings of
all the processes that it starts."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coffer_bench.errors import BenchError

# util-linux, which every Debian has: what is started ends with us, even when we are killed.
DIES_WITH_US = ["/usr/bin/setpriv", "--pdeathsig", "KILL"]
WATCH_SECONDS = 0.02
COMPLAINT_CHARACTERS = 2000


@dataclass(frozen=True)
class Outcome:
    stdout: bytes
    stderr: bytes
    wall_ns: float
    cpu_ns: float
    faults: float


@dataclass(frozen=True)
class User:
    """Whom a process runs as, where that is not ourselves."""

    uid: int
    gid: int


def start(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    cwd: Path | None = None,
    user: User | None = None,
    **streams: object,
) -> subprocess.Popen[bytes]:
    """In a session of its own, which kill_group() ends as a whole."""
    words = [str(word) for word in command]
    guarded = [*DIES_WITH_US, *words] if os.access(DIES_WITH_US[0], os.X_OK) else words
    rights = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
    try:
        return subprocess.Popen(guarded, env=dict(environment), cwd=cwd, start_new_session=True, **rights, **streams)
    except OSError as error:
        raise BenchError(f"{words[0]}: {error}") from error


# What execute() is waiting for, in all threads; and whether nothing more may begin.
_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


@contextlib.contextmanager
def together() -> Iterator[None]:
    """For threads that run processes: whatever ends the block early ends the processes of all of them, so that nobody
    waits for what is not wanted any more."""
    _ending.clear()
    try:
        yield
    except BaseException:
        _ending.set()
        for process in list(_running):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        raise


@contextlib.contextmanager
def on_processors(processors: Iterable[int]) -> Iterator[None]:
    """What this thread starts in the block runs on these processors only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends all that is left of a session that start() made."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def execute(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    timeout: float = 60.0,
    cwd: Path | None = None,
    stdin: bytes = b"",
    user: User | None = None,
    name: str = "",
    watch: Watch | None = None,
) -> Outcome:
    """Runs a command to its end. Another exit status than 0 is an error, and so is one that is not done in time. A
    `name` goes into the messages: under which allocator."""
    label = " ".join(str(word) for word in command)[:COMPLAINT_CHARACTERS] + (f" under {name}" if name else "")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter_ns()
    if _ending.is_set():
        raise BenchError(f"{label}: not begun, for the run ends")
    process = start(
        command, environment, cwd, user, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _running.add(process)
    if _ending.is_set():
        kill_group(process)  # it began while the others were ended
    try:
        if watch:
            watch.begin(process.pid)
        stdout, stderr = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{label}: not done in {timeout:.0f} s") from error
    finally:
        # Whatever happened, an interruption by the user included.
        kill_group(process)
        _running.discard(process)
        if watch:
            watch.end()
    wall_ns = time.perf_counter_ns() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        complaint = stderr.decode(errors="replace").strip()[-COMPLAINT_CHARACTERS:]
        raise BenchError(f"{label}: status {process.returncode}: {complaint}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(
        stdout, stderr, wall_ns, cpu * 1e9, after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
    )


def read_proc(path: str) -> str:
    """Empty if the process has ended meanwhile."""
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def tree(pid: int) -> Iterator[int]:
    """The process and all that it started, and those that they started."""
    yield pid
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for task in tasks:
        for child in read_proc(f"/proc/{pid}/task/{task}/children").split():
            yield from tree(int(child))


@dataclass(frozen=True)
class Memory:
    """KiB, of one process."""

    resident: int
    peak_resident: int
    page_tables: int

    @staticmethod
    def of(pid: int) -> Memory | None:
        found = {}
        for line in read_proc(f"/proc/{pid}/status").splitlines():
            key, _, value = line.partition(":")
            if key in ("VmRSS", "VmHWM", "VmPTE"):
                found[key] = int(value.split()[0])
        # A process that has ended and was not waited for has none.
        return Memory(found["VmRSS"], found["VmHWM"], found["VmPTE"]) if len(found) == 3 else None


def sum_memory(pid: int) -> int:
    """Resident memory and page tables of a process and all below it, KiB."""
    return sum(memory.resident + memory.page_tables for one in tree(pid) if (memory := Memory.of(one)))


def maps_library(pid: int, library: str) -> bool:
    """Whether the file, by its whole path or by its name alone, is mapped as code in the process."""
    for line in read_proc(f"/proc/{pid}/maps").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "x" in fields[1] and library in (fields[5], os.path.basename(fields[5])):
            return True
    return False


class Watch:
    """Looks at a process and those below it every 20 ms. The peak of one process is the kernel's own; that of several
    together is as high as it was at one of the looks. Of each process the library must be seen in its mappings."""

    def __init__(self, library: str, exempt: Sequence[str] = ()) -> None:
        self.library, self.exempt = library, {*exempt, "setpriv"}
        self.peak_kib = 0
        self.looks = 0
        self._loaded: set[int] = set()
        self._without: dict[int, tuple[str, int]] = {}
        self._most_tables: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, pid: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(pid,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _run(self, pid: int) -> None:
        # At once at first, so that short processes are seen too.
        pause = WATCH_SECONDS / 8
        while not self._stop.wait(pause):
            self.look(pid)
            pause = min(WATCH_SECONDS, pause * 1.5)

    def look(self, pid: int) -> None:
        self.looks += 1
        together = 0
        for one in tree(pid):
            if memory := Memory.of(one):
                together += memory.resident + memory.page_tables
                tables = max(memory.page_tables, self._most_tables.get(one, 0))
                self._most_tables[one] = tables
                if self._look_for_library(one):
                    self.peak_kib = max(self.peak_kib, memory.peak_resident + tables)
        self.peak_kib = max(self.peak_kib, together)

    def _look_for_library(self, pid: int) -> bool:
        if pid in self._loaded:
            return True
        try:
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return False
        if program in self.exempt or program.startswith("python") and pid == os.getpid():
            return False
        if maps_library(pid, self.library):
            self._loaded.add(pid)
            self._without.pop(pid, None)
            return True
        # The loader maps it some milliseconds after the process began.
        seen = self._without.get(pid, (program, 0))[1]
        self._without[pid] = (program, seen + 1)
        return False

    @property
    def saw_nothing(self) -> bool:
        """Neither the library nor a process without it: on a busy machine a short one is over before it was looked
        at."""
        return not self._loaded and all(looks <= 5 for _, looks in self._without.values())

    def verify(self, name: str) -> None:
        """That the library was seen, and no process that ran for longer without it."""
        longer = sorted({program for program, looks in self._without.values() if looks > 5})
        if longer or not self._loaded:
            where = f"in {', '.join(longer)}" if longer else f"in any process ({self.looks} looks)"
            raise BenchError(f"{name} was not loaded: {self.library} is not mapped {where}")
