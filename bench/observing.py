#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What it costs a program to be looked at: redis, PostgreSQL and Python with `coffer record`, `coffer heap`, and the
profile that is always on, each against the same under Coffer alone, in turn; heaptrack beside them, against glibc.

Time is that of a fixed load. A server's is shared with the load's program and with whatever writes down what was seen.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coffer_bench import stats
from coffer_bench.allocators import TOP, Allocator, BenchError, describe, find, machine_facts
from coffer_bench.processes import User, execute, kill_group, start
from coffer_bench.programs.base import PATH, copy_tree, directory, find_program
from coffer_bench.programs.servers import Postgres
from coffer_bench.tables import format_table, markdown_page, markdown_table

HEAPTRACK = Path("/usr/lib/heaptrack/libheaptrack_preload.so")
START_SECONDS = 30
LEAST_BYTES = 16384
PROFILE = "profile:true,profile_to:{home}/profile"


@dataclass(frozen=True)
class Way:
    """How a program is run. The words stand before its own."""

    name: str
    against: str  # the way that it is compared with; empty: it is one
    library: Path | None
    words: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    follows_forks: bool = True
    leaves: str = ""  # a file of more than a few KiB, by which is seen that it was at work

    def check(self, home: Path) -> None:
        if self.leaves and (home / self.leaves).stat().st_size < LEAST_BYTES:
            raise BenchError(f"{self.name}: {self.leaves} says that nothing was looked at")

    def environment(self, home: Path) -> dict[str, str]:
        own = {key: value.format(home=home) for key, value in self.variables.items()}
        # Where words stand before the program, what is preloaded is theirs to say.
        preloaded = {"LD_PRELOAD": ""} if self.words else {}
        return {**Allocator("", self.library).program_environment(home), **preloaded, **own}

    def command(self, words: list[str | Path], home: Path) -> list[str | Path]:
        return [*(word.format(home=home) for word in self.words), *words]


def ways(build: Path) -> list[Way]:
    (coffer,) = find(["coffer"], build)
    record = (str(build / "bin" / "coffer"), "record", "--quiet", "--children", "--output", "{home}/trace", "--")
    found = [
        Way("coffer", "", coffer.library),
        Way("always-on profile, 512K", "coffer", coffer.library, (), {"COFFER_CONF": PROFILE}),
        Way("coffer heap, 16K", "coffer", coffer.library, (), {"COFFER_CONF": f"{PROFILE},profile_rate:16K"}),
        Way("coffer record, with stacks", "coffer", coffer.library, record, leaves="trace"),
        Way("glibc", "", None),
    ]
    if HEAPTRACK.exists():
        # It looks at the first program that it is loaded into, so nothing may be started before that.
        words = ("/usr/bin/env", f"LD_PRELOAD={HEAPTRACK}", "DUMP_HEAPTRACK_OUTPUT={home}/heaptrack.raw")
        found.append(Way("heaptrack, raw", "glibc", None, words, follows_forks=False, leaves="heaptrack.raw"))
    return found


class Looked(ABC):
    name: str
    what: str
    forks = False

    def prepare(self, inputs: Path, quick: bool) -> None:
        """Makes what every run reads."""

    @abstractmethod
    def seconds(self, way: Way, inputs: Path, quick: bool) -> float:
        """Of one run of the load."""


@contextlib.contextmanager
def running(way: Way, command: list[str | Path], home: Path, ready: list[str | Path], stop: list[str | Path],
            user: User | None = None) -> Iterator[None]:
    """A server, until another command has stopped it: what stands before it has to end by itself."""
    log = (home / "server.log").open("wb")
    process = start(way.command(command, home), way.environment(home), home, user, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT)
    rights = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
    plain = {"PATH": PATH, "HOME": str(home), "LC_ALL": "C"}
    try:
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, env=plain, capture_output=True, **rights).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{way.name}: no start: {(home / 'server.log').read_text(errors='replace')[-1000:]}")
            time.sleep(0.02)
        yield
        subprocess.run(stop, env=plain, capture_output=True, check=False, **rights)
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{way.name}: the server does not end") from error
    finally:
        log.close()
        kill_group(process)


def timed(command: list[str | Path], environment: dict[str, str], home: Path, user: User | None = None) -> float:
    return execute(command, environment, cwd=home, user=user, timeout=300).wall_ns / 1e9


