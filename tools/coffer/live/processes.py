# SPDX-License-Identifier: MIT
"""Processes that show a page (page.py): which file is whose, and looking at one again and again."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError
from coffer.live.page import Page, PageError, Reading

ANSWER_SECONDS = 1.0  # a process that is asked answers within a quarter second, and a walk over its spans
FRESH_SECONDS = 0.1  # figures that are not older are taken as they are: the process's own step while it allocates
DIRECTORIES = ["/dev/shm", "/run/user/{user}", "/tmp"]


class NotShown(CofferError):
    """There is no page of that process (yet)."""


class NotYet(NotShown):
    """It was asked to show one when it was started."""


@dataclass(frozen=True)
class Process:
    number: int  # as this command sees it
    inner: int  # as the process sees itself
    users: frozenset[int]
    name: str
    caught: int  # signals, a bit each

    @property
    def proc(self) -> Path:
        return Path("/proc") / str(self.number)


def find_process(number: int) -> Process:
    try:
        text = (Path("/proc") / str(number) / "status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise CofferError(f"there is no process {number}") from None
    except PermissionError:
        raise CofferError(f"process {number}: permission denied") from None
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    inner = int(fields.get("NSpid", str(number)).split()[-1])
    users = frozenset(int(user) for user in fields["Uid"].split())
    return Process(number, inner, users, fields["Name"], int(fields.get("SigCgt", "0"), 16))


def maps_of(process: Process) -> str | None:
    """None: they cannot be read."""
    try:
        return (process.proc / "maps").read_text(errors="replace")
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return None


def runs_coffer(maps: str) -> bool:
    return "libcoffer" in maps or "[anon:coffer" in maps


def is_mapped(maps: str, status: os.stat_result) -> bool:
    wanted = (f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino))
    return any(tuple(line.split()[3:5]) == wanted for line in maps.splitlines())


def candidates(process: Process) -> list[Path]:
    """Files that may be the process's page, in its own view of the file system where that can be had."""
    try:
        namespace = "".join(filter(str.isdigit, os.readlink(process.proc / "ns" / "pid")))
    except PermissionError:
        raise CofferError(f"process {process.number} ({process.name}) belongs to another user, or hides itself:"
                          " permission denied") from None
    except (FileNotFoundError, ProcessLookupError):
        raise CofferError(f"there is no process {process.number}") from None
    found: list[Path] = []
    for directory in DIRECTORIES:
        for user in sorted(process.users | {0}):  # root's: the process gave up being root after it had made its page
            name = f"coffer-{user}-{namespace}-{process.inner}"
            for root in (f"/proc/{process.number}/root", ""):
                path = Path(root + directory.format(user=user)) / name
                try:
                    if path.is_symlink() or path.exists():
                        found.append(path)
                        break
                except PermissionError:
                    continue
    return found


