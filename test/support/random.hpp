// SPDX-License-Identifier: MIT
// Numbers that a seed determines, on every machine and with every library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coffer::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64: its whole state is one word, so streams of neighbouring seeds are unrelated.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // 0 .. n - 1; n > 0.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // low .. high, every doubling equally likely; low > 0.
  std::uint64_t by_magnitude(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t first = 63u - static_cast<unsigned>(__builtin_clzll(low));
    const std::uint64_t last = 63u - static_cast<unsigned>(__builtin_clzll(high));
    const std::uint64_t base = std::uint64_t{1} << between(first, last);
    const std::uint64_t got = base + below(base);
    return got < low ? low : got > high ? high : got;
  }

 private:
  std::uint64_t state_;
};

}  // namespace coffer::test
