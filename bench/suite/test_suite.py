# SPDX-License-Identifier: MIT
"""The suite's programs: the same results under every allocator, errors that are seen, and a catalogue that is true."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(os.environ.get("BENCH_PROGRAMS", HERE.parent.parent / "build" / "bench"))
COFFER = PROGRAMS.parent / "lib" / "libcoffer.so"
FAULTY = PROGRAMS / "suite" / "libfaulty.so"
CATALOGUE = json.loads((HERE / "suite.json").read_text())
SUITE = [row for row in CATALOGUE if row["output"] == "suite" and (PROGRAMS / row["program"]).exists()]
FIELDS = {"name", "program", "output", "paper", "figure", "arguments", "full", "quick", "threads", "metric", "unit",
          "memory", "latency", "wide", "seconds"}
FIGURES = {"program", "library", "wall_ns", "cpu_ns", "operations", "rss_start_kib", "rss_peak_kib", "rss_end_kib",
           "own_kib", "faults", "checksum"}
# Shorter than a quick run: results do not depend on length.
SHORTER = 0.1
# What each program does is random but for these.
NOT_RANDOM = {"threadtest", "false_sharing", "mmicro", "growth", "zeroed", "startup", "bem", "cfrac", "limit"}


def sources() -> list[str]:
    """The programs in this folder."""
    return sorted(path.stem for path in HERE.glob("*.cpp") if "int main(" in path.read_text())


def run(program: str, *arguments: str, preload: Path | None = None, timeout: float = 120,
        **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], **environment, **({"LD_PRELOAD": str(preload)} if preload else {})}
    return subprocess.run([str(PROGRAMS / program), *arguments], env=variables, capture_output=True, text=True,
                          timeout=timeout)


def results(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    pairs = [line.split("=", 1) for line in done.stdout.splitlines()]
    assert len({key for key, _ in pairs}) == len(pairs), "a key stands twice"
    return {key: value for key, value in pairs}


def short_arguments(row: dict, threads: int | None = None) -> list[str]:
    arguments = {**row["arguments"], **row["quick"]}
    arguments["scale"] = arguments.get("scale", 1) * SHORTER
    if threads:
        arguments["threads"] = threads
    return [f"{key}={value}" for key, value in arguments.items()]


def short_runs() -> list[tuple[dict, int | None]]:
    return [(row, threads) for row in SUITE for threads in (row["threads"] or [None])]


def one_row_a_program() -> list[dict]:
    return list({row["program"]: row for row in reversed(SUITE)}.values())


def test_the_catalogue_is_complete() -> None:
    assert len({row["name"] for row in CATALOGUE}) == len(CATALOGUE)
    for row in CATALOGUE:
        assert set(row) - {"single", "without"} == FIELDS, row["name"]
        assert set(row["metric"]) == {"key", "per"}
        assert row["output"] == ("suite" if row["program"].startswith("suite/") else "json")
        assert (HERE.parent / f"{row['program']}.cpp").exists(), row["name"]
    assert {row["program"].removeprefix("suite/") for row in CATALOGUE if row["output"] == "suite"} == set(sources())


def test_every_program_is_built() -> None:
    # Only the one that needs a library may be missing.
    assert set(sources()) - {"xml"} <= {path.name for path in (PROGRAMS / "suite").iterdir()}


@pytest.mark.parametrize(("row", "threads"), short_runs(), ids=lambda value: value["name"] if value and
                         not isinstance(value, int) else str(value or ""))
def test_results_are_the_same_under_every_allocator(row: dict, threads: int | None) -> None:
    arguments = short_arguments(row, threads)
    glibc = results(run(row["program"], *arguments))
    coffer = results(run(row["program"], *arguments, preload=COFFER))
    assert re.match(r"libc[.-]", Path(glibc["library"]).resolve().name)
    assert Path(coffer["library"]).resolve() == COFFER.resolve()
    assert glibc["checksum"] == coffer["checksum"] != "0" * 16
    assert glibc["operations"] == coffer["operations"]
    for result in (glibc, coffer):
        assert FIGURES <= set(result)
        assert float(result[row["metric"]["key"]]) > 0
        assert row["metric"]["per"] is None or float(result[row["metric"]["per"]]) > 0
        assert 500 < int(result["rss_start_kib"]) <= int(result["rss_peak_kib"]) < 2_000_000
        assert int(result["rss_end_kib"]) <= int(result["rss_peak_kib"])
        for key, value in row["arguments"].items():
            assert key in ("kind", "operations") or f"argument.{key}" in result
    if threads:
        assert glibc["argument.threads"] == str(threads)


@pytest.mark.parametrize("row", one_row_a_program(), ids=lambda row: row["program"])
def test_the_seed_decides(row: dict) -> None:
    arguments = short_arguments(row, max(row["threads"], default=None))
    checksums = [results(run(row["program"], *arguments, f"seed={seed}"))["checksum"] for seed in (7, 7, 8)]
    assert checksums[0] == checksums[1]
    if row["program"].removeprefix("suite/") not in NOT_RANDOM:
        assert checksums[0] != checksums[2]


@pytest.mark.parametrize("row", one_row_a_program(), ids=lambda row: row["program"])
def test_arguments_that_are_wrong(row: dict) -> None:
    program = row["program"]
    for wrong in ("nonsense=1", "scale=0", "scale=x", "seed=-1", "seed=", "scale"):
        done = run(program, wrong)
        assert done.returncode == 2, wrong
        assert done.stdout == ""
        assert wrong.split("=")[0] in done.stderr.splitlines()[0]
        assert "keys (key=default)" in done.stderr and "  scale=1  " in done.stderr
    assert run(program, "seed=1", "seed=2").returncode == 2, "a key that is given twice"


@pytest.mark.parametrize("row", one_row_a_program(), ids=lambda row: row["program"])
def test_help_names_every_key_and_the_paper(row: dict) -> None:
    done = run(row["program"], "help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[1].startswith("paper: ")
    keys = set(re.findall(r"^  (\w+)=", done.stdout, re.MULTILINE))
    assert {"scale", "seed", "latency"} <= keys
    for other in CATALOGUE:
        if other["program"] == row["program"]:
            assert set(other["arguments"]) | set(other["full"]) | set(other["quick"]) <= keys, other["name"]
            assert not other["threads"] or "threads" in keys


@pytest.mark.parametrize(("program", "arguments", "message"), [
    ("threadtest", ["threads=0"], "threads is 1 to 1024, not 0"),
    ("threadtest", ["threads=9", "objects=8"], "more threads than objects"),
    ("threadtest", ["size=99999999999999999999"], "size is a number"),
    ("shbench", ["low=9", "high=8"], "low is above high"),
    ("larson", ["low=9", "high=8"], "low is above high"),
    ("false_sharing", ["kind=both"], "kind is one of active|passive"),
    ("asymmetric", ["threads=3"], "threads is 1 or even"),
    ("producer_consumer", ["objects=100"], "objects is a multiple of 64"),
    ("groups", ["threads=9", "live=8"], "more threads than groups"),
    ("zeroed", ["size=9", "high=8"], "size is above high"),
    ("growth", ["step=10", "limit=9"], "step is above limit"),
])
def test_values_that_are_wrong(program: str, arguments: list[str], message: str) -> None:
    done = run(f"suite/{program}", *arguments)
    assert done.returncode == 2 and done.stderr.startswith(message)


def test_scale_shrinks_what_is_given_too() -> None:
    assert results(run("suite/threadtest", "scale=0.1", "objects=100"))["argument.rounds"] == "10"
    assert results(run("suite/threadtest", "scale=0.1", "objects=100", "rounds=30"))["argument.rounds"] == "3"
    assert results(run("suite/threadtest", "scale=0.001", "objects=100"))["argument.rounds"] == "1"


@pytest.mark.parametrize("row", [row for row in one_row_a_program() if row["latency"]], ids=lambda row: row["program"])
def test_latencies(row: dict, tmp_path: Path) -> None:
    path = tmp_path / "latency"
    arguments = short_arguments(row, max(row["threads"], default=None))
    result = results(run(row["program"], *arguments, f"latency={path}"))
    plain = results(run(row["program"], *arguments))
    assert result["checksum"] == plain["checksum"]
    assert "latency.malloc.count" not in plain
    sections = re.split(r"^# ", path.read_text(), flags=re.MULTILINE)[1:]
    kinds = {}
    for section in sections:
        head, *lines = section.splitlines()
        facts = dict(pair.split("=") for pair in head.split())
        lows = [float(line.split()[0]) for line in lines]
        assert lows == sorted(set(lows))
        assert sum(int(line.split()[1]) for line in lines) == int(facts["count"])
        assert lows[-1] <= float(facts["max_ns"]) + 1
        assert float(facts["overhead_ns"]) > 0
        kinds[facts["calls"]] = int(facts["count"])
    assert {"malloc", "free"} <= set(kinds)
    for kind, count in kinds.items():
        assert result[f"latency.{kind}.count"] == str(count)
        quantiles = [float(result[f"latency.{kind}.{name}_ns"]) for name in ("p50", "p99", "p999", "p9999", "max")]
        assert quantiles == sorted(quantiles)


def test_a_latency_file_that_cannot_be_made() -> None:
    done = run("suite/threadtest", "scale=0.01", "latency=/nonexistent/file")
    assert done.returncode == 1 and "the file for latencies cannot be made" in done.stderr


def test_memory_that_runs_out_is_an_error() -> None:
    limit = 200 << 20
    done = subprocess.run([str(PROGRAMS / "suite" / "large"), "slots=1000", "low=1000000"], capture_output=True,
                          text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.returncode == 1 and done.stderr == "workload: malloc failed\n" and done.stdout == ""


def test_results_that_cannot_be_written_are_an_error() -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        assert subprocess.run([str(PROGRAMS / "suite" / "mmicro"), "scale=0.0001"], stdout=full).returncode == 1


def test_latencies_of_requests_are_always_there() -> None:
    result = results(run("suite/server", "scale=0.002"))
    assert result["latency.request.count"] == result["operations"]


def test_slow_calls_have_their_causes() -> None:
    done = run("suite/tails", "scale=0.02", "slow_us=1", "list=1", preload=COFFER)
    result = results(done)
    notes = [dict(word.split("=") for word in line.split() if "=" in word) | {"line": line}
             for line in done.stderr.splitlines()]
    assert notes
    for kind in ("small_malloc", "large_malloc", "small_free", "large_free"):
        of_kind = [note for note in notes if note["call"] == kind]
        stayed = [note for note in of_kind if "taken off" not in note["line"]]
        plain = [note for note in stayed if note["faults"] == "0"]
        figures = {key: float(result[f"slow.{kind}.{key}"])
                   for key in ("count", "switched", "faulted", "longest_ns", "plain_ns")}
        assert figures["count"] == len(of_kind)
        assert figures["switched"] == len(of_kind) - len(stayed)
        assert figures["faulted"] == len(stayed) - len(plain)
        for key, among in (("longest_ns", stayed), ("plain_ns", plain)):
            longest = max((float(note["us"]) for note in among), default=0)
            assert abs(figures[key] / 1000 - longest) <= 0.1
    # A page is cut in malloc. Whether a program may count its faults is the system's to say.
    faulted = sum(float(value) for key, value in result.items() if key.endswith(".faulted"))
    assert (faulted > 0) == (result["slow.faults_known"] == "1")


# A faulty allocator is noticed: by the program, by its results, or since it crashes or does not end. Not here are
# programs that allocate next to nothing, and xml, whose blocks are the library's.
FAULTS = {
    "shbench": ("overlap", 100, ["scale=0.002"]),
    "threadtest": ("overlap", 100, ["scale=0.02", "objects=1000"]),
    "larson": ("overlap", 100, ["scale=0.02"]),
    "mmicro": ("overlap", 100, ["scale=0.0001"]),
    "producer_consumer": ("overlap", 100, ["scale=0.01"]),
    "object_sizes": ("overlap", 100, ["x=6", "threads=2"]),
    "locality": ("overlap", 100, ["scale=0.01", "lists=50"]),
    "asymmetric": ("overlap", 100, ["scale=0.01"]),
    "large": ("overlap", 5, ["scale=0.01"]),
    "cfrac": ("overlap", 100, ["scale=0.01"]),
    "minimise": ("overlap", 100, ["scale=0.05"]),
    "lru": ("overlap", 100, ["scale=0.005"]),
    "translate": ("overlap", 100, ["scale=0.01"]),
    "bem": ("overlap", 100, ["scale=0.01"]),
    "barnes_hut": ("overlap", 100, ["scale=0.05", "particles=2000"]),
    "growth": ("realloc", 20, ["limit=1000000", "step=10000", "scale=0.05"]),
    "server": ("realloc", 5, ["scale=0.02"]),
    "zeroed": ("calloc", 100, ["scale=0.01"]),
    "groups": ("overlap", 100, ["scale=0.01"]),
    "tails": ("overlap", 100, ["scale=0.01"]),
    "history": ("overlap", 100, ["scale=0.03"]),
}


@pytest.mark.parametrize("program", FAULTS)
def test_a_faulty_allocator_is_noticed(program: str) -> None:
    kind, every, arguments = FAULTS[program]
    good = run(f"suite/{program}", *arguments)
    bare = run(f"suite/{program}", *arguments, preload=FAULTY, FAULTY_EVERY="0")
    assert results(bare)["checksum"] == results(good)["checksum"]
    try:
        bad = run(f"suite/{program}", *arguments, preload=FAULTY, timeout=5, FAULTY_EVERY=str(every),
                  FAULTY_KIND=kind)
    except subprocess.TimeoutExpired:
        return
    assert bad.returncode != 0 or results(bad)["checksum"] != results(good)["checksum"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_translated_program_compiles(tmp_path: Path) -> None:
    output = tmp_path / "generated.c"
    results(run("suite/translate", "scale=0.01", "routines=60", f"output={output}"))
    done = subprocess.run(["cc", "-std=c99", "-fsyntax-only", "-Werror=implicit-function-declaration", str(output)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_live_at_once_is_counted() -> None:
    arguments = ["x=10", "kb=1000", "cycles=4", "threads=20"]
    whole = 20 * 2 * 1000
    together = int(results(run("suite/object_sizes", *arguments, "together=1"))["live_kib"])
    assert whole <= together < 1.01 * whole
    assert 2 * 1000 <= int(results(run("suite/object_sizes", *arguments))["live_kib"]) < 1.01 * whole


def test_cfrac_takes_any_number() -> None:
    factors = results(run("suite/cfrac", "number=10000049000057"))  # 1000003 * 10000019
    assert factors["digits"] == "14"
    assert run("suite/cfrac", "number=1000003000000").returncode == 1


def test_larson_runs_by_the_clock_too() -> None:
    result = results(run("suite/larson", "seconds=1", "threads=2"))
    assert 0.9e9 < int(result["wall_ns"]) < 60e9
    assert result["checksum"] == "0" * 16


def test_half_of_the_frees_of_two_threads_are_remote() -> None:
    assert 0.4 < float(results(run("suite/producer_consumer", "scale=0.02"))["remote_share"]) < 0.6
    assert 0.65 < float(results(run("suite/producer_consumer", "scale=0.02", "threads=4"))["remote_share"]) < 0.85
