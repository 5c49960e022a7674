# SPDX-License-Identifier: MIT
"""coffer leaks and coffer heap, of a process that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coffer import places
from in_process import run
from ready import ready

PROGRAM = Path(os.environ["COFFER_HEAP_PROGRAM"])
DUMP = int(signal.SIGRTMIN) + 8


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all tests together."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@contextmanager
def serving(folder: Path, conf: str, *words: str) -> Iterator[subprocess.Popen]:
    """The program under Coffer, in the folder, that allocates for as long as the block runs."""
    environment = {**os.environ, "COFFER_CONF": conf, "LD_PRELOAD": str(places.library())}
    with ready([PROGRAM, "serve", *words], cwd=folder, env=environment) as started:
        yield started


def test_a_process_is_asked_by_its_signal(tmp_path: Path) -> None:
    conf = f"profile:true,profile_rate:1,dump_signal:{DUMP},profile_signal:{DUMP + 1},profile_to:{tmp_path}/x"
    with serving(tmp_path, conf) as started:
        found = run("leaks", "--pid", started.pid).stdout.splitlines()[0]
        assert "live now" in found and "seeded::remember" in found
        assert "Sampling is off" not in run("leaks", "--pid", started.pid).stdout
        grown = run("heap", "--pid", started.pid, "--count", 5, "--every", 0.15, "--view", "growing").stdout
        assert "Growing all the time: seeded::remember" in grown
        assert [path.name for path in tmp_path.glob("*.gz")] == [], "what was asked for is removed"
        assert "no handler for signal" in run("leaks", "--pid", started.pid, "--signal", DUMP + 2, status=1).stderr
        os.kill(started.pid, DUMP + 1)
        # The process may take the dump's signal first.
        stopped = next(one for one in (run("leaks", "--pid", started.pid).stdout for _ in range(20))
                       if "Sampling is off" in one)
        assert "seeded::remember" in stopped
    assert "no process" in run("leaks", "--pid", started.pid, status=1).stderr


def test_sampling_is_turned_on_for_the_question(tmp_path: Path) -> None:
    conf = f"profile_signal:{DUMP + 1},profile_rate:1,dump_signal:{DUMP}"
    with serving(tmp_path, conf) as started:
        done = run("heap", "--pid", started.pid, "--every", 0.3).stdout
        assert "seeded::remember" in done.splitlines()[0] and "Sampling began with this command" in done
        # It ended with the command, and goes on with the next one.
        def asked_again() -> int:
            return json.loads(run("heap", "--pid", started.pid, "--every", 0.3, "--json").stdout)["blocks"]

        before = asked_again()
        assert any(asked_again() > before for _ in range(20))
        assert "Sampling went on with this command" in run("heap", "--pid", started.pid, "--every", 0.3).stdout


def test_a_process_that_has_written_over_its_environment(tmp_path: Path) -> None:
    conf = f"profile:true,profile_rate:1,dump_signal:{DUMP}"
    with serving(tmp_path, conf, "title") as started:
        for words in ([], ["--signal", DUMP]):  # without it a thread is held
            assert "seeded::remember" in run("leaks", "--pid", started.pid, *words).stdout


def test_a_process_that_cannot_be_asked() -> None:
    started = subprocess.Popen([PROGRAM, "serve"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.05)
        error = run("heap", "--pid", started.pid, status=1).stderr
        assert "does not run Coffer" in error and "coffer run -- PROGRAM" in error
    finally:
        started.kill()
        started.wait()


def test_such_a_process_has_sampling_turned_on_by_a_signal_that_is_named(tmp_path: Path) -> None:
    conf = f"profile_signal:{DUMP + 1},profile_rate:1,dump_signal:{DUMP}"
    with serving(tmp_path, conf, "title") as started:
        named = ("--pid", started.pid, "--signal", DUMP, "--profile-signal", DUMP + 1)
        assert "seeded::remember" in run("heap", *named, "--every", 0.3).stdout
        assert "seeded::remember" in run("leaks", *named).stdout
