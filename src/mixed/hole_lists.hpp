// SPDX-License-Identifier: MIT
// The lists that a shard keeps the pages of its mixed spans on, by the largest hole that starts in each: which list is
// a hole's, which have pages, and what a page's record has.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerSlice = kSliceBytes / kQuantum;

// One for each size below 32 units, then sixteen to a doubling, up to 16,384 units: so fine, the hole that is taken is
// little larger than what is asked for.
inline constexpr u32 kExactHoles = 32, kListsPerDoubling = kExactHoles / 2;
constexpr u32 hole_list(u32 hole) {
  const u32 doubling = highest_bit(hole | kListsPerDoubling) - highest_bit(kListsPerDoubling);
  return doubling * kListsPerDoubling + (hole >> doubling) - 1;
}
// The first list on which every hole has so many units at least.
constexpr u32 sure_list(u32 units) { return hole_list(units - 1) + 1; }
inline constexpr u32 kHoleLists = hole_list(kMaxSpanSlices * kUnitsPerSlice) + 1;
static_assert(hole_list(1) == 0 && hole_list(31) == 30 && hole_list(32) == 31 && hole_list(33) == 31);
static_assert(hole_list(34) == 32 && hole_list(63) == 46 && hole_list(64) == 47 && hole_list(127) == 62);
static_assert(sure_list(1) == 0 && sure_list(31) == 30 && sure_list(32) == 31 && sure_list(33) == 32);
static_assert(sure_list(34) == 32 && sure_list(35) == 33 && sure_list(64) == 47 && sure_list(65) == 48);
static_assert(kHoleLists == 176 && kHoleLists <= 254, "and one more counts in a byte");
static_assert(kHoleLists % 64 != 0, "one list more than there are has a word");

// Units of a hole, and where in its span it starts.
struct Hole {
  u32 units = 0, at = 0;
};

// A page of a mixed span: 8 times the number of its slice, and its place there. 0: none.
using PageNumber = u64;

// Of a page in which a hole starts: the largest one, and the page's neighbours on the shard's list of those whose
// largest hole is about the same. Exact: who asks for a hole finds in constant time one that fits, and looks into no
// table to see whether it does.
class PageRecord {
 public:
  // The hole's first unit is counted from the page's start. Of no units: no hole starts there.
  Hole hole() const { return {static_cast<u32>(next_ >> 8 & 0xffff), static_cast<u32>(next_ & 0xff)}; }
  void set_hole(Hole hole) { next_ = (next_ & ~u64{0xffffff}) | u64{hole.units} << 8 | hole.at; }
  // 1 + the list that the page is on; 0: none.
  u32 list() const { return previous_ & 0xff; }
  void set_list(u32 list) { previous_ = (previous_ & ~u64{0xff}) | list; }
  PageNumber next() const { return next_ >> 24; }
  void set_next(PageNumber next) { next_ = (next_ & 0xffffff) | next << 24; }
  PageNumber previous() const { return previous_ >> 8; }
  void set_previous(PageNumber previous) { previous_ = (previous_ & 0xff) | previous << 8; }

 private:
  u64 next_ = 0;      // | next | units | first unit: 16 and 8 bits |
  u64 previous_ = 0;  // | previous | list: 8 bits |
};
static_assert(sizeof(PageRecord) == 2 * sizeof(u64) && kMaxSpanSlices * kUnitsPerSlice < 1u << 16);

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
