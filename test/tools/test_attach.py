# SPDX-License-Identifier: MIT
"""Processes that were told nothing are asked: a thread of theirs is held for a moment, and nothing else changes."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coffer import places
from coffer.profile import proto
from in_process import run
from ready import comes_to_rest, ready, state

PROGRAMS = Path(os.environ["COFFER_ATTACH_DIR"])
PROGRAM = PROGRAMS / "attach_program"
HEAP_PROGRAM = Path(os.environ["COFFER_HEAP_PROGRAM"])
PLAIN = {name: value for name, value in os.environ.items() if name not in ("COFFER_CONF", "LD_PRELOAD")}
COFFER = {**PLAIN, "LD_PRELOAD": str(places.library())}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@contextmanager
def running(*command: object, environment: dict[str, str] = COFFER, **more: object) -> Iterator[subprocess.Popen]:
    with ready(command, stdin=subprocess.PIPE, env=environment, **more) as started:
        yield started


def is_stopped(process: int) -> bool:
    """Whether any thread of it is, by anybody."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{process}/task").glob("*/stat")]
    return any(one in "tT" for one in states)


def attach(process: int, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run([places.program("attach"), str(process), *map(str, words)], capture_output=True, text=True)


def undisturbed(started: subprocess.Popen) -> None:
    """What the working program has counted."""
    time.sleep(0.2)
    assert not is_stopped(started.pid)
    said = started.communicate(timeout=60)[0]
    rounds, interrupted, broken = map(int, said.split())
    assert rounds > 1 and (interrupted, broken) == (0, 0)


def test_a_busy_process_is_not_disturbed(tmp_path: Path) -> None:
    files = set()
    with running(PROGRAM, "work", cwd=tmp_path) as started:
        held = []
        for turn in range(10):
            for words in (["start", 4096], ["dump", tmp_path / "profile.pb.gz"], ["stop"]):
                done = attach(started.pid, *words)
                assert done.returncode == 0, done.stderr
                held.append(int(done.stdout))
            assert proto.read(tmp_path / "profile.pb.gz").samples or turn < 2
            files.add(len(list(Path(f"/proc/{started.pid}/fd").iterdir())))
        undisturbed(started)
    assert len(files) == 1, "a file of the process's stayed open"
    assert statistics.median(held) < 1_000_000, held  # less than 1,000 where processors are to be had
    assert [path.name for path in tmp_path.iterdir()] == ["profile.pb.gz"]


def test_who_asks_may_be_killed(tmp_path: Path) -> None:
    """At any moment: the thread that was held finds its way back by itself."""
    chance = random.Random(5)
    with running(PROGRAM, "work", cwd=tmp_path) as started:
        begun = time.monotonic()
        assert attach(started.pid, "start", 4096).returncode == 0
        usual = max(time.monotonic() - begun, 0.004)
        for turn in range(50):
            words = ["dump", str(tmp_path / "profile.pb.gz")] if turn % 2 else ["start", "4096"]
            asking = subprocess.Popen([places.program("attach"), str(started.pid), *words], stdout=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 1.2 * usual))
            asking.kill()
            asking.wait()
            assert started.poll() is None
        done = attach(started.pid, "stop")
        assert done.returncode == 0, done.stderr
        undisturbed(started)


def test_heap_and_leaks(tmp_path: Path) -> None:
    with running(HEAP_PROGRAM, "serve", cwd=tmp_path) as started:
        first = run("leaks", "--pid", started.pid, "--rate", 1).stdout
        assert "seeded::remember" in first.splitlines()[0] and "Sampling began with this command" in first
        second = run("heap", "--pid", started.pid, "--count", 5, "--every", 0.15, "--rate", 1, "--view", "growing")
        assert "Growing all the time: seeded::remember" in second.stdout
        assert "Sampling went on with this command" in second.stdout
        assert attach(started.pid, "dump", tmp_path / "x").returncode == 0
        assert proto.read(tmp_path / "x").is_off, "it ends with the command"
    assert "no process" in run("leaks", "--pid", started.pid, status=1).stderr


