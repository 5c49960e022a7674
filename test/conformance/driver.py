# SPDX-License-Identifier: MIT
"""Runs one test program over one allocator, with limits, privileges and a time limit of its own.

The library under test is the environment variable COFFER_LIB, else what the caller names; "none" stands for the C
library's own malloc. A program that does not end in time is a failure, and what its threads were doing is shown.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SKIPPED = 77
PR_CAPBSET_DROP = 24
CAP_IPC_LOCK = 14
CAP_SYS_RESOURCE = 24
MLOCK_ONFAULT = 1


class Skip(Exception):
    """The case cannot run on this machine; the reason is its text."""


@dataclass
class Limits:
    """What is set between fork and exec, in bytes."""

    address_space: int | None = None
    locked_memory: int | None = None  # also takes CAP_IPC_LOCK away, which would lift the limit


@dataclass
class Result:
    status: int | None  # None: it did not end in time; negative: ended by that signal
    out: str
    err: str
    threads: str = ""
    coffer_lines: list[str] = field(default_factory=list)


def library_under_test(default: str | None) -> str | None:
    """The path to preload, or None for the C library's malloc."""
    name = os.environ.get("COFFER_LIB") or default
    if not name or name in ("none", "glibc"):
        return None
    path = Path(name).resolve()
    if not path.is_file():
        raise SystemExit(f"no library {path}")
    return str(path)


def can_limit_locked_memory(wanted: int) -> bool:
    """Whether this process may set that limit for a child: lowering is free, raising needs CAP_SYS_RESOURCE."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return True
    status = Path("/proc/self/status").read_text()
    effective = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
    return bool(effective >> CAP_SYS_RESOURCE & 1)


def locks_beyond_its_limit(wanted: int) -> bool:
    """Whether the kernel lets this process lock that much, whatever its limit says: it is asked, by locking."""
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        # Pages would be locked when they are touched, and none is: the question costs no memory.
        return libc.mlock2(ctypes.c_void_p(start), ctypes.c_size_t(wanted), MLOCK_ONFAULT) == 0


def child_setup(limits: Limits) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def setup() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limits.locked_memory is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limits.locked_memory, limits.locked_memory))
            # Out of the bounding set: root loses it at exec. Others do not have it.
            prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)
        if limits.address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))

    return setup


def describe_threads(group: int) -> str:
    """Stacks of every process in the group, by gdb where it is installed."""
    if shutil.which("gdb") is None:
        return "(install gdb to see where it hangs)"
    lines: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) != group:
                continue
        except OSError:
            continue
        command = ["gdb", "-p", entry.name, "-batch", "-ex", "thread apply all bt 12"]
        try:
            shown = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except subprocess.TimeoutExpired:
            continue
        wanted = [line for line in shown.stdout.splitlines() if line.startswith(("#", "Thread"))]
        lines += [f"process {entry.name}:", *wanted]
    return "\n".join(lines)


def run(
    command: Sequence[str],
    *,
    preload: str | None,
    timeout: float,
    environment: dict[str, str] | None = None,
    limits: Limits | None = None,
    close_stderr: bool = False,
    emulator: Sequence[str] = (),
) -> Result:
    variables = dict(os.environ)
    variables.pop("COFFER_CONF", None)
    variables.update(environment or {})
    command = [*emulator, *command]
    if preload is not None and emulator:
        # The library is for the program, and not for the emulator.
        command[len(emulator):len(emulator)] = ["-E", f"LD_PRELOAD={preload}"]
    elif preload is not None:
        variables["LD_PRELOAD"] = preload
    prepare = child_setup(limits or Limits())

    def setup() -> None:
        prepare()
        if close_stderr:
            os.close(2)

    # A session of its own, so that a timeout can end the program's children too and nothing else.
    process = subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=setup,
    )
    status: int | None = None
    threads = ""
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        threads = describe_threads(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    result = Result(status, out.decode(errors="replace"), err.decode(errors="replace"), threads)
    result.coffer_lines = [line for line in result.err.splitlines() if line.startswith("coffer:")]
    return result


def describe_status(status: int | None) -> str:
    if status is None:
        return "did not end in time"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"
