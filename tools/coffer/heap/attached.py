# SPDX-License-Identifier: MIT
"""A process that was told no signal: a thread of it is held as debuggers hold it, and writes its profile (tools/attach)."""

from __future__ import annotations

import platform
import subprocess
import tempfile
from pathlib import Path

from coffer import places
from coffer.errors import CofferError
from coffer.live.processes import Process
from coffer.profile import proto

NO_COFFER, OLD_COFFER = 3, 4
MACHINES = ("x86_64",)
NEXT_TIME = ("start it next time by coffer run -- PROGRAM, and this can ask it; or by coffer heap -- PROGRAM, or coffer"
             " record -- PROGRAM")


def attach(process: Process, *words: str, force: bool = False) -> int:
    """How many microseconds a thread was held."""
    name = f"process {process.number} ({process.name})"
    if platform.machine() not in MACHINES:
        raise CofferError(f"{name} knows no signal that asks for a profile, and without one it can be asked on x86-64"
                          " only: start it with COFFER_CONF=profile:true,dump_signal:43")
    command = [str(places.program("attach")), *(["--force"] if force else []), str(process.number), *words]
    # It holds back signals while it holds a thread, also those that a terminal sends.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return int(done.stdout)
    if done.returncode == NO_COFFER:
        raise CofferError(f"{name} does not run Coffer: {NEXT_TIME}")
    if done.returncode == OLD_COFFER:
        raise CofferError(f"{name} runs an older Coffer, which answers by signal only: start it with this one, or with"
                          " COFFER_CONF=profile:true,dump_signal:43")
    raise CofferError(f"{name}: {done.stderr.strip() or f'attach ended with status {done.returncode}'}")


def dump(process: Process, force: bool) -> proto.Profile:
    with tempfile.TemporaryDirectory(prefix="coffer-attach-") as folder:
        path = Path(folder) / "profile.pb.gz"
        attach(process, "dump", str(path), force=force)
        return proto.read(path)
