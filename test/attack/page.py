# SPDX-License-Identifier: MIT
"""The tables of docs/security.md: made of expected*.txt (Coffer), peers.txt (the others) and crimes.toml, so that a
test can see that the page is theirs. The text around them is written by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cells import (COMPARED_SIZES, DEFAULT, EXPECTED, GROUPS, HARDENED, HERE, NEIGHBOURS, NO_CASE, ORDER, SIZES,
                   THREADS, TOP, WORDS, Cell, Crime, cells_of, read_crimes, read_expected)

PAGE = TOP / "docs" / "security.md"
PEERS = HERE / "peers.txt"
MARK = re.compile(r"(<!-- corpus: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Peer:
    version: str
    counts: dict[str, Counter[str]]  # by crime


def counts_text(counts: Counter[str]) -> str:
    """C60 M12; a dash where there is no case."""
    return " ".join(f"{letter}{counts[letter]}" for letter in ORDER if counts[letter]) or "-"


def counts_of(text: str) -> Counter[str]:
    return Counter({word[0]: int(word[1:]) for word in text.split() if word != "-"})


# peers.txt: a line a name and version, then a line a crime with a column a name.

def write_peers(table: dict[str, Peer], path: Path = PEERS) -> None:
    lines = ["# How many cells end how over other allocators, by crime. Written by `corpus.py peers`.\n"]
    lines += [f"allocator\t{name}\t{peer.version}\n" for name, peer in table.items()]
    crimes = [crime for crime in read_crimes() if any(crime in peer.counts for peer in table.values())]
    for crime in crimes:
        texts = [counts_text(peer.counts.get(crime, Counter())) for peer in table.values()]
        lines.append("\t".join([crime, *texts]) + "\n")
    path.write_text("".join(lines))


def read_peers(path: Path = PEERS) -> dict[str, Peer]:
    versions: dict[str, str] = {}
    table: dict[str, dict[str, Counter[str]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        words = line.split("\t")
        if words[0].startswith("#"):
            continue
        if words[0] == "allocator":
            versions[words[1]] = words[2]
            table[words[1]] = {}
        else:
            for name, text in zip(versions, words[1:], strict=True):
                table[name][words[0]] = counts_of(text)
    return {name: Peer(versions[name], table[name]) for name in versions}


def coffer_counts(expected: dict[Cell, str], crimes: Iterable[str],
                  sizes: Sequence[int] = SIZES) -> dict[str, Counter[str]]:
    return {crime: Counter(expected[cell] for cell in cells_of([crime], sizes)) for crime in crimes}


def reasons_of(crime: Crime, build: str) -> dict[str, str]:
    return crime.why if build == DEFAULT else crime.why_hardened


def without_reason(crimes: dict[str, Crime], expected: dict[Cell, str], build: str = DEFAULT) -> list[str]:
    """Ways of ending that have no reason in crimes.toml, and reasons for what does not come about. Of the hardened
    build only harm needs one."""
    result = []
    without = ("C", NO_CASE) if build == DEFAULT else ("C", "L", "H", NO_CASE)
    for name, counts in coffer_counts(expected, crimes).items():
        ways = {letter for letter in counts if letter not in without}
        given = set(reasons_of(crimes[name], build))
        result += [f"{name} is {WORDS[letter]}" for letter in sorted(ways - given)]
        result += [f"{name} would be {WORDS[letter]}: no cell is" for letter in sorted(given - ways)]
    return result


# The tables.

def row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def head(names: list[str]) -> str:
    return row(names) + row(["---"] + ["---:"] * (len(names) - 1))


Expected = dict[str, dict[Cell, str]]  # by build


def columns(crimes: dict[str, Crime], expected: Expected) -> dict[str, dict[str, Counter[str]]]:
    own = {build: coffer_counts(cells, crimes, COMPARED_SIZES) for build, cells in expected.items()}
    return {**own, **{name: peer.counts for name, peer in read_peers().items()}}


def knowable(crimes: dict[str, Crime], group: str) -> list[str]:
    return [name for name, crime in crimes.items() if crime.group == group and not crime.not_knowable]


def summary(crimes: dict[str, Crime], expected: Expected) -> Iterator[str]:
    yield head(["allocator", *(title.lower() for title in GROUPS.values())])
    for name, table in columns(crimes, expected).items():
        texts = []
        for group in GROUPS:
            total: Counter[str] = sum((table.get(crime, Counter()) for crime in knowable(crimes, group)), Counter())
            cases = sum(total[letter] for letter in ORDER)
            texts.append(f"{total['M']} + {total['X']} of {cases:,}" if cases else "-")
        yield row([name, *texts])


def details(crimes: dict[str, Crime], expected: Expected) -> Iterator[str]:
    table = columns(crimes, expected)
    for group, title in GROUPS.items():
        yield f"\n### {title}\n\n" + head(["crime", *table])
        for name, crime in crimes.items():
            if crime.group == group:
                what = crime.what + (" (*)" if crime.not_knowable else "")
                yield row([what, *(counts_text(one.get(name, Counter())) for one in table.values())])


def number(value: int) -> str:
    return f"{value:,}"


def span_of(values: list[int], among: tuple[int, ...]) -> str:
    """Values in words; neighbours in the table's order are a range."""
    places = [among.index(value) for value in values]
    if len(values) > 2 and places == list(range(places[0], places[-1] + 1)):
        return f"{number(values[0])} to {number(values[-1])}"
    return ", ".join(map(number, values))


