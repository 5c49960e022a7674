# SPDX-License-Identifier: MIT
"""redis-server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.processes import execute
from coffer_bench.programs.base import find_program
from coffer_bench.programs.servers import serving
from hdrh.histogram import HdrHistogram

from soak import latency
from soak.programs.base import PATIENCE, PLAIN, Soaked

# In pairs, so that nothing grows: what one puts in the other takes out, or it is one of a fixed number of keys.
TESTS = "set,get,incr,lpush,lpop,rpush,rpop,sadd,spop,hset,zadd,zpopmin,mset"
# Bytes of a value, one after the other: blocks of other classes each time.
SIZES = (64, 1000, 200, 5000, 24, 350)
REQUESTS = 1_500  # of each test and size


class Redis(Soaked):
    name = "redis"
    what = "redis-server; strings, lists, sets, hashes and sorted sets of changing sizes from 8 clients, saves in forks"
    # Three times over the sizes. While it grows, huge pages are brought in, 0.2 ms each: p99.95 is 2.8 times glibc's.
    warm_seconds = 6.0
    turn_seconds = 2.0
    apart = True

    def require(self) -> None:
        find_program("redis-server", "redis-server")
        find_program("redis-benchmark", "redis-tools")

    def client(self, home: Path) -> list[str]:
        return [find_program("redis-cli", "redis-tools"), "-s", str(home / "socket")]

    def ask(self, home: Path, *words: str) -> str:
        return execute([*self.client(home), *words], PLAIN, timeout=PATIENCE).stdout.decode().strip()

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        settings = {
            "port": "0", "unixsocket": str(home / "socket"), "dir": str(home), "save": "", "activedefrag": "no",
            "lazyfree-lazy-user-del": "yes", "lazyfree-lazy-user-flush": "yes", "crash-log-enabled": "yes",
        }
        options = [word for name, setting in settings.items() for word in (f"--{name}", setting)]

        def ready() -> bool:
            ping = [*self.client(home), "PING"]
            return (home / "socket").exists() and subprocess.run(ping, capture_output=True).stdout == b"PONG\n"

        (home / "socket").unlink(missing_ok=True)
        command: list[str | Path] = [find_program("redis-server", "redis-server"), *options]
        with serving(self.name, allocator, command, home, ready) as pid:
            yield pid

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        """Whole turns over the sizes, so that each load has as many requests of each."""
        total = latency.histogram()
        end = time.monotonic() + seconds
        while True:
            for size in SIZES:
                command = [
                    find_program("redis-benchmark", "redis-tools"), "-s", str(home / "socket"), "-c", "8",
                    "-r", "20000", "-n", str(REQUESTS), "-d", str(size), "-t", TESTS,
                ]
                total.add(latency.of_redis_benchmark(execute(command, PLAIN, timeout=PATIENCE).stdout.decode()))
            self.ask(home, "DEL", "mylist", "myset")
            if time.monotonic() > end:
                return total

    def rest(self, home: Path) -> None:
        """A child saves what the parent goes on to change."""
        self.ask(home, "BGSAVE")
