# SPDX-License-Identifier: MIT
"""The Python reader: what is written by the book is read, and every malformed file is refused with the byte."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import make_trace as make
import pytest
from coffer import places

BUILD = places.build_dir()
# One process for all files: the command's own Python has numpy, the system's has not.
READ_ALL = """
import json, sys
from coffer.trace.reader import Op, Trace, TraceError
answers = {}
for path in json.load(sys.stdin):
    try:
        with Trace(path, batch=7) as trace:
            events = [[Op(event["op"]).name, int(event["thread"]), int(event["block"]), int(event["size"]),
                       int(event["time"])] for batch in trace for event in batch]
            answers[path] = {"events": events, **trace.describe()}
    except TraceError as error:
        answers[path] = str(error)
json.dump(answers, sys.stdout)
"""


def read_all(paths: list[Path]) -> dict[str, dict | str]:
    done = subprocess.run([BUILD / "venv" / "bin" / "python", "-B", "-c", READ_ALL], text=True, capture_output=True,
                          input=json.dumps([str(path) for path in paths]),
                          env={**os.environ, "COFFER_BUILD_DIR": str(BUILD),
                               "PYTHONPATH": str(Path(places.__file__).parents[1])})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict | str]:
    folder = tmp_path_factory.mktemp("bad")
    for name, (text, _) in make.bad_traces().items():
        (folder / name.replace(" ", "-")).write_bytes(text)
    return {Path(path).name: answer for path, answer in read_all(sorted(folder.iterdir())).items()}


@pytest.mark.parametrize("name", make.bad_traces())
def test_a_malformed_trace_is_refused(refused: dict[str, dict | str], name: str) -> None:
    answer, expected = refused[name.replace(" ", "-")], make.bad_traces()[name][1]
    assert isinstance(answer, str), f"{name} was read: {answer}"
    assert expected in answer and f"{name.replace(' ', '-')}: byte " in answer


def test_of_a_damaged_trace_what_is_whole_is_read(tmp_path: Path) -> None:
    """Issue 16: a trace that was cut short or damaged in a byte was refused whole."""
    wanted = make.damaged_traces()
    for name, (text, _, _) in wanted.items():
        (tmp_path / name).write_bytes(text)
    answers = {Path(path).name: answer for path, answer in read_all(sorted(tmp_path.iterdir())).items()}
    for name, (text, missing, events) in wanted.items():
        answer = answers[name]
        assert isinstance(answer, dict), f"{name}: {answer}"
        assert (answer["missing"], len(answer["events"])) == (missing, events), name
        if missing["bytes"]:
            assert answer["shortfall"].startswith(f"{missing['bytes']} of {len(text)} bytes cannot be read"), name
        assert (f"{missing['records']} records in" in answer["shortfall"]) == (missing["records"] > 0), name
        assert ("cut off" in answer["shortfall"]) != answer["complete"]


def test_traces_by_the_book(tmp_path: Path) -> None:
    """Two threads, and the block goes from one to the other with equal stamps."""
    two = make.batch([make.ONE, make.record("thread_end", 90)]) + make.batch(
        [make.record("free", 10, 0, make.zigzag(1))], thread=2)
    (tmp_path / "two").write_bytes(make.head() + make.frame(two, records=3) + make.footer())
    (tmp_path / "open").write_bytes(make.head() + make.frame(two, records=3))
    (tmp_path / "cut").write_bytes((make.head() + make.frame(two, records=3) * 2)[:-5])
    (tmp_path / "none").write_bytes(make.head() + make.footer())
    answers = {Path(path).name: answer for path, answer in read_all(sorted(tmp_path.iterdir())).items()}
    events = [["MALLOC", 1, 1, 100, 10], ["FREE", 2, 1, 100, 10], ["THREAD_END", 1, 0, 0, 100]]
    assert [answers[name]["events"] for name in ("two", "open", "cut", "none")] == [events, events, events, []]
    assert [answers[name]["complete"] for name in ("two", "open", "cut", "none")] == [True, False, False, True]
    assert answers["cut"]["missing"]["bytes"] > 100 and answers["open"]["missing"]["bytes"] == 0
    assert answers["two"]["shortfall"] == ""
    assert answers["two"]["footer"] == {"end": "exited"} and answers["two"]["information"] == {"program": "made"}


@pytest.mark.parametrize(("path", "message"), [
    ("/nowhere/t", "No such file or directory"),
    ("/", "no regular file"),
    ("/dev/null", "no regular file"),
])
def test_what_is_no_file(path: str, message: str) -> None:
    (answer,) = read_all([Path(path)]).values()
    assert isinstance(answer, str) and answer.startswith(f"{path}: ") and message in answer
