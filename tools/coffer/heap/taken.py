# SPDX-License-Identifier: MIT
"""Where profiles come from: a program that is run to its end, files, or a process that is asked by signal."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coffer import loading, patience, places, signals
from coffer.errors import CofferError
from coffer.heap import attached
from coffer.live import processes
from coffer.profile import of_trace, proto

ANSWER_SECONDS = 10.0
MOST_MOMENTS = 40


@dataclass
class Taken:
    """Profiles of one process. Those of a program that was run lie in a folder that goes with the command."""

    end: proto.Profile | None = None  # the last one; of a program, when it had ended
    moments: list[proto.Profile] = field(default_factory=list)
    is_program: bool = False  # that was run to its end, here or as it was recorded
    since_start: bool = False  # samples were taken since the process began, as far as its options say
    process: int | None = None
    others: int = 0  # further processes that wrote profiles
    status: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def last(self) -> proto.Profile:
        return self.end or self.moments[-1]


def bytes_of(profile: proto.Profile, kind: str) -> int:
    at = profile.types.index(kind)
    return sum(values[at] for _, values in profile.samples)


NAME = re.compile(r"coffer\.(\d+)\.(?:(\d+)|moment\.(\d+))\.pb\.gz")


def thinned(paths: list[Path]) -> list[Path]:
    """Of many moments some that are spread over the time, and the last."""
    times = [path.stat().st_mtime for path in paths]
    step = (times[-1] - times[0]) / MOST_MOMENTS if len(paths) > MOST_MOMENTS else 0
    chosen: list[Path] = []
    due = -math.inf
    for path, when in zip(paths[:-1], times):
        if when >= due:
            chosen.append(path)
            due = when + step
    return [*chosen, *paths[-1:]]


def read_whole(path: Path) -> proto.Profile | None:
    """None: the process was ended as it wrote it."""
    with contextlib.suppress(CofferError):
        return proto.read(path)
    return None


def read_folder(folder: Path) -> dict[int, Taken]:
    """By process, of those that wrote a whole profile."""
    found: dict[int, Taken] = {}
    moments: dict[int, list[tuple[int, Path]]] = {}
    ends: dict[int, list[tuple[int, Path]]] = {}
    for path in folder.iterdir():
        if not (match := NAME.fullmatch(path.name)):
            continue
        found.setdefault(int(match[1]), Taken(process=int(match[1]), is_program=True))
        (moments if match[3] else ends).setdefault(int(match[1]), []).append((int(match[3] or match[2]), path))
    with patience.bar("profiles", sum(map(len, moments.values())) + len(ends)) as step:
        for process, taken in found.items():
            for path in thinned([path for _, path in sorted(moments.get(process, []))]) if process in moments else []:
                if moment := read_whole(path):
                    taken.moments.append(moment)
                step("")
            if process in ends:
                taken.end = read_whole(max(ends[process])[1])
                step("")
            proto.settle_mappings([*taken.moments, *([taken.end] if taken.end else [])])
    return {process: taken for process, taken in found.items() if taken.moments or taken.end}


def choose(found: dict[int, Taken], main: int, kind: str) -> Taken:
    """The program itself, unless one that it started has more: `kind` names the profile's figure that is asked for."""
    chosen = max(found.values(), key=lambda one: (bytes_of(one.last, kind), one.process == main))
    chosen.others = len(found) - 1
    return chosen


