#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The attack corpus (docs/security.md): crimes by size, live neighbours and threads, each a process.

  corpus.py test     a part of the cells over Coffer; fails where one ends worse than expected.txt says
  corpus.py bless    all cells over Coffer; writes expected.txt and the page. It refuses what became worse, but for the
                     crimes that --worse names
                     --hardened, both: over the hardened build, and expected_hardened.txt
  corpus.py peers    the cells of half of the sizes over the other allocators; writes peers.txt and the page
  corpus.py page     writes the page anew from these two files
  corpus.py drawn    sizes drawn at random, over any allocator: lists what is missed
  corpus.py one CRIME SIZE NEIGHBOURS THREADS
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import cells
import page
from cells import COMPARED_SIZES, DEFAULT, EXPECTED, HARDENED, NO_CASE, SIZES, TOP, Cell, Crime, Ending
from coffer_bench import allocators, peers
from coffer_bench.allocators import Allocator

# Not jemalloc: many double frees end in a loop there, each until the time limit.
PEERS = ["glibc", "tcmalloc", "mimalloc3", "mimalloc3-secure", "snmalloc", "snmalloc-checks", "scudo",
         "hardened-malloc-light", "hardened-malloc"]
# Clang's scudo has no name that the loader knows.
SCUDO = "usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-x86_64.so"
SCUDO_PACKAGE = "libclang-rt-19-dev"
SIZES_A_CRIME = {DEFAULT: 3, HARDENED: 1}
AGAIN = 4
BLESSED_ROUNDS = 5


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--jobs", type=int, default=0, help="processes at a time; default: as many as processors")
    parser.add_argument("--rounds", type=int, help=f"runs of each cell, the worst counts; {BLESSED_ROUNDS} by default "
                        "to bless, for chance decides how some cells end, else 1")
    parser.add_argument("--crimes", metavar="NAME,...", default="", help="only these")
    commands = parser.add_subparsers(dest="command", required=True)
    tested = commands.add_parser("test")
    tested.add_argument("--allocator", help="another than the build's: nocheck, to see the test fail")
    bless = commands.add_parser("bless")
    bless.add_argument("--worse", metavar="CRIME,...", default="", help="what may become worse")
    for command in (tested, bless):
        command.add_argument("--hardened", dest="build", action="store_const", const=HARDENED, default=DEFAULT)
    others = commands.add_parser("peers")
    others.add_argument("--only", metavar="NAME,...", default="", help="the others' columns stay as they are")
    others.add_argument("--scudo", type=Path, default=Path("/"), help=f"where {SCUDO_PACKAGE} is unpacked")
    commands.add_parser("page")
    drawn = commands.add_parser("drawn")
    drawn.add_argument("--sizes", type=int, default=10)
    drawn.add_argument("--seed", type=int, default=0)
    drawn.add_argument("--allocator", default="coffer")
    one = commands.add_parser("one")
    one.add_argument("cell", nargs=4)
    one.add_argument("--allocator", default="coffer")
    options = parser.parse_args()
    options.rounds = options.rounds or (BLESSED_ROUNDS if options.command == "bless" else 1)
    return options


def find(name: str, build_dir: Path, scudo_root: Path = Path("/")) -> Allocator:
    if name == HARDENED:
        return Allocator(name, build_dir.resolve() / "lib" / "libcoffer_hardened.so")
    if name == "scudo":
        found = sorted(scudo_root.glob(SCUDO))
        if not found:
            raise allocators.BenchError(f"scudo is missing: Debian has it in {SCUDO_PACKAGE}")
        return Allocator("scudo", found[-1].resolve())
    return allocators.find([name], build_dir)[0]


def version(allocator: Allocator, build_dir: Path) -> str:
    if allocator.name == "scudo" and allocator.library is not None:
        return f"of clang {allocator.library.parent.parent.parent.name}"
    return peers.version(allocator, build_dir)


