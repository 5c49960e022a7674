# SPDX-License-Identifier: MIT
"""coffer index as a user runs it: on lists whose spread is known, and on allocators that are preloaded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from coffer import places

COMMAND = places.build_dir() / "bin" / "coffer"
CACHES = ["--l1", "64:64:8", "--l2", "64:1024:16"]


def run(*arguments: object, status: int = 0, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def write_list(path: Path, strides: dict[int, int], count: int = 256) -> Path:
    """Blocks of each size, this far apart."""
    lines = [f"{size} {0x7F0000000000 + number * stride:#x}" for size, stride in strides.items()
             for number in range(count)]
    path.write_text("\n".join(lines) + "\n")
    return path


def figures(tmp_path: Path, *arguments: object) -> list[dict]:
    output = tmp_path / "figures.json"
    run("index", *arguments, *CACHES, "--json", output)
    return json.loads(output.read_text())["results"]


def test_a_list_of_known_spread(tmp_path: Path) -> None:
    addresses = write_list(tmp_path / "known.txt", {64: 64, 1000: 1024, 1056: 1088, 4096: 4096})
    (result,) = figures(tmp_path, "--addresses", addresses)
    assert result["name"] == "known"
    found = {one["size"]: one["l1"] for one in result["sizes"]}
    assert [found[size]["distinct"] for size in (64, 1000, 1056, 4096)] == [64, 4, 64, 1]
    assert [found[size]["share"] for size in (64, 1000, 1056, 4096)] == [1, 0.0625, 1, 0.015625]
    assert found[4096]["heaviest"] == 256 and found[4096]["loads"][0] == 256
    assert [found[size]["conflicts"] for size in (64, 1000, 4096)] == [0, 100, 100]
    l2 = {one["size"]: one["l2"] for one in result["sizes"]}
    assert [l2[size]["distinct"] for size in (64, 1000, 1056, 4096)] == [256, 64, 256, 16]


def test_tables_show_it(tmp_path: Path) -> None:
    addresses = write_list(tmp_path / "known.txt", {64: 64, 4096: 4096})
    text = run("index", "--addresses", addresses, "--size", 4096, *CACHES)
    assert ["known", "0.508", "0.016", "4096", "1", "of", "2"] in [line.split()[:7] for line in text.splitlines()]
    assert "L1 as stated; L2 as stated" in text
    assert "known: blocks of 4096 bytes on each L1 index" in text


def test_targets_decide_the_status(tmp_path: Path) -> None:
    addresses = write_list(tmp_path / "known.txt", {64: 64, 4096: 4096})
    run("index", "--addresses", addresses, *CACHES, "--least-mean", 0.5)
    assert "mean share 0.5078 of sizes 64 to 4096" in run(
        "index", "--addresses", addresses, *CACHES, "--least-mean", 0.51, status=1)
    assert "share 0.0156 at 4096 bytes" in run("index", "--addresses", addresses, *CACHES, "--least", 0.9, status=1)


@pytest.mark.parametrize("name", ["glibc", "coffer"])
def test_an_allocator_is_surveyed(tmp_path: Path, name: str) -> None:
    (result,) = figures(tmp_path, name, "--high", 256, "--step", 64, "--count", 100)
    assert [one["size"] for one in result["sizes"]] == [64, 128, 192, 256]
    assert all(one["count"] == 100 and one["usable"] >= one["size"] for one in result["sizes"])
    assert all(one["l1"]["attainable"] == 64 and sum(one["l1"]["loads"]) == 100 for one in result["sizes"])
    assert ("libcoffer" in result["library"]) == (name == "coffer")
    # Aligned requests, and what they hold: no allocator makes do with less than was asked for.
    assert [one["size"] for one in result["aligned"]] == [64 << doubling for doubling in range(11)]
    assert all(one["resident"] >= one["size"] * 0.98 and one["stride"] >= one["size"] for one in result["aligned"])


def test_a_block_that_is_not_aligned_is_shown(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("64 0x1000\n64 0x1040 64\n64 0x1050 64\n128 0x1080 128\n")
    text = run("index", "--addresses", tmp_path / "list.txt", *CACHES)
    assert any("list" in line and "NOT ALIGNED" in line for line in text.splitlines())
    assert text.count("NOT ALIGNED") == 1


def test_together_is_one_process(tmp_path: Path) -> None:
    """One process a size: the first blocks of all sizes lie alike. All in one: no block twice."""
    (result,) = figures(tmp_path, "coffer", "--high", 128, "--count", 20, "--together", "--no-aligned")
    assert len(result["sizes"]) == 5 and not result["aligned"]


def test_the_callers_options_reach_the_allocator(tmp_path: Path) -> None:
    conf = {"COFFER_CONF": "nonsense:1"}
    survey = subprocess.run([places.program("survey"), "high=64", "count=1"], capture_output=True, text=True,
                            env={**os.environ, **conf, "LD_PRELOAD": str(places.library())})
    assert "nonsense" in survey.stderr
    command = [str(COMMAND), "index", "coffer", "--high", "128", "--count", "1", "--no-aligned"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **conf})
    assert done.returncode == 0 and done.stderr.count("nonsense") == 1, "and what it says of them reaches the caller"


def test_the_second_level_is_judged(tmp_path: Path) -> None:
    addresses = write_list(tmp_path / "known.txt", {64: 64, 4096: 4096}, count=1024)
    (result,) = figures(tmp_path, "--addresses", addresses, "--level", 2)
    assert [(one["l1"]["distinct"], one["l1"]["attainable"]) for one in result["sizes"]] == [(1024, 1024), (16, 1024)]
    text = run("index", "--addresses", addresses, "--level", 2, "--size", 4096, *CACHES)
    assert "judged: L2 1024 KiB" in text and "known: blocks of 4096 bytes on each L2 index" in text
    # 64 lines in each of 16 sets of 16 ways: each step misses, which is counted once.
    worst = next(line.split() for line in text.splitlines() if "16 of 1024" in line)
    assert "35.0" in worst
    (surveyed,) = figures(tmp_path, "glibc", "--high", 64, "--no-aligned", "--level", 2)
    assert surveyed["sizes"][0]["count"] == 1024


def test_allocators_of_this_build_take_options(tmp_path: Path) -> None:
    flat, index = figures(tmp_path, "coffer,placement:flat,mixed:never", "x=coffer,mixed:never", "--low", 1024,
                          "--high", 1024, "--no-aligned")
    assert (flat["name"], index["name"]) == ("coffer,placement:flat,mixed:never", "x")
    assert flat["sizes"][0]["l1"]["share"] < 0.5 < index["sizes"][0]["l1"]["share"]


def test_cif_reaches_every_index_up_to_1_kib(tmp_path: Path) -> None:
    """What paper 3's figure 1 shows; and of CIU that it does not."""
    cif, ciu = figures(tmp_path, "cif", "cif,array:ciu,colours:1", "--low", 56, "--high", 504, "--step", 64,
                       "--no-aligned")
    assert min(one["l1"]["share"] for one in cif["sizes"]) > 0.95
    assert min(one["l1"]["share"] for one in ciu["sizes"]) < 0.2


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_picture_is_drawn(tmp_path: Path, suffix: str) -> None:
    addresses = write_list(tmp_path / "known.txt", {64: 64, 4096: 4096})
    picture = tmp_path / f"picture{suffix}"
    run("index", "--addresses", addresses, "--plot", picture)
    head = picture.read_bytes()[:400]
    assert b"<svg" in head or head.startswith(b"\x89PNG") and len(picture.read_bytes()) > 10_000