def going_on(folder: Path) -> int:
    """How many processes would still write to it, such as daemons that the program became."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += f":{folder}/".encode() in path.read_bytes()
    return found


def with_moments(environment: dict[str, str], folder: Path, looks: bool) -> dict[str, str]:
    """What has moments written: before code is unloaded, and, if it looks, from time to time."""
    library = places.shared_library("libcoffer_moments.so")
    return {**environment, "COFFER_MOMENTS": f"{folder}/coffer", "COFFER_MOMENTS_AT": "all" if looks else "unloads",
            "LD_PRELOAD": places.preload(*environment["LD_PRELOAD"].split(":"), str(library))}


@contextlib.contextmanager
def of_program(command: str, program: list[str], rate: str, looks: bool, kind: str) -> Iterator[Taken]:
    loading.tell(command, program[0])
    folder = Path(tempfile.mkdtemp(prefix="coffer-heap-"))
    try:
        options = f"profile:true,profile_rate:{rate},profile_to:{folder}/coffer"
        environment = with_moments(places.environment(last=options), folder, looks)
        with signals.started(program, environment) as process:
            status = signals.status_of(process)
        left = going_on(folder)
        on = (f"{left} of the processes that it started went on when it ended: what they hold is not known. coffer heap"
              " --pid asks each of them") if left else ""
        found = read_folder(folder)
        if not looks:  # what was live when code was unloaded is no end
            found = {process: one for process, one in found.items() if one.end}
            for one in found.values():
                one.moments.clear()
        if not found:
            error = CofferError("the program wrote no profile: it was killed, ended by _exit, or does not run under a"
                                f" preloaded library{'; ' if on else ''}{on}")
            error.status = status or 1
            raise error
        taken = choose(found, process.pid, kind)
        taken.status = status
        if taken.end is None:
            taken.notes.append("The program was killed or ended by _exit: this is its last moment that was seen.")
        if taken.others:
            taken.notes.append(f"Process {taken.process}, which holds most of the {taken.others + 1} that ended by"
                               " themselves.")
        if on:
            taken.notes.append(f"{on}.")
        yield taken
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(path: Path) -> tuple[proto.Profile, list[str]]:
    """Of a profile, or of the end of a trace; and what there is to say of that."""
    if not of_trace.is_trace(path):
        return proto.read(path), []
    recorded = of_trace.record_of(path)
    return recorded.profile(), [f"{path.name}: {text}" for text in recorded.notes()]


def of_trace_file(path: Path) -> Taken:
    """It knows all moments."""
    recorded = of_trace.record_of(path)
    return Taken(end=recorded.profile(), moments=recorded.moments(), is_program=recorded.has_ended,
                 notes=recorded.notes())


def of_files(paths: list[Path]) -> Taken:
    """In order of their times."""
    if traces := [path for path in paths if of_trace.is_trace(path)]:
        if len(paths) > 1:
            raise CofferError(f"{traces[0]}: a trace has all moments of its process, and stands alone; --diff compares"
                              " two")
        return of_trace_file(paths[0])
    profiles = sorted(((proto.read(path), path) for path in paths), key=lambda one: one[0].time_ns)
    taken = Taken(end=profiles[-1][0])
    if len(profiles) > 1:
        taken.moments = [profile for profile, _ in profiles]
        # Those of one process have the program at one place.
        if len({one.mappings.get(1) for one in taken.moments}) == 1:
            proto.settle_mappings(taken.moments)
    return taken


# --- A process that runs. ---


@dataclass(frozen=True)
class Asked:
    process: processes.Process
    dump_signal: int  # 0: none, a thread of it is held
    profile_signal: int
    prefix: str  # empty: not known
    since_start: bool
    rate: int  # bytes between samples, where its options do not say it
    force: bool

    def files(self) -> set[Path]:
        """Profiles of the process, where it writes them; under any name, if that is not known."""
        base = Path(self.prefix or "*")
        root = self.process.proc / "root"
        folder = root / str(base.parent).lstrip("/") if base.is_absolute() else self.process.proc / "cwd" / base.parent
        try:
            return set(folder.glob(f"{base.name}.{self.process.inner}.*.pb.gz"))
        except OSError:
            return set()

    def profile(self) -> proto.Profile:
        """As it is now. A file that the process wrote for it is removed."""
        if not self.dump_signal:
            return attached.dump(self.process, self.force)
        profile, path = ask(self)
        with contextlib.suppress(OSError):
            path.unlink()
        return profile

    def can_turn_on(self, question: Question) -> bool:
        """One that was to sample since its start and does not was told so by somebody else."""
        return bool(self.profile_signal) or (question.may_attach and not self.since_start)

    def sample(self, on: bool) -> None:
        """Turned on, or off, which it is not just now."""
        if self.profile_signal:
            processes.ask(self.process, self.profile_signal)
        else:
            attached.attach(self.process, *(["start", str(self.rate)] if on else ["stop"]), force=self.force)


def options_of(process: processes.Process) -> dict[str, str]:
    """COFFER_CONF, as it was at the process's start."""
    try:
        variables = (process.proc / "environ").read_bytes().split(b"\0")
    except PermissionError:
        raise CofferError(f"process {process.number} ({process.name}): permission denied") from None
    except OSError:
        raise CofferError(f"there is no process {process.number}") from None
    conf = next((os.fsdecode(one.partition(b"=")[2]) for one in variables if one.startswith(b"COFFER_CONF=")), "")
    return dict(part.strip().split(":", 1) for part in conf.split(",") if ":" in part)


