# SPDX-License-Identifier: MIT
"""A control group for the processes of one program, with a limit of memory that can be moved."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from coffer_bench.errors import Unavailable
from coffer_bench.processes import read_proc

ROOT = Path("/sys/fs/cgroup")


def place() -> tuple[Path, str, str]:
    """The folder in which groups can be made, the file of the limit, and what takes it away. Version 1: at the top,
    beside our own group. Version 2: below our own one, or at the top."""
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory", "memory.limit_in_bytes", "-1"
    own = re.search(r"^0::(/.*)$", read_proc("/proc/self/cgroup"), re.MULTILINE)
    for folder in [*([ROOT / own[1].lstrip("/")] if own else []), ROOT]:
        if "memory" in read_proc(str(folder / "cgroup.subtree_control")).split():
            return folder, "memory.max", "max"
    raise Unavailable("no control group of memory that groups can be made in")


class Group:
    def __init__(self, name: str) -> None:
        folder, self.file, self.none = place()
        self.path = folder / f"coffer-soak-{os.getpid()}-{name}"
        try:
            self.path.mkdir(exist_ok=True)
            if not (self.path / self.file).exists():
                raise Unavailable(f"{self.path.name} has no {self.file}")
        except OSError as error:
            raise Unavailable(f"no control group can be made: {error.strerror}") from error

    def take(self, pid: int) -> None:
        """The process and what it starts from here on."""
        try:
            (self.path / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise Unavailable(f"no process can be put into a control group: {error.strerror}") from error

    def limit(self, kib: int | None) -> None:
        try:
            (self.path / self.file).write_text(self.none if kib is None else str(kib * 1024))
        except OSError as error:
            raise Unavailable(f"the limit cannot be set: {error.strerror}") from error

    @property
    def peak_kib(self) -> int:
        """The most so far, with what the kernel keeps of files."""
        for name in ("memory.max_usage_in_bytes", "memory.peak", "memory.current"):
            if text := read_proc(str(self.path / name)):
                return int(text) // 1024
        raise Unavailable(f"{self.path.name} does not say what it uses")

    @property
    def kills(self) -> int:
        """Processes that the kernel killed because of the limit."""
        text = read_proc(str(self.path / "memory.oom_control")) + read_proc(str(self.path / "memory.events"))
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """When its processes have gone."""
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.02)
