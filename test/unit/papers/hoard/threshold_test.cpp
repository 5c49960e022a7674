// SPDX-License-Identifier: MIT
#include "papers/hoard/threshold.hpp"

#include <gtest/gtest.h>

namespace coffer::papers::hoard {
namespace {

// Both sides of each inequality of section 3.1.
TEST(Threshold, SlackIsKSuperblocks) {
  constexpr Threshold t = {4, 4};
  // 10 superblocks of 100 blocks, f = 1/4: the second inequality holds from 750 on, the first from 600 on.
  EXPECT_TRUE(t.holds(600, 1000, 100));
  EXPECT_FALSE(t.holds(599, 1000, 100));
  EXPECT_TRUE(t.crossed(599, 1000, 100));
}

TEST(Threshold, EmptyFractionCountsWhereItAllowsMore) {
  constexpr Threshold t = {4, 4};
  // 100 superblocks: the first inequality from 9,600 on, the second from 7,500 on.
  EXPECT_TRUE(t.holds(7500, 10000, 100));
  EXPECT_FALSE(t.holds(7499, 10000, 100));
}

TEST(Threshold, HeapsUnderKSuperblocksNeverCross) {
  constexpr Threshold t = {4, 4};
  for (u64 superblocks = 0; superblocks <= 4; ++superblocks) EXPECT_TRUE(t.holds(0, superblocks * 100, 100));
  EXPECT_FALSE(t.holds(0, 500, 100));
}

TEST(Threshold, WithoutSlackOnlyTheFractionCounts) {
  constexpr Threshold t = {4, 0};
  EXPECT_TRUE(t.holds(0, 0, 100));
  EXPECT_TRUE(t.holds(75, 100, 100));
  EXPECT_FALSE(t.holds(74, 100, 100));
  EXPECT_TRUE(t.holds(100, 100, 100));
}

TEST(Threshold, MallocMayTakeOneSuperblockWithoutSlack) {
  constexpr Threshold t = {4, 0};
  EXPECT_FALSE(t.holds(1, 100, 100));
  EXPECT_TRUE(t.holds_after_malloc(1, 100, 100));
  EXPECT_TRUE(t.holds_after_malloc(101, 200, 100));
  EXPECT_FALSE(t.holds_after_malloc(99, 200, 100));
}

TEST(Threshold, HugeCountsDoNotWrap) {
  constexpr Threshold t = {1, 1000000};
  constexpr u64 kMany = u64{1} << 50;
  EXPECT_TRUE(t.holds(kMany, kMany, u64{1} << 16));
  EXPECT_FALSE(t.holds(0, kMany, u64{1} << 16));
}

// One edge between groups lies at 1 - f for every f that can be chosen: the groups below are f empty, all of them,
// and no other is.
TEST(FullnessGroups, HaveAnEdgeAtOneMinusF) {
  for (const u32 f : {1u, 2u, 4u, 8u, 12u}) {
    const Threshold t = {f, 4};
    for (u64 capacity = 2; capacity <= 600; ++capacity) {
      for (u64 used = 0; used <= capacity; ++used) {
        const u32 group = group_of(used, capacity);
        ASSERT_EQ(t.is_half_of(used, capacity), group <= kParts - f) << used << " of " << capacity << ", f " << f;
      }
    }
  }
}

TEST(FullnessGroups, EmptyAndFullAreApart) {
  for (u64 capacity = 2; capacity <= 600; ++capacity) {
    EXPECT_EQ(group_of(0, capacity), kEmptyGroup);
    EXPECT_NE(group_of(1, capacity), kEmptyGroup);
    EXPECT_EQ(group_of(capacity, capacity), kFullGroup);
    EXPECT_NE(group_of(capacity - 1, capacity), kFullGroup);
  }
}

// The limits that save a division at each call say the same as the division.
TEST(FullnessGroups, LimitsAgreeWithTheGroups) {
  for (u64 capacity = 2; capacity <= 600; ++capacity) {
    for (u64 used = 0; used <= capacity; ++used) {
      const u32 group = group_of(used, capacity);
      ASSERT_LE(used, most_in_group(group, capacity));
      if (group != kEmptyGroup) {
        ASSERT_GT(used, most_in_group(group - 1, capacity));
      }
    }
  }
}

}  // namespace
}  // namespace coffer::papers::hoard
