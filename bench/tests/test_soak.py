# SPDX-License-Identifier: MIT
"""make soak: its arithmetic against values that are known, and programs that grow or crash, which it has to find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import conftest
import numpy
import pytest
from coffer_bench import samples
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.errors import BenchError
from coffer_bench.programs.servers import serving
from hdrh.histogram import HdrHistogram
from soak import faults, latency, memory, page, turns
from soak.programs.base import Soaked
from soak.results import Log
from soak.trend import GROWS, SHORT, STEADY, Sample, trend
from soak.verdicts import FAILS, HOLDS, OPEN, Verdict, judge_ratio, verdicts

# Under the name of the one that is judged, but glibc's: the fakes need no library.
OURS = Allocator("coffer", None)


# The slope.


def line(slope: float, noise: numpy.ndarray, step: float = 60.0, group: object = 0) -> list[Sample]:
    """KiB an hour."""
    return [Sample(i * step, 50_000 + slope * i * step / 3600 + extra, group) for i, extra in enumerate(noise)]


def test_a_slope_is_found_with_its_interval() -> None:
    found = trend(line(600, numpy.random.default_rng(1).normal(0, 20, 120)))
    assert found.low < 600 < found.high and found.high - found.low < 60 and found.verdict == GROWS
    assert trend(line(-600, numpy.random.default_rng(1).normal(0, 20, 120))).verdict == STEADY


def test_what_does_not_grow_is_seldom_said_to() -> None:
    """Of samples each of which is much like the one before: without the correction, a third would seem to grow."""
    chance = numpy.random.default_rng(4)
    said = []
    for _ in range(100):
        noise = numpy.zeros(240)
        for i in range(1, 240):
            noise[i] = 0.8 * noise[i - 1] + chance.normal(0, 50)
        said.append(trend(line(0, noise)).verdict)
    assert said.count(GROWS) <= 8 and SHORT not in said


def test_levels_of_lives_are_no_growth() -> None:
    chance = numpy.random.default_rng(2)
    lives = [
        Sample(one.seconds + 7200 * life, one.kib + 30_000 * life, life)
        for life in range(4) for one in line(0, chance.normal(0, 30, 60))
    ]
    assert trend(lives).verdict == STEADY and trend(lives).groups == 4
    assert trend([Sample(one.seconds, one.kib, 0) for one in lives]).verdict == GROWS


def test_steps_are_judged_by_their_differences() -> None:
    chance = numpy.random.default_rng(6)
    once = trend(line(0, numpy.where(numpy.arange(200) < 90, 0.0, 4.0)))
    assert once.by_steps and once.verdict == STEADY and once.low < 0 < once.high
    assert trend(line(0, numpy.cumsum(chance.random(400) < 0.1) * 4.0)).verdict == GROWS
    slowly = trend(line(0, 9000 * (1 - numpy.exp(-numpy.arange(200) / 60))))
    assert slowly.by_steps and slowly.verdict == GROWS
    walks = [trend(line(0, numpy.cumsum(chance.normal(0, 50, 200)))).verdict for _ in range(100)]
    assert walks.count(GROWS) <= 8
    assert trend(line(0, numpy.zeros(200))).verdict == STEADY


def test_few_samples_say_nothing() -> None:
    assert trend([]).verdict == SHORT
    assert trend(line(600, numpy.zeros(8))).verdict == SHORT
    # Three of each life have no slope to speak of.
    assert trend([one for life in range(9) for one in line(600, numpy.zeros(3), group=life)]).verdict == SHORT


# What load generators print.


def test_percentiles() -> None:
    found = latency.percentiles(latency.histogram((float(value), 1) for value in range(1, 1001)))
    assert found == {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1000}
    again = latency.decoded(latency.encoded(latency.histogram([(250.0, 7)])))
    assert again.get_total_count() == 7 and latency.percentiles(again)["p50"] == 250
    assert latency.is_shown(10_000, "p99.9") and not latency.is_shown(9_000, "p99.9") and latency.is_shown(1, "max")


def test_wrk() -> None:
    good = "errors connect=0 read=0 write=0 status=0 timeout=0\nlatency 100 90\nlatency 900 10\n"
    assert latency.percentiles(latency.of_wrk(good))["p99"] == 900
    for bad in ("", "Segmentation fault", good.replace("status=0", "status=3"), good.split("\n")[0]):
        with pytest.raises(BenchError):
            latency.of_wrk(bad)


def test_sysbench() -> None:
    text = "Latency histogram (values are in milliseconds)\n       1.500 |**                  30\n     20.000 | 1\n"
    found = latency.percentiles(latency.of_sysbench(text))
    assert found["p50"] == 1500 and found["max"] == pytest.approx(20_000, rel=0.001)
    with pytest.raises(BenchError):
        latency.of_sysbench("FATAL: mysql_stmt_prepare() failed")


def test_pgbench(tmp_path: Path) -> None:
    (tmp_path / "load1.77").write_text("0 1 1200 0 1700000000 5\n1 1 3400 1 1700000000 9\n")
    assert latency.percentiles(latency.of_pgbench(tmp_path, "load1"))["max"] == pytest.approx(3400, abs=4)
    (tmp_path / "load2.77").write_text("0 1 failed 0 1700000000 5\n")
    for prefix in ("load2", "load3"):
        with pytest.raises(BenchError):
            latency.of_pgbench(tmp_path, prefix)


def test_redis_benchmark() -> None:
    text = """====== SET ======
  1000 requests completed in 0.02 seconds
