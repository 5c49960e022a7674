# SPDX-License-Identifier: MIT
"""The command under callers that closed its streams, filled them, or have an encoding without all letters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from coffer import places

COMMAND = places.build_dir() / "bin" / "coffer"
TRACE = Path(__file__).parent / "traces" / "lua.trace"
PYTHON = places.build_dir() / "venv" / "bin" / "python"  # the command's own
TOOLS = Path(places.__file__).resolve().parents[1]
BENCH = TOOLS.parent / "bench"
SAYS = ["--version", "--help", f"trace info {TRACE}", f"trace info --json {TRACE}", f"trace frag {TRACE}"]


def shell(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", f"coffer() {{ {COMMAND} \"$@\"; }}; {text}"], capture_output=True, text=True,
                          errors="surrogateescape", timeout=120)


@pytest.mark.parametrize("arguments", SAYS)
def test_what_cannot_be_told_is_an_error(arguments: str) -> None:
    done = shell(f"coffer {arguments} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "coffer: cannot write: No space left on device\n")


def test_a_closed_output() -> None:
    done = shell(f"coffer {SAYS[2]} >&-")
    assert (done.returncode, done.stderr) == (1, "coffer: cannot write: Bad file descriptor\n")


def test_a_reader_that_goes_leaves_no_complaint() -> None:
    done = shell(f"coffer trace info --json {TRACE} | true; coffer trace info {TRACE} | head -n 1")
    assert done.stderr == "" and str(TRACE) in done.stdout


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_the_status_stays_where_nothing_can_be_said(stderr: str) -> None:
    assert shell(f"coffer trace info /nowhere {stderr}").returncode == 1
    assert shell(f"coffer profile -- /nowhere {stderr}").returncode == 127
    assert shell(f"coffer stat --interval 0.05 -- sh -c 'sleep 0.3; exit 7' {stderr}").returncode == 7


def test_a_program_finds_streams_as_the_caller_left_them(tmp_path: Path) -> None:
    """Under run and record, that is; and what they write themselves must not land in its files."""
    program = tmp_path / "program.py"
    program.write_text("import os; print([os.path.exists(f'/proc/self/fd/{one}') for one in (0, 2)], end='')")
    for command in ("run", f"record -q -o {tmp_path}/a.trace"):
        done = shell(f"coffer {command} -- {sys.executable} {program} <&- 2>&-")
        assert (done.returncode, done.stdout) == (0, "[False, False]")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """By an encoding that refuses them, as that of every locale but C does."""
    name = os.fsencode(tmp_path) + b"/\xff\xe4.trace"
    Path(os.fsdecode(name)).write_bytes(TRACE.read_bytes())
    for encoding in ("utf-8:strict", "latin-1:strict"):
        for arguments in (["trace", "info"], ["trace", "cut", "-o", name + b".cut"], ["replay", "-a", "glibc"]):
            done = subprocess.run([PYTHON, "-B", "-c", "from coffer.start import main; main()", *arguments, name],
                                  capture_output=True, timeout=120,
                                  env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": f"{TOOLS}:{BENCH}"})
            assert done.returncode == 0 and not done.stderr and b".trace" in done.stdout, done.stderr


def test_an_interrupt_while_the_command_loads(tmp_path: Path) -> None:
    """It ends as any program that has no answer: no traceback of what it was loading."""
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run([PYTHON, "-B", "-m", "coffer", "--version"], capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}:{TOOLS}:{BENCH}"})
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
