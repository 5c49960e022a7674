# SPDX-License-Identifier: MIT
"""What the commands write: never over what they read, beside the old file until the new one is whole (issue 16)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from coffer import files, places
from coffer.errors import CofferError
from conftest import COMMAND, coffer

# {}: the input, {o}: the output.
COMMANDS = {
    "cut": "trace cut {} -o {o} --events 0:50",
    "filter": "trace filter {} -o {o}",
    "anonymize": "trace anonymize {} -o {o}",
    "merge": "trace merge {} {} -o {o}",
    "csv": "trace export {} -f csv -o {o}",
    "parquet": "trace export {} -f parquet -o {o}",
    "chrome": "trace export {} -f chrome -o {o}",
    "hw": "trace export {} -f hw -o {o}",
    "report": "report {} -a none -o {o}",
    "replay": "replay {} -a glibc --json {o}",
    "index": "index --addresses {} --json {o}",
    "plot": "index --addresses {} --plot {o}",
    "profile": "profile -o {o} -- wc -c {}",
    "stat": "stat --output {o} -- wc -c {}",
    "record": "record -q -o {o} -- wc -c {}",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_output_is_no_input(traces: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Under its own name or another one."""
    ending = ".svg" if name == "plot" else ".trace"
    read = tmp_path / f"in{ending}"
    hard, link, folder = tmp_path / f"hard{ending}", tmp_path / f"link{ending}", tmp_path / "folder"
    if name in ("index", "plot"):
        read.write_text("64 4096\n64 8192\n")
    else:
        shutil.copy(traces["single"], read)
    os.link(read, hard)
    link.symlink_to(read)
    folder.symlink_to(tmp_path)
    before, names = read.read_bytes(), sorted(tmp_path.iterdir())
    for output in (read, hard, link, folder / read.name):
        words = [word.format(read, o=output) for word in COMMANDS[name].split()]
        said = coffer(*words, status=125 if name == "record" else 1)
        assert f"{output}: is read" in said and "the output must be another file" in said
        assert read.read_bytes() == before and sorted(tmp_path.iterdir()) == names


@pytest.mark.parametrize("command", ["record -q -o {o} --allocator {} -- true",
                                     "index mine={} --low 64 --high 64 --json {o}"])
def test_an_output_is_no_allocator(tmp_path: Path, command: str) -> None:
    library, link = tmp_path / "mine.so", tmp_path / "link.so"
    shutil.copy(places.library(), library)
    link.symlink_to(library)
    before = library.read_bytes()
    for output in (library, link):
        words = [word.format(library, o=output) for word in command.split()]
        assert f"{output}: is read" in coffer(*words, status=125 if words[0] == "record" else 1)
        assert library.read_bytes() == before


@pytest.mark.parametrize("name", COMMANDS)
def test_the_old_file_gives_way_to_a_whole_one(traces: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A link stays one, rights are kept, and nothing else is left; the inputs may have any name."""
    ending = ".svg" if name == "plot" else ".new"
    place = tmp_path / "place"
    place.mkdir()
    read, old, link = tmp_path / "link.part", place / f"old{ending}", tmp_path / f"link{ending}"
    if name in ("index", "plot"):
        read.write_text("64 4096\n64 8192\n")
    else:
        shutil.copy(traces["single"], read)
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to(old)
    before = read.read_bytes()
    words = [word.format(read, o=link) for word in COMMANDS[name].split()]
    coffer(*words)
    assert link.is_symlink() and old.read_bytes() != b"old" and old.stat().st_mode & 0o777 == 0o640
    assert list(place.iterdir()) == [old] and read.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == sorted([place, read, link])


@pytest.mark.parametrize("name", ["cut", "csv", "parquet", "report", "replay", "index", "plot"])
def test_where_it_fails_the_old_file_stays(tmp_path: Path, name: str) -> None:
    read, old = tmp_path / "in", tmp_path / f"old{'.svg' if name == 'plot' else ''}"
    read.write_text("neither a trace nor a list")
    old.write_text("old")
    said = coffer(*(word.format(read, o=old) for word in COMMANDS[name].split()), status=1)
    assert old.read_text() == "old" and sorted(tmp_path.iterdir()) == [read, old] and ".part" not in said


def test_a_long_name(traces: dict[str, Path], tmp_path: Path) -> None:
    for output in (tmp_path / ("ä" * 120 + ".trace"), tmp_path / ("x" * 255)):
        coffer("trace", "cut", traces["single"], "-o", output, "--events", "0:50")
        coffer("record", "-q", "-o", output, "--", "true")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_takes_no_file(traces: dict[str, Path]) -> None:
    assert "/proc/x: No such file" in coffer("trace", "filter", traces["every"], "-o", "/proc/x", status=1)


def test_what_raises_leaves_nothing(tmp_path: Path) -> None:
    for error in (CofferError("no"), OSError(28, "full"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises((CofferError, KeyboardInterrupt, SystemExit)), files.whole(tmp_path / "x") as unfinished:
            unfinished.write_text("half")
            raise error
        assert list(tmp_path.iterdir()) == []


def test_the_names_that_are_seen_are_those_that_were_given(traces: dict[str, Path], tmp_path: Path) -> None:
    """Not those of what is not whole yet."""
    done = subprocess.run([COMMAND, "trace", "filter", traces["single"], "-o", "x.trace"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("x.trace: 5000 records, ")


def test_a_signal_between_a_file_and_what_guards_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left then: the with statement had not begun, and so did not end."""
    from coffer import cli

    guards = []  # it would be ended with its last name

    def app(**_: object) -> None:
        guard = files.whole(tmp_path / "x")
        guards.append(guard)
        guard.__enter__()
        assert len(list(tmp_path.iterdir())) == 1
        raise SystemExit(3)

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr(cli.signals, "put_away_first", lambda: None)
    with pytest.raises(SystemExit):
        cli.main()
    assert list(tmp_path.iterdir()) == []
