// SPDX-License-Identifier: MIT
// Where the blocks and the holes of a mixed span start, by units of 16 bytes: the side table of a mixed span, outside
// the blocks. A run of units, block or hole, goes to the start of the next one, so the table knows each block's size,
// and every pointer that is no block's start. To carve a block or to free it changes three bits at most. A word a slice
// says in which of its words bits are set, so the run before or behind a unit is found by two looks. What a call costs
// does not depend on the size of blocks. Behind it lies a record for each page: the largest hole that starts there, and
// its place on the lists of its shard (mixed/mixed.hpp). 656 bytes a slice:
//
//   | block starts of 64 units | hole starts of the same 64 | ... 32 such pairs | pairs with a start | - | 8 records |
//
// -: nothing, so that the map of each slice is aligned to 16 bytes.
//
// Unit 0 starts a run, and no hole follows a hole. Plain words: read and written under the lock of the span's shard
// only (mixed/mixed.hpp). Pure, so that it can be tested for itself.
#pragma once

#include "base/zero.hpp"
#include "mixed/hole_lists.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerPage = kCarvePage / kQuantum;
inline constexpr u32 kMapPairs = kUnitsPerSlice / 64;  // a slice
inline constexpr u32 kTableWords = 2 * kMapPairs + 2;  // a slice, without the records
inline constexpr u32 kMapWords = kTableWords + kPagesPerSlice * sizeof(PageRecord) / sizeof(u64);
static_assert(kUnitMapBytes == kMapWords * sizeof(u64) && kMapPairs <= 64);
static_assert(kUnitMapBytes % 16 == 0 && 2 * kMapPairs * sizeof(u64) % kMostZeroedInline == 0);

constexpr u32 units_for(usize bytes) { return bytes == 0 ? 1 : static_cast<u32>((bytes + kQuantum - 1) / kQuantum); }

class UnitMap {
 public:
  UnitMap(u64* words, u32 slices) : words_(words), units_(slices * kUnitsPerSlice) {}

  u32 units() const { return units_; }
  u32 pages() const { return units_ / kUnitsPerPage; }
  PageRecord& record(u32 page) const { return *record_in(slice_of(page * kUnitsPerPage), page % kPagesPerSlice); }
  // Of a slice whose map begins there.
  static PageRecord* record_in(u64* slice, u32 page) {
    return reinterpret_cast<PageRecord*>(slice + kTableWords) + page;
  }
  bool is_start(u32 unit) const { return unit < units_ && has(unit, kBlocks); }
  bool is_used(u32 unit) const { return has(last_start(unit), kBlocks); }

  // Makes it one hole. The records stay as they are.
  void clear() {
    // Not memset, around which the kernel would map 64 KiB of the C library in a process that has no use for it yet.
    for (u64* slice = words_; slice != end(); slice += kMapWords) {
      for (u32 i = 0; i < 2 * kMapPairs; i += kMostZeroedInline / sizeof(u64)) zero_small(slice + i, kMostZeroedInline);
      slice[kStarts] = 0;
    }
    set(0, kHoles);
  }
  // Units of the block that starts at `unit`.
  u32 block_units(u32 unit) const { return next_start(unit + 1) - unit; }
  // The first unit of the block or hole that the unit lies in.
  u32 run_start(u32 unit) const { return last_start(unit); }
  // The hole that the unit lies in; none, of no units, if it is in use.
  Hole hole_around(u32 unit) const {
    const u32 at = last_start(unit);
    return has(at, kHoles) ? Hole{next_start(unit + 1) - at, at} : Hole{};
  }
  // The largest hole that starts in the page; it may end in a later one.
  Hole largest_in_page(u32 page) const {
    const u32 from = page * kUnitsPerPage;
    const u64* pairs = slice_of(from) + 2 * pair_of(from);
    Hole best;
    for (u32 first = from; first != from + kUnitsPerPage; first += 64, pairs += 2) {
      const u64 starts = pairs[kBlocks] | pairs[kHoles];
      for (u64 holes = pairs[kHoles]; holes != 0; holes &= holes - 1) {
        const u32 bit = lowest_bit(holes);
        const u64 behind = starts >> bit >> 1;
        const u32 units = behind != 0 ? lowest_bit(behind) + 1 : next_start(first + 64) - (first + bit);
        if (units > best.units) best = {units, first + bit};
      }
    }
    return best;
  }

  // Cuts a block from a hole that ends at `end`.
  void put(u32 start, u32 units, u32 end) {
    if (start + units != end) set(start + units, kHoles);
    set(start, kBlocks);
    if (has(start, kHoles)) unset(start, kHoles);
  }
  // The same where the hole is not known. Returns it as it was.
  Hole add(u32 start, u32 units) {
    const Hole hole = hole_around(start);
    put(start, units, hole.at + hole.units);
    return hole;
  }
  // A hole that came or grew, and the one behind it that it swallowed, of no units if there was none.
  struct Grown {
    Hole hole, swallowed;
  };
  // Takes the block of so many units away.
  Grown remove(u32 start, u32 units) {
    const u32 before = start != 0 ? last_start(start - 1) : 0;
    const u32 at = start != 0 && has(before, kHoles) ? before : start;
    if (at == start) set(start, kHoles);
    unset(start, kBlocks);
    return join(at, start + units);
  }
  // Leaves the block so many units, less than it has.
  Grown shrink(u32 start, u32 units) {
    const u32 behind = next_start(start + 1);
    set(start + units, kHoles);
    return join(start + units, behind);
  }
  // Gives the block so many units, more than it has. Returns the hole behind it as it was; of no units, and nothing
  // changed: there is none, or too small a one.
  Hole extend(u32 start, u32 units) {
    const u32 from = next_start(start + 1), to = start + units;
    if (from == units_ || !has(from, kHoles)) return {};
    const u32 behind = next_start(from + 1);
    if (to > behind) return {};
    if (to != behind) set(to, kHoles);
    unset(from, kHoles);
    return {behind - from, from};
  }