class Redis(Looked):
    def __init__(self, name: str, pipelined: int, requests: int) -> None:
        self.name, self.pipelined, self.requests = name, pipelined, requests
        self.what = "redis-benchmark: strings, lists, sets and hashes of 200 bytes, 20 clients" + (
            f", {pipelined} requests at a time: the server, its client and the recorder want three processors"
            if pipelined > 1 else "")

    def seconds(self, way: Way, inputs: Path, quick: bool) -> float:
        with directory() as home:
            socket, client = home / "socket", find_program("redis-cli", "redis-tools")
            server: list[str | Path] = [find_program("redis-server", "redis-server"), "--port", "0", "--unixsocket",
                                        socket, "--dir", home, "--save", ""]
            ask: list[str | Path] = [client, "-e", "-s", socket]
            requests = str(self.requests // 12 if quick else self.requests)
            load: list[str | Path] = [
                find_program("redis-benchmark", "redis-tools"), "-s", socket, "-c", "20", "-P", str(self.pipelined),
                "-r", "20000", "-q", "-n", requests, "-d", "200", "-t", "set,get,incr,lpush,lpop,sadd,spop,hset"]
            with running(way, server, home, [*ask, "PING"], [*ask, "SHUTDOWN", "NOSAVE"]):
                seconds = timed(load, {"PATH": PATH}, home)
            way.check(home)
            return seconds


class PostgreSql(Looked):
    name, what = "postgresql", "pgbench: TPC-B-like transactions, 4 clients, a process for each"
    forks = True
    server = Postgres()

    def prepare(self, inputs: Path, quick: bool) -> None:
        self.server.prepare(inputs, quick)

    def seconds(self, way: Way, inputs: Path, quick: bool) -> float:
        user = self.server.user()
        with self.server.home() as home:
            copy_tree(inputs / "data", home / "data", (user.uid, user.gid) if user else None)
            programs = self.server.programs()
            command: list[str | Path] = [programs / "postgres", "-D", home / "data"]
            for setting in ("listen_addresses=", f"unix_socket_directories={home}", "fsync=off", "autovacuum=off",
                            "full_page_writes=off", "max_wal_size=1GB", "jit=off"):
                command += ["-c", setting]
            load: list[str | Path] = [programs / "pgbench", "--no-vacuum", "--client=4", "--jobs=1",
                                      f"--transactions={100 if quick else 2000}", "--random-seed=7"]
            with running(way, command, home, [programs / "pg_isready", "--quiet", "--host", home],
                         [programs / "pg_ctl", "stop", "-D", home / "data", "-m", "fast"], user):
                return timed(load, self.server.environment(home), home, user)


class Python(Looked):
    def __init__(self, name: str, what: str, words: int, variables: dict[str, str]) -> None:
        self.name, self.what, self.words, self.variables = name, what, words, variables

    def seconds(self, way: Way, inputs: Path, quick: bool) -> float:
        with directory() as home:
            program = TOP / "tools" / "traces" / "programs" / "text.py"
            words = str(self.words // 20 if quick else self.words)
            command = way.command([find_program("python3", "python3"), "-S", "-B", program, words], home)
            seconds = timed(command, {**way.environment(home), "PYTHONHASHSEED": "0", **self.variables}, home)
            way.check(home)
            return seconds


TEXT = "CPython: words counted and sorted, JSON written and read (tools/traces/programs/text.py)"
PROGRAMS: list[Looked] = [
    Redis("redis", 1, 20_000), Redis("redis_pipelined", 8, 60_000), PostgreSql(), Python("python", TEXT, 1_000_000, {}),
    Python("python_malloc", "the same with PYTHONMALLOC=malloc, 6 million calls of malloc a second", 300_000,
           {"PYTHONMALLOC": "malloc"})]


def measure(program: Looked, all_ways: list[Way], rounds: int, quick: bool) -> dict[str, dict[int, float]]:
    """Seconds by way and round."""
    chance, found = random.Random(7), {way.name: {} for way in all_ways}
    used = [way for way in all_ways if way.follows_forks or not program.forks]
    with tempfile.TemporaryDirectory() as inputs:
        program.prepare(Path(inputs), quick)
        for number in range(rounds):
            for way in chance.sample(used, len(used)):
                found[way.name][number] = program.seconds(way, Path(inputs), quick)
    return found


def table(results: dict[str, dict[str, dict[int, float]]], all_ways: list[Way]) -> tuple[list[str], list[list[str]]]:
    lines = []
    for way in all_ways:
        if not way.against:
            continue
        cells = []
        for by_way in results.values():
            ratios = stats.ratios(by_way[way.name], by_way[way.against])
            cells.append(str(stats.estimate(ratios)) if ratios else "it does not follow forks")
        lines.append([way.name, way.against, *cells])
    return ["way", "over", *results], lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small loads, to see that it works")
    parser.add_argument("--programs", metavar="NAMES", default=",".join(one.name for one in PROGRAMS))
    parser.add_argument("--report", metavar="FILE", type=Path, help="writes the table there, as Markdown")
    arguments = parser.parse_args()
    all_ways = ways(arguments.build_dir.resolve())
    chosen = [one for one in PROGRAMS if one.name in arguments.programs.split(",")]
    facts = describe(machine_facts([]))
    print(facts)
    results = {}
    for program in chosen:
        results[program.name] = measure(program, all_ways, arguments.rounds, arguments.quick)
        medians = {name: stats.estimate(list(by_round.values())) for name, by_round in results[program.name].items()}
        print(f"{program.name}: " + "; ".join(f"{name} {one.value:.2f} s" for name, one in medians.items() if one))
    head, lines = table(results, all_ways)
    print(format_table(head, lines))
    if arguments.report:
        loads = "\n".join(f"- {one.name}: {one.what}." for one in chosen)
        explained = ("Time of a fixed load, over that of the same load with what stands under *over*: the median of"
                     f" {arguments.rounds} rounds in turn, with its interval of 95 %. Stacks have at most 32 frames,"
                     " heaptrack's 64."
                     " heaptrack writes its raw file here, which it interprets and compresses afterwards;"
                     " `coffer record` does both on the way.")
        arguments.report.write_text(markdown_page("What it costs to be looked at", "python3 bench/observing.py --report"
                                                  " FILE", f"{facts}.", [explained, loads,
                                                                         markdown_table(head, lines)]))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
