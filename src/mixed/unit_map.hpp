// SPDX-License-Identifier: MIT
// Which 16-byte units of a mixed span are in use, and where its blocks start: the side table of a mixed span, outside
// the blocks. Two bits a unit, 512 bytes a slot: a block is a start bit and the used bits from it to the next start or
// free unit, so the table knows each block's size, and every pointer that is no block's start.
//
//   slot 0: | start, 32 words | used, 32 words |   slot 1: | start | used | ...
//
// Plain words: read and written under the lock of the span's shard only (mixed/mixed.hpp). Pure, so that it can be
// tested for itself.
#pragma once

#include "arena/arena.hpp"
#include "base/zero.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerSlot = kSlotBytes / kQuantum;
inline constexpr u32 kUnitsPerPage = kCarvePage / kQuantum;
inline constexpr u32 kMapWords = kUnitsPerSlot / 64;  // of one kind, a slot
inline constexpr usize kMapBytes = usize{2} * kMapWords * sizeof(u64);
static_assert(kUnitMapBytes == kMapBytes && kMapBytes % kMostZeroedInline == 0);

constexpr u32 units_for(usize bytes) { return bytes == 0 ? 1 : static_cast<u32>((bytes + kQuantum - 1) / kQuantum); }

class UnitMap {
 public:
  UnitMap(u64* words, u32 slots) : words_(words), units_(slots * kUnitsPerSlot) {}

  u32 units() const { return units_; }
  bool is_start(u32 unit) const { return unit < units_ && ((start_word(unit / 64) >> (unit % 64)) & 1) != 0; }
  bool is_used(u32 unit) const { return ((used_word(unit / 64) >> (unit % 64)) & 1) != 0; }

  void clear() {
    // Not memset, around which the kernel would map 64 KiB of the C library in a process that has no use for it yet.
    for (u32 i = 0; i < units_ / 64 * 2; i += kMostZeroedInline / sizeof(u64))
      zero_small(words_ + i, kMostZeroedInline);
  }
  // Units of the block that starts at `unit`.
  u32 block_units(u32 unit) const {
    for (u32 at = unit + 1; at < units_;) {
      const u64 end = (start_word(at / 64) | ~used_word(at / 64)) >> (at % 64);
      if (end != 0) return at + lowest_bit(end) - unit;
      at = (at / 64 + 1) * 64;
    }
    return units_ - unit;
  }
  void add(u32 start, u32 units) {
    start_word(start / 64) |= u64{1} << (start % 64);
    set_used(start, units, true);
  }
  void remove(u32 start, u32 units) {
    start_word(start / 64) &= ~(u64{1} << (start % 64));
    set_used(start, units, false);
  }
  // Without a start: units that are nobody's and may not be handed out.
  void set_used(u32 start, u32 units, bool used) {
    for (u32 unit = start; unit < start + units;) {
      const u32 bit = unit % 64;
      const u32 here = 64 - bit < start + units - unit ? 64 - bit : start + units - unit;
      u64& word = used_word(unit / 64);
      word = used ? word | (low_mask(here) << bit) : word & ~(low_mask(here) << bit);
      unit += here;
    }
  }

  // The first free unit at or after `unit`, and the first used one; units() if there is none.
  u32 next_free(u32 unit) const { return next(unit, ~u64{0}); }
  u32 next_used(u32 unit) const { return next(unit, 0); }
  // The first unit of the hole that the free unit lies in.
  u32 hole_start(u32 unit) const {
    for (;;) {
      const u64 used = used_word(unit / 64) << (63 - unit % 64);
      if (used != 0) return unit + 1 - static_cast<u32>(__builtin_clzll(used));
      if (unit < 64) return 0;
      unit = unit / 64 * 64 - 1;
    }
  }
  u32 count_used() const {
    u32 count = 0;
    for (u32 i = 0; i < units_ / 64; ++i) count += count_bits(used_word(i));
    return count;
  }
  struct Hole {
    u32 units = 0, at = 0;
  };
  // The largest hole that starts in the slot; it may end in a later one. The first of several.
  Hole largest_hole(u32 slot) const {
    Hole best;
    const u32 first = slot * kUnitsPerSlot;
    // A hole that reaches into the slot from the one before is that one's.
    bool inside = slot != 0 && !is_used(first - 1), foreign = inside;
    u32 from = first;
    const auto end_hole = [&](u32 to) {
      if (inside && !foreign && to - from > best.units) best = {to - from, from};
      inside = foreign = false;
    };
    const u64* words = &used_word(slot * kMapWords);
    for (u32 i = 0; i < kMapWords; ++i) {
      const u32 unit = first + i * 64;
      const u64 used = words[i];
      if (used == 0) {
        if (!inside) from = unit;
        inside = true;
        continue;
      }
      if (!inside) from = unit;
      inside = true;
      end_hole(unit + lowest_bit(used));
      const u32 last = highest_bit(used);
      // Between its first and its last used unit a word has holes of less than 63.
      u64 holes = ~used & low_mask(last) & ~low_mask(lowest_bit(used));
      holes = best.units < 63 ? run_starts(holes, best.units + 1) : 0;
      for (; holes != 0; holes &= holes >> 1) best = {best.units + 1, unit + lowest_bit(holes)};
      from = unit + last + 1;
      inside = last != 63;
    }
    if (inside) end_hole(next_used(first + kUnitsPerSlot));
    return best;
  }
  // After add, remove or set_used stopped in the middle: a start whose unit is free is none, and used units that follow
  // no start are free.
  void restore() {
    u64 carry = 0;
    for (u32 i = 0; i < units_ / 64; ++i) {
      const u64 used = used_word(i);
      const u64 starts = start_word(i) & used;
      const u64 firsts = starts | (carry & used);
      // From each first on, the addition's carry runs through the used units that follow.
      const u64 kept = used & (~(used + firsts) | firsts);
      start_word(i) = starts;
      used_word(i) = kept;
      carry = kept >> 63;
    }
  }
  // Every start is used, and every used run begins with a start.
  bool is_whole() const {
    bool before = false;
    for (u32 unit = 0; unit < units_; ++unit) {
      const bool used = is_used(unit);
      if ((is_start(unit) && !used) || (used && !before && !is_start(unit))) return false;
      before = used;
    }
    return true;
  }

 private:
  u64& start_word(u32 i) { return words_[i / kMapWords * 2 * kMapWords + i % kMapWords]; }
  u64& used_word(u32 i) { return words_[(i / kMapWords * 2 + 1) * kMapWords + i % kMapWords]; }
  u64 start_word(u32 i) const { return words_[i / kMapWords * 2 * kMapWords + i % kMapWords]; }
  const u64& used_word(u32 i) const { return words_[(i / kMapWords * 2 + 1) * kMapWords + i % kMapWords]; }
  u32 next(u32 unit, u64 flip) const {
    if (unit >= units_) return units_;
    const u64 found = (used_word(unit / 64) ^ flip) >> (unit % 64);
    if (found != 0) return unit + lowest_bit(found);
    // Word by word: runs are long in a span that fills, and this loop is most of the work of cutting.
    for (u32 i = unit / 64 + 1; i < units_ / 64;) {
      const u32 end = (i / kMapWords + 1) * kMapWords;  // of the slot's words
      for (const u64* word = &used_word(i); i < end; ++i, ++word) {
        if (*word != flip) return i * 64 + lowest_bit(*word ^ flip);
      }
    }
    return units_;
  }

  u64* words_;
  u32 units_;
};

}  // namespace coffer
