// SPDX-License-Identifier: MIT
// The lists that a shard keeps the slots of its mixed spans on, by the largest hole that starts in each: which list is
// a hole's, and which have slots.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerSlot = kSlotBytes / kQuantum;

// One for each size below 32 units, then sixteen to a doubling, up to 16,384 units: so fine, the hole that is taken is
// little larger than what is asked for.
inline constexpr u32 kExactHoles = 32, kListsPerDoubling = kExactHoles / 2;
constexpr u32 hole_list(u32 hole) {
  if (hole < kExactHoles) return hole - 1;
  const u32 doubling = highest_bit(hole / kListsPerDoubling);
  return kExactHoles - 1 + (doubling - 1) * kListsPerDoubling + ((hole >> doubling) & (kListsPerDoubling - 1));
}
// The first list on which every hole has so many units at least.
constexpr u32 sure_list(u32 units) { return units == 1 ? 0 : hole_list(units - 1) + 1; }
inline constexpr u32 kHoleLists = hole_list(kMaxSpanSlots * kUnitsPerSlot) + 1;
static_assert(hole_list(1) == 0 && hole_list(31) == 30 && hole_list(32) == 31 && hole_list(33) == 31);
static_assert(hole_list(34) == 32 && hole_list(63) == 46 && hole_list(64) == 47 && hole_list(127) == 62);
static_assert(sure_list(1) == 0 && sure_list(31) == 30 && sure_list(32) == 31 && sure_list(33) == 32);
static_assert(sure_list(34) == 32 && sure_list(35) == 33 && sure_list(64) == 47 && sure_list(65) == 48);
static_assert(kHoleLists == 176 && kHoleLists <= 254, "and one more counts in a byte");
static_assert(kHoleLists % 64 != 0, "one list more than there are has a word");

// Which lists are not empty. Written under the shard's lock, read without it to skip.
class FilledLists {
 public:
  // The first list from `list` on, or kHoleLists. relaxed, all: who looks without the lock finds out under it.
  u32 next(u32 list) const {
    u32 i = list / 64;
    u64 found = words_[i].load(relaxed) & (~u64{0} << (list % 64));  // relaxed: as above
    while (found == 0) {
      if (++i == kWords) return kHoleLists;
      found = words_[i].load(relaxed);
    }
    return i * 64 + lowest_bit(found);
  }
  void set(u32 list, bool filled) {
    const u64 bit = u64{1} << (list % 64);
    const u64 word = words_[list / 64].load(relaxed);  // relaxed, both: under the lock
    words_[list / 64].store(filled ? word | bit : word & ~bit, relaxed);
  }

 private:
  static constexpr u32 kWords = static_cast<u32>(divide_up(kHoleLists, 64));
  Atomic<u64> words_[kWords];
};

}  // namespace coffer
