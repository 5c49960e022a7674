# SPDX-License-Identifier: MIT
"""What is done to a program while it is under load. One that cannot be done here raises Unavailable and says why.

They come in this order, evenly over the time; one that lasts is taken back after half of the time to the next. Those
that end the process come last, so that its first life is long."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from coffer_bench.errors import Unavailable
from coffer_bench.processes import read_proc, tree

from soak import huge_pages

if TYPE_CHECKING:
    from soak.memory import Conductor

# Above the most that the processes had so far: what a program needs in a bad moment is its own affair.
GROUP_FACTOR = 1.05
GROUP_MARGIN_KIB = 16 << 10
# Above what a process has when its limit is set.
DATA_MARGIN_KIB = 64 << 10
LIVE_MARGIN_MIB = 8
RECOVERY_SECONDS = 15.0  # a server's, after one of its processes was killed


class Disturbance(ABC):
    name: str
    of_machine = False  # of all programs at once
    breaks = False  # requests may fail meanwhile

    @abstractmethod
    def begin(self, of: Conductor) -> None: ...

    def end(self, of: Conductor) -> None:
        """Takes it back, if it lasts."""

    def after_crash(self, of: Conductor) -> None:
        """Takes back what would outlast the process."""

    @property
    def lasts(self) -> bool:
        return type(self).end is not Disturbance.end


class HugePages(Disturbance):
    """The machine's own setting."""

    of_machine = True

    def __init__(self, setting: str) -> None:
        self.name, self.setting = f"huge pages {setting}", setting

    def begin(self, of: Conductor) -> None:
        """Done once for all programs, by begin_machine()."""

    def begin_machine(self) -> None:
        huge_pages.set_system(self.setting)


class KillChild(Disturbance):
    name, breaks = "a child is killed", True

    def begin(self, of: Conductor) -> None:
        if not of.program.survives_children:
            raise Unavailable("it has no processes that it starts anew")
        children = [one for one in tree(of.pid) if one != of.pid]
        if not children:
            raise Unavailable("it has no child at this moment")
        os.kill(random.Random(len(children)).choice(children), signal.SIGKILL)
        of.excuse(RECOVERY_SECONDS)
        of.lives += 1  # new processes, as after a restart


class GroupLimit(Disturbance):
    name = "control group's limit"

    def begin(self, of: Conductor) -> None:
        if not of.group:
            raise Unavailable(of.no_group)
        of.group.limit(int(of.group.peak_kib * GROUP_FACTOR) + GROUP_MARGIN_KIB)

    def end(self, of: Conductor) -> None:
        if of.group:
            of.group.limit(None)

    def after_crash(self, of: Conductor) -> None:
        self.end(of)


def data_kib(pid: int) -> int:
    for line in read_proc(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1])
    return 0


class DataLimit(Disturbance):
    name = "RLIMIT_DATA"

    def set(self, of: Conductor, kib: int | None) -> None:
        for one in tree(of.pid):
            with contextlib.suppress(ProcessLookupError):
                try:
                    _, hard = resource.prlimit(one, resource.RLIMIT_DATA)
                    soft = hard if kib is None else (data_kib(one) + kib) << 10
                    if hard != resource.RLIM_INFINITY:
                        soft = min(soft, hard)
                    resource.prlimit(one, resource.RLIMIT_DATA, (soft, hard))
                except PermissionError as error:
                    raise Unavailable("limits of processes of its user cannot be set from here") from error

    def begin(self, of: Conductor) -> None:
        self.set(of, DATA_MARGIN_KIB)

    def end(self, of: Conductor) -> None:
        self.set(of, None)


class LiveLimit(Disturbance):
    """Close to what it has, so that requests fail for want of memory."""

    name, breaks = "Coffer's limit, in the running process", True

    def begin(self, of: Conductor) -> None:
        if not of.ours:
            raise Unavailable("only Coffer has it")
        of.program.set_limit(of.home, (of.last_kib >> 10) + LIVE_MARGIN_MIB)

    def end(self, of: Conductor) -> None:
        of.program.set_limit(of.home, 0)


class Restart(Disturbance):
    name, breaks = "restart", True

    def begin(self, of: Conductor) -> None:
        of.stop()
        of.start()


class Kill(Disturbance):
    name, breaks = "kill -9 and restart", True

    def begin(self, of: Conductor) -> None:
        of.kill()
        of.start()


class OptionLimit(Disturbance):
    name, breaks = "restart with Coffer's limit", True

    def begin(self, of: Conductor) -> None:
        if not of.ours:
            raise Unavailable("only Coffer has it")
        of.stop()
        of.start(options=f"limit:{of.program.limit_mib}M")


class WithoutHugePages(Disturbance):
    name, breaks = "restart with PR_SET_THP_DISABLE", True

    def begin(self, of: Conductor) -> None:
        of.stop()
        try:
            of.start(refuse=True)
        except Unavailable:
            of.start()
            raise


def all_of_them() -> list[Disturbance]:
    return [
        HugePages("always"), KillChild(), GroupLimit(), HugePages("never"), DataLimit(), LiveLimit(), Restart(), Kill(),
        OptionLimit(), WithoutHugePages(),
    ]