def program(options: argparse.Namespace) -> Path:
    path: Path = options.build_dir.resolve() / "test" / "attack" / "attack"
    if not path.exists():
        raise SystemExit(f"{path} is missing: build the target attack")
    return path


def chosen(options: argparse.Namespace) -> dict[str, Crime]:
    crimes = cells.read_crimes()
    differ = set(crimes) ^ set(cells.listed(program(options)))
    if differ:
        raise SystemExit(f"only one of crimes.toml and the program has {', '.join(sorted(differ))}")
    names = options.crimes.split(",") if options.crimes else list(crimes)
    return {name: crimes[name] for name in names}


def part(crimes: dict[str, Crime], build: str = DEFAULT) -> list[Cell]:
    """The cells of the test: each crime with some of the sizes, all sizes in turn, few and very many neighbours."""
    result = []
    step = len(SIZES) // SIZES_A_CRIME[build]
    for number, crime in enumerate(crimes):
        for cell in cells.cells_of([crime], SIZES[number % step::step]):
            if cell.neighbours != 64:
                result.append(cell)
    return result


def worse_cells(found: dict[Cell, Ending], expected: dict[Cell, str]) -> list[str]:
    return [f"{cell}: {cells.WORDS[ending.letter]} ({ending.detail}), where {cells.WORDS[expected[cell]]} was expected"
            for cell, ending in found.items() if cells.is_worse(ending.letter, expected[cell])]


