# SPDX-License-Identifier: MIT
"""What a program has to say of itself to be soaked."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError, Unavailable
from coffer_bench.processes import User, execute
from coffer_bench.programs.base import PATH, directory, find_program
from hdrh.histogram import HdrHistogram

SERVICES = Path(__file__).resolve().parents[1] / "services"
# Beyond what the load was asked for.
PATIENCE = 60.0
PLAIN = {"PATH": PATH, "LC_ALL": "C.UTF-8", "TZ": "UTC"}


class Soaked(ABC):
    name: str
    what: str  # it is and what load it gets, for the page
    limit_mib = 256  # Coffer's, with which it must work on
    survives_children = False  # it starts new processes for those that were killed
    harmless = ""  # pattern of lines of its log that tell of nothing
    # In turns the load has the last processor for itself, and the server the others: for servers that do not use more.
    apart = False
    warm_seconds = 1.0  # of load before a turn's, until what it holds has its size
    turn_seconds = 5.0  # of load, in which ten thousand requests are sure to end: enough for p99.9

    @abstractmethod
    def require(self) -> None:
        """Raises Unavailable if something is missing."""

    def prepare(self, inputs: Path) -> None:
        """Makes what every run reads, in a directory that is there."""

    def furnish(self, inputs: Path, home: Path) -> None:
        """Puts into a new home what it needs there."""

    def user(self) -> User | None:
        """Whom it runs as."""
        return None

    @abstractmethod
    def running(self, allocator: Allocator, home: Path) -> AbstractContextManager[int]:
        """The process of a server that answers. Leaving the block ends it, also if it was killed before."""

    @abstractmethod
    def load(self, home: Path, seconds: float) -> HdrHistogram:
        """Requests for about that time, with their latencies. Raises BenchError if any failed. Another load follows
        over the same data, so that nothing may grow from one to the next."""

    def rest(self, home: Path) -> None:
        """What it does between two loads where memory is watched, such as a save."""

    def check(self, home: Path) -> str:
        """What coffer_check() finds in the running process, empty: nothing. Unavailable: it has no way to ask."""
        raise Unavailable("cannot be asked for coffer_check() from outside")

    def set_limit(self, home: Path, mib: int) -> None:
        """Moves Coffer's limit in the running process; 0: none."""
        raise Unavailable("has no way to call coffer_set_limit()")

    @contextlib.contextmanager
    def home(self, inputs: Path) -> Iterator[Path]:
        """A directory for one run, furnished, and removed afterwards."""
        with directory() as home:
            if user := self.user():
                os.chown(home, user.uid, user.gid)
            self.furnish(inputs, home)
            yield home


def as_user(*names: str) -> User | None:
    """The first that there is, if we are root."""
    if os.geteuid() != 0:
        return None
    for name in names:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return User(entry.pw_uid, entry.pw_gid)
    raise Unavailable(f"no user {' or '.join(names)}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def port_of(home: Path) -> int:
    return int((home / "port").read_text())


def answers(port: int, path: str = "/") -> bool:
    """Whether a web server does."""
    with contextlib.suppress(OSError, BenchError):
        get(port, path)
        return True
    return False


def get(port: int, path: str) -> str:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
        if answer.status != 200:
            raise BenchError(f"GET {path}: {answer.status} {body[:200]}")
        return body
    except http.client.HTTPException as error:
        raise BenchError(f"GET {path}: {error!r}") from error
    finally:
        connection.close()


def wrk(port: int, script_words: list[str], seconds: float, connections: int = 8) -> str:
    """wrk prints whole seconds only."""
    command = [
        find_program("wrk", "wrk"), "--threads", "1", "--connections", str(connections),
        "--duration", f"{max(1, round(seconds))}s", "--timeout", "30s", "--script", str(SERVICES / "wrk.lua"),
        f"http://127.0.0.1:{port}", "--", *script_words,
    ]
    return execute(command, PLAIN, timeout=seconds + PATIENCE).stdout.decode()