def shows_by_option(process: Process) -> bool:
    """Whether COFFER_CONF says so, as it was at the process's start, or its parent's."""
    try:
        variables = (process.proc / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    conf = next((one for one in variables if one.startswith(b"COFFER_CONF=")), b"=").partition(b"=")[2]
    words = [[part.strip() for part in item.split(b":")] for item in conf.split(b",")]
    return [b"share", b"true"] == next((one for one in reversed(words) if one[0] == b"share"), [])


def open_page(number: int) -> Page:
    """The page of a process; NotShown if it has none."""
    process = find_process(number)
    problem: CofferError | None = None
    for path in candidates(process):
        try:
            page = Page(path, set(process.users) | {0})
        except PageError as error:
            problem = error
            continue
        # A page that the process does not have is one of a program that it was before exec. Looked up after the page
        # was found whole: one that the process is just making is mapped by then.
        mapped = maps_of(process)
        if mapped is None or is_mapped(mapped, page.status):
            return page
        page.close()
        remove_stale(path, page.status)
    if problem is not None:
        raise problem
    maps = maps_of(process)
    if maps is None:
        raise CofferError(f"process {number} ({process.name}): permission denied")
    if runs_coffer(maps):
        if shows_by_option(process):
            raise NotYet(f"process {number} ({process.name}) runs Coffer with share:true and shows no page so far: it"
                         " does when it next allocates")
        raise NotShown(f"process {number} ({process.name}) runs Coffer but shows no page: start it with"
                       " COFFER_CONF=share:true, or with share_signal:N and send it that signal (--signal N)")
    raise NotShown(f"process {number} ({process.name}) does not run Coffer")


def remove_stale(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        return
    try:
        # Another file by now: the program that the process has become has made its own.
        if os.path.samestat(path.lstat(), status):
            path.unlink()
    except OSError:
        pass  # somebody else was faster, or may; it is only tidying


def rss_of(number: int) -> int | None:
    """Bytes that the kernel counts as resident, of the whole process; None: it does not say."""
    try:
        text = (Path("/proc") / str(number) / "status").read_text(errors="replace")
    except OSError:
        return None
    lines = [line.split() for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0][1]) * 1024 if lines else None


def with_rss(reading: Reading, number: int) -> Reading:
    return dataclasses.replace(reading, rss=rss_of(number))


def is_running(number: int) -> bool:
    try:
        text = (Path("/proc") / str(number) / "stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def ask(process: Process, signal: int) -> None:
    """Sends the signal that has the page written, if the process is ready for it: it would end any other."""
    if not 1 <= signal <= 64:
        raise CofferError(f"there is no signal {signal}")
    if not process.caught >> (signal - 1) & 1:
        raise CofferError(f"process {process.number} ({process.name}) has no handler for signal {signal}, which would"
                          f" end it: start it with COFFER_CONF=share_signal:{signal}")
    try:
        os.kill(process.number, signal)
    except ProcessLookupError:
        raise CofferError(f"there is no process {process.number}") from None
    except PermissionError:
        raise CofferError(f"process {process.number} ({process.name}): permission denied") from None


class Watched:
    """A process that is looked at again and again, also across an exec: it has another page then."""

    def __init__(self, number: int, signal: int | None = None) -> None:
        self.number = number
        self.signal = signal
        self.asked: int | None = None  # when a question was not answered in time
        if signal is not None:
            ask(find_process(number), signal)
        self.page = wait_for_page(number, 2.0, (NotShown, PageError) if signal is not None else (NotYet,))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def is_current(self) -> bool:
        maps = maps_of(find_process(self.number))
        return maps is None or is_mapped(maps, self.page.status)

    def read(self, patience: float = 2.0, max_age: float = FRESH_SECONDS) -> Reading:
        """With figures that are not older than so many seconds, of a process that answers."""
        if not self.is_current():
            self.page.close()
            self.page = wait_for_page(self.number, patience)
        signal = self.signal or self.page.refresh_signal
        if signal:
            turn = self.page.turn()
            ask(find_process(self.number), signal)
            deadline = time.monotonic() + 0.1
            while self.page.turn() == turn and time.monotonic() < deadline:
                time.sleep(0.001)
        else:
            self.ask(min(patience, ANSWER_SECONDS), max_age)
        return with_rss(self.page.read(patience), self.number)

    def ask(self, patience: float, max_age: float) -> None:
        """For figures of now, by the page; waits for the answer, but not twice for a process that does not answer."""
        try:
            answered = self.page.taken_ns()
        except PageError:
            return  # damaged; or none yet: what reads it says so
        if time.monotonic_ns() - answered < max_age * 1e9:
            return
        silent = self.asked is not None and answered < self.asked
        self.asked = self.page.ask()
        wait_for_answer(self.page, self.asked, time.monotonic() + (0 if silent else patience), self.number)


def wait_for_answer(page: Page, asked: int | None, deadline: float, number: int) -> None:
    while asked is not None and page.taken_ns() < asked and time.monotonic() < deadline and is_running(number):
        time.sleep(0.005)


def read_all(pages: dict[int, Page]) -> list[tuple[int, Reading]]:
    """As Watched.read, of many at once, by their numbers. Each is read when it has answered: one that does not makes no
    others' figures old."""
    deadline = time.monotonic() + ANSWER_SECONDS
    waiting = [(number, page, page.ask()) for number, page in pages.items()]
    for number, page, _ in waiting:
        if page.refresh_signal:  # such a one has no thread that answers
            with contextlib.suppress(CofferError):
                ask(find_process(number), page.refresh_signal)
    found: dict[int, Reading] = {}
    while waiting:
        is_over = time.monotonic() >= deadline
        for number, page, asked in list(waiting):
            with contextlib.suppress(PageError):  # it ended just now, or shows nothing yet
                if not is_over and asked is not None and page.taken_ns() < asked and is_running(number):
                    continue
                found[number] = with_rss(page.read(), number)
            waiting.remove((number, page, asked))
            page.close()
        time.sleep(0.005)
    return [(number, found[number]) for number in pages if number in found]


def wait_for_page(number: int, patience: float,
                  awaited: tuple[type[CofferError], ...] = (NotShown, PageError)) -> Page:
    deadline = time.monotonic() + patience
    while True:
        try:
            return open_page(number)
        except awaited:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def shown_processes() -> dict[int, Page]:
    """The pages of all processes of this user (of everybody, for root) in this PID namespace, in order of their
    numbers; stale ones are removed."""
    namespace = "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid")))
    pages: dict[int, Page] = {}
    for directory in DIRECTORIES:
        for path in sorted(Path("/").glob(directory.lstrip("/").format(user="*") + f"/coffer-*-{namespace}-*")):
            last = path.name.rpartition("-")[2]
            if not last.isdigit() or int(last) in pages:
                continue
            if not is_running(int(last)):
                try:
                    remove_stale(path, path.lstat())
                except OSError:
                    pass
                continue
            try:
                pages[int(last)] = open_page(int(last))
            except CofferError:
                continue
    return dict(sorted(pages.items()))
