// SPDX-License-Identifier: MIT
// What a take costs, in records and tables looked at, and from which shard it takes (issue 16: threads stood still over
// holes that were not there).
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "mixed/map_of.hpp"
#include "mixed/mixed.hpp"

namespace coffer {
namespace {

using test::start_ground;

// Of one call, which carves from eight holes at most: records for each, and in each other shard that it locks; tables
// of pages.
constexpr u64 kMostCuts = 8, kMostLooks = 9, kMostScans = kMostCuts;

Span* record_of(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  return first_record(slice_record(arena_of(address), address));
}

void release(void* block) { ASSERT_NE(g_mixed_pool.release(record_of(block), block), 0u); }

class Bounded {
 public:
  void take(u32 bytes, u32 most, Lines lines, u32 home, std::vector<Block*>& blocks) {
    const TakeSteps before = g_mixed_pool.steps();
    Block* list = g_mixed_pool.take(bytes, most, lines, home);
    const TakeSteps after = g_mixed_pool.steps();
    const u64 shards = after.takes - before.takes;
    ASSERT_LE(shards, 8u);
    ASSERT_LE(after.looks - before.looks, kMostLooks * (shards + kMostCuts - 1));
    ASSERT_LE(after.scans - before.scans, kMostScans);
    if (list == nullptr || most == 1) {
      blocks.push_back(list != nullptr ? list : g_mixed_pool.make(bytes, kMaxSpanSlices));
      ASSERT_NE(blocks.back(), nullptr);
      return;
    }
    for (; list != nullptr; list = next_of(list)) blocks.push_back(list);
  }
};

// Phases of drifting sizes, in which one block of twenty survives: whatever holes there are, no call looks for long.
FRESH_TEST(MixedSteps, NoTakeLooksForLong) {
  start_ground();
  std::mt19937 random(16);
  Bounded pool;
  std::vector<Block*> survivors;
  for (u32 phase = 0; phase < 30; ++phase) {
    std::vector<Block*> blocks;
    const u32 low = 16u << phase % 10, lines = phase % 3;
    while (blocks.size() < (4u << 20) / low && blocks.size() < 4000) {
      const u32 bytes = static_cast<u32>(round_up(low + random() % (low / 2 + 1), kQuantum));
      const u32 home = lines == 0 ? 0 : static_cast<u32>(random());
      pool.take(bytes, 1 + random() % 40, lines == 2 ? Lines::whole : Lines::shared, home, blocks);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (usize i = 0; i < blocks.size(); ++i) {
      if (random() % 20 == 0) {
        survivors.push_back(blocks[i]);
      } else {
        release(blocks[i]);
      }
    }
    std::set<Span*> spans;
    for (Block* block : survivors) spans.insert(record_of(block));
    for (Span* span : spans) ASSERT_EQ(g_mixed_pool.check(span), MixedPool::Fault::none);
  }
  for (Block* block : survivors) release(block);
}

// Holes that are large enough and start in the wrong place: a hundred records that do not help are not looked at.
FRESH_TEST(MixedSteps, AlignmentMakesNoTakeLookForLong) {
  start_ground();
  std::vector<uptr> starts;
  for (u32 i = 0; i < 100; ++i) {
    starts.push_back(span_start(record_of(g_mixed_pool.make(16, 1))));
    while (g_mixed_pool.take(16, kMostTaken) != nullptr) {
    }
  }
  // Eight units that follow the first: 128 bytes, not one block of them on a line.
  for (const uptr start : starts) {
    for (u32 unit = 1; unit <= 8; ++unit) release(reinterpret_cast<void*>(start + unit * kQuantum));
  }
  Bounded pool;
  std::vector<Block*> blocks;
  for (u32 i = 0; i < 10; ++i) pool.take(128, 1, Lines::shared, 0, blocks);
  for (Block* block : blocks) EXPECT_EQ(reinterpret_cast<uptr>(block) % kCacheLine, 0u);
  EXPECT_NE(g_mixed_pool.take(112, 1), nullptr) << "which has no such wish";
}

// A heap among others takes from its own shard while that has a hole.
FRESH_TEST(MixedSteps, HomesHaveShardsOfTheirOwn) {
  start_ground();
  std::vector<Block*> spans;
  for (u32 i = 0; i < 8; ++i) spans.push_back(g_mixed_pool.make(64, kMaxSpanSlices));
  for (u32 home = 0; home < 8; ++home) {
    Span* first = record_of(g_mixed_pool.take(256, 1, Lines::whole, home));
    for (u32 i = 0; i < 100; ++i) ASSERT_EQ(record_of(g_mixed_pool.take(256, 1, Lines::whole, home)), first);
    for (u32 other = 0; other < home; ++other) {
      EXPECT_NE(record_of(g_mixed_pool.take(256, 1, Lines::whole, other)), first);
    }
  }
}

}  // namespace
}  // namespace coffer
