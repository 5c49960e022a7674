# SPDX-License-Identifier: MIT
"""The command under callers that closed its streams, filled them, or have an encoding without all letters."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from coffer import places
from live_program import Program

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


# --- NO_COLOR: issue 16. ---


def on_a_terminal(*arguments: object, no_colour: str) -> bytes:
    """What a command writes to one."""
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": "1", "NO_COLOR": no_colour}
    with subprocess.Popen([str(COMMAND), *map(str, arguments)], stdin=terminal, stdout=terminal, stderr=terminal,
                          env=environment, start_new_session=True) as done:
        os.close(terminal)
        written = b""
        with contextlib.suppress(OSError):  # the end of the other side
            while more := os.read(leader, 65536):
                written += more
                if arguments[0] == "top" and b"quit" in written:
                    os.write(leader, b"q")
    os.close(leader)
    return written


@pytest.mark.parametrize("arguments", ["--help", "trace --help", "nosuchcommand", "bench list", f"trace info {TRACE}",
                                       f"replay {TRACE} -a glibc --rounds 1", "index glibc --count 64 --high 64"])
def test_no_color_leaves_out_every_escape(arguments: str) -> None:
    assert b"\x1b" not in on_a_terminal(*arguments.split(), no_colour="1")


def test_an_empty_no_color_is_none() -> None:
    assert b"\x1b[" in on_a_terminal("--help", no_colour="")


def test_no_color_in_a_file_that_is_forced_to_have_some() -> None:
    environment = {**os.environ, "FORCE_COLOR": "1"}
    for no_colour, has_some in (("1", False), ("", True)):
        done = subprocess.run([str(COMMAND), "--help"], capture_output=True, env={**environment, "NO_COLOR": no_colour})
        assert (b"\x1b[" in done.stdout) == has_some


def test_no_color_on_the_screen_of_top() -> None:
    """It moves the cursor, and has bold and dim text; of colours only the terminal's own."""
    program = Program("share:true")
    try:
        for no_colour, is_coloured in (("1", False), ("", True)):
            written = on_a_terminal("top", program.pid, no_colour=no_colour)
            assert b"\x1b[?1049l" in written
            codes = {code for codes in re.findall(rb"\x1b\[([\d;]*)m", written) for code in codes.split(b";")}
            colours = {code for code in codes if code.isdigit() and 30 <= int(code) <= 107} - {b"39", b"49"}
            assert bool(colours) == is_coloured, colours
    finally:
        program.end()