Latency by percentile distribution:
0.000% <= 0.050 milliseconds (cumulative count 10)
50.000% <= 0.100 milliseconds (cumulative count 600)
100.000% <= 0.900 milliseconds (cumulative count 1000)

Cumulative distribution of latencies:
0.000% <= 0.103 milliseconds (cumulative count 600)
95.000% <= 0.203 milliseconds (cumulative count 950)
100.000% <= 0.903 milliseconds (cumulative count 1000)
\r                                                 \r====== GET ======
100.000% <= 2.000 milliseconds (cumulative count 500)
"""
    found = latency.of_redis_benchmark(text)
    assert found.get_total_count() == 1500
    assert found.get_count_at_value(100) == 590 and found.get_count_at_value(900) == 50
    assert latency.percentiles(found)["max"] == pytest.approx(2000, abs=2)
    with pytest.raises(BenchError):
        latency.of_redis_benchmark("Could not connect to Redis")


def test_what_a_log_tells() -> None:
    log = "ready\nworker process 5 exited on signal 9\nworker process 6 exited on signal 11 (core dumped)\n"
    assert faults.told(log) == ["worker process 6 exited on signal 11 (core dumped)"]
    assert faults.told("coffer: free of 0x1: already free, MemoryError\nMemoryError\n", "MemoryError") == [
        "coffer: free of 0x1: already free, MemoryError"]
    assert faults.told("Background saving terminated with success\n") == []


# Verdicts and the page.


def results(directory: Path, slope: float = 0, ratio: float = 1.0, more: list[dict] | None = None,
            memory_share: float = 0.6) -> samples.Results:
    path = directory / "made.jsonl"
    log = Log(path, {
        "machine": conftest.machine(), "versions": {"coffer": "1"}, "missing": {"nginx": "nginx is missing"},
        "programs": {"redis": "a server"},
        "plan": {"hours": 2, "programs": ["redis"], "together": False, "allocators": ["coffer", "glibc"],
                 "watched": ["coffer"], "memory_share": memory_share},
    })
    noise = numpy.random.default_rng(3).normal(0, 40, 200)
    for one in line(slope, noise) if memory_share > 0 else []:
        log.append({"kind": "memory", "program": "redis", "allocator": "coffer", "seconds": one.seconds, "rss": 1,
                    "own": one.kib, "tables": 0, "processes": 1, "life": 1, "setting": "", "huge": "madvise",
                    "settled": one.seconds > 100})
    for number in range(8):
        for allocator, factor in (("coffer", ratio), ("glibc", 1.0)):
            us = {name: 1000.0 * factor * (1 + number) for name in latency.PERCENTILES}
            log.append({"kind": "turn", "program": "redis", "allocator": allocator, "round": number, "count": 100_000,
                        "us": us, "histogram": ""})
    for record in [*(more or []), {"kind": "end", "cut": False, "load": 0.5}]:
        log.append(record)
    log.close()
    return samples.read(path)


def only(found: samples.Results) -> Verdict:
    (one,) = verdicts(found)
    return one


CRASH = {"kind": "fault", "program": "redis", "allocator": "coffer", "seconds": 60.0, "life": 1, "setting": "",
         "what": "crash", "text": "killed by SIGSEGV"}


def test_the_rule(tmp_path: Path) -> None:
    assert str(only(results(tmp_path))) == HOLDS
    assert str(only(results(tmp_path, slope=2000))) == "fails: memory"
    assert str(only(results(tmp_path, ratio=1.04))) == HOLDS
    assert str(only(results(tmp_path, ratio=1.06))) == "fails: p99, p99.9"
    assert str(only(results(tmp_path, more=[CRASH]))) == "fails: faults"
    assert only(results(tmp_path, more=[{**CRASH, "allocator": "glibc"}])).word == HOLDS


def test_few_rounds_and_wide_ones_leave_it_open() -> None:
    from coffer_bench.stats import Estimate

    assert judge_ratio(None) == OPEN and judge_ratio(Estimate(2.0)) == OPEN
    assert judge_ratio(Estimate(2.0, 1.5, 2.5, 5)) == OPEN and judge_ratio(Estimate(2.0, 1.5, 2.5, 6)) == FAILS
    assert judge_ratio(Estimate(1.0, 0.9, 1.1, 9)) == OPEN and judge_ratio(Estimate(1.0, 0.9, 1.04, 9)) == HOLDS


def test_the_page(tmp_path: Path) -> None:
    event = {"kind": "event", "program": "redis", "allocator": "coffer", "seconds": 90.0, "what": "restart"}
    found = results(tmp_path, slope=2000, more=[
        CRASH, {**event, "begins": True}, {**event, "what": "control group's limit", "missing": "no group here"}])
    written = page.write(found, tmp_path / "pages").read_text()
    assert "**fails: faults, memory**" in written and "1.000 (1.000 to 1.000)" in written
    assert "crash: `killed by SIGSEGV`" in written and "| a | restart | redis |" in written
    assert "redis: not done, no group here" in written and "nginx, nginx is missing" in written
    assert "HOURS=2 " in written and "other work" not in written and "cut short" not in written
    picture = (tmp_path / "pages" / "soak.svg").read_text()
    assert "SPDX" in picture.splitlines()[1] and "redis, MiB" in picture
    whole = found.header, [one for one in found.records if one["kind"] != "end"]
    assert "cut short" in page.text(samples.Results(*whole), {}, "soak.svg")


def test_latencies_of_another_run(tmp_path: Path) -> None:
    """The first one was ended when its memory part was over."""
    (tmp_path / "other").mkdir()
    other = results(tmp_path / "other", ratio=1.06)
    over = {"kind": "conducted", "program": "redis", "allocator": "coffer", "seconds": 1.0, "lives": 1, "faults": {}}
    found = results(tmp_path, slope=2000, more=[over, {"kind": "end", "cut": True, "load": 9.0}])
    both = page.with_latencies(found, other)
    assert str(only(both)) == "fails: memory, p99, p99.9"
    text = page.text(both, {}, "soak.svg")
    assert "latencies are of a run of their own" in text and "cut short" not in text and "load at the end 0.50" in text
    with pytest.raises(BenchError, match="memory of redis was not watched to the end"):
        page.with_latencies(other, other)


def test_the_page_of_latencies_alone(tmp_path: Path) -> None:
    fault = {"kind": "fault", "program": "redis", "allocator": "coffer", "seconds": 0.0, "what": "turn failed",
             "text": "no port", "round": 3}
    written = page.write(results(tmp_path, ratio=1.06, more=[fault], memory_share=0), tmp_path / "pages")
    assert written.name == "soak-latencies.md" and not (tmp_path / "pages" / "soak.md").exists()
    text = written.read_text()
    assert "| redis | 1 | 1.060 (1.060 to 1.060) | 1.060 (1.060 to 1.060) | fails | fails |" in text
    assert "--programs redis --allocators coffer,glibc --memory-share 0" in text and "turn failed: `no port`" in text
    assert "median of 8 turns" in text and "other work" not in text


def test_the_time_of_turns() -> None:
    long, short = turns.rounds_of(3600, 4, 6.0), turns.rounds_of(3600, 4, 3.0)
    assert long == 120 and 190 < short < 210
    assert turns.rounds_of(10, 4, 5.0) == turns.ROUNDS[0] and turns.rounds_of(1e6, 4, 5.0) == turns.ROUNDS[1]
    # The program of long turns has its rounds early and late, and the first one is for all.
    had = [number for number in range(1, short + 1)
           if turns.turns_until(number, long, short) > turns.turns_until(number - 1, long, short)]
    assert len(had) == long and had[0] == 1 and max(b - a for a, b in zip(had, had[1:], strict=False)) == 2


def test_server_and_load_have_processors_of_their_own() -> None:
    had = os.sched_getaffinity(0)
    if len(had) < 2:
        pytest.skip("one processor")
    with turns.bound(True, slice(None, -1)):
        server = os.sched_getaffinity(0)
    with turns.bound(True, slice(-1, None)):
        load = os.sched_getaffinity(0)
    assert not server & load and server | load == had and len(load) == 1
    with pytest.raises(BenchError), turns.bound(True, slice(-1, None)):
        raise BenchError("refused")
    assert os.sched_getaffinity(0) == had
    with turns.bound(False, slice(-1, None)):
        assert os.sched_getaffinity(0) == had


# Programs that go wrong.

FAKE = """
import os, sys, time
open(sys.argv[1], "w").close()
kept, began = [], time.monotonic()
while True:
    time.sleep(0.02)
    if sys.argv[2] == "grow":
        kept.append(b"x" * 60000)
    if sys.argv[2] == "crash" and time.monotonic() - began > 0.8:
        os.abort()
