# SPDX-License-Identifier: MIT
"""Python functions in heap profiles: what Python itself says of each stack, of every version that is here."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from coffer import places
from coffer.profile import proto
from in_process import run
from ready import ready

HERE = Path(__file__).parent
PROGRAM = HERE / "python_program.py"
SUPPORTED = [(3, 11), (3, 12), (3, 13)]
MOST_FRAMES = 96  # of a stack, in src/observe/samples.hpp
BLOCK = 6000 + 33  # of python_program.py, with the head of a bytes object


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all tests together."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def version_of(python: str) -> tuple[int, int]:
    shown = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    return tuple(map(int, shown.stdout.split())) if shown.returncode == 0 else (0, 0)


def interpreters() -> dict[str, tuple[int, int]]:
    """One of each version, the system's first."""
    found: dict[tuple[int, int], str] = {}
    own = [str(path) for path in sorted((Path.home() / ".pyenv/versions").glob("3.*/bin/python3"))]
    for python in ["/usr/bin/python3", *(f"/usr/bin/python3.{minor}" for minor in range(9, 20)), *own]:
        if Path(python).exists() and (version := version_of(python)) >= (3, 9):
            found.setdefault(version, python)
    return {python: version for version, python in found.items()}


INTERPRETERS = interpreters()
known = pytest.mark.parametrize("python", [one for one, version in INTERPRETERS.items() if version in SUPPORTED])


def profile_of(tmp_path: Path, python: str, *arguments: object) -> proto.Profile:
    """Of the end; with every block."""
    run("leaks", "-o", tmp_path / "out.pb.gz", "--", python, "-S", *arguments)
    return proto.read(tmp_path / "out.pb.gz")


Stack = tuple[tuple[str, str, int], ...]


def bytes_by_stack(profile: proto.Profile) -> dict[Stack, int]:
    """What was allocated, by Python's part of the stacks; those that begin in hold."""
    found: dict[Stack, int] = {}
    for locations, values in profile.samples:
        stack = tuple(profile.lines[one] for one in locations if one in profile.lines)
        if stack and stack[0][0] == "hold" and values[1] >= BLOCK:
            found[stack] = found.get(stack, 0) + values[1]
    return found


@known
@pytest.mark.parametrize("malloc", ["pymalloc", "malloc"])
def test_stacks_are_what_python_says(tmp_path: Path, python: str, malloc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONMALLOC", malloc)
    size = "small" if malloc == "malloc" else "whole"
    found = bytes_by_stack(profile_of(tmp_path, python, PROGRAM, tmp_path / "expected", size))
    expected: dict[Stack, int] = {}
    for shown in json.loads((tmp_path / "expected").read_text()):
        stack = tuple((name, file, line) for name, file, line in shown)
        expected[stack] = expected.get(stack, 0) + BLOCK
    assert sum(expected.values()) > 240 * BLOCK and len(expected) > 45
    (deepest,) = [stack for stack in expected if len(stack) > MOST_FRAMES]
    (cut,) = [stack for stack in found if stack not in expected]
    assert cut == deepest[:len(cut)] and len(cut) > MOST_FRAMES - 10
    assert found == {cut if stack is deepest else stack: total for stack, total in expected.items()}
    names = {place[0] for stack in found for place in stack}
    assert {"Méthode.größe", "Méthode.__del__", "made_7", "generator", "main.<locals>.<lambda>"} <= names
    assert ("coroutine" in names) == (size == "whole")


@pytest.mark.parametrize("python", [one for one, version in INTERPRETERS.items() if version not in SUPPORTED])
def test_other_versions_run_without(tmp_path: Path, python: str) -> None:
    profile = profile_of(tmp_path, python, PROGRAM, tmp_path / "expected")
    assert profile.samples and not profile.lines
    assert len(json.loads((tmp_path / "expected").read_text())) > 240


def test_there_is_an_interpreter() -> None:
    assert set(INTERPRETERS.values()) & set(SUPPORTED)


DAEMON = """\
import ctypes, os, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
class Late:
    def __del__(self, sleep=time.sleep):
        kept = [bytearray(b"A" * size) for size in range(200, 600) for _ in range(100)]
        sleep(0.3)
        os.write(1, b"late\\n")
def poll(depth):
    return poll(depth - 1) if depth else library.poll_readings(3000)
sys.modules["other"] = type(sys)("other")
sys.modules["other"].late = Late()
threading.Thread(target=poll, args=(20,), daemon=True).start()
time.sleep(0.1)
"""


@known
def test_a_thread_that_python_has_forgotten(tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its end the interpreter frees what it has of daemon threads, which go on where they do not need it. Something
    else comes to lie there."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    (tmp_path / "daemon.py").write_text(DAEMON)
    library = Path(os.environ["COFFER_SEEDED"]) / "libseeded_sensor.so"
    for _ in range(3):
        done = run("profile", "--rate", "4K", "--show", "none", "-o", tmp_path / "out.pb.gz", "--", python,
                   tmp_path / "daemon.py", library)
        assert done.stdout == "late\n"
        profile = proto.read(tmp_path / "out.pb.gz")
        stacks = [[profile.names[one] for one in locations] for locations, _ in profile.samples]
        assert any(names[:1] == ["allocate_reading"] and names.count("poll") == 21 for names in stacks)


@known
def test_the_first_screen_has_no_functions_of_the_interpreter(python: str) -> None:
    """But inside the innermost Python function, what it did there."""
    lines = run("heap", "--rate", 1, "--", python, HERE / "seeded" / "growing.py", 500).stdout.splitlines()
    assert re.search(r"from Session\.answer, growing\.py:12(,13)?, called by handle_request", lines[1]), lines[1]
    tree = [line for line in lines if "←" in line]
    assert "handle_request  growing.py:19" in tree[0] and "serve  growing.py:26" in tree[1], tree
    assert not any("_PyEval" in line or "Py_" in line for line in lines)


def test_coffer_profile(tmp_path: Path) -> None:
    """Its file has the functions with their lines, for pprof, and those of C beside them."""
    (python, *_) = [one for one, version in INTERPRETERS.items() if version in SUPPORTED]
    shown = run("profile", "--rate", "1", "-o", tmp_path / "out.pb.gz", "--show", "alloc", "--", python,
                HERE / "seeded" / "growing.py", 300).stdout
    assert "Session.answer (growing.py)" in shown
    profile = proto.read(tmp_path / "out.pb.gz")
    assert len(profile.names) == len(profile.locations)
    (where,) = [line for name, file, line in profile.lines.values() if name == "Session.answer" and line == 12]
    assert where and any("PyBytes" in name or "bytes" in name for name in profile.names.values())


def test_a_process_that_runs(tmp_path: Path) -> None:
    """`coffer run` brings what is needed when its options ask for profiles."""
    (python, *_) = [one for one, version in INTERPRETERS.items() if version in SUPPORTED]
    code = "import time\ndef keep():\n    return [bytes(5000) for _ in range(300)]\nkept = keep()\n" \
           "print('ready', flush=True)\ntime.sleep(60)"
    command = [places.build_dir() / "bin" / "coffer", "run", "--", python, "-c", code]
    conf = f"profile:true,profile_rate:1,dump_signal:43,profile_to:{tmp_path}/x"
    with ready(command, env={**os.environ, "COFFER_CONF": conf}) as process:
        assert "from keep" in run("heap", "--pid", process.pid).stdout.splitlines()[0]
