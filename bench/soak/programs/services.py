# SPDX-License-Identifier: MIT
"""Services of our own in Python, JavaScript and Java, in services/. All answer GET /task/KEY/SIZE: they make objects,
a text and compressed blocks of some sizes, keep some for a while, and answer with what came out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.processes import execute
from coffer_bench.programs.base import find_program
from coffer_bench.programs.servers import serving
from hdrh.histogram import HdrHistogram

from soak import latency
from soak.programs.base import PATIENCE, PLAIN, SERVICES, Soaked, answers, free_port, get, port_of, wrk

KEYS = 400


class Service(Soaked):
    more: dict[str, str] = {}

    def command(self, inputs: Path, port: int) -> list[str | Path]:
        raise NotImplementedError

    def require(self) -> None:
        find_program("wrk", "wrk")

    def furnish(self, inputs: Path, home: Path) -> None:
        (home / "inputs").symlink_to(inputs)

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        port = free_port()
        (home / "port").write_text(str(port))
        command = self.command((home / "inputs").resolve(), port)
        ready = lambda: answers(port, "/task/1/1")  # noqa: E731
        with serving(self.name, allocator, command, home, ready, more=self.more) as pid:
            yield pid

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        return latency.of_wrk(wrk(port_of(home), [str(KEYS), "/task"], seconds))


class PythonService(Service):
    name = "python"
    what = "a service in Python with asyncio and two threads: objects, JSON, zlib; each object is a block of malloc"
    more = {"PYTHONMALLOC": "malloc"}
    harmless = r"MemoryError"  # at the limit that is moved below what it needs; it answers with 503 then

    def require(self) -> None:
        super().require()
        find_program("python3", "python3")

    def command(self, inputs: Path, port: int) -> list[str | Path]:
        return [find_program("python3", "python3"), "-s", "-S", "-B", SERVICES / "service.py", str(port)]

    def check(self, home: Path) -> str:
        found = get(port_of(home), "/check").strip()
        return "" if found == "0" else f"coffer_check() finds {found}"

    def set_limit(self, home: Path, mib: int) -> None:
        if get(port_of(home), f"/limit/{mib << 20}").strip() != "0":
            raise BenchError("coffer_set_limit() does not answer 0")


class NodeService(Service):
    name = "node"
    what = "a service in JavaScript: objects, JSON, buffers outside the heap of V8, zlib on the threads of libuv"

    def require(self) -> None:
        super().require()
        find_program("node", "nodejs")

    def command(self, inputs: Path, port: int) -> list[str | Path]:
        limits = ["--max-old-space-size=48", "--max-semi-space-size=4"]
        return [find_program("node", "nodejs"), *limits, SERVICES / "service.js", str(port)]


class JavaService(Service):
    name = "java"
    what = "a service in Java on four threads: a heap that is resident from the start, and native memory beside it: \
direct buffers, Unsafe, zlib"
    limit_mib = 384

    def require(self) -> None:
        super().require()
        find_program("java", "openjdk-17-jdk-headless")
        find_program("javac", "openjdk-17-jdk-headless")

    def prepare(self, inputs: Path) -> None:
        command = [find_program("javac", "openjdk-17-jdk-headless"), "-nowarn", "-d", inputs, SERVICES / "Service.java"]
        execute(command, PLAIN, timeout=PATIENCE)

    def command(self, inputs: Path, port: int) -> list[str | Path]:
        limits = ["-Xms48m", "-Xmx48m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=64m",
                  "-XX:-UsePerfData", "-XX:ReservedCodeCacheSize=32m"]
        return [find_program("java", "openjdk-17-jdk-headless"), *limits, "-cp", inputs, "Service", str(port)]
