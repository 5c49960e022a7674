#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library of traces, recorded from real programs: make.py [--build-dir DIRECTORY] [--only NAME] [--vectors FOLDER].

Each recipe below is one trace, DIRECTORY/traces/NAME.trace. They are not committed, since they are large and made
again at any time. --vectors makes the small ones that are: a stretch from the middle of each, anonymized.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
INPUTS = TOP / "test" / "apps" / "inputs"
sys.path.insert(0, str(TOP / "test" / "apps"))
SECONDS = 600
VECTOR_EVENTS = 10_000
MOST_VECTOR_BYTES = 1 << 20


class RecipeFailed(Exception):
    """The message says what."""


@dataclass
class Place:
    """Where a recipe works: a directory of its own, and the build."""

    directory: Path
    build: Path

    def put(self, name: str, text: str | bytes) -> str:
        path = self.directory / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)


@dataclass(frozen=True)
class Recipe:
    what: str
    package: str
    command: Callable[[Place], list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: Callable[[Place], str] | None = None
    # Talks to the program while it runs, and ends it.
    client: Callable[[Place], None] | None = None


def find(name: str) -> str:
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/usr/local/bin")
    if not path:
        raise RecipeFailed(f"{name} is missing")
    return path


def python(program: str, size: int) -> Recipe:
    what = (HERE / "programs" / f"{program}.py").read_text().split('"""')[1].split(":")[0]
    return Recipe(f"CPython, reference counting. {what}", "python3",
                  lambda place: [find("python3"), "-s", "-S", "-B", str(HERE / "programs" / f"{program}.py"),
                                 str(size)],
                  {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})


def lua(place: Place) -> list[str]:
    text = re.sub(r"\b18\b", "13", (INPUTS / "trees.lua").read_text())
    return [find("lua5.4"), place.put("trees.lua", text)]


def gcc(place: Place) -> list[str]:
    from inputs import cxx

    run = lambda *words: subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: E731
    source = place.put("program.cpp", "\n".join(cxx.program(1)))
    # The compiler proper knows less than its driver about where headers are: they are put in before.
    whole = place.put("program.ii", run(find("g++"), "-std=c++20", "-E", source))
    compiler = run(find("g++"), "-print-prog-name=cc1plus").strip()
    return [compiler, "-quiet", "-fpreprocessed", "-std=c++20", "-O2", whole, "-o", str(place.directory / "program.s")]


def z3(place: Place) -> list[str]:
    from inputs import smt

    return [find("z3"), place.put("queens.smt2", "\n".join(smt.queens(8)))]


def ghostscript(place: Place) -> list[str]:
    return [find("gs"), "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=png16m", "-r40", "-o",
            str(place.directory / "page%d.png"), str(INPUTS / "picture.ps")]


def sqlite_input(place: Place) -> str:
    return place.put("queries.sql", (INPUTS / "queries.sql").read_text().replace("2000000", "20000"))


def redis(place: Place) -> list[str]:
    return [find("redis-server"), "--port", "0", "--unixsocket", str(place.directory / "socket"), "--save", "",
            "--dir", str(place.directory)]


def redis_client(place: Place) -> None:
    from inputs import keys

    socket = place.directory / "socket"
    client = [find("redis-cli"), "-s", str(socket)]
    deadline = time.monotonic() + 30
    while subprocess.run([*client, "PING"], capture_output=True, check=False).stdout != b"PONG\n":
        if time.monotonic() > deadline:
            raise RecipeFailed("redis does not answer")
        time.sleep(0.05)
    subprocess.run([*client, "--pipe"], input=keys.commands(10_000), capture_output=True, check=True, timeout=SECONDS)
    subprocess.run([find("redis-benchmark"), "-s", str(socket), "-c", "10", "-r", "5000", "-n", "5000", "-d", "200",
                    "-q", "-t", "set,get,lpush,sadd,hset,zadd,lrange_100"], capture_output=True, check=True,
                   timeout=SECONDS)
    subprocess.run([*client, "FLUSHALL", "SYNC"], capture_output=True, check=True)
    subprocess.run([*client, "SHUTDOWN", "NOSAVE"], capture_output=True, check=False)


RECIPES = {
    "python_trees": python("trees", 13),
    "python_text": python("text", 60_000),
    "python_events": python("events", 6000),
    "lua": Recipe("Lua, mark and sweep: trees, strings, tables, closures", "lua5.4", lua),
    "redis": Recipe("a server of one thread, keys of all kinds", "redis-server redis-tools", redis,
                    client=redis_client),
    "sqlite3": Recipe("a database in memory: rows, indices, queries that sort and join", "sqlite3",
                      lambda place: [find("sqlite3"), "-batch", "-bail", ":memory:"], stdin=sqlite_input),
    "gcc": Recipe("the C++ compiler proper, -O2", "g++", gcc),
    "ghostscript": Recipe("a page description of four pages to PNG", "ghostscript", ghostscript),
    "z3": Recipe("a solver: eight queens", "z3", z3),
    "server": Recipe("bench/suite/server: four workers, blocks freed by threads that did not allocate them", "",
                     lambda place: [str(place.build / "bench" / "suite" / "server"), "threads=4", "connections=32",
                                    "requests=20000"]),
}


def record(name: str, recipe: Recipe, build: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="coffer-traces-") as directory:
        place = Place(Path(directory), build)
        command = [str(build / "bin" / "coffer"), "record", "--stacks", "frames", "-o", str(target), "--",
                   *recipe.command(place)]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": directory, "TMPDIR": directory, "LC_ALL":
                       "C.UTF-8", **recipe.environment}
        with open(recipe.stdin(place) if recipe.stdin else os.devnull, "rb") as given, \
                open(Path(directory) / "printed", "wb+") as printed:
            process = subprocess.Popen(command, env=environment, cwd=directory, stdin=given, stdout=printed,
                                       stderr=printed, start_new_session=True)
            try:
                if recipe.client:
                    recipe.client(place)
                status = process.wait(timeout=SECONDS)
            except (subprocess.SubprocessError, RecipeFailed) as error:
                raise RecipeFailed(f"{error}: {tail(printed)}") from error
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if status != 0:
                raise RecipeFailed(f"status {status}: {tail(printed)}")
            if not target.exists():
                raise RecipeFailed(f"no trace was written: {tail(printed)}")


