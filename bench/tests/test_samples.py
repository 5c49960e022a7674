# SPDX-License-Identifier: MIT
"""The file of samples: nothing of it is lost, whatever happens to the process that writes it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from coffer_bench import samples
from coffer_bench.errors import BenchError
from conftest import header, results_of, write_results

HEADER = header(["a"], ["coffer"])


def sample(number: int) -> samples.Record:
    return {"kind": "sample", "workload": "a", "allocator": "coffer", "round": number, "figures": {}, "seconds": 0.0}


def write(path: Path, *numbers: int) -> None:
    writer = samples.Writer(path)
    writer.begin(HEADER)
    for number in numbers:
        writer.append(sample(number))
    writer.close()


@pytest.mark.parametrize("cut", [1, 5, 30, 60])
def test_a_line_that_was_not_finished_is_dropped_and_written_anew(tmp_path: Path, cut: int) -> None:
    """As kill -9 leaves it, or a power failure."""
    path = tmp_path / "samples.jsonl"
    write(path, 1, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    writer = samples.Writer(path)
    records, said = writer.begin(HEADER)
    assert [record["round"] for record in records] == [1] and "after 1 samples" in said
    writer.append(sample(2))
    writer.close()
    assert path.read_bytes() == whole


def test_a_tail_of_zeros_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 100 + b"\n" + b"{}\n")
    samples.Writer(path).begin(HEADER)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("text", ["hello\n", "{}\n", '{"kind": "sample"}\n', '{"kind": "header"}\n', "\0" * 50])
def test_what_is_no_file_of_samples_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text(text)
    with pytest.raises(BenchError, match="is no file of samples: nothing was done to it"):
        samples.Writer(path)
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]
    with pytest.raises(BenchError, match="no file that samples can be kept in"):
        samples.Writer(Path("/dev/null"))


@pytest.mark.parametrize("length", [0, 5, 100])
def test_a_header_that_was_not_finished_is_written_anew(tmp_path: Path, length: int) -> None:
    path = tmp_path / "samples.jsonl"
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    write(path)
    assert path.read_bytes() == whole and list(tmp_path.iterdir()) == [path]


def test_a_run_without_a_line_leaves_no_file(tmp_path: Path) -> None:
    samples.Writer(tmp_path / "samples.jsonl").close()
    assert not list(tmp_path.iterdir())


def test_another_plan_and_a_finished_run_are_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, 1)
    before = path.read_bytes()
    writer = samples.Writer(path)
    records, said = writer.begin(header(["a", "b"], ["coffer"]))
    assert records == [] and "are in" in said
    writer.append({"kind": "end", "cut": []})
    writer.close()
    finished = path.read_bytes()
    writer = samples.Writer(path)
    assert writer.begin(header(["a", "b"], ["coffer"]))[0] == []
    writer.close()
    aside = [other.read_bytes() for other in tmp_path.iterdir() if other != path]
    assert sorted(aside) == sorted([before, finished])


def test_fresh_goes_on_with_nothing(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, 1)
    assert samples.Writer(path).begin(HEADER, fresh=True)[0] == []
    assert len(list(tmp_path.iterdir())) == 2


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    first = samples.Writer(tmp_path / "samples.jsonl")
    with pytest.raises(BenchError, match="being written by another run"):
        samples.Writer(tmp_path / "samples.jsonl")
    first.close()


def test_a_full_disk_is_said_and_what_is_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, 1)
    size = path.stat().st_size
    writer = samples.Writer(path)
    writer.begin(HEADER)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(BenchError, match="cannot be written: File too large. What it has is kept"):
            writer.append(sample(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.close()
    records, _ = samples.Writer(path).begin(HEADER)
    assert [record["round"] for record in records] == [1] and path.stat().st_size == size


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot be written: File exists"):
        samples.Writer(tmp_path / "file" / "samples.jsonl")
    with pytest.raises(BenchError, match="cannot be written: Is a directory"):
        samples.Writer(tmp_path)


def test_reading_what_is_no_file_of_samples(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="No such file"):
        samples.read(tmp_path / "none")
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(BenchError, match="no file of samples"):
        samples.read(tmp_path / "text")
    (tmp_path / "newer").write_text(json.dumps({**HEADER, "format": 99}) + "\n")
    with pytest.raises(BenchError, match="has format 99"):
        samples.read(tmp_path / "newer")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    results = results_of({"a": {"coffer": [1.0, 2.0], "glibc": [2.0, 4.0]}})
    assert samples.read(write_results(tmp_path / "samples.jsonl", results)) == results