  u32 count_used() const {
    u32 used = 0;
    for (u32 at = 0, next = 0; at < units_; at = next) {
      next = next_start(at + 1);
      if (has(at, kBlocks)) used += next - at;
    }
    return used;
  }

  // After changes that stopped in the middle: what starts both is a hole, holes that follow each other are one, and the
  // word says what there is. The records stay as they are.
  void restore() {
    for (u64* slice = words_; slice != end(); slice += kMapWords) {
      for (u32 pair = 0; pair < kMapPairs; ++pair) {
        slice[2 * pair + kBlocks] &= ~slice[2 * pair + kHoles];
        note(slice, pair);
      }
    }
    if (!has(0, kBlocks)) set(0, kHoles);
    bool hole = false;
    for (u32 at = 0; at < units_; at = next_start(at + 1)) {
      if (!has(at, kHoles)) {
        hole = false;
      } else if (hole) {
        unset(at, kHoles);
      } else {
        hole = true;
      }
    }
  }
  // Whether it is as the head of this file says.
  bool is_whole() const {
    if (!has(0, kBlocks) && !has(0, kHoles)) return false;
    bool hole = false;
    for (const u64* slice = words_; slice != end(); slice += kMapWords) {
      if ((slice[kStarts] & ~low_mask(kMapPairs)) != 0) return false;
      for (u32 pair = 0; pair < kMapPairs; ++pair) {
        const u64 blocks = slice[2 * pair + kBlocks], holes = slice[2 * pair + kHoles];
        if ((blocks & holes) != 0) return false;
        if (((slice[kStarts] >> pair) & 1) != u64{(blocks | holes) != 0}) return false;
        for (u64 starts = blocks | holes; starts != 0; starts &= starts - 1) {
          const bool before = hole;
          hole = ((holes >> lowest_bit(starts)) & 1) != 0;
          if (hole && before) return false;
        }
      }
    }
    return true;
  }

 private:
  enum Kind : u32 { kBlocks, kHoles };           // words of a pair
  static constexpr u32 kStarts = 2 * kMapPairs;  // a slice's word

  static u32 pair_of(u32 unit) { return unit / 64 % kMapPairs; }
  u64* slice_of(u32 unit) const { return words_ + usize{unit / kUnitsPerSlice} * kMapWords; }
  const u64* end() const { return slice_of(units_); }
  bool has(u32 unit, Kind kind) const { return ((slice_of(unit)[2 * pair_of(unit) + kind] >> (unit % 64)) & 1) != 0; }
  void set(u32 unit, Kind kind) {
    u64* slice = slice_of(unit);
    const u32 pair = pair_of(unit);
    slice[2 * pair + kind] |= u64{1} << (unit % 64);
    slice[kStarts] |= u64{1} << pair;
  }
  void unset(u32 unit, Kind kind) {
    u64* slice = slice_of(unit);
    const u32 pair = pair_of(unit);
    slice[2 * pair + kind] &= ~(u64{1} << (unit % 64));
    note(slice, pair);
  }
  static void note(u64* slice, u32 pair) {
    const u64 rest = slice[kStarts] & ~(u64{1} << pair);
    slice[kStarts] = rest | u64{(slice[2 * pair + kBlocks] | slice[2 * pair + kHoles]) != 0} << pair;
  }

  // Of the hole that starts at `at` and goes to `unit`: a hole behind it is a part of it from now on.
  Grown join(u32 at, u32 unit) {
    if (unit == units_ || !has(unit, kHoles)) return {{unit - at, at}, {}};
    const u32 end = next_start(unit + 1);
    unset(unit, kHoles);
    return {{end - at, at}, {end - unit, unit}};
  }
  // The first start at `unit` or behind it; units() if there is none.
  u32 next_start(u32 unit) const {
    if (unit >= units_) return units_;
    const u64* slice = slice_of(unit);
    u32 pair = pair_of(unit);
    const u64 here = (slice[2 * pair] | slice[2 * pair + 1]) >> (unit % 64);
    if (here != 0) return unit + lowest_bit(here);
    u32 first = unit / kUnitsPerSlice * kUnitsPerSlice;
    u64 later = slice[kStarts] & ~low_mask(pair + 1);
    while (later == 0) {
      first += kUnitsPerSlice;
      if (first == units_) return units_;
      slice += kMapWords;
      later = slice[kStarts];
    }
    pair = lowest_bit(later);
    return first + pair * 64 + lowest_bit(slice[2 * pair] | slice[2 * pair + 1]);
  }
  // The last start at `unit` or before it.
  u32 last_start(u32 unit) const {
    const u64* slice = slice_of(unit);
    u32 pair = pair_of(unit);
    const u64 here = (slice[2 * pair] | slice[2 * pair + 1]) & low_mask(unit % 64 + 1);
    u32 first = unit / kUnitsPerSlice * kUnitsPerSlice;
    if (here != 0) return first + pair * 64 + highest_bit(here);
    u64 earlier = slice[kStarts] & low_mask(pair);
    while (earlier == 0) {
      if (first == 0) return 0;
      first -= kUnitsPerSlice;
      slice -= kMapWords;
      earlier = slice[kStarts];
    }
    pair = highest_bit(earlier);
    return first + pair * 64 + highest_bit(slice[2 * pair] | slice[2 * pair + 1]);
  }

  u64* words_;
  u32 units_;
};

}  // namespace coffer
