# SPDX-License-Identifier: MIT
"""The harness itself: a gate that cannot fail would prove nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import harness


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def test_preload_that_does_not_serve_malloc_is_seen(home: Path) -> None:
    with pytest.raises(AssertionError, match="not bound to other"):
        harness.run(harness.Allocator("other", "libm.so.6"), ["/usr/bin/env"], home=home)


def test_preload_that_cannot_be_loaded_is_seen(home: Path) -> None:
    with pytest.raises(AssertionError, match="cannot be preloaded"):
        harness.run(harness.Allocator("missing", str(home / "missing.so")), ["/usr/bin/env"], home=home, bindings=False)


def test_child_without_the_preload_is_seen(coffer: harness.Allocator, home: Path) -> None:
    if coffer.preload == harness.GLIBC.preload:
        pytest.skip("without a preload, glibc serves malloc all the same")
    harness.run(coffer, shell("/usr/bin/env"), home=home)
    with pytest.raises(AssertionError, match="not bound to coffer"):
        harness.run(coffer, shell("LD_PRELOAD= /usr/bin/env"), home=home)


def test_report_and_signal_are_seen(home: Path) -> None:
    with pytest.raises(AssertionError, match="coffer: 0x1 is not ours"):
        harness.run(harness.GLIBC, shell("echo coffer: 0x1 is not ours >&2"), home=home)
    with pytest.raises(AssertionError, match="killed by SIGABRT"):
        harness.run(harness.GLIBC, shell("kill -ABRT $$"), home=home, status=None)
    with pytest.raises(AssertionError, match="exit status 3, expected 0"):
        harness.run(harness.GLIBC, shell("exit 3"), home=home)


def test_hang_ends_with_its_children(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HANG_SECONDS", 1)
    pid_file = home / "pid"
    with pytest.raises(AssertionError, match="hangs(?s:.*)it waits"):
        harness.run(harness.GLIBC, shell(f"echo it waits; sleep 1000 & echo $! > {pid_file}; wait"), home=home)
    wait_gone(int(pid_file.read_text()))


def test_server_is_checked_and_ends(home: Path) -> None:
    command = [sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]
    with pytest.raises(AssertionError, match="killed by SIGTERM"):
        with harness.Server(harness.GLIBC, command, home=home) as server:
            harness.wait_until("start", lambda: b"ready" in server.log.read_bytes(), server)
            server.check()
            with pytest.raises(AssertionError, match="not mapped"):
                harness.check_maps(harness.Allocator("other", "libother.so"), server.process.pid)
    assert server.process.returncode is not None


def wait_gone(pid: int) -> None:
    """Until the process has ended; whoever inherited it may not have collected it yet."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
