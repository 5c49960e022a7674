# SPDX-License-Identifier: MIT
"""coffer replay as a user runs it: the figures, and every way in which it can go wrong."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from coffer import places
from coffer.errors import CofferError
from coffer.replay import play

COMMAND = places.build_dir() / "bin" / "coffer"
SAMPLE = places.build_dir() / "libexec" / "coffer" / "trace_sample"
FAULTY = Path(os.environ["COFFER_FAULTY_DIR"])
COUNT = 20_000


def coffer(*arguments: object, status: int = 0) -> str:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if status == 0 else done.stderr


def sample(path: Path, kind: str, count: int = COUNT) -> Path:
    subprocess.run([str(SAMPLE), kind, str(path), str(count)], check=True)
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("traces")
    kinds = ("every", "single", "handover", "single-addresses")
    return {kind: sample(place / f"{kind}.trace", kind) for kind in kinds}


def results(*arguments: object) -> dict:
    return json.loads(coffer("replay", *arguments, "--json", "-"))


def test_the_same_operations_under_each_allocator(traces: dict[str, Path]) -> None:
    whole = results(traces["single"], "--allocator", "coffer,glibc,jemalloc", "--rounds", 2)
    assert whole["operations"] == COUNT and whole["threads"] == 1
    assert [one["allocator"] for one in whole["results"]] == ["coffer", "glibc", "jemalloc"]
    counts = [one["operations"] for one in whole["results"]]
    assert counts[0] == counts[1] == counts[2] and counts[0]["all"] == COUNT
    for one in whole["results"]:
        calls = one["calls"]
        assert calls["all"]["count"] == COUNT == sum(calls[name]["count"] for name in ("malloc", "realloc", "free"))
        assert 0 < calls["all"]["p50"] <= calls["all"]["p99"] <= calls["all"]["p99.9"] <= calls["all"]["max"]
        assert one["processor_ns"] > calls["all"]["count"]  # no call takes less than a nanosecond
        memory = one["memory"]
        assert memory["peak_kib"] >= memory["final_kib"] > 0
        assert one["fragmentation"] == pytest.approx(memory["peak_kib"] * 1024 / whole["peak_live"])
        assert len(one["samples"]) == 200
        assert [a["operation"] for a in one["samples"]] == [100 * (n + 1) for n in range(200)]
        # One thread: what is live is what was live.
        assert all(a["live"] == a["live_replayed"] for a in one["samples"])
    assert "libcoffer" in whole["results"][0]["library"] and "libc.so" in whole["results"][1]["library"]


def test_addresses_and_identities_are_the_same_plan(traces: dict[str, Path]) -> None:
    first, second = (results(traces[kind], "-a", "glibc")["results"][0] for kind in ("single", "single-addresses"))
    assert first["operations"] == second["operations"]
    assert [a["live"] for a in first["samples"]] == [a["live"] for a in second["samples"]]


def test_threads_hand_over_in_order(traces: dict[str, Path]) -> None:
    whole = results(traces["handover"], "-a", "glibc,coffer", "--lead", 10)
    assert whole["threads"] == 2 and whole["operations"] == 2 * COUNT
    for one in whole["results"]:
        # Nobody was further ahead than asked, and so not much more was live.
        assert all(a["live_replayed"] <= 48 * 12 for a in one["samples"])


def test_a_lead_and_a_time_without_end(traces: dict[str, Path]) -> None:
    """The same as no bound: a sum that went around made all wait for each other."""
    one = results(traces["handover"], "-a", "glibc", "--lead", 2**64 - 1, "--timeout", 30)["results"][0]
    assert one["operations"]["all"] == 2 * COUNT
    for long in ("inf", "1e300"):
        assert "--timeout" in coffer("replay", traces["every"], "-a", "glibc", "--timeout", long, status=2)


def test_every_operation_and_every_touch(traces: dict[str, Path]) -> None:
    for touch in ("all", "first", "none"):
        one = results(traces["every"], "-a", "glibc", "--touch", touch)["results"][0]
        assert one["operations"] == {"malloc": 1, "calloc": 1, "aligned": 1, "realloc": 1, "free": 2, "all": 6}
        assert one["left_out"] == 2


def test_gaps_take_as_long_as_they_did(traces: dict[str, Path]) -> None:
    # 40,000 operations, 500 ns apart: 20 ms, which nothing else would take.
    whole = results(traces["handover"], "-a", "glibc", "--gaps")
    assert whole["results"][0]["wall_ns"] >= whole["duration_ns"] - 1e5


COUNTING = pytest.mark.skipif(not (places.build_dir() / "libexec" / "coffer" / "valgrind").exists(),
                              reason="built without valgrind's libraries")


@COUNTING
def test_instructions_between_operations(traces: dict[str, Path], tmp_path: Path) -> None:
    """Recorded with their number, replayed, and counted by valgrind again."""
    trace = tmp_path / "counted.trace"
    coffer("record", "-q", "-o", trace, "--instructions", "--", "ls", "-l", "/usr/lib")
    facts = results(trace, "-a", "glibc", "--instructions")
    assert facts["instruction_gaps"] and not facts["gaps"] and facts["instructions"] > 100_000
    counts = []
    for gaps in ([], ["instructions"]):
        plan = tmp_path / f"plan{len(counts)}"
        subprocess.run([places.program("replay_plan"), trace, plan, *gaps], check=True, stdout=subprocess.DEVNULL)
        # The plan alone, without its looks at the memory: what reads the kernel's files and clocks never takes the same
        # number of instructions twice.
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                               "--toggle-collect=coffer::replay::Player::run*",
                               "--toggle-collect=coffer::replay::Player::take_sample*",
                               str(places.program("replay_play")), f"plan={plan}", "touch=first"],
                              capture_output=True, text=True, check=True)
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr).group(1)))
    # What a step of the plan itself takes is on top.
    assert 1 <= (counts[1] - counts[0]) / facts["instructions"] < 1.05
    said = coffer("replay", traces["every"], "--instructions", status=1)
    assert "no instructions were counted" in said
    assert "either" in coffer("replay", trace, "--gaps", "--instructions", status=1)


def test_memory_is_there_as_far_as_it_is_touched(tmp_path: Path) -> None:
    large = sample(tmp_path / "large.trace", "large", 64)
    touched, first, untouched = (results(large, "-a", "glibc", "--touch", touch)["results"][0]["memory"]["peak_kib"]
                                 for touch in ("all", "first", "none"))
    assert 64 * 1024 <= touched < 68 * 1024
    assert first < 2048 and untouched < 2048


FAULTS = {
    1: r"gave no memory",
    2: r"SIGSEGV.*operation \d+ of the trace: free, \d+ bytes, thread 1",
    3: r"given out twice|gave memory that is not zero",
    4: r"calloc\(\d+\) in thread 1 gave memory that is not zero",
    6: r"not done in 2 s",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_allocator_with_a_fault(traces: dict[str, Path], fault: int) -> None:
    library = FAULTY / f"libfaulty_{fault}.so"
    done = subprocess.run([str(COMMAND), "replay", traces["single"], "-a", f"{library},glibc", "--timeout", "2"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert re.search(FAULTS[fault], done.stderr), done.stderr
    # The other one has its line.
    assert "glibc" in done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize(("fault", "message"), [(5, "is not aligned"), (7, "lost what was in the block")])
def test_faults_of_rarer_calls(traces: dict[str, Path], fault: int, message: str) -> None:
    assert message in coffer("replay", traces["every"], "-a", FAULTY / f"libfaulty_{fault}.so", status=1)


def test_a_trace_that_was_cut_off(traces: dict[str, Path], tmp_path: Path) -> None:
    whole = traces["single"].read_bytes()
    short = tmp_path / "short.trace"
    short.write_bytes(whole[: len(whole) - 20])  # within the footer: the records are there
    text = coffer("replay", short, "-a", "glibc")
    assert "cut off" in text and f"{COUNT} operations" in text
    # Of the first frame only a part: 139 bytes are head and information.
    short.write_bytes(whole[:1000])
    said = coffer("replay", short, "-a", "glibc", status=1)
    assert "nothing to replay" in said and "of 1000 bytes cannot be read" in said


def test_what_is_no_trace(traces: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.trace").write_bytes(traces["single"].read_bytes()[:50])
    assert "bad.trace: byte 50: the head is cut off" in coffer("replay", tmp_path / "bad.trace", status=1)
    assert "no such file" in coffer("replay", tmp_path / "none.trace", status=1)
    assert "it does not begin with" in coffer("replay", "/etc/passwd", status=1)
    assert "no regular file" in coffer("replay", tmp_path, status=1)
    (tmp_path / "empty.trace").write_bytes(b"")
    assert "empty.trace" in coffer("replay", tmp_path / "empty.trace", status=1)


def test_what_is_no_allocator(traces: dict[str, Path], tmp_path: Path) -> None:
    trace = traces["single"]
    assert "no allocator is called fast" in coffer("replay", trace, "-a", "fast", status=1)
    assert "no such library" in coffer("replay", trace, "-a", "./none.so", status=1)
    (tmp_path / "text.so").write_text("no library")
    assert "was not loaded" in coffer("replay", trace, "-a", tmp_path / "text.so", status=1)
    assert "'--touch'" in coffer("replay", trace, "--touch", "some", status=2)
    assert "no allocator is named" in coffer("replay", trace, "-a", ",", status=1)


def test_peers_of_the_bench_by_name(traces: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where coffer bench peers has built them; one that it has not is an error that says so."""
    for part in places.build_dir().resolve().iterdir():
        if part.name != "peers":
            (tmp_path / part.name).symlink_to(part)
    peer = tmp_path / "peers" / "target" / "release" / "librpmalloc_peer.so"
    peer.parent.mkdir(parents=True)
    shutil.copy(tmp_path / "lib" / "libhoard.so", peer)
    monkeypatch.setenv("COFFER_BUILD_DIR", str(tmp_path))
    _, (result,) = play.replay(traces["single"], play.choose("rpmalloc"), play.Options())
    assert result.name == "rpmalloc" and result.figures["library"] == str(peer) and not result.failure
    with pytest.raises(CofferError, match="libmimalloc3_peer.so is missing: coffer bench peers builds it"):
        play.choose("rpmalloc,mimalloc3")


def test_places_that_cannot_be_written(traces: dict[str, Path]) -> None:
    assert "No space left on device" in coffer("replay", traces["every"], "--json", "/dev/full", status=1)
    assert "No such file" in coffer("replay", traces["every"], "--json", "/no/such/place.json", status=1)


def test_figures_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    trace = sample(tmp_path / "short.trace", "single", 200)
    done = subprocess.run([str(COMMAND), "replay", str(trace), "-a", "glibc", "--json", str(tmp_path / "out.json")],
                          capture_output=True, text=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 1 and done.stderr == f"coffer: {tmp_path}/out.json: File too large\n"
    assert list(tmp_path.iterdir()) == [trace]
