# SPDX-License-Identifier: MIT
"""docs/guide/questions.md: every command is run, and what it prints is what the page says, but for the numbers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from coffer import places

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ["COFFER_SEEDED"])
MOST_LINES = 10
NUMBER = re.compile(r"(?<!\.c:)(?<!\.cpp:)(?<![\d,])\d+(?:[.,]\d+)*")  # but those of lines
UNIT = re.compile(r"# (?:(B|KiB|MiB|GiB)|(µs|ms|s))\b")
FENCE = re.compile(r"```(\w+)\n(.*?)```\n", re.S)


class Question(NamedTuple):
    title: str
    command: str
    output: str
    lines: int  # that it takes to read: text, command and output


def questions() -> list[Question]:
    text = (ROOT / "docs" / "guide" / "questions.md").read_text()
    found = []
    for part in text.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        blocks = FENCE.findall(body)
        lines = [line for line in body.splitlines() if line and not line.startswith("```")]
        assert [kind for kind, _ in blocks] == ["sh", "text"], title
        found.append(Question(title, blocks[0][1], blocks[1][1], len(lines)))
    return found


QUESTIONS = questions()


def plain(line: str) -> str:
    """Numbers and units may differ, how many columns they take, and what else grew beside the place that is named."""
    line = re.sub(r"\+0x[0-9a-f]+", "+0x#", line)
    text = UNIT.sub(lambda unit: "# bytes" if unit[1] else "# time", NUMBER.sub("#", line))
    text = text.replace(" (±#%)", "").replace("blocks", "block").replace("places", "place")
    return " ".join(text.replace("; and # other place", "").split())


def pattern(output: str) -> str:
    """A line of three points is any lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else re.escape(plain(line)) + "\n" for line in output.splitlines()]
    return "".join(lines)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader would be: the programs under the names that the page has."""
    folder = tmp_path_factory.mktemp("questions")
    for name in ("leak", "cache", "fragment", "retained"):
        (folder / name).symlink_to(BUILT / f"seeded_{name}")
    (folder / "loop.c").symlink_to(ROOT / "examples" / "latency" / "loop.c")
    (folder / "prefork.py").symlink_to(ROOT / "examples" / "fork" / "prefork.py")
    (folder / "growing.py").symlink_to(Path(__file__).with_name("seeded") / "growing.py")
    (folder / "bench").symlink_to(ROOT / "bench")
    (folder / "bin").mkdir()
    (folder / "bin" / "coffer").symlink_to(places.build_dir() / "bin" / "coffer")
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
    return folder


@pytest.mark.parametrize("question", QUESTIONS, ids=[one.title for one in QUESTIONS])
def test_the_answer_is_what_comes_out(place: Path, question: Question) -> None:
    build, command = str(places.build_dir()), question.command
    if "bench/" in command:
        if shutil.which("valgrind") is None or not (places.build_dir() / "bench" / "libbench_stub.so").exists():
            pytest.skip("no valgrind here, or the bench is not built")
        command = command.rstrip() + f" --build-dir {build}"
    if "curl" in command and shutil.which("curl") is None:
        pytest.skip("no curl here")
    environment = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": str(place / "cache"),
                   "LIBRARY_PATH": f"{build}/lib", "LD_LIBRARY_PATH": f"{build}/lib", "CPATH": str(ROOT / "include"),
                   "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(["bash", "-c", command], cwd=place, env=environment, stdout=subprocess.PIPE, text=True,
                          timeout=120)
    shown = "".join(plain(line) + "\n" for line in done.stdout.splitlines())
    assert re.fullmatch(pattern(question.output), shown), f"{question.command}\n{done.stdout}"


def test_answers_are_short() -> None:
    assert {one.title: one.lines for one in QUESTIONS if one.lines > MOST_LINES} == {}
    assert len(QUESTIONS) == 12


def test_another_output_is_found() -> None:
    (leak,) = [one for one in QUESTIONS if "leak" in one.command]
    right = "".join(plain(line) + "\n" for line in leak.output.replace("...\n", "more\n").splitlines())
    assert re.fullmatch(pattern(leak.output), right)
    for wrong in (right.replace("open_entry", "close_entry"), right.replace("Besides", "Beside"), "more\n" + right):
        assert not re.fullmatch(pattern(leak.output), wrong)