"""


class Fake(Soaked):
    what = "a process"

    def __init__(self, name: str) -> None:
        self.name = name

    def require(self) -> None: ...

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        ready = home / "ready"
        ready.unlink(missing_ok=True)
        command: list[str | Path] = [sys.executable, "-S", "-c", FAKE, ready, self.name]
        with serving(self.name, allocator, command, home, ready.exists) as pid:
            yield pid

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        time.sleep(0.2)
        if self.name == "refuse":
            raise BenchError("connection refused")
        return latency.histogram([(100.0, 5)])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[samples.Results]:
    """Three of them at a time, for some seconds."""
    folder = tmp_path_factory.mktemp("soak")
    log = Log(folder / "made.jsonl", {"plan": {"programs": ["grow", "rest", "crash"], "allocators": []}})
    fakes = [(Fake(name), folder) for name in ("grow", "rest", "crash")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "INTERVAL", (0.05, 0.05))
        memory.run_together(fakes, OURS, 4.0, log, whole_machine=False)
    log.close()
    yield samples.read(folder / "made.jsonl")


def verdict_of(found: samples.Results, name: str) -> Verdict:
    (one,) = [one for one in verdicts(found) if one.program == name]
    return one


def test_one_that_grows_is_found(watched: samples.Results) -> None:
    """60 KB each 20 ms are some 10 GB an hour, less on a machine that is busy."""
    found = verdict_of(watched, "grow")
    assert found.trends["coffer"].verdict == GROWS and 1e5 < found.trends["coffer"].slope < 2e7
    assert not found.faults and found.lives > 3


def test_one_that_does_not_grow_passes(watched: samples.Results) -> None:
    found = verdict_of(watched, "rest")
    assert found.trends["coffer"].verdict == STEADY and not found.faults
    events = [one for one in watched.of("event") if one["program"] in ("rest", "")]
    done = {one["what"] for one in events if one.get("begins")}
    assert {"restart", "kill -9 and restart", "restart with Coffer's limit"} <= done
    assert {one["missing"] for one in events if one["what"] == "huge pages always"} == {
        "was not to be changed (--no-machine)"}


def test_one_that_crashes_is_reported_and_goes_on(watched: samples.Results) -> None:
    found = verdict_of(watched, "crash")
    assert found.faults[0]["text"].startswith("killed by SIGABRT") and found.word == FAILS
    assert {one["what"] for one in found.faults} == {"crash"} and found.lives > 1


def test_requests_that_fail_without_a_reason_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BOUT", (0.01, 0.01))
    log = Log(tmp_path / "made.jsonl", {"plan": {}})
    one = memory.Conductor(Fake("refuse"), OURS, tmp_path, memory.Machine(40.0, "madvise"), log)
    one.home = tmp_path
    one.excuse(3600)
    load = threading.Thread(target=one.bear_load)
    load.start()
    time.sleep(0.6)
    assert not one.counts
    one.excuse(-3600)
    deadline = time.monotonic() + 60
    while not one.counts and time.monotonic() < deadline:
        time.sleep(0.05)
    one.over.set()
    load.join()
    log.close()
    assert set(one.counts) == {"request failed"}


# The command.


def test_an_interruption_leaves_no_server_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-B", "-m", "soak", "--hours", "0.1", "--programs", "redis", "--allocators",
               "coffer,glibc", "--no-machine", "--results", path, "--build-dir", tmp_path / "build"]
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "lib").symlink_to(conftest.BUILD / "lib")
    paths = os.pathsep.join(str(TOP / folder) for folder in ("bench", "tools"))
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE,
                          **conftest.interruptible(signal.SIGINT)) as process:
        deadline = time.monotonic() + 60
        while not path.exists() or b'"memory"' not in path.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, process.stderr.read().decode()
            time.sleep(0.1)
        assert f"{tmp_path}/" in running()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, process.stderr.read().decode()
    assert f"{tmp_path}/coffer-bench" not in running()
    assert [one["cut"] for one in samples.read(path).of("end")] == [True]
    assert "cut short" in (tmp_path / "build" / "soak" / "soak.md").read_text()


def running() -> str:
    """The command lines of all processes. Redis has its directory in none; its socket is listed by the kernel."""
    return Path("/proc/net/unix").read_text()