def judged_again(options: argparse.Namespace, crimes: dict[str, Crime], found: dict[Cell, Ending],
                 expected: dict[Cell, str], allocator: Allocator) -> None:
    """A cell that ended worse runs some times more. Where a crime is to be caught, the worst of these runs counts.
    Where Coffer does not catch it, chance decides how it ends, and the middle one counts."""
    for cell, ending in found.items():
        if cells.is_worse(ending.letter, expected[cell]):
            again = [cells.run_cell(program(options), crimes[cell.crime], cell, allocator) for _ in range(AGAIN)]
            again.sort(key=lambda one: cells.ORDER.find(one.letter))
            found[cell] = again[-1] if expected[cell] == "C" else again[(AGAIN - 1) // 2]


def test(options: argparse.Namespace) -> int:
    crimes = chosen(options)
    expected = cells.read_expected(EXPECTED[options.build])
    tried = part(crimes, options.build)
    start = time.monotonic()
    allocator = find(options.allocator or options.build, options.build_dir)
    found = cells.run_cells(program(options), crimes, tried, allocator, options.rounds, options.jobs)
    judged_again(options, crimes, found, expected, allocator)
    wrong = worse_cells(found, expected)
    counts = Counter(ending.letter for ending in found.values())
    print(f"{len(found)} cells in {time.monotonic() - start:.1f} s: " +
          ", ".join(f"{counts[letter]} {cells.WORDS[letter]}" for letter in cells.ORDER))
    better = sum(cells.is_worse(expected[cell], ending.letter) for cell, ending in found.items()
                 if NO_CASE not in (ending.letter, expected[cell]))
    if better:
        print(f"{better} are better than expected: corpus.py bless writes that down")
    if counts["C"] == 0:
        wrong.append("nothing was caught: is this Coffer?")
    print("\n".join(f"FAILED {line}" for line in wrong))
    return 1 if wrong else 0


class Progress:
    """Says now and then how far it is."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count, self.done, self.said = name, count, 0, time.monotonic()

    def __call__(self, cell: Cell, _: Ending) -> None:
        self.done += 1
        if time.monotonic() - self.said > 15 or self.done == self.count:
            self.said = time.monotonic()
            print(f"{self.name}: {self.done} of {self.count}, {cell.crime}", flush=True)


def run_all(options: argparse.Namespace, allocator: Allocator, crimes: dict[str, Crime],
            sizes: tuple[int, ...] = SIZES) -> dict[Cell, Ending]:
    wanted = cells.cells_of(crimes, sizes)
    return cells.run_cells(program(options), crimes, wanted, allocator, options.rounds, options.jobs,
                           Progress(allocator.name, len(wanted)))


def bless(options: argparse.Namespace) -> int:
    crimes = chosen(options)
    expected = cells.read_expected(EXPECTED[options.build])
    found = run_all(options, find(options.build, options.build_dir), crimes)
    known = {cell: ending for cell, ending in found.items() if cell in expected}
    allowed = set(options.worse.split(","))
    wrong = worse_cells({cell: ending for cell, ending in known.items() if cell.crime not in allowed}, expected)
    if wrong:
        print("\n".join(f"WORSE {line}" for line in wrong))
        print("nothing was written; --worse CRIME,... lets these crimes be worse")
        return 1
    names = [name for name in cells.read_crimes() if name in crimes or Cell(name, SIZES[0], 0, 1) in expected]
    expected.update({cell: ending.letter for cell, ending in found.items()})
    EXPECTED[options.build].write_text(cells.expected_text(expected, names, options.build))
    page.write()
    missing = page.without_reason(cells.read_crimes(), expected, options.build)
    print("\n".join(f"crimes.toml lacks why {line}" for line in missing))
    return 1 if missing else 0


def run_peers(options: argparse.Namespace) -> int:
    crimes = chosen(options)
    names = options.only.split(",") if options.only else PEERS
    crates = [name for name in names if name in (*allocators.CRATES, *allocators.HARDENED)]
    wanted = [name for name in crates if not allocators.crate_library(name, options.build_dir).exists()]
    _, missing = peers.build(options.build_dir, names=wanted)
    if missing:
        print(missing)
    table = page.read_peers()
    for name in names:
        try:
            allocator = find(name, options.build_dir, options.scudo)
        except allocators.BenchError as error:
            print(error)
            continue
        found = run_all(options, allocator, crimes, COMPARED_SIZES)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for cell, ending in found.items():
            counts[cell.crime][ending.letter] += 1
        old = table[name].counts if name in table and options.crimes else {}
        table[name] = page.Peer(version(allocator, options.build_dir), {**old, **counts})
        page.write_peers({name: table[name] for name in PEERS if name in table})
    page.write()
    return 0


def drawn(options: argparse.Namespace) -> int:
    """Half of the sizes are small, as those of programs are."""
    source = random.Random(options.seed)
    sizes = sorted({int(2 ** source.uniform(3, 10 if i % 2 else 20)) for i in range(options.sizes)})
    print(f"seed {options.seed}, sizes {' '.join(map(str, sizes))}")
    crimes = chosen(options)
    found = run_all(options, find(options.allocator, options.build_dir), crimes, tuple(sizes))
    bad: dict[str, list[tuple[Cell, Ending]]] = defaultdict(list)
    for cell, ending in found.items():
        if ending.letter in "XM":
            bad[cell.crime].append((cell, ending))
    for name, entries in bad.items():
        letters = Counter(ending.letter for _, ending in entries)
        print(f"{name}: {page.counts_text(letters)} of {len(found) // len(crimes)}")
        for cell, ending in entries:
            print(f"  {cell.size} {cell.neighbours} {cell.threads}: {cells.WORDS[ending.letter]}, {ending.detail}")
    return 0


def one(options: argparse.Namespace) -> int:
    name, size, neighbours, threads = options.cell
    cell = Cell(name, int(size), int(neighbours), int(threads))
    ending = cells.run_cell(program(options), cells.read_crimes()[name], cell,
                            find(options.allocator, options.build_dir), options.rounds)
    print(f"{cells.WORDS[ending.letter]}: {ending.detail}")
    return 0


def main() -> int:
    options = parse()
    # What was set for the caller's shell is no part of the corpus.
    for variable in ("LD_PRELOAD", *allocators.VARIABLES):
        os.environ.pop(variable, None)
    if options.command == "page":
        page.write()
        return 0
    return {"test": test, "bless": bless, "peers": run_peers, "drawn": drawn, "one": one}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
