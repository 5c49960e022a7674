# SPDX-License-Identifier: MIT
"""coffer retainers: one command, and who keeps the memory alive stands in the first sentence; and processes that make
it hard."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coffer import places
from in_process import call, run
from ready import comes_to_rest, ready, state

BUILT = Path(os.environ["COFFER_SEEDED"])
SOURCES = Path(__file__).with_name("seeded")
PROGRAM = BUILT / "seeded_retained"
SCAN = places.build_dir() / "libexec" / "coffer" / "retain"
pytestmark = pytest.mark.skipif(not SCAN.exists(), reason="on x86-64 only")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def coffer(*arguments: object) -> list[str]:
    return run("retainers", *arguments).stdout.splitlines()


@contextlib.contextmanager
def waiting(*arguments: object, library: str = "coffer", program: Path = PROGRAM, conf: str = "") -> Iterator[int]:
    """A process under Coffer that has allocated and sleeps."""
    environment = {**os.environ, "LD_PRELOAD": str(places.library(library)), "COFFER_CONF": conf}
    with ready([program, *arguments, "wait"], env=environment) as process:
        yield process.pid


def scan(process: int, *options: str) -> tuple[dict, dict]:
    done = subprocess.run([SCAN, str(process), *options], capture_output=True, text=True, check=True, timeout=120)
    copied, result = done.stdout.splitlines()
    return json.loads(copied), json.loads(result)


def children_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_a_cache_in_cpp() -> None:
    first, second, *_ = coffer("--", PROGRAM, "cache", 1000)
    assert re.match(r"1\.0 MiB in 2,001 blocks are kept alive by g_cache \(seeded_retained\+0x[0-9a-f]+\), all"
                    r" allocated by Cache::insert, retained\.cpp:\d+\.$", first), first
    assert second == "Nothing is lost: all blocks are reachable."


def test_a_list_on_a_stack() -> None:
    first = coffer("--", PROGRAM, "stack", 1000)[0]
    assert re.match(r"250\.0 KiB in 1,000 blocks are kept alive by the frame of hold_list, retained\.cpp:\d+, thread"
                    r" seeded_retained \(\d+\), all allocated by push, retained\.cpp:\d+\.$", first), first


def test_thread_local_storage() -> None:
    first = coffer("--", PROGRAM, "local", 1000)[0]
    assert "kept alive by t_list (thread-local, seeded_retained), thread seeded_retained" in first


def test_rings_that_nobody_knows() -> None:
    first = coffer("--", PROGRAM, "ring", 1000)[0]
    assert re.match(r"[\d.]+ KiB in (2,000|1,99\d) blocks are not reachable from anywhere \((1,000|99\d) of them"
                    r" directly lost, all others through these\), all allocated by make_ring, retained\.cpp",
                    first), first


def test_a_table_in_c_and_exit() -> None:
    done = call("retainers", "--", BUILT / "seeded_retained_c")
    assert re.match(r"1\.9 MiB in 2,000 blocks are kept alive by sessions \(seeded_retained_c\+0x[0-9a-f]+\), all"
                    r" allocated by make_text, retained\.c:\d+\.$", done.stdout.splitlines()[0]), done.stdout
    assert done.returncode == 3  # the program's


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no Rust compiler here")
def test_a_registry_in_rust(tmp_path: Path) -> None:
    subprocess.run(["rustc", "-g", "-C", "opt-level=1", "-o", tmp_path / "tiles", SOURCES / "retained.rs"], check=True)
    first = coffer("--", tmp_path / "tiles")[0]
    assert re.match(r"3\.\d MiB in 1,001 blocks are kept alive by retained::REGISTRY \(tiles\+0x[0-9a-f]+\), 9\d%"
                    r" allocated by retained::load_tile, retained\.rs:\d+\.$", first), first


def test_a_process_goes_on_and_keeps_nothing_of_it() -> None:
    with waiting("cache", 5000) as process:
        for options in ([], [], ["--stop"]):
            copied, result = scan(process, *options)
            assert copied["copy"] == (not options)
            assert result["blocks"] >= 10001 and result["lost"]["blocks"] == 0
            assert children_of(process) == [] and comes_to_rest(process)


def test_without_samples_blocks_are_told_by_size() -> None:
    with waiting("cache", 1000) as process:
        done = coffer("--pid", process)
    assert "kept alive by g_cache" in done[0] and "in blocks of 1,008 bytes" in done[0] or "1,024 bytes" in done[0]
    assert any(line.startswith("No call sites: the process takes no samples.") for line in done)


def test_the_copy_dies_with_the_command() -> None:
    with waiting("many", 300_000) as process:
        for delay in (0.005, 0.02, 0.05, 0.1, 0.2):
            running = subprocess.Popen([SCAN, str(process)], stdout=subprocess.DEVNULL)
            time.sleep(delay)
            running.kill()
            running.wait()
            deadline = time.monotonic() + 10
            while any(state(int(one)) != "Z" for one in children_of(process)) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert all(state(int(one)) == "Z" for one in children_of(process))
            assert comes_to_rest(process)
        assert scan(process)[1]["blocks"] >= 300_000


def test_a_hundred_threads() -> None:
    with waiting("threads", 100) as process:
        copied, result = scan(process)
    assert copied["threads"] == 101
    stacks = [one for one in result["holders"] if one["roots"][0]["kind"] == "stack"]
    assert sum(one["blocks"] for one in stacks) >= 9_900


def test_a_stopped_process_stays_stopped() -> None:
    with waiting("cache", 100) as process:
        os.kill(process, signal.SIGSTOP)
        while state(process) != "T":
            time.sleep(0.01)
        assert scan(process)[1]["blocks"] >= 201
        assert state(process) == "T"


def test_memory_that_is_odd() -> None:
    """Terabytes that nobody touched, pages that cannot be read, a mapping behind the end of its file, a device."""
    with waiting("odd", 100) as process:
        _, result = scan(process)
        assert children_of(process) == [] and comes_to_rest(process)
    (mapped,) = [one for one in result["holders"] if one["roots"][0]["kind"] == "mapping"]
    assert mapped["blocks"] == 100
    assert result["seconds"] < 60


def test_the_hardened_library() -> None:
    if not (places.build_dir() / "lib" / "libcoffer_hardened.so").exists():
        pytest.skip("the hardened library is not built")
    with waiting("cache", 1000, library="coffer_hardened") as process:
        _, result = scan(process)
    assert result["holders"][0]["roots"][0]["name"].endswith("g_cache")
    assert 2001 <= result["holders"][0]["blocks"] <= 2010 and result["lost"]["blocks"] < 100


def test_what_cannot_be_done_is_said() -> None:
    sleeper = subprocess.Popen(["sleep", "100"], env={"PATH": os.environ["PATH"]})
    try:
        done = call("retainers", "--pid", sleeper.pid)
        assert done.returncode == 1 and f"process {sleeper.pid} (sleep) does not run Coffer" in done.stderr
    finally:
        sleeper.kill()
        sleeper.wait()
    assert f"there is no process {sleeper.pid}" in call("retainers", "--pid", sleeper.pid).stderr
    done = call("retainers", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 137 and "the program ended before it could be looked at" in done.stderr
    assert "one of them is needed" in call("retainers").stderr


def test_after_some_seconds_and_as_json() -> None:
    done = run("retainers", "--json", "--after", 1, "--", "sh", "-c", f"exec {PROGRAM} nap 500")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["holders"][0]["title"].startswith("g_cache") and found["is_copy"] and done.returncode == 0
    assert found["holders"][0]["keeps"][0]["function"] == "Cache::insert"