def test_a_process_that_samples_goes_on(tmp_path: Path) -> None:
    conf = f"profile:true,profile_rate:1,profile_to:{tmp_path}/x"
    with running(HEAP_PROGRAM, "serve", cwd=tmp_path, environment={**COFFER, "COFFER_CONF": conf}) as started:
        assert "Sampling" not in run("leaks", "--pid", started.pid).stdout
        assert attach(started.pid, "dump", tmp_path / "y").returncode == 0
        assert not proto.read(tmp_path / "y").is_off


def test_explain_asks_who(tmp_path: Path) -> None:
    conf = "share:true,profile:true,profile_rate:16K"
    with running(HEAP_PROGRAM, "fragment", cwd=tmp_path, environment={**COFFER, "COFFER_CONF": conf}) as started:
        found = json.loads(run("explain", started.pid, "--who", "--json").stdout)
        assert found["survivors"][0]["function"] == "seeded::keep_index"


@pytest.mark.parametrize("library", ["coffer_hardened", None])
def test_however_coffer_came_in(tmp_path: Path, library: str | None) -> None:
    """None: into a static program without symbols."""
    program = PROGRAM if library else PROGRAMS / "attach_static"
    environment = {**PLAIN, "LD_PRELOAD": str(places.library(library))} if library else PLAIN
    with running(program, "work", environment=environment) as started:
        for words in (["start", 1024], ["dump", tmp_path / "x"], ["stop"]):
            done = attach(started.pid, *words)
            assert done.returncode == 0, done.stderr
        assert not proto.read(tmp_path / "x").is_off
        undisturbed(started)


def test_a_stopped_process_stays_stopped(tmp_path: Path) -> None:
    with running(PROGRAM, "wait") as started:
        started.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, started.pid, os.WSTOPPED | os.WNOWAIT)
        for words in (["start", 1], ["dump", tmp_path / "x"], ["stop"]):
            done = attach(started.pid, *words)
            assert done.returncode == 0, done.stderr
            deadline = time.monotonic() + 10
            while state(started.pid) != "T" and time.monotonic() < deadline:
                time.sleep(0.001)
            assert state(started.pid) == "T"
        started.send_signal(signal.SIGCONT)
        while state(started.pid) == "T":
            time.sleep(0.001)
        assert state(started.pid) in "SR"


def test_a_signal_that_comes_meanwhile(tmp_path: Path) -> None:
    """It is delivered, and ends the process as it does otherwise."""
    with running(PROGRAM, "wait") as started:
        asking = subprocess.Popen([places.program("attach"), str(started.pid), "dump", tmp_path / "x"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.003)
        started.send_signal(signal.SIGTERM)
        assert started.wait(10) == -signal.SIGTERM
        asking.wait(10)


def test_a_filter_of_system_calls() -> None:
    with running(PROGRAM, "filter") as started:
        assert "seccomp filter" in run("heap", "--pid", started.pid, status=1).stderr
        assert comes_to_rest(started.pid)
        done = run("heap", "--pid", started.pid, "--force", "--every", 0.05)
        assert "Sampling began" in done.stdout and comes_to_rest(started.pid)


def test_not_under_coffer() -> None:
    with running(PROGRAM, "wait", environment=PLAIN) as started:
        error = run("heap", "--pid", started.pid, status=1).stderr
        assert "does not run Coffer" in error and "coffer run -- PROGRAM" in error and error.count("\n") == 1
        assert comes_to_rest(started.pid)


def test_one_that_is_traced() -> None:
    with running(PROGRAM, "work") as started, running(
            PROGRAMS / "attach_tracer", started.pid, environment=PLAIN) as tracer:
        error = run("heap", "--pid", started.pid, status=1).stderr
        assert f"process {tracer.pid} traces it" in error
        tracer.kill()
        tracer.wait()
        undisturbed(started)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users() -> None:
    with running(PROGRAM, "wait") as started:
        done = subprocess.run([places.program("attach"), str(started.pid), "stop"], capture_output=True, text=True,
                              user=65534, group=65534, extra_groups=[])
        assert done.returncode in (1, 126) and "permission denied" in done.stderr
