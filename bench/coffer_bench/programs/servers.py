# SPDX-License-Identifier: MIT
"""The servers: redis and PostgreSQL under load over a unix socket. Only the server runs under the allocator."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError, Unavailable
from coffer_bench.processes import (
    User,
    Watch,
    execute,
    kill_group,
    maps_library,
    read_proc,
    start,
    sum_memory,
    tree,
)
from coffer_bench.programs.base import PATH, Figures, Program, copy_tree, digest, directory, find_program

START_SECONDS = 30
# Between the end of the load and the reading of what is held.
QUIET_SECONDS = 0.3
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_ns(pid: int) -> float:
    """Processor time of a process and those below it, and of those that they have waited for."""
    ticks = 0
    for one in tree(pid):
        fields = read_proc(f"/proc/{one}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15])) if len(fields) > 15 else 0
    return ticks / CLOCK_TICKS * 1e9


@contextmanager
def serving(
    name: str,
    allocator: Allocator,
    command: list[str | Path],
    home: Path,
    ready: Callable[[], bool],
    user: User | None = None,
    stop: signal.Signals = signal.SIGTERM,
    more: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """The process of a server that answers. It is asked to end afterwards, and ended if it does not. `more`: what its
    environment has besides."""
    log = home / "server.log"
    with log.open("wb") as output:
        process = start(
            command,
            {**allocator.program_environment(home), **(more or {})},
            home,
            user,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                printed = log.read_text(errors="replace")[-1000:]
                raise BenchError(f"{name} under {allocator.name} does not start: {printed}")
            time.sleep(0.02)
        if not maps_library(process.pid, allocator.mapped):
            raise BenchError(f"{allocator.name} was not loaded: {allocator.mapped} is not mapped in {name}")
        yield process.pid
        process.send_signal(stop)
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{name} under {allocator.name} does not end") from error
    finally:
        kill_group(process)


class Server(Program):
    """Runs `load` against a server; time is that of the load, memory that of the server's processes."""

    def measured(self, allocator: Allocator, pid: int, operations: int, load: Callable[[], str]) -> Figures:
        watch = Watch(allocator.mapped)
        watch.begin(pid)
        before = cpu_ns(pid)
        started = time.perf_counter_ns()
        try:
            answer = load()
        finally:
            watch.end()
        wall = time.perf_counter_ns() - started
        cpu = cpu_ns(pid) - before
        time.sleep(QUIET_SECONDS)
        watch.look(pid)
        watch.verify(allocator.name)
        return {
            "wall_ns": float(wall),
            "cpu_ns": cpu,
            "peak_kib": float(watch.peak_kib),
            "end_kib": float(sum_memory(pid)),
            "operations": float(operations),
            "digest": answer,
        }


class Redis(Server):
    name, what = "redis", "strings, lists, sets, hashes and sorted sets from 20 clients, then all of that is deleted"
    TESTS = "set,get,incr,lpush,rpush,lpop,sadd,hset,zadd,lrange_100,mset"

    def require(self) -> None:
        find_program("redis-server", "redis-server")
        find_program("redis-benchmark", "redis-tools")

    def prepare(self, inputs: Path, quick: bool) -> None:
        from inputs import keys

        (inputs / "keys").write_bytes(keys.commands(1_500 if quick else 60_000))

    def run(self, allocator: Allocator, inputs: Path, quick: bool) -> Figures:
        count = 1_000 if quick else 25_000
        with directory() as home:
            socket = home / "socket"
            plain = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
            client = [find_program("redis-cli", "redis-tools"), "-s", str(socket)]

            def ask(*words: str, data: bytes = b"") -> str:
                return execute([*client, *words], plain, stdin=data, timeout=self.timeout).stdout.decode().strip()

            def ready() -> bool:
                return socket.exists() and subprocess.run([*client, "PING"], capture_output=True).stdout == b"PONG\n"

            def load() -> str:
                ask("--pipe", data=(inputs / "keys").read_bytes())
                whole = ask("DEBUG", "DIGEST")
                execute(
                    [
                        find_program("redis-benchmark", "redis-tools"),
                        "-s",
                        str(socket),
                        "--dbnum",
                        "1",
                        "-c",
                        "20",
                        "-P",
                        "8",
                        "-r",
                        "20000",
                        "-n",
                        str(count),
                        "-d",
                        "200",
                        "-q",
                        "-t",
                        self.TESTS,
                    ],
                    plain,
                    timeout=self.timeout,
                )
                ask("-n", "1", "FLUSHDB")
                if ask("DEBUG", "DIGEST") != whole:
                    raise BenchError(f"redis under {allocator.name}: the keys have changed")
                return digest(whole.encode())

            command = [
                find_program("redis-server", "redis-server"),
                "--port",
                "0",
                "--unixsocket",
                str(socket),
                "--dir",
                str(home),
                "--save",
                "",
                "--enable-debug-command",
                "yes",
                "--activedefrag",
                "no",
            ]
            with serving(self.name, allocator, command, home, ready) as pid:
                return self.measured(allocator, pid, count * len(self.TESTS.split(",")), load)


