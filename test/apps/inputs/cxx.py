# SPDX-License-Identifier: MIT
"""Writes one large C++ file: classes with virtual functions, templates over them, containers, lambdas, and functions
long enough for the optimiser to work on. It compiles without includes of its own beyond the standard library."""

from __future__ import annotations

import random
import sys
from typing import Iterator

HEADER = """\
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Fold { static constexpr long value = Fold<N - 1>::value * 31 % 65521 + N; };
template <> struct Fold<0> { static constexpr long value = 1; };
template <class... T> struct Product { static constexpr std::size_t size = (sizeof(T) * ... * 1); };

struct Base {
  virtual ~Base() = default;
  virtual long work(const std::vector<long>& input) const = 0;
};
"""


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "c", "input[i]", str(rng.randint(1, 999))])
    operator = rng.choice(["+", "-", "*", "^", "&", "|"])
    return f"({expression(rng, depth - 1)} {operator} {expression(rng, depth - 1)})"


def worker(number: int, rng: random.Random) -> Iterator[str]:
    yield f"struct Worker{number} final : Base {{"
    yield "  std::map<std::string, std::vector<long>> seen;"
    yield "  long work(const std::vector<long>& input) const override {"
    yield f"    long a = {number}, b = {rng.randint(1, 99)}, c = Fold<{10 + number % 300}>::value;"
    yield "    for (std::size_t i = 0; i < input.size(); ++i) {"
    for _ in range(8):
        yield f"      {rng.choice('abc')} += {expression(rng, 4)};"
        condition = f"{expression(rng, 2)} > {rng.randint(1, 5000)}"
        yield f"      if ({condition}) {{ {rng.choice('abc')} ^= {expression(rng, 3)}; }}"
    yield "    }"
    yield "    return a + b * 3 + c * 5;"
    yield "  }"
    yield "};"
    yield f"template <class T> struct Holder{number} {{"
    yield f"  std::vector<std::variant<T, std::string, std::unique_ptr<Holder{number}>>> items;"
    yield "  long visit() const {"
    yield "    long sum = 0;"
    yield "    for (const auto& item : items) {"
    yield "      std::visit([&](const auto& value) { sum += sizeof(value); }, item);"
    yield "    }"
    yield "    return sum;"
    yield "  }"
    yield "};"


def program(workers: int) -> Iterator[str]:
    rng = random.Random(7)
    yield HEADER
    for number in range(workers):
        yield from worker(number, rng)
    yield "int main() {"
    yield "  std::vector<long> input(64);"
    yield "  std::iota(input.begin(), input.end(), 1);"
    yield "  std::vector<std::unique_ptr<Base>> all;"
    yield "  unsigned long sum = 0;"
    for number in range(workers):
        yield f"  all.push_back(std::make_unique<Worker{number}>());"
        yield f"  {{ Holder{number}<int[{number % 5 + 1}]> h; sum += static_cast<unsigned long>(h.visit()); }}"
    yield "  for (const auto& one : all) sum = sum * 31 + static_cast<unsigned long>(one->work(input));"
    yield '  std::printf("%lu\\n", sum);'
    yield "}"


if __name__ == "__main__":
    print("\n".join(program(int(sys.argv[1]))))
