#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of the 116 kinds of a public suite, in our own words (kinds.cpp): how many each allocator catches.

  kinds.py test      over both builds of Coffer; fails where one mostly misses what kinds.txt does not say it misses
  kinds.py bless     over both builds and the other allocators that are there; writes kinds.txt and the table of
                     docs/security.md. The line of an allocator that is not there stays
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cells
import corpus
from cells import DEFAULT, HARDENED, HERE, TOP
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError

KINDS = HERE / "kinds.txt"
PAGE = TOP / "docs" / "security.md"
MARK = re.compile(r"(<!-- kinds -->\n).*?(<!-- kinds end -->)", re.DOTALL)
SECONDS = 60.0
# The worst of so many: where blocks lie is drawn by lot.
ROUNDS = 15
AGAIN = 4

Missed = dict[str, list[str]]  # by allocator: "KIND SIZE"
HEAD = """\
# What is missed of the 116 programs of kinds.cpp, by allocator: in one of several runs at least. Written by
# `kinds.py bless`.
"""


def programs(program: Path) -> list[str]:
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True, timeout=20)
    return [f"{kind} {size}" for kind, *sizes in map(str.split, done.stdout.splitlines()) for size in sizes]


def is_missed(program: Path, words: str, allocator: Allocator) -> bool:
    try:
        done = subprocess.run([str(program), *words.split()], env=allocator.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS, errors="replace")
    except subprocess.TimeoutExpired:
        return True
    if done.returncode > 0:
        raise SystemExit(f"{words} under {allocator.name}: status {done.returncode}\n{done.stderr}")
    return done.stdout.endswith("missed\n")


def run(program: Path, allocator: Allocator, jobs: int, rounds: int) -> list[str]:
    every = programs(program)
    with ThreadPoolExecutor(jobs) as pool:
        ends = pool.map(lambda words: any(is_missed(program, words, allocator) for _ in range(rounds)), every)
        return [words for words, missed in zip(every, ends, strict=True) if missed]


def read_missed(path: Path = KINDS) -> Missed:
    missed: Missed = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if not line.startswith("#"):
            name, _, rest = line.partition("\t")
            missed[name] = rest.split(", ") if rest else []
    return missed


def write_missed(missed: Missed, path: Path = KINDS) -> None:
    path.write_text(HEAD + "".join(f"{name}\t{', '.join(of)}\n" for name, of in missed.items()))


def table(missed: Missed, count: int) -> str:
    lines = [f"| allocator | caught of {count} | missed |", "| --- | ---: | --- |"]
    for name, of in missed.items():
        sizes: dict[str, list[str]] = {}
        for words in of:
            kind, size = words.split()
            sizes.setdefault(kind, []).append(size)
        named = "; ".join(f"`{kind}` {', '.join(all_of)}" for kind, all_of in sizes.items())
        lines.append(f"| {name} | {count - len(of)} | {named if name in (DEFAULT, HARDENED) else ''} |")
    return "\n" + "\n".join(lines) + "\n\n"


def page_with(text: str, missed: Missed, count: int) -> str:
    return MARK.sub(lambda match: match[1] + table(missed, count) + match[2], text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("command", choices=["test", "bless"])
    options = parser.parse_args()
    program = options.build_dir / "test" / "attack" / "attack_kinds"
    expected = read_missed()
    if options.command == "test":
        status = 0
        for name in (DEFAULT, HARDENED):
            allocator = corpus.find(name, options.build_dir)
            found = run(program, allocator, options.jobs, 1)
            # Chance may miss one that it caught before.
            worse = [words for words in sorted(set(found) - set(expected[name]))
                     if sum(is_missed(program, words, allocator) for _ in range(AGAIN)) > AGAIN // 2]
            print(f"{name}: {len(found)} missed, {len(expected[name])} expected", *worse, sep="\n  missed: ")
            status |= bool(worse)
        if page_with(PAGE.read_text(), expected, len(programs(program))) != PAGE.read_text():
            print("docs/security.md is not of kinds.txt: run kinds.py bless")
            status = 1
        return status
    for name in (DEFAULT, HARDENED, *corpus.PEERS):
        try:
            allocator = corpus.find(name, options.build_dir)
        except (BenchError, SystemExit) as error:
            print(f"{name}: {error}")
            continue
        expected[name] = run(program, allocator, options.jobs, ROUNDS)
        print(f"{name}: {len(expected[name])} missed: {', '.join(expected[name])}", flush=True)
    write_missed(expected)
    PAGE.write_text(page_with(PAGE.read_text(), expected, len(programs(program))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