class Postgres(Server):
    """PostgreSQL refuses to run as root, so root hands the cluster to the user that the package made."""

    name, what = "postgresql", "pgbench's TPC-B-like transactions from 4 clients, one server process each"

    def programs(self) -> Path:
        """Debian's directory of the newest version."""
        found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
        if not found:
            raise Unavailable("PostgreSQL is missing; Debian and Ubuntu have it in the package postgresql")
        newest = max(found, key=lambda path: int(path.parent.name))
        if not (newest / "pgbench").exists():
            raise Unavailable("pgbench is missing; Debian has it in postgresql, Ubuntu in postgresql-contrib")
        return newest

    def require(self) -> None:
        self.programs()
        self.user()

    def user(self) -> User | None:
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return User(entry.pw_uid, entry.pw_gid)
        raise Unavailable("PostgreSQL does not run as root, and there is no other user to run it as")

    def environment(self, home: Path) -> dict[str, str]:
        return {
            "PATH": PATH,
            "HOME": str(home),
            "LC_ALL": "C",
            "PGHOST": str(home),
            "PGUSER": "tester",
            "PGDATABASE": "postgres",
            "TZ": "UTC",
        }

    def prepare(self, inputs: Path, quick: bool) -> None:
        """A cluster with pgbench's tables, made under the C library's allocator; every run begins with a copy."""
        with self.home() as home:
            user, glibc = self.user(), Allocator("glibc", None)
            execute(
                [
                    self.programs() / "initdb",
                    "--auth=trust",
                    "--username=tester",
                    "--no-locale",
                    "--encoding=UTF8",
                    "--no-sync",
                    "--pgdata",
                    home / "data",
                ],
                self.environment(home),
                user=user,
                cwd=home,
            )
            with self.running(glibc, home):
                execute(
                    [self.programs() / "pgbench", "--initialize", "--quiet", f"--scale={1 if quick else 4}"],
                    self.environment(home),
                    user=user,
                    cwd=home,
                )
            copy_tree(home / "data", inputs / "data")

    @contextmanager
    def home(self) -> Iterator[Path]:
        with directory() as home:
            if user := self.user():
                os.chown(home, user.uid, user.gid)
            yield home

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(home),
            "fsync": "off",
            "autovacuum": "off",
            "shared_buffers": "32MB",
            "full_page_writes": "off",
            "max_wal_size": "1GB",
            "jit": "off",
        }
        command: list[str | Path] = [self.programs() / "postgres", "-D", home / "data"]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]

        def ready() -> bool:
            return (
                subprocess.run([self.programs() / "pg_isready", "--quiet"], env=self.environment(home)).returncode == 0
            )

        # SIGINT is its fast stop.
        with serving(self.name, allocator, command, home, ready, self.user(), signal.SIGINT) as pid:
            yield pid

    def run(self, allocator: Allocator, inputs: Path, quick: bool) -> Figures:
        clients, transactions = 4, 150 if quick else 1_500
        user = self.user()
        with self.home() as home:
            copy_tree(inputs / "data", home / "data", (user.uid, user.gid) if user else None)
            environment = self.environment(home)

            def load() -> str:
                done = execute(
                    [
                        self.programs() / "pgbench",
                        "--no-vacuum",
                        f"--client={clients}",
                        "--jobs=1",
                        f"--transactions={transactions}",
                        "--random-seed=7",
                    ],
                    environment,
                    user=user,
                    cwd=home,
                    timeout=self.timeout,
                )
                if not re.search(rb"actually processed: (\d+)/\1", done.stdout):
                    raise BenchError(f"pgbench under {allocator.name}: {done.stdout.decode()[-500:]}")
                sums = (
                    "SELECT (SELECT count(*) FROM pgbench_history), (SELECT sum(delta) FROM pgbench_history) = "
                    "(SELECT sum(abalance) FROM pgbench_accounts)"
                )
                said = execute(
                    [self.programs() / "psql", "--no-psqlrc", "-Atc", sums], environment, user=user, cwd=home
                )
                if said.stdout.strip() != f"{clients * transactions}|t".encode():
                    raise BenchError(f"PostgreSQL under {allocator.name}: the sums are {said.stdout!r}")
                return digest(said.stdout)

            with self.running(allocator, home) as pid:
                return self.measured(allocator, pid, clients * transactions, load)


SERVERS = [Redis(), Postgres()]
