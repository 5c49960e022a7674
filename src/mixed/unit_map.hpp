// SPDX-License-Identifier: MIT
// Where the blocks and the holes of a mixed span start, by units of 16 bytes: the side table of a mixed span, outside
// the blocks. A run of units, block or hole, goes to the start of the next one, so the table knows each block's size,
// and every pointer that is no block's start. To cut a block or to free it changes three bits at most. A word a slot
// says in which of its words bits are set, so the run before or behind a unit is found by two looks; and a byte a page
// says how large the largest hole is that starts there, so the slot's largest is found by a look at one page. What a
// call costs does not depend on the size of blocks. Two bits a unit and these two words, 528 bytes a slot:
//
//   | block starts of 64 units | hole starts of the same 64 | ... 32 such pairs | pairs with a start | a byte a page |
//
// A page's byte: 1 + the list (mixed/hole_lists.hpp) of the largest hole that starts in it; 0: none does.
//
// Unit 0 starts a run, and no hole follows a hole. Plain words: read and written under the lock of the span's shard
// only (mixed/mixed.hpp). Pure, so that it can be tested for itself.
#pragma once

#include "base/zero.hpp"
#include "mixed/hole_lists.hpp"

namespace coffer {

inline constexpr u32 kUnitsPerPage = kCarvePage / kQuantum;
inline constexpr u32 kMapPairs = kUnitsPerSlot / 64;  // a slot
inline constexpr u32 kMapWords = 2 * kMapPairs + 2;
static_assert(kUnitMapBytes == kMapWords * sizeof(u64) && kMapPairs <= 64);
static_assert(kPagesPerSlot == sizeof(u64) && kHoleLists < 0xff, "a byte a page in one word");
static_assert(kUnitMapBytes % 16 == 0 && 2 * kMapPairs * sizeof(u64) % kMostZeroedInline == 0);

constexpr u32 units_for(usize bytes) { return bytes == 0 ? 1 : static_cast<u32>((bytes + kQuantum - 1) / kQuantum); }

class UnitMap {
 public:
  struct Hole {
    u32 units = 0, at = 0;
  };

  UnitMap(u64* words, u32 slots) : words_(words), units_(slots * kUnitsPerSlot) {}

  u32 units() const { return units_; }
  bool is_start(u32 unit) const { return unit < units_ && has(unit, kBlocks); }
  bool is_used(u32 unit) const { return has(last_start(unit), kBlocks); }