@pytest.mark.parametrize(("arguments", "message"), [
    (["libnothing.so"], "was not loaded: malloc came from"),
    (["/nowhere/libx.so"], "no library /nowhere/libx.so"),
    (["nothing"], "none of glibc, coffer, hoard, scalloc, cif, nor a library"),
    (["coffer,nonsense:1"], 'COFFER_CONF: unknown option "nonsense"'),
    (["glibc,arena:1"], "only coffer, hoard, scalloc, cif have options of this kind"),
    (["--addresses", "/nowhere/list"], "No such file"),
    (["--machine", "t3"], "no machine is called t3"),
    (["--low", "128", "--high", "64"], "--low 128 is above --high 64"),
    (["--plot", "picture.txt"], "a picture ends in .svg, .png, .pdf"),
    (["--plot", "/nowhere/picture.svg"], "/nowhere/picture.svg: no such directory"),
    (["--json", "/nowhere/figures.json"], "/nowhere/figures.json: no such directory"),
    (["--json", "/"], "/: is a directory"),
    (["--addresses", "/"], "/: Is a directory"),
    (["--addresses", "/bin/ls"], "/bin/ls: no text, so no address list"),
    (["--addresses", "/dev/null"], "the address list has no block"),
])
def test_what_cannot_be_done_is_said(arguments: list[str], message: str) -> None:
    error = run("index", *arguments, *(["--high", "64"] if "--high" not in arguments else []), status=1)
    assert error.startswith("coffer: ") and message in error and "Traceback" not in error


@pytest.mark.parametrize("limit", [["--least-mean", "nan"], ["--least", "nan"], ["--least", "1.5"], ["--least", "-1"]])
def test_a_limit_that_means_nothing(limit: list[str]) -> None:
    assert "Invalid value" in run("index", "glibc", "--high", "64", *limit, status=2)


@pytest.mark.parametrize(("program", "arguments", "message"), [
    ("survey", ["low=0"], "bad range of sizes"),
    ("survey", ["low=128", "high=64"], "bad range of sizes"),
    ("survey", ["aligned=1", "low=96"], "an alignment must be a power of two"),
    ("survey", ["sise=64"], "unknown argument"),
    ("spread", ["l1=64:64"], "not LINE:SETS:WAYS: 64:64"),
    ("spread", ["l3=64:64:8"], "unknown argument l3=64:64:8"),
    ("spread", ["page=0"], "not LINE:SETS:WAYS"),
    ("simulate", ["cores=0"], "not LINE:SETS:WAYS"),
    ("simulate", ["replace=oldest"], "unknown argument replace=oldest"),
    ("simulate", ["tlb2=4096:1:64"], "tlb2 without tlb"),
    ("simulate", [], "the access list has no access"),
])
def test_programs_refuse_what_they_do_not_know(program: str, arguments: list[str], message: str) -> None:
    done = subprocess.run([places.program(program), *arguments], input="", capture_output=True, text=True)
    assert done.returncode == 1 and message in done.stderr


def test_a_broken_list_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_text("64 0x1000\n64 here\n")
    assert "line 2: not a number: here" in run("index", "--addresses", tmp_path / "broken.txt", status=1)
    (tmp_path / "empty.txt").write_text("# nothing\n")
    assert "the address list has no block" in run("index", "--addresses", tmp_path / "empty.txt", status=1)
