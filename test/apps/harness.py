# SPDX-License-Identifier: MIT
"""Runs a real program under an allocator and reports what it did.

Every test here does the same thing twice, once with the library under test preloaded and once with glibc's malloc,
and compares. glibc is preloaded too, so that a program linked with another allocator (Debian's redis-server comes
with jemalloc) really runs over glibc.

Whether the preload took hold is not assumed. The dynamic linker writes down each symbol it binds (LD_DEBUG=bindings,
one file a process), and `check_bindings` demands that the C allocation functions of every process went to the
expected library. Servers are also asked through /proc/PID/maps.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Sequence

# Ends a program that hangs. It is far above what any program here needs: nothing is judged by the clock.
HANG_SECONDS = 300

# Nothing that a test starts outlives it, even when the test itself is killed.
DIES_WITH_US = ["/usr/bin/setpriv", "--pdeathsig", "KILL"]

ALLOCATION_SYMBOLS = frozenset(
    ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign", "malloc_usable_size"]
)
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")
REPORT = re.compile(rb"^.*coffer:.*$", re.MULTILINE)


@dataclass(frozen=True)
class Allocator:
    """A library that LD_PRELOAD puts in front, and the file name by which the linker and the kernel know it."""

    name: str
    preload: str

    def matches(self, path: str) -> bool:
        return os.path.basename(path) == os.path.basename(self.preload)


GLIBC = Allocator("glibc", "libc.so.6")


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: bytes
    stderr: bytes

    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")


def require(program: str, package: str) -> str:
    """The path of a program of Debian's. A missing program fails the test: a gate that skips is no gate."""
    path = shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert path, f"{program} is missing: apt-get install {package}"
    return path


def environment(allocator: Allocator, home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A small environment of our own, since the caller's may change what a program prints."""
    result = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "LD_PRELOAD": allocator.preload,
    }
    if "COFFER_CONF" in os.environ:
        result["COFFER_CONF"] = os.environ["COFFER_CONF"]
    result.update(extra or {})
    return result


def tracing(directory: Path) -> dict[str, str]:
    """Has the dynamic linker write down what it binds, one file a process, whoever the process runs as."""
    directory.chmod(0o777)
    return {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(directory / "process")}


