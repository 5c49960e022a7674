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
  constexpr u32 kSlices = 2, kWords = kSlices * kMapWords;
  std::mt19937 random(16);
  const auto below = [&](u32 limit) { return static_cast<u32>(random() % limit); };
  for (u32 round = 0; round < 2000; ++round) {
    std::vector<u64> before(kWords, 0);
    UnitMap map(before.data(), kSlices);
    map.clear();
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
    UnitMap changed(after.data(), kSlices);
    const Hole hole = changed.remove(unit, count).hole;
    if (below(2) == 0) before.swap(after);  // a block that is carved
    for (u32 i = 0; i < kWords; ++i) {
      if (below(2) == 0) before[i] = after[i];
    }
    UnitMap torn(before.data(), kSlices);
    torn.restore();
    ASSERT_TRUE(torn.is_whole());
    for (const auto& [start, length] : blocks) {
      if (start == unit) continue;
      ASSERT_TRUE(torn.is_start(start));
      // What is left of the changed block may count for the one right before it, with the hole behind.
      const u32 now = torn.block_units(start);
      const u32 most = start + length == unit ? hole.at + hole.units - start : length;
      ASSERT_TRUE(now == length || (now > length && now <= most)) << now;
    }
    const std::vector<u64> restored = before;
    torn.restore();
    ASSERT_EQ(before, restored);
  }
}

struct Model {
  std::vector<u32> block;  // of each unit: 1 + first unit of its block, 0 where it is free
  std::vector<u64> words;
  UnitMap map;

  explicit Model(u32 slices)
      : block(slices * kUnitsPerSlice), words(slices * kMapWords, ~u64{0}), map(words.data(), slices) {
    map.clear();
  }
  u32 size() const { return static_cast<u32>(block.size()); }
  u32 run_end(u32 unit) const {
    u32 end = unit;
    while (end < size() && (block[end] == 0) == (block[unit] == 0)) ++end;
    return end;
  }
  u32 hole_start(u32 unit) const {
    while (unit > 0 && block[unit - 1] == 0) --unit;
    return unit;
  }
  void expect_hole(Hole hole, u32 unit) const {
    ASSERT_EQ(hole.at, hole_start(unit));
    ASSERT_EQ(hole.at + hole.units, run_end(unit));
  }
  // What is right behind a block before it is freed.
  void expect_swallowed(Hole hole, u32 end) const {
    const bool any = end < size() && block[end] == 0;
    ASSERT_EQ(hole.units, any ? run_end(end) - end : 0u);
    ASSERT_EQ(hole.at, any ? end : 0u);
  }
  void set(u32 unit, u32 count, u32 to) {
    for (u32 i = 0; i < count; ++i) block[unit + i] = to;
  }
  void expect_same() const {
    u32 used = 0;
    std::vector<Hole> largest(size() / kUnitsPerPage);
    for (u32 unit = 0; unit < size(); ++unit) {
      const bool free = block[unit] == 0;
      used += free ? 0 : 1;
      ASSERT_EQ(map.is_used(unit), !free);
      ASSERT_EQ(map.is_start(unit), block[unit] == unit + 1);
      ASSERT_EQ(map.run_start(unit), free ? hole_start(unit) : block[unit] - 1);
      const Hole around = map.hole_around(unit);
      ASSERT_EQ(around.units, free ? run_end(unit) - hole_start(unit) : 0u);
      ASSERT_EQ(around.at, free ? hole_start(unit) : 0u);
      if (free && (unit == 0 || block[unit - 1] != 0)) {
        const u32 end = run_end(unit);
        Hole& in_page = largest[unit / kUnitsPerPage];
        if (end - unit > in_page.units) in_page = {end - unit, unit};
      }
    }
    ASSERT_EQ(map.count_used(), used);
    for (u32 page = 0; page < largest.size(); ++page) {
      const Hole hole = map.largest_in_page(page);
      ASSERT_EQ(hole.units, largest[page].units);
      ASSERT_EQ(hole.at, largest[page].at);
    }
    ASSERT_TRUE(map.is_whole());
  }
};

TEST(UnitMap, IsWhatAByteAUnitSays) {
  std::mt19937 random(20);
  for (const u32 slices : {1u, 2u, 8u}) {
    Model model(slices);
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
      } else if (!blocks.empty()) {
        const usize i = random() % blocks.size();
        auto& [first, count] = blocks[i];
        ASSERT_EQ(model.map.block_units(first), count);
        const u32 way = random() % 6;
        if (way < 3) {
          const UnitMap::Grown grown = model.map.remove(first, count);
          model.expect_swallowed(grown.swallowed, first + count);
          model.set(first, count, 0);
          model.expect_hole(grown.hole, first);
          blocks[i] = blocks.back();
          blocks.pop_back();
        } else if (way == 3 && count > 1) {
          const u32 left = 1 + static_cast<u32>(random() % (count - 1));
          const UnitMap::Grown grown = model.map.shrink(first, left);
          model.expect_swallowed(grown.swallowed, first + count);
          model.set(first + left, count - left, 0);
          model.expect_hole(grown.hole, first + left);
          count = left;
        } else if (way == 4) {
          const u32 more = 1 + static_cast<u32>(random() % 40), end = first + count;
          const bool fits = end < model.size() && model.block[end] == 0 && model.run_end(end) - end >= more;
          const Hole behind = fits ? Hole{model.run_end(end) - end, end} : Hole{};
          const Hole found = model.map.extend(first, count + more);
          ASSERT_EQ(found.units, behind.units);
          ASSERT_EQ(found.at, behind.at);
          if (fits) model.set(end, more, first + 1);
          if (fits) count += more;
        }
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
  EXPECT_EQ(model.map.hole_around(model.size() - 1).units, 0u);
  EXPECT_EQ(model.map.largest_in_page(0).units, 0u);
  model.map.remove(0, model.size());
  EXPECT_EQ(model.map.largest_in_page(0).units, model.size());
  EXPECT_EQ(model.map.largest_in_page(1).units, 0u) << "it starts before";
  model.map.add(0, model.size());
  EXPECT_FALSE(model.map.is_start(model.size()));
}

// Each bit of a table, turned, is seen: it starts what must not start there, or a word says what is not so.
TEST(UnitMap, SeesThatABitIsWrong) {
  Model model(2);
  for (u32 unit = 10; unit + 200 < model.size(); unit += 200) model.map.add(unit, 100);
  ASSERT_TRUE(model.map.is_whole());
  u32 seen = 0, words = 0;
  for (usize i = 0; i < model.words.size(); ++i) {
    if (i % kMapWords >= kTableWords) continue;  // the records: MixedPool::check
    ++words;
    u64& word = model.words[i];
    for (u32 bit = 0; bit < 64; ++bit) {
      word ^= u64{1} << bit;
      seen += model.map.is_whole() ? 0 : 1;
      word ^= u64{1} << bit;
    }
  }
  // A block's start in another block, or a hole's, and the end of a hole, change only what is where.
  EXPECT_GT(seen, 64u * words / 2);
  ASSERT_TRUE(model.map.is_whole());
}

TEST(UnitMap, UnitsForBytes) {
  EXPECT_EQ(units_for(0), 1u);
  EXPECT_EQ(units_for(1), 1u);
  EXPECT_EQ(units_for(16), 1u);
  EXPECT_EQ(units_for(17), 2u);
}

}  // namespace
}  // namespace coffer