def place_of(kinds: list[tuple[int, int]]) -> str:
    """In words: threads and neighbours."""
    if len(kinds) == len(THREADS) * len(NEIGHBOURS):
        return "everywhere"
    of_threads = {threads: [found for one, found in kinds if one == threads] for threads in THREADS}
    alike = list(of_threads.values())
    if all(found == alike[0] for found in alike):
        return f"{span_of(alike[0], NEIGHBOURS)} neighbours"
    parts = []
    for threads, found in of_threads.items():
        if found:
            name = "1 thread" if threads == 1 else f"{threads} threads"
            parts.append(name if found == list(NEIGHBOURS) else f"{name}, {span_of(found, NEIGHBOURS)} neighbours")
    return "; ".join(parts)


def where(cells: list[Cell]) -> str:
    """Which cells these are: sizes, and for which threads and neighbours; alike ones together."""
    by_sizes: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for threads in THREADS:
        for neighbours in NEIGHBOURS:
            sizes = tuple(cell.size for cell in cells if (cell.threads, cell.neighbours) == (threads, neighbours))
            if sizes:
                by_sizes.setdefault(sizes, []).append((threads, neighbours))
    return "; ".join(f"{'all sizes' if sizes == SIZES else span_of(list(sizes), SIZES)} ({place_of(kinds)})"
                     for sizes, kinds in by_sizes.items())


def reasons(crimes: dict[str, Crime], expected: Expected, letters: str, build: str = DEFAULT) -> Iterator[str]:
    yield row(["crime", "ends", "cells", "why"]) + row(["---"] * 4)
    for name, crime in crimes.items():
        for letter in letters:
            found = [cell for cell in cells_of([name]) if expected[build][cell] == letter]
            if found:
                yield row([crime.what, WORDS[letter], where(found), reasons_of(crime, build).get(letter, "")])


def versions() -> Iterator[str]:
    yield ", ".join(f"{name} {peer.version}".strip() for name, peer in read_peers().items()) + ".\n"


def fill(text: str) -> str:
    """The page with its tables made anew."""
    crimes, expected = read_crimes(), {build: read_expected(path) for build, path in EXPECTED.items()}
    made = {
        "versions": lambda: versions(),
        "summary": lambda: summary(crimes, expected),
        "details": lambda: details(crimes, expected),
        "missed": lambda: reasons(crimes, expected, "MX"),
        "hardened": lambda: reasons(crimes, expected, "MX", HARDENED),
        "harmless": lambda: reasons(crimes, expected, "LH"),
    }
    return MARK.sub(lambda match: f"{match[1]}\n{''.join(made[match[2]]())}\n{match[3]}", text)


def write(path: Path = PAGE) -> None:
    path.write_text(fill(path.read_text()))
