// SPDX-License-Identifier: MIT
// The table of a mixed span, against one byte a unit.
#include "mixed/unit_map.hpp"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace coffer {
namespace {

// What is left when a thread stops between two words of a change: some of the words are of before it, some of after it.
TEST(UnitMap, IsRestoredFromTheMiddleOfAChange) {
  constexpr u32 kSlots = 2, kWords = kSlots * kMapBytes / sizeof(u64);
  std::mt19937 random(16);
  const auto below = [&](u32 limit) { return static_cast<u32>(random() % limit); };
  for (u32 round = 0; round < 2000; ++round) {
    std::vector<u64> before(kWords, 0);
    UnitMap map(before.data(), kSlots);
    std::vector<std::pair<u32, u32>> blocks;
    for (u32 unit = below(100); unit < map.units();) {
      const u32 count = 1 + below(below(5) == 0 ? 500 : 20);
      if (unit + count > map.units()) break;
      map.add(unit, count);
      blocks.emplace_back(unit, count);
      unit += count + (below(2) == 0 ? 0 : below(200));
    }
    const auto [unit, count] = blocks[below(static_cast<u32>(blocks.size()))];
    std::vector<u64> after = before;
    UnitMap(after.data(), kSlots).remove(unit, count);
    for (u32 i = 0; i < kWords; ++i) {
      if (below(2) == 0) before[i] = after[i];
    }
    map.restore();
    ASSERT_TRUE(map.is_whole());
    for (const auto& [start, length] : blocks) {
      if (start == unit) continue;
      ASSERT_TRUE(map.is_start(start));
      // What is left of the changed block may count for the one right before it, which then ends where that one did.
      const u32 now = map.block_units(start);
      ASSERT_TRUE(now == length || (start + length == unit && now > length && now <= length + count)) << now;
    }
    const std::vector<u64> restored = before;
    map.restore();
    ASSERT_EQ(before, restored);
  }
}

struct Model {
  std::vector<u32> block;  // of each unit: 1 + first unit of its block, 0 where it is free
  std::vector<u64> words;
  UnitMap map;

  explicit Model(u32 slots)
      : block(slots * kUnitsPerSlot), words(slots * kMapBytes / sizeof(u64), ~u64{0}), map(words.data(), slots) {
    map.clear();
  }
  u32 size() const { return static_cast<u32>(block.size()); }
  u32 run_end(u32 unit) const {
    u32 end = unit;
    while (end < size() && (block[end] == 0) == (block[unit] == 0)) ++end;
    return end;
  }
  void set(u32 unit, u32 count, u32 to) {
    for (u32 i = 0; i < count; ++i) block[unit + i] = to;
  }
  void expect_same() const {
    u32 used = 0;
    std::vector<UnitMap::Hole> largest(size() / kUnitsPerSlot);
    for (u32 unit = 0; unit < size(); ++unit) {
      const bool free = block[unit] == 0;
      used += free ? 0 : 1;
      ASSERT_EQ(map.is_used(unit), !free);
      ASSERT_EQ(map.is_start(unit), block[unit] == unit + 1);
      ASSERT_EQ(map.next_free(unit), free ? unit : run_end(unit));
      ASSERT_EQ(map.next_used(unit), free ? run_end(unit) : unit);
      if (free && (unit == 0 || block[unit - 1] != 0)) {
        const u32 end = run_end(unit);
        UnitMap::Hole& in_slot = largest[unit / kUnitsPerSlot];
        if (end - unit > in_slot.units) in_slot = {end - unit, unit};
        ASSERT_EQ(map.hole_start(unit), unit);
        ASSERT_EQ(map.hole_start(end - 1), unit);
      }
    }
    ASSERT_EQ(map.count_used(), used);
    for (u32 slot = 0; slot < largest.size(); ++slot) {
      ASSERT_EQ(map.largest_hole(slot).units, largest[slot].units);
      ASSERT_EQ(map.largest_hole(slot).at, largest[slot].at);
    }
    ASSERT_TRUE(map.is_whole());
  }
};

TEST(UnitMap, IsWhatAByteAUnitSays) {
  std::mt19937 random(20);
  for (const u32 slots : {1u, 2u, 8u}) {
    Model model(slots);
    model.expect_same();
    std::vector<std::pair<u32, u32>> blocks;
    for (int step = 0; step < 1500; ++step) {
      const u32 unit = static_cast<u32>(random() % model.size());
      if (model.block[unit] == 0) {
        const u32 room = model.run_end(unit) - unit;
        const u32 wanted = 1 + static_cast<u32>(random() % (random() % 4 == 0 ? room : 8));
        const u32 count = wanted < room ? wanted : room;
        model.map.add(unit, count);
        model.set(unit, count, unit + 1);
        blocks.emplace_back(unit, count);
      } else if (random() % 3 != 0) {
        const usize i = random() % blocks.size();
        const auto [first, count] = blocks[i];
        ASSERT_EQ(model.map.block_units(first), count);
        model.map.remove(first, count);
        model.set(first, count, 0);
        blocks[i] = blocks.back();
        blocks.pop_back();
      }
      if (step % 50 == 0) model.expect_same();
    }
    for (const auto& [first, count] : blocks) ASSERT_EQ(model.map.block_units(first), count);
    model.expect_same();
  }
}

TEST(UnitMap, KnowsABlockThatFillsIt) {
  Model model(8);
  model.map.add(0, model.size());
  EXPECT_EQ(model.map.block_units(0), model.size());
  EXPECT_EQ(model.map.next_free(0), model.size());
  EXPECT_EQ(model.map.largest_hole(0).units, 0u);
  model.map.remove(0, model.size());
  EXPECT_EQ(model.map.largest_hole(0).units, model.size());
  EXPECT_EQ(model.map.largest_hole(1).units, 0u) << "it starts before";
  model.map.add(0, model.size());
  EXPECT_FALSE(model.map.is_start(model.size()));
}

TEST(UnitMap, SeesUsedUnitsThatAreNobodys) {
  Model model(1);
  model.map.add(64, 3);
  EXPECT_TRUE(model.map.is_whole());
  model.map.set_used(200, 5, true);
  EXPECT_FALSE(model.map.is_whole());
}

TEST(UnitMap, UnitsForBytes) {
  EXPECT_EQ(units_for(0), 1u);
  EXPECT_EQ(units_for(1), 1u);
  EXPECT_EQ(units_for(16), 1u);
  EXPECT_EQ(units_for(17), 2u);
}

}  // namespace
}  // namespace coffer