def tail(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()[-500:]


def coffer(build: Path, *words: object) -> str:
    done = subprocess.run([str(build / "bin" / "coffer"), *map(str, words)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RecipeFailed(done.stderr.strip())
    return done.stdout.strip()


def make_vector(name: str, build: Path, trace: Path, folder: Path) -> None:
    """A stretch that begins two fifths into the trace, when the program works; what is live there comes first."""
    import json

    events = json.loads(coffer(build, "trace", "info", trace, "--json"))["survey"]["events"]
    first = max(0, min(events * 2 // 5, events - VECTOR_EVENTS))
    for count in (VECTOR_EVENTS, VECTOR_EVENTS // 4):
        with tempfile.TemporaryDirectory(prefix="coffer-traces-") as directory:
            part = Path(directory) / "part.trace"
            coffer(build, "trace", "cut", trace, "-o", part, "--events", f"{first}:{first + count - 1}")
            coffer(build, "trace", "anonymize", part, "-o", folder / f"{name}.trace")
        size = (folder / f"{name}.trace").stat().st_size
        if size <= MOST_VECTOR_BYTES:
            print(f"  {name}: vector of {size} bytes")
            return
    raise RecipeFailed(f"{name}: the vector is larger than {MOST_VECTOR_BYTES} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--only", metavar="NAME", action="append", choices=RECIPES)
    parser.add_argument("--vectors", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    build = options.build_dir.resolve()
    place = build / "traces"
    place.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.only or RECIPES:
        recipe, target = RECIPES[name], place / f"{name}.trace"
        try:
            record(name, recipe, build, target)
            print(f"{target}: {target.stat().st_size} bytes. {recipe.what}", flush=True)
            if options.vectors:
                make_vector(name, build, target, options.vectors)
        except (RecipeFailed, OSError, subprocess.SubprocessError) as error:
            needs = f" (packages: {recipe.package})" if recipe.package else ""
            print(f"{name}: FAILED: {error}{needs}", file=sys.stderr, flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
