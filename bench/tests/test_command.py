# SPDX-License-Identifier: MIT
"""coffer bench as a user runs it: a short run, an interruption, kill -9, and errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from coffer_bench import samples
from conftest import BUILD, COMMAND, interruptible

LAST = re.compile(r"bench: \d+ workloads, \d+ allocators, time vs best \d+\.\d\d, memory vs best (\d+\.\d\d|-)")
SHORT = ["--allocators", "coffer,glibc", "--only", "pair 16;batch lifo;sizes to 32 KiB", "--scale", "0.01"]


def arguments(tmp_path: Path, *more: str) -> list[str]:
    return [str(COMMAND), "bench", *SHORT, "--results", str(tmp_path / "samples.jsonl"), *more]


def run(words: list[str], status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TERM": "dumb"})
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def keys(path: Path) -> list[tuple]:
    return [(record["workload"], record["allocator"], record["round"]) for record in samples.read(path).of("sample")]


def test_a_short_run(tmp_path: Path) -> None:
    done = run(arguments(tmp_path, "--rounds", "2", "--no-passes"))
    assert LAST.fullmatch(done.stdout.splitlines()[-1]), done.stdout
    results = samples.read(tmp_path / "samples.jsonl")
    assert results.finished and len(set(keys(tmp_path / "samples.jsonl"))) == len(results.of("sample")) == 16
    facts = results.header["machine"]
    assert facts["processors"] >= 1 and facts["libraries"]["coffer"]["sha256"]
    assert {path.name for path in (tmp_path / "samples").iterdir()} == {"index.html", "report.md", "overview.png"}


def test_kill_9_and_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    words = arguments(tmp_path, "--rounds", "12", "--no-passes")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_samples(path, 10, process)
    process.kill()
    process.wait()
    with path.open("ab") as file:
        file.write(b'{"kind": "sample", "workload": "pair 1')  # the middle of a line
    before = keys(path)
    done = run(words)
    assert f"going on after {len(before)} samples" in done.stdout
    after = keys(path)
    assert after[: len(before)] == before and len(after) == len(set(after)) == 4 * 2 * 12


def wait_for_samples(path: Path, count: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_there_is(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        arguments(tmp_path, "--rounds", "1000", "--no-passes"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **interruptible(number),
    )
    wait_for_samples(tmp_path / "samples.jsonl", 6, process)
    process.send_signal(number)
    _, complaints = process.communicate(timeout=60)
    assert process.returncode == 130 and complaints.startswith("bench: interrupted. The samples so far are kept")
    assert len(complaints.splitlines()) == 1
    assert len(keys(tmp_path / "samples.jsonl")) >= 5
    # A report of what there is.
    run([str(COMMAND), "bench", "report", str(tmp_path / "samples.jsonl"), str(tmp_path / "report")])
    assert "not finished" in (tmp_path / "report" / "report.md").read_text()


def test_a_full_disk(tmp_path: Path) -> None:
    """The file may have 8 KiB: the header fits, and some samples."""
    script = 'ulimit -f 8; exec "$@"'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *arguments(tmp_path, "--rounds", "100", "--no-passes")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "cannot be written: File too large" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and len(keys(tmp_path / "samples.jsonl")) > 3


def test_errors_are_one_line(tmp_path: Path) -> None:
    for more, words in (
        (["--allocators", "coffer,tbbb"], "no allocator is called tbbb"),
        (["--only", "no such"], "no workload has such a name"),
        (["--groups", "papers,x"], "no group is called x"),
        (["--results", "/proc/no/samples.jsonl"], "cannot be written"),
        (["--build-dir", str(tmp_path)], "has no programs"),
    ):
        done = run([*arguments(tmp_path), *more], status=2)
        assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    for more in (["--threads", "x"], ["--threads", "0"]):
        run([*arguments(tmp_path), *more], status=2)


@pytest.mark.parametrize(("more", "words"), [
    (["--minutes", "nan"], "nan is no number"),
    (["--minutes", "inf"], "inf is no number"),
    (["--minutes", "0"], "0 is not above 0"),
    (["--minutes", "-1"], "-1 is not above 0"),
    (["--scale", "nan"], "Invalid value for '--scale'"),
    (["--allocators", ""], "'' has an empty entry"),
    (["--allocators", "coffer,,glibc"], "'coffer,,glibc' has an empty entry"),
    (["--threads", ""], "'' has an empty entry"),
    (["--threads", "1,"], "'1,' has an empty entry"),
    (["--threads", "2,2"], "2 is there twice"),
    (["--allocators", "coffer, coffer"], "coffer is there twice"),
    (["--clock", "sundial"], "'sundial' is neither wall nor cpu"),
    (["report", "x.jsonl", "--clock", "sundial"], "'sundial' is neither wall nor cpu"),
    (["compare", "a", "b", "--clock", ""], "'' is neither wall nor cpu"),
    (["compare", "a", "b", "--minutes", "nan"], "nan is no number"),
    (["compare", "a", "b", "--threshold", "nan"], "Invalid value for '--threshold'"),
    (["compare", "a", "b", "--threshold", "-1"], "Invalid value for '--threshold'"),
])
def test_values_that_mean_nothing(tmp_path: Path, more: list[str], words: str) -> None:
    """Before anything is measured."""
    results = [] if more[0] in ("compare", "report") else ["--results", str(tmp_path / "samples.jsonl")]
    done = run([str(COMMAND), "bench", *more, *results], status=2)
    assert words in " ".join(re.sub("[│╭╮╰╯─]", " ", done.stderr).split()), done.stderr
    assert not (tmp_path / "samples.jsonl").exists()


def test_programs_that_are_not_built(tmp_path: Path) -> None:
    """One line that says how to build them, and not one a peer about a file of ours."""
    library = str(BUILD / "lib" / "libcoffer.so")
    for words in (["peers", "--check"], ["compare", library, library]):
        done = run([str(COMMAND), "bench", *words, "--build-dir", str(tmp_path)], status=2)
        assert "has no programs: make bench builds them" in done.stderr and len(done.stderr.splitlines()) == 1
        assert not done.stdout.strip()


def test_a_library_that_is_not_loaded_ends_the_run(tmp_path: Path) -> None:
    """A build directory whose libcoffer.so is no library."""
    for name in ("bench", "libexec"):
        (tmp_path / name).symlink_to(BUILD.resolve() / name)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcoffer.so").write_text("not a library")
    done = run([*arguments(tmp_path), "--build-dir", str(tmp_path)], status=2)
    assert "coffer was not loaded" in done.stderr


def test_lists_and_checks() -> None:
    text = run([str(COMMAND), "bench", "list", "--quick"]).stdout
    assert "threadtest 8" in text and "real programs" in text and "allocators: coffer, glibc" in text
    assert "postgresql" in run([str(COMMAND), "bench", "programs", "--check"]).stdout


def test_passes_are_taken_and_not_twice(tmp_path: Path) -> None:
    words = arguments(tmp_path, "--rounds", "1", "--quick", "--only", "ring of 256, 1024, random")
    run(words)
    records = samples.read(tmp_path / "samples.jsonl").records
    kinds = [record["kind"] for record in records]
    assert kinds.count("instructions") == 4 and kinds.count("misses") == 2 and "failure" not in kinds
    counts = {
        record["allocator"]: record["instructions"]
        for record in records
        if record["kind"] == "instructions" and record["workload"] == "malloc(64) + free"
    }
    assert 20 < counts["coffer"] < 60
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if json.loads(line)["kind"] != "end"))
    run(words)
    assert [record["kind"] for record in samples.read(path).records].count("instructions") == 4