def run(
    allocator: Allocator,
    command: Sequence[str | Path],
    *,
    home: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    status: int | None = 0,
    bindings: bool = True,
    user: int | None = None,
    group: int | None = None,
) -> Outcome:
    """Runs a program to its end, in its own session so that a hang takes no child along unseen. Checks the exit
    status (`status` None: any but death by a signal), that no allocator report was printed, and (with `bindings`) that
    every process used the allocator."""
    arguments = [str(word) for word in command]
    trace = Path(tempfile.mkdtemp(prefix="bindings.", dir=home))
    process = subprocess.Popen(
        [*DIES_WITH_US, *arguments],
        cwd=cwd or home,
        env=environment(allocator, home, env) | (tracing(trace) if bindings else {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        user=user,
        group=group,
        extra_groups=None if user is None else [],
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        stacks = describe_hang(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise AssertionError(
            f"{arguments[0]} under {allocator.name} hangs\n{stacks}\n{tail(stdout)}\n{tail(stderr)}"
        ) from None
    outcome = Outcome(process.returncode, stdout, stderr)
    check_quiet(allocator, stdout, stderr)
    ended = f"{describe_status(outcome.status)}, expected {status or 0}"
    assert outcome.status == status or (status is None and outcome.status >= 0), (
        f"{' '.join(arguments)[:500]}\nunder {allocator.name}: {ended}\n{tail(stdout)}\n{tail(stderr)}"
    )
    if bindings:
        check_bindings(allocator, trace)
    shutil.rmtree(trace)
    return outcome


def check_quiet(allocator: Allocator, *outputs: bytes) -> None:
    """No report of the library (they all begin with "coffer:") and no complaint of the linker about the preload."""
    for output in outputs:
        found = REPORT.search(output)
        assert not found, f"under {allocator.name}: {found.group().decode('utf-8', 'replace')}"
        assert b"cannot be preloaded" not in output, tail(output)


def check_bindings(allocator: Allocator, trace: Path) -> None:
    """Each file holds what one process bound. Some allocation function must go to the allocator, none elsewhere."""
    files = sorted(trace.iterdir())
    assert files, "the dynamic linker wrote nothing: is the program static or setuid?"
    for file in files:
        lines = BINDING.findall(file.read_text(errors="replace"))
        bound = {(source, symbol): target for source, target, symbol in lines}
        asked = {key: target for key, target in bound.items() if key[1] in ALLOCATION_SYMBOLS}
        # An executable that is not position independent (cc1plus) stands in for the functions whose address it takes:
        # what others bind to it goes on to where it binds itself.
        wrong = {
            f"{symbol} of {source}": target
            for (source, symbol), target in asked.items()
            if not allocator.matches(target) and not allocator.matches(bound.get((target, symbol), ""))
        }
        assert asked, f"{file.name} bound no allocation function"
        assert not wrong, f"not bound to {allocator.name}: {wrong}"


def check_maps(allocator: Allocator, pid: int) -> None:
    """The library is mapped in the process, executable."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    mapped = [line for line in lines if allocator.matches(line.split()[-1]) and "x" in line.split()[1]]
    assert mapped, f"{allocator.name} is not mapped in process {pid}"


def describe_status(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def tail(output: bytes, limit: int = 4000) -> str:
    return output[-limit:].decode("utf-8", "replace")


def describe_hang(pid: int) -> str:
    """Stacks of all threads where gdb is installed, else what the kernel says each of them waits for."""
    if gdb := shutil.which("gdb"):
        command = [gdb, "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 20"]
        return tail(subprocess.run(command, capture_output=True, timeout=60, check=False).stdout, 20000)
    lines = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines.append(f"thread {task.name}: waits in {(task / 'wchan').read_text()}")
        except OSError:
            continue
    return "\n".join(lines)


class Server:
    """A server under an allocator, in its own session. Leaving the `with` block ends it and all it started, gently if
    it lets itself be ended, and checks what it printed."""

    def __init__(
        self,
        allocator: Allocator,
        command: Sequence[str | Path],
        *,
        home: Path,
        user: int | None = None,
        group: int | None = None,
        stop: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.allocator, self.stop = allocator, stop
        self.log = home / f"server.{allocator.name}.log"
        self.trace = Path(tempfile.mkdtemp(prefix="bindings.", dir=home))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_US, *map(str, command)],
                cwd=home,
                env=environment(allocator, home) | tracing(self.trace),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if self.process.poll() is None:
                self.process.send_signal(self.stop)
            status = self.process.wait(HANG_SECONDS if kind is None else 10)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)  # the group's number is ours as long as one of it lives
            except ProcessLookupError:
                pass
            self.process.wait()
        printed = self.log.read_bytes()
        if kind is None:
            check_quiet(self.allocator, printed)
            assert status == 0, f"server under {self.allocator.name}: {describe_status(status)}\n{tail(printed)}"
            check_bindings(self.allocator, self.trace)
        else:
            print(tail(printed))

    def check(self) -> None:
        """It runs, and the allocator is in it."""
        assert self.process.poll() is None, f"server under {self.allocator.name} ended\n{tail(self.log.read_bytes())}"
        check_maps(self.allocator, self.process.pid)


def wait_until(what: str, done: Callable[[], bool], server: Server) -> None:
    """Asks until the answer is yes. The limit is that of a hang."""
    deadline = time.monotonic() + HANG_SECONDS
    while not done():
        assert server.process.poll() is None, f"{what}: the server ended\n{tail(server.log.read_bytes())}"
        assert time.monotonic() < deadline, f"{what}: hangs\n{describe_hang(server.process.pid)}"
        time.sleep(0.05)
