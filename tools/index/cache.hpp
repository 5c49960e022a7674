// SPDX-License-Identifier: MIT
// A set-associative cache that is fed with addresses and counts what misses. A TLB is one whose lines are pages.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "geometry.hpp"

namespace coffer::tools {

enum class Replacement { lru, random };

class Cache {
 public:
  Cache(const Geometry& shape, Replacement replacement, uint64_t seed = 1)
      : shape_(shape), replacement_(replacement), state_(seed * 2 + 1), lines_(shape.sets * shape.ways, kNone) {}

  // Whether the address hits. Addresses of different `space`s (processes) are different memory with the same index:
  // index bits lie below the page number, or memory is in huge pages.
  bool access(uint64_t address, uint64_t space = 0) {
    const uint64_t number = address / shape_.line;
    uint64_t* const set = &lines_[number % shape_.sets * shape_.ways];
    const uint64_t line = number ^ space << kSpaceShift;
    ++accesses_;
    for (uint64_t way = 0; way < shape_.ways; ++way) {
      if (set[way] != line) continue;
      if (replacement_ == Replacement::lru) move_to_front(set, way);
      return true;
    }
    ++misses_;
    replace(set, line);
    return false;
  }

  void forget_counts() { accesses_ = misses_ = 0; }
  uint64_t accesses() const { return accesses_; }
  uint64_t misses() const { return misses_; }

 private:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  static constexpr int kSpaceShift = 48;  // user addresses have 47 bits, and lose some more as numbers of lines

  // A set is ordered: the line used last comes first.
  static void move_to_front(uint64_t* set, uint64_t way) {
    const uint64_t line = set[way];
    for (; way > 0; --way) set[way] = set[way - 1];
    set[0] = line;
  }

  void replace(uint64_t* set, uint64_t line) {
    uint64_t way = shape_.ways - 1;
    if (replacement_ == Replacement::random) {
      uint64_t free = 0;
      while (free < shape_.ways && set[free] != kNone) ++free;
      way = free < shape_.ways ? free : next_random() % shape_.ways;
    }
    set[way] = line;
    if (replacement_ == Replacement::lru) move_to_front(set, way);
  }

  uint64_t next_random() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1du) >> 33;
  }

  Geometry shape_;
  Replacement replacement_;
  uint64_t state_;
  std::vector<uint64_t> lines_;
  uint64_t accesses_ = 0, misses_ = 0;
};

}  // namespace coffer::tools
