"""The shared page of a process that runs Coffer: finding it, reading it. docs/reference/shared-page.md describes it.

Whoever wrote the file may be anybody: nothing in it is believed before it was checked. It is read, never mapped, so
that a file that shrinks is an error here and no signal.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError

MAGIC = b"COFFERPG"
VERSION = 1
MOST_BYTES = 1 << 20
# magic; version, page_bytes, copies_offset, copy_bytes, figures, now_figures, class_entries, class_fields,
# heap_entries, heap_fields; process, made_ns, made_unix_ns, refresh_signal; program; turn
HEADER = struct.Struct("<8s10I4Q16sQ")
WORD = 8

NOW = ["now_ns", "held", "free_resident", "committed", "metadata", "large", "large_blocks", "mixed_held", "peak_held",
       "system_calls", "purges", "purged_bytes"]
FIGURES = ["taken_ns", "walk_ns", "live", "held", "resident", "free_resident", "committed", "reserved", "metadata",
           "large", "large_blocks", "heaps", "heaps_ever", "spans", "chunks", "system_calls", "limit", "bound",
           "peak_held", "mixed_spans", "mixed_held", "mixed_live", "mixed_resident", "mixed_bound", "purges",
           "purged_bytes", "allocated_blocks", "allocated_bytes", "large_allocated_blocks", "large_allocated_bytes"]
CLASS_FIELDS = ["block_bytes", "spans", "held", "live", "bound", "allocated_blocks"]
HEAP_FIELDS = ["index", "attached", "held", "slack", "mailed", "allocated_blocks"]
SPAN_FIELDS = ["address", "block_bytes", "state", "owner", "held", "live", "resident"]
STATES = ["free", "hot", "floating", "reusable", "claimed", "shared", "listed", "returning", "mixed"]
NO_OWNER = (1 << 64) - 1

DIRECTORIES = ["/dev/shm", "/run/user/{user}", "/tmp"]


class PageError(CofferError):
    """The file is no page, or not one that can be read."""


class NotShown(CofferError):
    """There is no page of that process (yet)."""


@dataclass(frozen=True)
class Reading:
    """One look at a page. Figures are bytes or numbers as coffer_stats has them; times are nanoseconds."""

    process: int
    program: str
    refresh_signal: int
    now: dict[str, int]
    figures: dict[str, int]
    classes: list[dict[str, int]]
    heaps: list[dict[str, int]]
    spans: list[dict[str, int]]  # those with most free bytes, in no order
    age: float  # seconds since the walk over the spans, from which live and all but `now` come

    @property
    def held(self) -> int:
        return self.now["held"]


def words(data: bytes, offset: int, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}Q", data, offset)


@dataclass(frozen=True)
class Layout:
    copies_offset: int
    copy_bytes: int
    figures: int
    now_figures: int
    class_entries: int
    class_fields: int
    heap_entries: int
    heap_fields: int

    @property
    def classes_at(self) -> int:
        return WORD * (1 + self.figures + 2)

    @property
    def heaps_at(self) -> int:
        return self.classes_at + WORD * self.class_entries * self.class_fields

    @property
    def end_at(self) -> int:
        return self.heaps_at + WORD * self.heap_entries * self.heap_fields

    def spans_in(self, data: bytes, copy: int) -> list[dict[str, int]]:
        """What lies behind `end`; a process of an earlier Coffer has nothing there."""
        at = copy + self.end_at + WORD
        room = (copy + self.copy_bytes - at) // WORD - 3
        if room < 0:
            return []
        most, fields, used = words(data, at, 3)
        if fields < len(SPAN_FIELDS) or most * fields > room:
            raise PageError("the page is damaged: its spans do not fit")
        return entries(data, at + 3 * WORD, used, most, fields, SPAN_FIELDS)

    def check(self, length: int) -> None:
        # The counts first: what is checked with them must not be astronomical.
        if max(self.figures, self.now_figures, self.class_entries, self.class_fields, self.heap_entries,
               self.heap_fields) > 4096:
            raise PageError("the page is damaged: it has more entries than any page has")
        too_few = (self.figures < len(FIGURES) or self.now_figures < len(NOW)
                   or self.class_fields < len(CLASS_FIELDS) or self.heap_fields < len(HEAP_FIELDS))
        if too_few or self.copy_bytes < self.end_at + WORD or self.copies_offset % WORD or self.copy_bytes % WORD:
            raise PageError("the page is damaged: its parts do not fit together")
        if self.copies_offset + 2 * self.copy_bytes > length:
            raise PageError(f"the page is damaged: {length} bytes are too few for what it says")


def entries(data: bytes, offset: int, used: int, most: int, fields: int, names: list[str]) -> list[dict[str, int]]:
    result = []
    for i in range(min(used, most)):
        values = words(data, offset + i * fields * WORD, len(names))
        result.append(dict(zip(names, values)))
    return result


class Page:
    """An open page. Closed by close(), or by the end of a with."""

    def __init__(self, path: Path, owners: set[int] | None = None) -> None:
        self.path = path
        try:
            self.file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise PageError(f"{path}: {error.strerror}") from error
        try:
            self.status = os.fstat(self.file)
            if not stat.S_ISREG(self.status.st_mode):
                raise PageError(f"{path}: not a file")
            if owners is not None and self.status.st_uid not in owners:
                raise PageError(f"{path}: belongs to user {self.status.st_uid}, and not to the process's")
            self.read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bytes_of(self) -> bytes:
        try:
            return os.pread(self.file, MOST_BYTES, 0)
        except OSError as error:
            raise PageError(f"{self.path}: {error.strerror}") from error

    def read_header(self) -> bytes:
        data = self.bytes_of()
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise PageError(f"{self.path}: not a page of Coffer's")
        magic, version, _, *layout = HEADER.unpack_from(data)[:11]
        if version != VERSION:
            raise PageError(f"{self.path}: version {version} of the page; this command reads version {VERSION}")
        self.layout = Layout(*layout)
        self.layout.check(len(data))
        self.process, _, _, self.refresh_signal, program = HEADER.unpack_from(data)[11:16]
        self.program = program.split(b"\0")[0].decode("utf-8", "replace")
        return data

    def turn(self) -> int:
        """Sets of figures written so far."""
        return HEADER.unpack_from(self.read_header())[16]

    def try_read(self) -> Reading | None:
        """None: nothing was written yet, or the writer was faster than this."""
        data = self.read_header()
        turn = HEADER.unpack_from(data)[16]
        if turn == 0:
            return None
        at = self.layout.copies_offset + turn % 2 * self.layout.copy_bytes
        (begin,) = words(data, at, 1)
        (end,) = words(data, at + self.layout.end_at, 1)
        (again,) = words(os.pread(self.file, WORD, at).ljust(WORD, b"\0"), 0, 1)
        if not begin == end == again == turn:
            return None
        figures = dict(zip(FIGURES, words(data, at + WORD, len(FIGURES))))
        classes_used, heaps_used = words(data, at + WORD * (1 + self.layout.figures), 2)
        layout = self.layout
        classes = entries(data, at + layout.classes_at, classes_used, layout.class_entries, layout.class_fields,
                          CLASS_FIELDS)
        heaps = entries(data, at + layout.heaps_at, heaps_used, layout.heap_entries, layout.heap_fields, HEAP_FIELDS)
        spans = layout.spans_in(data, at)
        now = dict(zip(NOW, words(data, HEADER.size, len(NOW))))
        age = max(0.0, (time.monotonic_ns() - figures["taken_ns"]) / 1e9)
        return Reading(self.process, self.program, self.refresh_signal, now, figures, classes, heaps, spans, age)

    def read(self, patience: float = 2.0) -> Reading:
        deadline = time.monotonic() + patience
        while True:
            reading = self.try_read()
            if reading is not None:
                return reading
            if time.monotonic() > deadline:
                raise PageError(f"{self.path}: no whole set of figures in {patience:g} s")
            time.sleep(0.005)


# --- Processes. ---


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
        for user in process.users:
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
    if "libcoffer" in maps or "[anon:coffer" in maps:
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
        if signal is not None:
            ask(find_process(number), signal)
        self.page = wait_for_page(number, 2.0) if signal is not None else open_page(number)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def is_current(self) -> bool:
        maps = maps_of(find_process(self.number))
        return maps is None or is_mapped(maps, self.page.status)

    def read(self, patience: float = 2.0) -> Reading:
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
        return self.page.read(patience)


def wait_for_page(number: int, patience: float) -> Page:
    deadline = time.monotonic() + patience
    while True:
        try:
            return open_page(number)
        except (NotShown, PageError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def shown_processes() -> list[Page]:
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
    return [pages[number] for number in sorted(pages)]
