# SPDX-License-Identifier: MIT
"""What a signal to the command alone does: to the program that it started, and to what it has made for itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from coffer import places, signals
from coffer.errors import CannotStart

COMMAND = places.build_dir() / "bin" / "coffer"
SAMPLE = places.build_dir() / "libexec" / "coffer" / "trace_sample"
ENDING = pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
SAYS_WHICH = """import signal, sys, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, lambda number, _: sys.exit(number + 100))
print("ready", flush=True)
while True:
    time.sleep(0.01)"""


def start(folder: Path, *arguments: object, **more: object) -> subprocess.Popen[str]:
    """What it makes for itself comes into the folder."""
    return subprocess.Popen([str(COMMAND), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True, env={**os.environ, "TMPDIR": str(folder)}, **more)


def until(is_so: object) -> None:
    while not is_so():
        time.sleep(0.01)


# --- The program's. ---


@ENDING
@pytest.mark.parametrize("command", ["stat", "profile -o {}/out.pb.gz", "record -q -o {}/out.trace"])
def test_the_program_gets_it(tmp_path: Path, command: str, how: signal.Signals) -> None:
    begun = start(tmp_path, *command.format(tmp_path).split(), "--", sys.executable, "-c", SAYS_WHICH)
    assert begun.stdout.readline() == "ready\n"
    begun.send_signal(how)
    _, errors = begun.communicate(timeout=60)
    assert begun.returncode == 100 + how, errors
    assert list(tmp_path.glob("coffer-*")) == []


@pytest.mark.parametrize("how", ["SIGALRM", "SIGPROF", "SIGXCPU", "SIGIO", "SIGUSR1", "SIGRTMIN", "SIGRTMAX"])
def test_a_recorded_program_gets_all_that_end(tmp_path: Path, how: str) -> None:
    begun = start(tmp_path, "record", "-q", "-o", tmp_path / "out.trace", "--", sys.executable, "-c", SAYS_WHICH)
    assert begun.stdout.readline() == "ready\n"
    begun.send_signal(signal.Signals[how])
    _, errors = begun.communicate(timeout=60)
    assert begun.returncode == 100 + signal.Signals[how], errors
    assert list(tmp_path.glob("coffer-*")) == []


def test_an_alarm_from_before_is_the_programs(tmp_path: Path) -> None:
    """As of: perl -e 'alarm 2; exec @ARGV' coffer record ..."""
    for seconds in (2, 8, 32):
        begun = start(tmp_path, "record", "-q", "-o", tmp_path / "out.trace", "--", sys.executable, "-c", SAYS_WHICH,
                      preexec_fn=lambda: signal.alarm(seconds))
        if begun.communicate(timeout=60)[0]:
            break  # it came after the program had begun
    assert begun.returncode == 100 + signal.SIGALRM
    assert list(tmp_path.glob("coffer-*")) == []


def test_one_that_comes_before_the_program_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = subprocess.Popen

    def late(*arguments: object, **more: object) -> subprocess.Popen:
        os.kill(os.getpid(), signal.SIGTERM)
        return begin(*arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", late)
    with signals.started(["sleep", "60"], dict(os.environ)) as process:
        assert signals.status_of(process) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_program_that_is_another_users_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be sent a signal: the command ends alone."""
    def refused(*_: object) -> None:
        raise PermissionError

    with pytest.raises(signals.Ended) as ended, signals.started(["cat"], dict(os.environ)) as process:
        monkeypatch.setattr(process, "send_signal", refused)
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            signals.status_of(process)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert ended.value.number == signal.SIGHUP


def test_no_program() -> None:
    with pytest.raises(CannotStart), signals.started(["/nowhere"], {}):
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- The command's. ---


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signals") / "long.trace"
    subprocess.run([str(SAMPLE), "single", str(path), "300000"], check=True)
    return path


@ENDING
@pytest.mark.parametrize("command", ["replay {} --rounds 1000", "report {} --rounds 1000 -o {}.html"])
def test_nothing_is_left(tmp_path: Path, trace: Path, command: str, how: signal.Signals) -> None:
    begun = start(tmp_path, *command.format(trace, tmp_path).split())
    until(lambda: list(tmp_path.glob("coffer-*/plan")) or begun.poll() is not None)
    begun.send_signal(how)
    _, errors = begun.communicate(timeout=60)
    assert begun.returncode == -how and errors == ""
    assert list(tmp_path.iterdir()) == []


@ENDING
@pytest.mark.parametrize("command", ["export -f csv", "anonymize"])
def test_no_file_is_left_half(tmp_path: Path, trace: Path, command: str, how: signal.Signals) -> None:
    target = tmp_path / "out.csv"
    begun = start(tmp_path, "trace", *command.split(), trace, "-o", target)
    until(lambda: list(tmp_path.glob("out.csv.*.part")) or begun.poll() is not None)
    begun.send_signal(how)
    _, errors = begun.communicate(timeout=60)
    assert begun.returncode == -how and errors == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_ignored_stays_so(tmp_path: Path, trace: Path) -> None:
    """As under nohup."""
    begun = start(tmp_path, "replay", trace, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    until(lambda: list(tmp_path.glob("coffer-*")) or begun.poll() is not None)
    begun.send_signal(signal.SIGHUP)
    _, errors = begun.communicate(timeout=60)
    assert begun.returncode == 0, errors


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_second_one_ends_no_tidying(tmp_path: Path, trace: Path, how: signal.Signals) -> None:
    begun = start(tmp_path, "replay", trace, "--rounds", 1000)
    until(lambda: list(tmp_path.glob("coffer-*/plan")) or begun.poll() is not None)
    begun.send_signal(signal.SIGTERM)
    begun.send_signal(how)
    begun.communicate(timeout=60)
    assert begun.returncode == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
