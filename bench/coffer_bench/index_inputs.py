# SPDX-License-Identifier: MIT
"""Inputs of the real programs that bench/index.py runs: made here, the same on every machine."""

from __future__ import annotations

import random
from pathlib import Path

NUCLEOTIDES = "ACGT"
FILE_BYTES = 8_000_000
# dnapenny keeps a buffer of longs for each node, one a site; sites that look alike are one. As many as in the paper
# make buffers of 6,872 bytes.
SITES = 859
SPECIES = 10


def nucleotide_text(length: int = FILE_BYTES, seed: int = 1) -> str:
    letters = "".join(random.Random(seed).choices(NUCLEOTIDES, k=length))
    return "\n".join(letters[start : start + 80] for start in range(0, length, 80)) + "\n"


def grep_pattern(words: int = 16, length: int = 14, seed: int = 1) -> str:
    """Words of letters and of pairs of letters, one of which is to be found: no word has a long enough part without a
    pair that grep could look for first, and so it runs its automaton over all of the text."""
    chance = random.Random(seed)
    result = []
    for _ in range(words):
        word = [chance.choice(NUCLEOTIDES) for _ in range(length)]
        for place in range(1, length, 2):
            if chance.random() < 0.6:
                word[place] = "[" + "".join(chance.sample(NUCLEOTIDES, 2)) + "]"
        result.append("".join(word))
    return "(" + "|".join(result) + ")"


def alignment(species: int = SPECIES, sites: int = SITES, seed: int = 5) -> str:
    """Sequences that a random tree explains, in PHYLIP's format: so many different columns."""
    chance = random.Random(seed)
    parents = [chance.randrange(child) for child in range(1, species)]
    columns: dict[str, None] = {}
    while len(columns) < sites:
        column = [chance.choice(NUCLEOTIDES)]
        for parent in parents:
            column.append(chance.choice(NUCLEOTIDES) if chance.random() < 0.25 else column[parent])
        columns["".join(column)] = None
    lines = [f"{species} {sites}"]
    lines += [f"species{number:<3}" + "".join(column[number] for column in columns) for number in range(species)]
    return "\n".join(lines) + "\n"


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, make in (("nucleotides.txt", nucleotide_text), ("infile", alignment)):
        path = directory / name
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(make())
            unfinished.rename(path)
