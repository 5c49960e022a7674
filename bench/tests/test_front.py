# SPDX-License-Identifier: MIT
"""What the documents show of a run: means that can be worked out by hand, texts and pictures that are those of
docs/results/bench.json, and names that stand apart."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from coffer_bench import cli, front, front_picture
from coffer_bench.allocators import TOP
from coffer_bench.errors import BenchError
from conftest import results_of, write_results


def run_of(tmp_path: Path, **by_workload: dict[str, float]) -> Path:
    """A file of samples: of each workload a time for each allocator; all take the same memory."""
    results = results_of({name: {one: [value] * 3 for one, value in times.items()}
                          for name, times in by_workload.items()}, memory=2048.0)
    return write_results(tmp_path / "run.jsonl", results)


FASTER = {"coffer": 2.0, "glibc": 4.0, "jemalloc": 1.0}
SLOWER = {"coffer": 1.0, "glibc": 4.0, "jemalloc": 8.0}


def test_means_are_over_the_best_of_each_row(tmp_path: Path) -> None:
    data = front.collect(run_of(tmp_path, one=FASTER, two=SLOWER), "wall")
    # Coffer: 2 and 1, so the root of 2; glibc: 4 and 4; jemalloc: 1 and 8, so the root of 8.
    assert {name: mean["time"] for name, mean in data["means"].items()} == {
        "coffer": 1.41, "glibc": 4.0, "jemalloc": 2.83}
    assert [mean["memory"] for mean in data["means"].values()] == [1.0, 1.0, 1.0]
    assert front.worst(data, "time")[0]["name"] == "one" and len(front.worst(data, "time")) == 1
    assert "*one* (2.00 times jemalloc)" in front.readme_block(data)
    assert "1.41 times the wall time" in front.readme_block(data)
    assert "no other allocator takes less time, and no other allocator takes less memory." in front.readme_block(data)


def test_who_is_ahead_is_named(tmp_path: Path) -> None:
    data = front.collect(run_of(tmp_path, one={"coffer": 3.0, "glibc": 2.0, "jemalloc": 1.0, "tbb": 4.0}), "wall")
    assert "By these means jemalloc (1.00) and glibc (2.00) take less time, and" in front.readme_block(data)


def test_only_rows_in_which_all_ran_count(tmp_path: Path) -> None:
    times = {f"row {number}": dict(SLOWER) for number in range(20)}
    del times["row 7"]["jemalloc"]
    data = front.collect(run_of(tmp_path, **times), "wall")
    assert len(data["rows"]["time"]) == 19 and "jemalloc" in data["means"]


def test_an_allocator_of_few_rows_is_left_out(tmp_path: Path) -> None:
    times = {f"row {number}": {**SLOWER, "tbb": 1.0} for number in range(20)}
    for number in range(3):
        del times[f"row {number}"]["tbb"]
    assert list(front.collect(run_of(tmp_path, **times), "wall")["means"]) == ["coffer", "glibc", "jemalloc"]


def test_too_little_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="not enough to draw"):
        front.collect(run_of(tmp_path, one={"coffer": 1.0, "glibc": 2.0}), "wall")


def copy_of_documents(tmp_path: Path) -> Path:
    for path in (front.DATA, front.PAGE, front.README, *front.PICTURES.values()):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / path, tmp_path / path)
    return tmp_path


def test_the_documents_are_those_of_the_data() -> None:
    """Page, pictures and README's figures, made again of docs/results/bench.json."""
    assert front.stale(TOP) == []


def test_a_figure_typed_by_hand_is_found(tmp_path: Path) -> None:
    top = copy_of_documents(tmp_path)
    for path in (front.README, front.PAGE, front.PICTURES["dark"]):
        text = (top / path).read_text()
        (top / path).write_text(re.sub(r"\d\.\d\d", "0.99", text, count=1) if path.suffix == ".md" else text + "\n")
    assert front.stale(top) == [front.README, front.PAGE, front.PICTURES["dark"]]


def test_a_run_is_written_whole_and_reads_as_itself(tmp_path: Path) -> None:
    top = copy_of_documents(tmp_path)
    written = front.write(run_of(tmp_path, one=FASTER, two=SLOWER), "wall", top)
    assert len(written) == 5 and front.stale(top) == []
    assert json.loads((top / front.DATA).read_text())["means"]["coffer"]["time"] == 1.41
    lines = (top / front.README).read_text().split("\n")
    assert lines.count(front.BEGIN) == 1 and lines.count(front.END) == 1


def test_a_readme_without_a_place_for_figures_is_an_error() -> None:
    for text in ("", front.BEGIN, front.END + front.BEGIN):
        with pytest.raises(BenchError, match="no place for figures"):
            front.with_block(text, "x")


def test_the_latest_run_is_taken(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no samples yet"):
        cli.latest(tmp_path)
    results = tmp_path / "bench" / "results"
    results.mkdir(parents=True)
    for name, age in (("full.jsonl", 100), ("quick.jsonl", 200)):
        (results / name).touch()
        os.utime(results / name, (1e9 - age, 1e9 - age))
    assert cli.latest(tmp_path).name == "full.jsonl"


def spread(count: int) -> dict:
    """As many allocators, close to each other as real ones are."""
    means = {"coffer": {"time": 1.2, "memory": 1.3}}
    means |= {f"allocator{number}": {"time": 1.3 + 0.15 * (number % 4), "memory": 1.4 + 0.2 * (number // 4)}
              for number in range(count)}
    return {"clock": "cpu", "means": means, "rows": {"time": [1], "memory": [1]}}


@pytest.mark.parametrize("theme", front.PICTURES)
def test_names_stand_apart(theme: str) -> None:
    for data in (spread(11), json.loads((TOP / front.DATA).read_text())):
        made, boxes = front_picture.figure(data, theme)
        front_picture.pyplot.close(made)
        assert len(boxes) == len(data["means"])
        overlapping = [1 for place, box in enumerate(boxes) if front_picture.overlaps(box, boxes[place + 1:])]
        assert not overlapping


def test_the_same_data_gives_the_same_picture() -> None:
    light, dark = (front_picture.draw(spread(4), theme) for theme in ("light", "dark"))
    assert light == front_picture.draw(spread(4), "light") != dark
    assert ">coffer</text>" in light and "allocator3" in light
