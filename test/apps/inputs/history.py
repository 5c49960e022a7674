# SPDX-License-Identifier: MIT
"""A directory that changes from commit to commit, the same on every run."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = "arena block chunk class epoch fold free heap owner page pool purge settle slot span table thread word".split()


def text(rng: random.Random, lines: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(lines)]


class Tree:
    """Files of text that commits edit, add and remove, and a few of bytes that do not compress."""

    def __init__(self, root: Path, files: int) -> None:
        self.root, self.rng, self.lines = root, random.Random(3), {}
        for number in range(files):
            self.add(f"{WORDS[number % 7]}/{WORDS[number // 7 % 11]}/file{number}.txt")
        (root / "binary").write_bytes(self.rng.randbytes(3_000_000))

    def add(self, name: str) -> None:
        self.lines[name] = text(self.rng, self.rng.randint(5, 200))
        self.write(name)

    def write(self, name: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines[name]) + "\n")

    def change(self, number: int) -> None:
        for name in self.rng.sample(sorted(self.lines), 120):
            lines = self.lines[name]
            at = self.rng.randrange(len(lines))
            lines[at : at + self.rng.randint(0, 3)] = text(self.rng, self.rng.randint(1, 4))
            self.write(name)
        gone = self.rng.choice(sorted(self.lines))
        del self.lines[gone]
        (self.root / gone).unlink()
        self.add(f"new/commit{number}.txt")
