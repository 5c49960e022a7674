#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random calls for sim/answers.c: calls.py KIND SEED COUNT HEAP_BYTES.

KIND is small (many small blocks), mixed (all sizes), full (the heap runs full), bursts (runs of allocations and frees
of one size, as a collector makes them) or wrong (with frees of what is not live). The three others are decimal numbers,
the heap 16 or more.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

KINDS = ("small", "mixed", "full", "bursts", "wrong")


def size_of(kind: str, numbers: random.Random, heap: int) -> int:
    if kind == "small" or numbers.random() < 0.6:
        return numbers.randrange(60)
    largest = heap // (8 if kind == "full" else 64)
    return int(2 ** numbers.uniform(0, max(1.0, largest.bit_length() - 1)))


def wrong_address(numbers: random.Random, heap: int) -> int:
    return numbers.choice([numbers.randrange(heap), 4 + 16 * numbers.randrange(heap // 16), 4 + heap, 0, 0xFFFFFFFF,
                           numbers.randrange(2 ** 32)])


def calls(kind: str, seed: int, count: int, heap: int) -> Iterator[str]:
    numbers = random.Random(f"{kind} {seed}")
    live: list[int] = []
    name = 0
    while count > 0:
        run = numbers.randrange(1, 40) if kind == "bursts" else 1
        size = size_of(kind, numbers, heap)
        grows = numbers.random() < (0.52 if kind != "full" else 0.7) or not live
        for _ in range(min(run, count)):
            count -= 1
            if kind == "wrong" and numbers.random() < 0.3:
                yield f"w {wrong_address(numbers, heap):x}"
            elif grows or not live:
                name += 1
                live.append(name)
                yield f"a {name} {size}"
            else:
                # A collector frees in order of address, a program what it made last, or anything.
                place = numbers.choice([0, len(live) - 1, numbers.randrange(len(live))])
                yield f"f {live.pop(place)}"
            if kind != "bursts":
                size = size_of(kind, numbers, heap)


def main() -> int:
    numbers = [int(word) for word in sys.argv[2:] if word.isascii() and word.isdigit()]
    if len(sys.argv) != 5 or sys.argv[1] not in KINDS or len(numbers) != 3 or numbers[2] < 16:
        print(__doc__, file=sys.stderr)
        return 2
    for line in calls(sys.argv[1], *numbers):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