def number_of(options: dict[str, str], name: str) -> int:
    text = options.get(name, "0").strip()
    return int(text) if text.isascii() and text.isdigit() else 0


@dataclass(frozen=True)
class Question:
    """What is said of how a process is to be asked."""

    dump_signal: int | None = None
    profile_signal: int | None = None
    rate: int = 64 * 1024
    may_attach: bool = True
    force: bool = False  # also where it may end the process


def find(number: int, question: Question) -> Asked:
    process = processes.find_process(number)
    options = options_of(process)
    dump = question.dump_signal or number_of(options, "dump_signal")
    maps = processes.maps_of(process)
    # Where no signal is known, what holds a thread looks for itself: more closely.
    if (dump or not question.may_attach) and maps is not None and not processes.runs_coffer(maps):
        raise CofferError(f"process {number} ({process.name}) does not run Coffer: {attached.NEXT_TIME}")
    if not dump and not question.may_attach:
        raise CofferError(f"process {number} ({process.name}) knows no signal that asks for a profile: start"
                          " it with COFFER_CONF=profile:true,dump_signal:43. If it was, it has written over its"
                          " environment, as some servers do for their title: name the signal by --dump-signal")
    samples = options.get("profile") == "true" or options.get("leaks") == "true"
    toggle = question.profile_signal or (0 if samples else number_of(options, "profile_signal"))
    return Asked(process, dump, toggle, options.get("profile_to") or ("coffer" if options else ""),
                 samples, question.rate, question.force)


def ask(asked: Asked) -> tuple[proto.Profile, Path]:
    """Sends the signal, and waits for the file to be whole."""
    before = asked.files()
    processes.ask(asked.process, asked.dump_signal)
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        runs = processes.is_running(asked.process.number)
        for path in sorted(asked.files() - before):
            with contextlib.suppress(CofferError):  # not whole yet
                return proto.read(path), path
        if not runs:
            raise CofferError(f"process {asked.process.number} has ended")
        time.sleep(0.02)
    raise CofferError(f"process {asked.process.number} ({asked.process.name}) wrote no profile within"
                      f" {ANSWER_SECONDS:g} s after signal {asked.dump_signal}: it is stopped or at work inside its"
                      " allocator, or its directory cannot be written to")


def is_off(profile: proto.Profile) -> bool:
    return profile.is_off or not profile.duration_ns  # as versions before 0.3 said it


def of_process(number: int, question: Question, seconds: float, count: int) -> Taken:
    """Several times, so many seconds apart."""
    asked = find(number, question)
    taken = Taken(process=number, since_start=asked.since_start)
    toggled = False
    try:
        with patience.bar(f"process {number}", count) as step:
            for turn in range(count):
                if turn:
                    time.sleep(seconds)
                profile = asked.profile()
                if is_off(profile) and asked.can_turn_on(question) and not toggled:
                    toggled = True  # also if it fails half way
                    asked.sample(on=True)
                    taken.notes.append("Sampling went on with this command: of blocks from before it only those are"
                                       " known that came while it was on." if profile.duration_ns else
                                       "Sampling began with this command: blocks from before it are not known.")
                    time.sleep(seconds)
                    profile = asked.profile()
                taken.moments.append(profile)
                step("")
    finally:
        if toggled:
            with contextlib.suppress(CofferError):
                asked.sample(on=False)
    if not taken.moments[-1].duration_ns:
        raise CofferError(f"process {number} ({asked.process.name}) takes no samples: start it with"
                          " COFFER_CONF=profile:true")
    proto.settle_mappings(taken.moments)
    if is_off(taken.last):
        taken.notes.append("Sampling is off: blocks from after its end are not known.")
    return taken
