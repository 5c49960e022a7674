// SPDX-License-Identifier: MIT
#include "span/emptiness.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "options.hpp"
#include "size_class/placement.hpp"

namespace coffer {
namespace {

using Fraction = config::EmptyFraction;
constexpr Fraction kFractions[] = {Fraction::half, Fraction::quarter, Fraction::eighth, Fraction::sixteenth};
u32 divisor_of(Fraction fraction) { return 2u << static_cast<u32>(fraction); }

// f / 2 of all blocks, rounded up: the fewest for which 2 * blocks >= f * capacity.
TEST(Emptiness, TheThresholdIsTheFirstCountThatReachesHalfOfTheFraction) {
  for (const Fraction fraction : kFractions) {
    const u32 divisor = divisor_of(fraction);
    for (u32 capacity = 1; capacity <= 20'000; ++capacity) {
      const u32 threshold = reuse_threshold_at(reuse_shift(fraction), capacity, false);
      ASSERT_GE(threshold, 1u);
      ASSERT_LE(threshold, capacity);
      ASSERT_LT(2 * divisor * (threshold - 1), capacity) << capacity;
      ASSERT_GE(2 * divisor * threshold, capacity) << capacity;
    }
  }
}

// Crowded, a quarter of that, but kEnoughBlocks at least.
TEST(Emptiness, WhereItIsCrowdedAQuarterOfThatIsEnough) {
  for (const Fraction fraction : kFractions) {
    const u32 divisor = divisor_of(fraction);
    for (u32 capacity = 1; capacity <= 20'000; ++capacity) {
      const u32 usual = reuse_threshold_at(reuse_shift(fraction), capacity, false);
      const u32 threshold = reuse_threshold_at(reuse_shift(fraction), capacity, true);
      ASSERT_LE(threshold, usual);
      if (usual <= kEnoughBlocks) {
        ASSERT_EQ(threshold, usual) << capacity;
        continue;
      }
      ASSERT_GE(threshold, kEnoughBlocks);
      ASSERT_GE(8 * divisor * threshold, capacity) << capacity;
      if (threshold > kEnoughBlocks) {
        ASSERT_LT(8 * divisor * (threshold - 1), capacity) << capacity;
      }
    }
  }
}

// Local and remote frees can each stay one short of the threshold: a floating span is never f-empty.
TEST(Emptiness, BothSidesTogetherStayBelowTheFraction) {
  for (const Fraction fraction : kFractions) {
    for (u32 capacity = 1; capacity <= 20'000; ++capacity) {
      const u32 most = 2 * (reuse_threshold_at(reuse_shift(fraction), capacity, false) - 1);
      ASSERT_LT(most * divisor_of(fraction), capacity) << capacity;
    }
  }
}

FRESH_TEST(Emptiness, FollowsTheOption) {
  EXPECT_EQ(reuse_threshold(2048), 256u) << "before the start, too";
  for (const Fraction fraction : kFractions) {
    test::changeable_options().empty_fraction = fraction;
    span_choices_start();
    EXPECT_EQ(reuse_threshold(64), 64 / 2 / divisor_of(fraction));
    EXPECT_EQ(reuse_threshold(2048), 2048 / 2 / divisor_of(fraction));
  }
  g_crowded.set(1);
  EXPECT_EQ(reuse_threshold(2048), 16u) << "an eighth of a sixteenth";
}

TEST(Emptiness, SlackIsJudgedAtEachInequality) {
  EXPECT_TRUE(within_slack(0, 0, 0));
  EXPECT_FALSE(within_slack(0, 1, 0));
  EXPECT_FALSE(within_slack(1, 0, 0));
  EXPECT_TRUE(within_slack(99, 1, 100));
  EXPECT_FALSE(within_slack(100, 1, 100));
  EXPECT_TRUE(within_slack(100, 0, 100));
  EXPECT_FALSE(within_slack(101, 0, 100));
  EXPECT_FALSE(within_slack(~usize{0}, 2, 100)) << "the sum would wrap";
  EXPECT_FALSE(within_slack(50, ~usize{0} - 10, 100)) << "the sum would wrap";
  EXPECT_TRUE(within_slack(0, ~usize{0}, ~usize{0}));
}

TEST(Emptiness, TheBudgetGrowsWithWhatTheHeapHolds) {
  for (const bool few : {false, true}) {
    const usize part = few ? 4 : 16;
    EXPECT_EQ(slack_budget(65536, 0, few), 65536u);
    EXPECT_EQ(slack_budget(65536, part - 1, few), 65536u);
    EXPECT_EQ(slack_budget(65536, part, few), 65537u);
    EXPECT_EQ(slack_budget(0, usize{1} << 30, few), (usize{1} << 30) / part);
  }
}

// Whoever pushes the last live block claims; nobody can be asked for more than there is.
TEST(Emptiness, AReusableSpanIsClaimedAtAStepMoreOrAtTheLastBlock) {
  for (u32 capacity = 1; capacity <= 300; ++capacity) {
    const u32 step = reuse_threshold(capacity);
    for (u32 free = 0; free < capacity; ++free) {
      for (const u32 remote : {0u, free / 2, free}) {
        const u32 at = claim_reusable(step, capacity, free, remote);
        ASSERT_GT(at, remote) << "what is there already is no reason";
        ASSERT_LE(at - remote, step);
        ASSERT_LE(at - remote, capacity - free) << "it can be reached";
        ASSERT_TRUE(at - remote == step || at - remote == capacity - free);
      }
    }
    ASSERT_EQ(claim_reusable(step, capacity, capacity, capacity / 2), kNoClaim);
    ASSERT_EQ(claim_reusable(step, capacity, capacity + 1, 0), kNoClaim) << "counted twice for a moment";
  }
}

TEST(Emptiness, AHotSpanIsClaimedAtHalfOfWhatWasCut) {
  for (u32 capacity = 1; capacity <= 300; ++capacity) {
    const u32 least = reuse_threshold(capacity);
    for (u32 cut = 0; cut <= capacity; ++cut) {
      for (u32 remote = 0; remote <= cut; ++remote) {
        const u32 at = claim_hot(least, cut, remote);
        ASSERT_GT(at, remote);
        ASSERT_GE(at, least);
        ASSERT_GE(at, cut / 2);
        ASSERT_TRUE(at == least || at == cut / 2 || at == remote + 1);
      }
    }
  }
}

TEST(Emptiness, AReusableSpanIsCountedAnewOftenEnough) {
  for (const ClassLayout& layout : kLayout) {
    for (const bool crowded : {false, true}) {
      const u32 step = recount_step_at(layout.capacity, crowded);
      const u32 part = crowded ? 8 : 4;
      EXPECT_GE(step, 1u);
      EXPECT_LE(step * part, layout.capacity + part - 1) << layout.block_bytes;
    }
  }
}

}  // namespace
}  // namespace coffer
