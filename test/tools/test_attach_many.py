# SPDX-License-Identifier: MIT
"""Busy PostgreSQL, redis and Python are asked COFFER_ATTACH_COUNT (1,000) times each, as `coffer heap --pid` asks: they
do what they do without, and no thread of theirs stays stopped. Prints how long a thread was held."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from coffer import places
from coffer.profile import proto
from coffer_bench.allocators import Allocator
from coffer_bench.processes import read_proc, tree
from coffer_bench.programs import servers
from coffer_bench.programs.base import Figures, directory

COUNT = int(os.environ.get("COFFER_ATTACH_COUNT", "1000"))
COFFER = Allocator("coffer", places.library())


class Asker:
    """Asks one of some processes again and again, another question each time."""

    def __init__(self, folder: Path) -> None:
        self.profile = folder / "profile.pb.gz"
        self.held: dict[str, list[int]] = {"start": [], "dump": [], "stop": []}
        self.ended = 0  # processes that were gone
        self.failed: list[str] = []
        self.chance = random.Random(3)

    def count(self) -> int:
        return sum(map(len, self.held.values()))

    def ask(self, processes: list[int]) -> None:
        process = self.chance.choice(processes)
        what = ["start", "dump", "stop"][self.count() % 3]
        words = {"start": [str(64 * 1024)], "dump": [str(self.profile)], "stop": []}[what]
        done = subprocess.run([places.program("attach"), str(process), what, *words], capture_output=True, text=True)
        if done.returncode == 0:
            self.held[what].append(int(done.stdout))
            if what == "dump":
                proto.read(self.profile)
        elif read_proc(f"/proc/{process}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"]):
            self.ended += 1
        else:
            self.failed.append(done.stderr)
        self.check(process)

    def check(self, process: int) -> None:
        """No thread is stopped or traced when the answer is there."""
        try:
            tasks = os.listdir(f"/proc/{process}/task")
        except OSError:
            return
        for task in tasks:
            fields = read_proc(f"/proc/{process}/task/{task}/stat").rpartition(")")[2].split()
            if fields and fields[0] in "tT":
                self.failed.append(f"{process}/{task} is stopped")

    def conclude(self, name: str, capsys: pytest.CaptureFixture) -> None:
        with capsys.disabled():
            for what, held in self.held.items():
                print(f"\n{name}: {what} {len(held)} times, a thread held {statistics.median(held):,.0f} us (median),"
                      f" {max(held):,} us (most)", end="")
            print(f"; {self.ended} had ended, {len(self.failed)} failed", flush=True)
        assert self.failed == []
        assert self.count() >= COUNT


def while_busy(asker: Asker, work: Callable[[], str], processes: Callable[[], list[int]]) -> str:
    """Asks for as long as the work goes on. What it says."""
    said: list[str] = []
    problems: list[BaseException] = []

    def do() -> None:
        try:
            said.append(work())
        except BaseException as problem:  # noqa: BLE001: told by the test
            problems.append(problem)

    thread = threading.Thread(target=do)
    thread.start()
    while thread.is_alive():
        if asker.count() < COUNT:
            asker.ask(processes())
        else:
            time.sleep(0.05)
    thread.join()
    if problems:
        raise problems[0]
    return said[0]


@pytest.mark.parametrize("kind", [servers.Redis, servers.Postgres], ids=["redis", "postgresql"])
def test_servers(kind: type[servers.Server], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    asker = Asker(tmp_path)

    class AskedServer(kind):
        timeout = 600

        def measured(self, allocator: Allocator, pid: int, operations: int, load: Callable[[], str]) -> Figures:
            return {"digest": while_busy(asker, load, lambda: list(tree(pid)))}

    program = AskedServer()
    program.require()
    with directory() as inputs:
        program.prepare(inputs, False)
        expected = None
        while asker.count() < COUNT:
            found = program.run(COFFER, inputs, False)["digest"]
            assert expected in (None, found)
            expected = found
    asker.conclude(program.name, capsys)


PYTHON = """
import hashlib, json, sys, threading, time
over = threading.Event()
rounds = [0] * 4
def work(number):
    while not over.is_set():
        begun = time.monotonic()
        time.sleep(0.005)
        assert time.monotonic() - begun >= 0.005
        words = [str(one) * 20 for one in range(2000)]
        assert json.loads(json.dumps(words)) == words
        assert hashlib.sha256("".join(words).encode()).hexdigest() == EXPECTED
        rounds[number] += 1
EXPECTED = hashlib.sha256("".join(str(one) * 20 for one in range(2000)).encode()).hexdigest()
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
threading.excepthook = lambda what: (print("failed", what.exc_value, flush=True), over.set())
for one in threads: one.start()
print("ready", flush=True)
sys.stdin.read()
over.set()
for one in threads: one.join()
print("done" if min(rounds) > 0 else "none", flush=True)
"""


def test_python(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    asker = Asker(tmp_path)
    with subprocess.Popen([sys.executable, "-c", PYTHON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**COFFER.environment(), "PYTHONMALLOC": "malloc"}) as started:
        try:
            assert started.stdout.readline() == "ready\n"
            while asker.count() < COUNT and started.poll() is None and len(asker.failed) < 10:
                asker.ask([started.pid])
            assert started.communicate(timeout=60)[0] == "done\n"
        finally:
            started.kill()
    asker.conclude("python", capsys)
