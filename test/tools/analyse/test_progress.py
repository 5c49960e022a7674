# SPDX-License-Identifier: MIT
"""What is shown while a long trace is read: how much, of how much, and how fast."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coffer import patience
from coffer.trace import program, tables
from conftest import SAMPLE

# A second's work, so that the picture is there at once.
SHOWS = """
import sys, time
from coffer import patience
patience.SECONDS = 0
with patience.counted("reading x", "records") as tell:
    for done in range(0, 5_000_000, 1_000_000):
        tell(done, 5_000_000)
        time.sleep(0.15)
with patience.bar("replaying", 3) as step:
    for name in ("one", "two", "three"):
        step(name)
        time.sleep(0.15)
"""


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "long.trace"
    subprocess.run([SAMPLE, "single", path, "400000"], check=True)
    return path


def test_the_program_tells(long_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, float | None]] = []

    @contextlib.contextmanager
    def counted(what: str, unit: str) -> Iterator[Any]:
        assert what == "reading long.trace" and unit == "records"
        yield lambda done, of: told.append((done, of))

    silent = program.run("survey", [long_trace], window=32768)
    monkeypatch.setattr(patience, "is_watched", lambda: True)
    monkeypatch.setattr(patience, "counted", counted)
    assert program.run("survey", [long_trace], window=32768) == silent
    # Two passes, of which the second may end early.
    assert len(told) >= 1 and len({of for _, of in told}) == 1 and (told[0][1] or 0) >= 2 * 400000
    assert [done for done, _ in told] == sorted(done for done, _ in told) and told[-1][0] <= told[0][1]
    told.clear()
    tables.describe.cache_clear()
    tables.describe(long_trace)
    assert told[-1][0] >= 400000


def test_what_goes_wrong_is_told_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "is_watched", lambda: True)
    (tmp_path / "no.trace").write_text("no trace")
    with pytest.raises(Exception, match="no.trace"):
        program.run("survey", [tmp_path / "no.trace"], window=32768)


def test_on_a_terminal() -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-B", "-c", SHOWS], stderr=slave,
                               env={**os.environ, "TERM": "xterm", "COLUMNS": "120"})
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):
        while data := os.read(master, 4096):
            shown += data
    os.close(master)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert re.search(r"reading x .* 60% \d+\.\d million records a second 0:00:0\d 0:00:0\d", text)
    assert re.search(r"replaying: two .* 2/3 0:00:0\d", text)
