# SPDX-License-Identifier: MIT
"""What the real programs share."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import TOP, Allocator
from coffer_bench.errors import Unavailable
from coffer_bench.processes import Watch, execute

# The inputs of test/apps, which runs the same programs for their answers.
sys.path.insert(0, str(TOP / "test" / "apps"))
INPUTS = TOP / "test" / "apps" / "inputs"
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

Figures = dict[str, float | str]


def find_program(names: str, package: str) -> str:
    """The path of a program of Debian's; `names` are alternatives, a|b."""
    for name in names.split("|"):
        if path := shutil.which(name, path=PATH):
            return path
    raise Unavailable(f"{names} is missing; Debian and Ubuntu have it in the package {package}")


def digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()[:16]


@contextmanager
def directory() -> Iterator[Path]:
    """A place for one run that is gone afterwards. Its name is short: a unix socket's may have 100 characters."""
    path = Path(tempfile.mkdtemp(prefix="coffer-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Program(ABC):
    """A workload. Figures of a run: wall_ns, cpu_ns, peak_kib, operations, digest (of the output), and where it says
    something end_kib and faults."""

    name: str
    what: str  # is done, for the report
    timeout = 120.0

    @abstractmethod
    def require(self) -> None:
        """Raises Unavailable if something is missing."""

    def prepare(self, inputs: Path, quick: bool) -> None:
        """Makes what every run reads, in a directory that exists and is empty."""

    @abstractmethod
    def run(self, allocator: Allocator, inputs: Path, quick: bool) -> Figures:
        """One run. Another answer than that under another allocator shows in `digest`."""


# Of a run that nobody could look at.
MOST_TRIES = 3


class Batch(Program):
    """A program that runs to its end."""

    binary: str
    package: str
    environment: dict[str, str] = {}

    def require(self) -> None:
        find_program(self.binary, self.package)

    @abstractmethod
    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        """May copy inputs into `work`, where it is run; that is not timed."""

    def stdin(self, inputs: Path, quick: bool) -> bytes:
        return b""

    def answer(self, stdout: bytes, work: Path) -> str:
        """A digest of what came out. Raises BenchError if that cannot be right."""
        return digest(stdout)

    def run(self, allocator: Allocator, inputs: Path, quick: bool) -> Figures:
        for _ in range(MOST_TRIES):
            figures, watch = self.run_once(allocator, inputs, quick)
            if not watch.saw_nothing:
                break
        watch.verify(allocator.name)
        return figures

    def run_once(self, allocator: Allocator, inputs: Path, quick: bool) -> tuple[Figures, Watch]:
        with directory() as work:
            command = self.command(find_program(self.binary, self.package), inputs, work, quick)
            watch = Watch(allocator.mapped)
            environment = {**allocator.program_environment(work), **self.environment}
            outcome = execute(
                command,
                environment,
                timeout=self.timeout,
                cwd=work,
                stdin=self.stdin(inputs, quick),
                name=allocator.name,
                watch=watch,
            )
            figures: Figures = {
                "wall_ns": outcome.wall_ns,
                "cpu_ns": outcome.cpu_ns,
                "faults": outcome.faults,
                "peak_kib": float(watch.peak_kib),
                "operations": 1.0,
                "digest": self.answer(outcome.stdout, work),
            }
            return figures, watch


def file_digest(directory_of: Path, pattern: str) -> str:
    return digest(*(path.read_bytes() for path in sorted(directory_of.glob(pattern))))


def copy_tree(source: Path, target: Path, owner: tuple[int, int] | None = None) -> None:
    shutil.copytree(source, target, symlinks=True)
    if owner:
        for path in [target, *target.rglob("*")]:
            os.chown(path, *owner)
