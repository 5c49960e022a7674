# SPDX-License-Identifier: MIT
"""What `make test` says of how long it takes (tools/test_times.py), with a ctest that only pretends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import test_times

PRETENDS = """import sys, time
if "--show-only=json-v1" in sys.argv:
    print('{"tests": [{"name": "unit.a"}, {"name": "unit.b", "properties": [{"name": "RUN_SERIAL", "value": true}]},'
          '{"name": "unit.c"}]}')
    sys.exit(0)
print("Test project /somewhere")
print("1/3 Test #1: unit.a ...........   Passed    0.75 sec", flush=True)
time.sleep(0.5)
print(" 2/3 Test  #2: unit.b ...........***Failed   70.00 sec")
print("3/3 Test #3: unit.c ...........***Skipped   0.10 sec")
print()
print("67% tests passed, 1 tests failed out of 3")
sys.exit(8)
"""
TABLE = """# a comment
release build 600
release tests 3
release other 1.5
release unit.b 40
tsan build 100
tsan tests 1
tsan other 60
"""


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "times.txt"
    path.write_text(TABLE)
    monkeypatch.setattr(test_times, "TOP", tmp_path)
    monkeypatch.setattr(test_times.read_table, "__defaults__", (path,))
    monkeypatch.setattr(test_times.store, "__defaults__", (path,))
    (tmp_path / "build" / "Testing" / "Temporary").mkdir(parents=True)
    return path


def record(tmp_path: Path, *lines: str) -> None:
    """As CTest keeps it; after the line are the tests that failed."""
    text = "\n".join([*lines, "---", "unit.b", ""])
    (tmp_path / "build" / "Testing" / "Temporary" / "CTestCostData.txt").write_text(text)


def test_how_long_is_said_before() -> None:
    assert test_times.plan(2) == (
        "make test takes about 1 min on 2 processors (release 3 tests, 22 s; tsan 1 tests, 30 s), and up to 6 min "
        "more to build all from nothing")


def test_what_was_measured_here_counts_more(tmp_path: Path) -> None:
    record(tmp_path, "unit.a 2 100", "unit.b 1 500", "unit.c 1 600", "unit.d 0 0")
    assert test_times.measured(tmp_path / "build") == {"unit.a": 100, "unit.b": 500, "unit.c": 600}
    assert "release 3 tests, 10 min" in test_times.plan(2)
    record(tmp_path, "unit.a 2 100")
    assert "release 3 tests, 22 s" in test_times.plan(2)  # one of three says little of all


def test_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(test_times, "SAID_EVERY", 0.01)
    pretends = tmp_path / "ctest.py"
    pretends.write_text(PRETENDS)
    assert test_times.run(tmp_path / "build", 2, [sys.executable, str(pretends)]) == 8
    lines = capfdbinary.readouterr().out.decode().split("\n")
    own = [line for line in lines if line.startswith("progress: ")]
    # 1.5 s each of a and c, 40 of b, which both processors wait for.
    assert own[0] == "progress: 3 tests, about 42 s"
    assert any(re.fullmatch("progress: 1 of 3 tests; .* so far, about 41 s to go", line) for line in own)
    # CTest's own lines are as they were, its summary last.
    theirs = [line for line in lines if not line.startswith("progress: ")]
    assert theirs[:2] == ["Test project /somewhere", "1/3 Test #1: unit.a ...........   Passed    0.75 sec"]
    assert [line for line in theirs if line][-1] == "67% tests passed, 1 tests failed out of 3"


def test_a_slow_machine_is_noticed() -> None:
    progress = test_times.Progress([test_times.Test(f"t{number}", 100.0) for number in range(4)], 2)
    assert progress.rest(0) == 200
    progress.take(" 1/4 Test #1: t0 .....   Passed  300.00 sec")
    assert progress.rest(300) == 150  # 50 s of work a processor are less than TELLING
    progress.take(" 2/4 Test #2: t1 .....***Failed  300.00 sec")
    assert (progress.done, progress.failed) == (2, 1)
    assert progress.rest(300) == 300  # it takes three times as long
    progress.take(" 3/4 Test #3: unknown .....   Passed  1.00 sec")
    assert progress.done == 2


def test_what_check_leaves_out(table: Path) -> None:
    table.write_text(TABLE + "release unit.slow 100.0\nrelease unit.fast 3\ntsan unit.a 60\n")
    assert test_times.slow() == r"^tidy\.clang_build$|^tidy\.clang_library$|^unit\.b$|^unit\.slow$"


def test_the_table_is_written_anew(tmp_path: Path, table: Path) -> None:
    record(tmp_path, "unit.a 2 0.5", "unit.b 1 50.4", "unit.new 1 7.2")
    test_times.store()
    times = test_times.read_table()["release"]
    assert times.tests == {"unit.b": 50, "unit.new": 7} and (times.count, times.other, times.build) == (3, 0.5, 600)
    assert test_times.read_table()["tsan"] == test_times.Times(100, {}, 1, 60)


def test_the_longest_begin_where_nothing_ran_before(tmp_path: Path, table: Path) -> None:
    build = tmp_path / "build"
    (build / "CTestTestfile.cmake").write_text("".join(f"add_test(unit.{name} cmake -E true)\n" for name in "acb"))
    test_times.order(build, test_times.read_table(table)["release"])
    assert test_times.measured(build) == {}

    def begun() -> list[str]:
        done = subprocess.run(["ctest", "--parallel", "2"], cwd=build, capture_output=True, text=True, check=True)
        return re.findall(r"Start\s+\d+: (\S+)", done.stdout)

    assert begun()[0] == "unit.b"
    # What CTest knows by itself stays.
    record(tmp_path, "unit.c 1 70", "unit.a 1 1")
    test_times.order(build, test_times.read_table(table)["release"])
    assert "unit.c" in begun()[:2] and test_times.measured(build)["unit.c"] < 70