  // Makes it one hole.
  void clear() {
    // Not memset, around which the kernel would map 64 KiB of the C library in a process that has no use for it yet.
    for (u64* slot = words_; slot != end(); slot += kMapWords) {
      for (u32 i = 0; i < 2 * kMapPairs; i += kMostZeroedInline / sizeof(u64)) zero_small(slot + i, kMostZeroedInline);
      slot[kStarts] = slot[kLargest] = 0;
    }
    set(0, kHoles);
    set_largest(0, list_of(units_));
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
  // A block in a hole.
  void add(u32 start, u32 units) {
    const Hole hole = hole_around(start);
    const u32 behind = start + units, end = hole.at + hole.units;
    put(start, units, end);
    hole_changed(hole, {end - behind, behind});
  }
  // The same in parts, for several blocks that are cut from one hole, which ends at `end`: where they start, and, when
  // they are cut, what is left of the hole behind them, and what is between two of them.
  void put(u32 start, u32 units, u32 end) {
    if (start + units != end) set(start + units, kHoles);
    set(start, kBlocks);
    if (has(start, kHoles)) unset(start, kHoles);
  }
  void hole_changed(Hole before, Hole behind) {
    look_at(before.at);
    if (behind.units != 0) hole_grew(behind);
  }
  // A hole came, or begins where it did and goes on further.
  void hole_grew(Hole hole) {
    const u32 list = list_of(hole.units);
    if (list > largest(hole.at)) set_largest(hole.at, list);
  }
  // Takes the block of so many units away, and returns the hole that they lie in from now on.
  Hole remove(u32 start, u32 units) {
    const u32 before = start != 0 ? last_start(start - 1) : 0;
    const u32 at = start != 0 && has(before, kHoles) ? before : start;
    if (at == start) set(start, kHoles);
    unset(start, kBlocks);
    return join(at, start + units);
  }
  // Leaves the block so many units, less than it has. Returns the hole that the others lie in.
  Hole shrink(u32 start, u32 units) {
    const u32 behind = next_start(start + 1);
    set(start + units, kHoles);
    return join(start + units, behind);
  }
  // Gives the block so many units, more than it has. false: there is no hole behind it, or too small a one.
  bool extend(u32 start, u32 units) {
    const u32 from = next_start(start + 1), to = start + units;
    if (from == units_ || !has(from, kHoles)) return false;
    const u32 behind = next_start(from + 1);
    if (to > behind) return false;
    if (to != behind) set(to, kHoles);
    unset(from, kHoles);
    hole_changed({behind - from, from}, {behind - to, to});
    return true;
  }

  u32 count_used() const {
    u32 used = 0;
    for (u32 at = 0, next = 0; at < units_; at = next) {
      next = next_start(at + 1);
      if (has(at, kBlocks)) used += next - at;
    }
    return used;
  }
  // The largest hole that starts in the slot; it may end in a later one.
  Hole largest_hole(u32 slot) const {
    const u32 first = slot * kUnitsPerSlot;
    u32 list = 0;
    u64 pages = 0;  // of equal ones
    for (u64 lists = slot_of(first)[kLargest]; lists != 0;) {
      const u32 at = lowest_bit(lists) / 8 * 8;
      const u32 here = lists >> at & 0xff;
      if (here >= list) pages = (here == list ? pages : 0) | u64{1} << at;
      if (here > list) list = here;
      lists &= ~(u64{0xff} << at);
    }
    Hole best;
    // On the first lists all holes are as large.
    for (; pages != 0; pages = list >= kExactHoles ? pages & (pages - 1) : 0) {
      const Hole hole = largest_in_page(first + lowest_bit(pages) / 8 * kUnitsPerPage);
      if (hole.units > best.units) best = hole;
    }
    return best;
  }

  // After changes that stopped in the middle: what starts both is a hole, holes that follow each other are one, and the
  // word and the bytes say what there is.
  void restore() {
    for (u64* slot = words_; slot != end(); slot += kMapWords) {
      for (u32 pair = 0; pair < kMapPairs; ++pair) {
        slot[2 * pair + kBlocks] &= ~slot[2 * pair + kHoles];
        note(slot, pair);
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
    for (u32 page = 0; page < units_; page += kUnitsPerPage) look_at(page);
  }
  // Whether it is as the head of this file says.
  bool is_whole() const {
    if (!has(0, kBlocks) && !has(0, kHoles)) return false;
    bool hole = false;
    for (const u64* slot = words_; slot != end(); slot += kMapWords) {
      if ((slot[kStarts] & ~low_mask(kMapPairs)) != 0) return false;
      for (u32 pair = 0; pair < kMapPairs; ++pair) {
        const u64 blocks = slot[2 * pair + kBlocks], holes = slot[2 * pair + kHoles];
        if ((blocks & holes) != 0) return false;
        if (((slot[kStarts] >> pair) & 1) != u64{(blocks | holes) != 0}) return false;
        for (u64 starts = blocks | holes; starts != 0; starts &= starts - 1) {
          const bool before = hole;
          hole = ((holes >> lowest_bit(starts)) & 1) != 0;
          if (hole && before) return false;
        }
      }
    }
    for (u32 page = 0; page < units_; page += kUnitsPerPage) {
      if (largest(page) != list_of(largest_in_page(page).units)) return false;
    }
    return true;
  }

 private:
  enum Kind : u32 { kBlocks, kHoles };                                         // words of a pair
  static constexpr u32 kStarts = 2 * kMapPairs, kLargest = 2 * kMapPairs + 1;  // words of a slot

  static u32 pair_of(u32 unit) { return unit / 64 % kMapPairs; }
  u64* slot_of(u32 unit) const { return words_ + usize{unit / kUnitsPerSlot} * kMapWords; }
  const u64* end() const { return slot_of(units_); }
  bool has(u32 unit, Kind kind) const { return ((slot_of(unit)[2 * pair_of(unit) + kind] >> (unit % 64)) & 1) != 0; }
  void set(u32 unit, Kind kind) {
    u64* slot = slot_of(unit);
    const u32 pair = pair_of(unit);
    slot[2 * pair + kind] |= u64{1} << (unit % 64);
    slot[kStarts] |= u64{1} << pair;
  }
  void unset(u32 unit, Kind kind) {
    u64* slot = slot_of(unit);
    const u32 pair = pair_of(unit);
    slot[2 * pair + kind] &= ~(u64{1} << (unit % 64));
    note(slot, pair);
  }
  static void note(u64* slot, u32 pair) {
    const u64 rest = slot[kStarts] & ~(u64{1} << pair);
    slot[kStarts] = rest | u64{(slot[2 * pair + kBlocks] | slot[2 * pair + kHoles]) != 0} << pair;
  }

  static u32 list_of(u32 units) { return units == 0 ? 0 : hole_list(units) + 1; }
  // The byte of the page that the unit lies in: the lowest one is the first page's.
  static u32 place_of(u32 unit) { return unit / kUnitsPerPage % kPagesPerSlot * 8; }
  u32 largest(u32 unit) const { return slot_of(unit)[kLargest] >> place_of(unit) & 0xff; }
  void set_largest(u32 unit, u32 list) {
    u64& lists = slot_of(unit)[kLargest];
    lists = (lists & ~(u64{0xff} << place_of(unit))) | u64{list} << place_of(unit);
  }
  // A hole begins no more where it did, or ends before.
  void hole_shrank(Hole hole) {
    if (largest(hole.at) == list_of(hole.units)) look_at(hole.at);
  }
  void look_at(u32 unit) { set_largest(unit, list_of(largest_in_page(unit / kUnitsPerPage * kUnitsPerPage).units)); }
  // Of those that start in the page that begins there.
  Hole largest_in_page(u32 page) const {
    const u64* pairs = slot_of(page) + 2 * pair_of(page);
    Hole best;
    for (u32 first = page; first != page + kUnitsPerPage; first += 64, pairs += 2) {
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
  // Of the hole that starts at `at` and goes to `unit`: a hole behind it is a part of it from now on.
  Hole join(u32 at, u32 unit) {
    if (unit == units_ || !has(unit, kHoles)) {
      hole_grew({unit - at, at});
      return {unit - at, at};
    }
    const u32 end = next_start(unit + 1);
    unset(unit, kHoles);
    hole_grew({end - at, at});
    hole_shrank({end - unit, unit});  // in the same page the joined one is larger
    return {end - at, at};
  }
  // The first start at `unit` or behind it; units() if there is none.
  u32 next_start(u32 unit) const {
    if (unit >= units_) return units_;
    const u64* slot = slot_of(unit);
    u32 pair = pair_of(unit);
    const u64 here = (slot[2 * pair] | slot[2 * pair + 1]) >> (unit % 64);
    if (here != 0) return unit + lowest_bit(here);
    u32 first = unit / kUnitsPerSlot * kUnitsPerSlot;
    u64 later = slot[kStarts] & ~low_mask(pair + 1);
    while (later == 0) {
      first += kUnitsPerSlot;
      if (first == units_) return units_;
      slot += kMapWords;
      later = slot[kStarts];
    }
    pair = lowest_bit(later);
    return first + pair * 64 + lowest_bit(slot[2 * pair] | slot[2 * pair + 1]);
  }
  // The last start at `unit` or before it.
  u32 last_start(u32 unit) const {
    const u64* slot = slot_of(unit);
    u32 pair = pair_of(unit);
    const u64 here = (slot[2 * pair] | slot[2 * pair + 1]) & low_mask(unit % 64 + 1);
    u32 first = unit / kUnitsPerSlot * kUnitsPerSlot;
    if (here != 0) return first + pair * 64 + highest_bit(here);
    u64 earlier = slot[kStarts] & low_mask(pair);
    while (earlier == 0) {
      if (first == 0) return 0;
      first -= kUnitsPerSlot;
      slot -= kMapWords;
      earlier = slot[kStarts];
    }
    pair = highest_bit(earlier);
    return first + pair * 64 + highest_bit(slot[2 * pair] | slot[2 * pair + 1]);
  }

  u64* words_;
  u32 units_;
};

}  // namespace coffer
