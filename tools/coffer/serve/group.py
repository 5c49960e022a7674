# SPDX-License-Identifier: MIT
"""The processes that are served: those that were named, those of a name or a control group, or all that show a page."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from coffer.errors import CofferError
from coffer.live import processes
from coffer.live.page import Page, Reading

CONTROL_GROUPS = Path("/sys/fs/cgroup")
NAME_BYTES = 15  # of a process's name, as the kernel keeps it


@dataclass(frozen=True)
class Silent:
    """A process that was meant, and why it shows nothing."""

    number: int
    program: str
    reason: str


@dataclass(frozen=True)
class Look:
    readings: list[tuple[int, Reading]] = field(default_factory=list)
    silent: list[Silent] = field(default_factory=list)


def began_at(number: int) -> str:
    """What tells a process from a later one of the same number; empty: it has ended."""
    try:
        words = (Path("/proc") / str(number) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def of_name(name: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "comm").read_text(errors="replace").rstrip("\n") == name[:NAME_BYTES]:
                found.append(int(path.name))
    return sorted(found)


def of_control_group(folder: Path) -> list[int]:
    """And of those below it. Processes of other PID namespaces have the number 0 there."""
    found: set[int] = set()
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):  # it went away just now
            found |= set(map(int, (Path(path) / "cgroup.procs").read_text().split()))
    return sorted(found - {0})


def control_group(path: str) -> Path:
    """As /proc/PID/cgroup names it, with the older form's hierarchy of memory; or as a folder."""
    name = path.lstrip("/")
    for folder in (CONTROL_GROUPS / name, CONTROL_GROUPS / "memory" / name, Path(path)):
        if (folder / "cgroup.procs").is_file():
            return folder
    raise CofferError(f"{path}: no such control group below {CONTROL_GROUPS}")


class Group:
    """Looked at again and again, by several threads."""

    def __init__(self, pids: list[int], name: str | None = None, cgroup: str | None = None,
                 signal: int | None = None) -> None:
        if sum(map(bool, (pids, name, cgroup))) > 1:
            raise CofferError("numbers of processes, --name or --cgroup: one of them")
        if name == "" or cgroup == "":
            raise CofferError("--name and --cgroup: an empty one is none")
        self.name = name
        self.folder = control_group(cgroup) if cgroup else None
        self.signal = signal
        self.lock = threading.Lock()
        self.began, self.last = 0.0, Look()  # the last look, and when it began
        self.named = {number: began_at(number) for number in pids}
        for number in pids:
            self.open(number).close()

    def open(self, number: int) -> Page:
        """Its page, which by its signal it makes only now."""
        if self.signal is None:
            return processes.wait_for_page(number, 2.0, (processes.NotYet,))
        try:
            return processes.open_page(number)
        except processes.NotShown:
            processes.ask(processes.find_process(number), self.signal)
            return processes.wait_for_page(number, 2.0)

    @property
    def has_ended(self) -> bool:
        """Those that were named; of a name or a control group there may be new ones."""
        return bool(self.named) and not any(began and began_at(number) == began
                                            for number, began in self.named.items())

    def numbers(self) -> list[int] | None:
        """None: all that show a page."""
        if self.named:
            return [number for number, began in self.named.items() if began and began_at(number) == began]
        if self.name is not None:
            return of_name(self.name)
        return of_control_group(self.folder) if self.folder is not None else None

    def look(self) -> Look:
        """Who waited for another's look, and asked before that began, has its answer: of many who ask at once two look,
        one after the other."""
        asked = time.monotonic()
        with self.lock:
            if self.began < asked:
                began = time.monotonic()
                self.last = self.look_anew()
                self.began = began
            return self.last

    def look_anew(self) -> Look:
        numbers = self.numbers()
        silent: list[Silent] = []
        pages = processes.shown_processes() if numbers is None else {}
        for number in numbers or []:
            try:
                pages[number] = self.open(number)
            except CofferError as error:
                silent.append(Silent(number, program_of(number), str(error)))
        found = dict(processes.read_all(pages))
        silent += [Silent(number, program_of(number), f"process {number} shows no figures so far")
                   for number in pages.keys() - found.keys()]
        return Look(list(found.items()),
                    [one for one in silent if processes.is_running(one.number)])


def program_of(number: int) -> str:
    with contextlib.suppress(CofferError):
        return processes.find_process(number).name
    return ""
