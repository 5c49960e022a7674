// SPDX-License-Identifier: MIT
// Where the blocks lie that a test's program holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "size_class/size_class.hpp"
#include "support/check.hpp"

namespace coffer::test {

class LiveRanges {
 public:
  // Of what a call gave: it overlaps no other block, is aligned and long enough.
  void enter(const void* at, std::size_t size, std::size_t usable, std::size_t alignment) {
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    const std::size_t expected = alignment > kQuantum ? alignment : kQuantum;
    REQUIRE(start % expected == 0, "block %p of %zu bytes is not aligned to %zu", at, size, expected);
    REQUIRE(usable >= size, "block %p has %zu usable bytes of %zu", at, usable, size);
    const std::uintptr_t end = start + (usable > 0 ? usable : 1);
    const auto after = ranges_.upper_bound(start);
    REQUIRE(after == ranges_.end() || end <= after->first, "block %p + %zu overlaps the block at %#zx", at, usable,
            after->first);
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      REQUIRE(before->second <= start, "block %p + %zu overlaps the block %#zx .. %#zx", at, usable, before->first,
              before->second);
    }
    ranges_.emplace_hint(after, start, end);
  }
  // From now on others may get its memory.
  void leave(const void* at) { ranges_.erase(reinterpret_cast<std::uintptr_t>(at)); }

 private:
  std::map<std::uintptr_t, std::uintptr_t> ranges_;  // start -> end of every block's usable bytes
};

}  // namespace coffer::test
