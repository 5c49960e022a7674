# SPDX-License-Identifier: MIT
"""redis-server under load while it forks to save, and again over the dump that it saved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import harness
from inputs import keys

# The load goes to database 1, so that database 0 must come out of every dump as it was before the load.
LOAD = (
    "--dbnum 1 -c 40 -P 8 -r 20000 -n 30000 -d 300 -q"
    " -t set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"
).split()


class Redis:
    def __init__(self, allocator: harness.Allocator, home: Path) -> None:
        self.allocator, self.home, self.socket = allocator, home, home / "redis.sock"
        self.client = harness.require("redis-cli", "redis-tools")

    def start(self) -> harness.Server:
        """With lazy freeing: what the main thread allocated is freed by another. No I/O threads: they spin."""
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.home),
            "save": "",
            "enable-debug-command": "yes",
            "lazyfree-lazy-user-del": "yes",
        }
        options = [word for name, setting in settings.items() for word in (f"--{name}", setting)]
        command = [harness.require("redis-server", "redis-server"), *options]
        server = harness.Server(self.allocator, command, home=self.home)
        harness.wait_until("start of redis-server", lambda: self.ask("PING") == "PONG", server)
        server.check()
        return server

    def ask(self, *words: str, data: bytes | None = None) -> str:
        """The client is a tool of the test: it runs without the allocator."""
        command = [self.client, "-s", str(self.socket), *words]
        limit = harness.HANG_SECONDS
        answer = subprocess.run(command, input=data or b"", capture_output=True, timeout=limit, check=False)
        return answer.stdout.decode("utf-8", "replace").strip()

    def info(self, section: str) -> dict[str, str]:
        lines = self.ask("INFO", section).splitlines()
        return dict(line.strip().split(":", 1) for line in lines if ":" in line)

    def save_in_background(self, server: harness.Server) -> None:
        assert self.ask("BGSAVE") == "Background saving started"
        harness.wait_until("BGSAVE", lambda: self.info("persistence")["rdb_bgsave_in_progress"] == "0", server)
        assert self.info("persistence")["rdb_last_bgsave_status"] == "ok"


def load_while_saving(redis: Redis, server: harness.Server) -> None:
    """redis-benchmark (under the allocator too) with saves one after the other until it has ended."""
    benchmark = [harness.require("redis-benchmark", "redis-tools"), "-s", str(redis.socket), *LOAD]
    saves = 0
    with harness.Server(redis.allocator, benchmark, home=redis.home / "load") as load:
        while load.process.poll() is None:
            redis.save_in_background(server)
            saves += 1
        assert load.process.returncode == 0
    assert saves > 0
    assert "requests per second" in load.log.read_text()


def session(allocator: harness.Allocator, home: Path) -> tuple[str, str]:
    """Digest and size of database 0, after all that was done to the server."""
    directory = home / allocator.name
    (directory / "load").mkdir(parents=True)
    redis = Redis(allocator, directory)
    with redis.start() as server:
        assert "errors: 0" in redis.ask("--pipe", data=keys.commands(60000))
        digest, size = redis.ask("DEBUG", "DIGEST"), redis.ask("DBSIZE")
        assert len(digest) == 40 and int(size) > 1000
        load_while_saving(redis, server)
        redis.save_in_background(server)
        whole = redis.ask("DEBUG", "DIGEST")
        server.check()
        redis.ask("SHUTDOWN", "NOSAVE")
    with redis.start() as server:
        assert redis.ask("DEBUG", "DIGEST") == whole
        assert redis.ask("DEBUG", "RELOAD") == "OK"
        assert redis.ask("DEBUG", "DIGEST") == whole
        assert redis.ask("-n", "1", "FLUSHDB", "ASYNC") == "OK"
        assert redis.ask("DEBUG", "DIGEST") == digest
        assert redis.ask("DBSIZE") == size
        assert redis.ask("MEMORY", "PURGE") == "OK"
    return digest, size


def test_redis(both: list[harness.Allocator], home: Path) -> None:
    got, expected = [session(allocator, home) for allocator in both]
    assert got == expected
