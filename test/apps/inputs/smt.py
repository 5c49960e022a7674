# SPDX-License-Identifier: MIT
"""Writes an SMT file of several problems that call on different parts of a solver. Each has one answer, and models are
asked for only where there is a single one, so that the output is the same on every run."""

from __future__ import annotations

import random
from typing import Iterator


def queens(size: int) -> Iterator[str]:
    """Queens that do not attack one another, in integers."""
    columns = [f"q{row}" for row in range(size)]
    for column in columns:
        yield f"(declare-const {column} Int)"
        yield f"(assert (and (<= 0 {column}) (< {column} {size})))"
    yield f"(assert (distinct {' '.join(columns)}))"
    for sign in "+-":
        yield f"(assert (distinct {' '.join(f'({sign} {column} {row})' for row, column in enumerate(columns))}))"
    yield "(check-sat)"


def latin_square(size: int, rng: random.Random) -> Iterator[str]:
    """A Latin square in bit vectors of which three cells in four are given."""
    shift = rng.randrange(size)
    for row in range(size):
        for column in range(size):
            yield f"(declare-const c{row}_{column} (_ BitVec 8))"
            yield f"(assert (bvult c{row}_{column} #x{size:02x}))"
            if (row * 5 + column * 3) % 4 != 0:
                yield f"(assert (= c{row}_{column} #x{(row + column + shift) % size:02x}))"
    for i in range(size):
        yield f"(assert (distinct {' '.join(f'c{i}_{j}' for j in range(size))}))"
        yield f"(assert (distinct {' '.join(f'c{j}_{i}' for j in range(size))}))"
    yield "(check-sat)"


def product(number: int, bits: int, found: bool) -> Iterator[str]:
    """Factors of a number by a multiplier of bits: the product of two primes has one answer, a prime has none."""
    yield f"(declare-const x (_ BitVec {bits}))"
    yield f"(declare-const y (_ BitVec {bits}))"
    wide = [f"((_ zero_extend {bits}) {name})" for name in "xy"]
    yield f"(assert (= (bvmul {wide[0]} {wide[1]}) (_ bv{number} {2 * bits})))"
    yield f"(assert (and (bvugt x (_ bv1 {bits})) (bvule x y)))"
    yield "(check-sat)"
    if found:
        yield "(get-value (x y))"


def schedule(jobs: int, machines: int, limit: int, rng: random.Random) -> Iterator[str]:
    """A job shop: every job visits every machine in its own order; the difference logic of the solver."""
    tasks: dict[int, list[tuple[str, int]]] = {machine: [] for machine in range(machines)}
    for job in range(jobs):
        order, ready = rng.sample(range(machines), machines), "0"
        for machine in order:
            name, length = f"t{job}_{machine}", rng.randint(1, 9)
            yield f"(declare-const {name} Int)"
            yield f"(assert (>= {name} {ready}))"
            ready = f"(+ {name} {length})"
            tasks[machine].append((name, length))
        yield f"(assert (<= {ready} {limit}))"
    for line in tasks.values():
        for i, (a, a_length) in enumerate(line):
            for b, b_length in line[:i]:
                yield f"(assert (or (<= (+ {a} {a_length}) {b}) (<= (+ {b} {b_length}) {a})))"
    yield "(check-sat)"


def swaps(count: int) -> Iterator[str]:
    """Stores to two arrays in two orders give the same array: arrays and uninterpreted functions, unsatisfiable."""
    yield "(declare-const a (Array Int Int))"
    names = [f"i{n}" for n in range(count)]
    for name in names:
        yield f"(declare-const {name} Int)"
    yield "(declare-fun f (Int) Int)"
    yield f"(assert (distinct {' '.join(names)}))"
    forward = backward = "a"
    for name in names:
        forward = f"(store {forward} {name} (f {name}))"
    for name in reversed(names):
        backward = f"(store {backward} {name} (f {name}))"
    yield f"(assert (not (= {forward} {backward})))"
    yield "(check-sat)"


def ordered(size: int, rng: random.Random) -> Iterator[str]:
    """An array said to be sorted by a quantifier, and reads of it that say otherwise: unsatisfiable by instances."""
    yield "(declare-const s (Array Int Int))"
    yield (
        "(assert (forall ((i Int) (j Int)) (! (=> (and (<= 0 i) (<= i j)) (<= (select s i) (select s j)))"
        " :pattern ((select s i) (select s j)))))"
    )
    names = [f"k{n}" for n in range(size)]
    for n, name in enumerate(names):
        yield f"(declare-const {name} Int)"
        yield f"(assert (<= {names[n - 1] if n else 0} {name}))"
    for name in rng.sample(names, size):
        yield f"(assert (> (select s {name}) {rng.randrange(100)}))"
    yield f"(assert (< (select s {names[-1]}) (select s {names[0]})))"
    yield "(check-sat)"


def polynomial() -> Iterator[str]:
    """Reals: a sum of cubes below its least value, unsatisfiable, by numbers of any length."""
    yield "(declare-const u Real) (declare-const v Real) (declare-const w Real)"
    yield "(assert (and (> u 0) (> v 0) (> w 0)))"
    yield "(assert (= (* u v) 7))"
    yield "(assert (< (+ (* u u) (* v v)) 14))"
    yield "(assert (= w (* u u u)))"
    yield "(check-sat)"


def problems() -> Iterator[str]:
    rng = random.Random(1)
    for lines in (
        queens(20),
        latin_square(14, rng),
        product(500009 * 500029, 19, True),
        product(4294967291, 17, False),
        schedule(10, 6, 75, rng),
        swaps(14),
        ordered(40, rng),
        polynomial(),
    ):
        yield "(push)"
        yield from lines
        yield "(pop)"


if __name__ == "__main__":
    print("\n".join(problems()))
