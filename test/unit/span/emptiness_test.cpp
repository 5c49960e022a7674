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
      const u32 threshold = reuse_threshold_at(reuse_shift(fraction), capacity, 0);
      ASSERT_GE(threshold, 1u);
      ASSERT_LE(threshold, capacity);
      ASSERT_LT(2 * divisor * (threshold - 1), capacity) << capacity;
      ASSERT_GE(2 * divisor * threshold, capacity) << capacity;
    }
  }
}

// Where heaps share, that over their number, but kEnoughBlocks at least.
TEST(Emptiness, WhereHeapsShareTheirPartOfThatIsEnough) {
  const auto check = [](Fraction fraction, u32 capacity, u32 sharing_log2) {
    const u32 divisor = divisor_of(fraction) << sharing_log2;
    const u32 usual = reuse_threshold_at(reuse_shift(fraction), capacity, 0);
    const u32 threshold = reuse_threshold_at(reuse_shift(fraction), capacity, sharing_log2);
    ASSERT_LE(threshold, usual);
    if (usual <= kEnoughBlocks) {
      ASSERT_EQ(threshold, usual) << capacity;
      return;
    }
    ASSERT_GE(threshold, kEnoughBlocks);
    ASSERT_GE(2 * divisor * threshold, capacity) << capacity;
    if (threshold > kEnoughBlocks) {
      ASSERT_LT(2 * divisor * (threshold - 1), capacity) << capacity;
    }
  };
  for (const Fraction fraction : kFractions) {
    for (u32 log2 = 0; log2 <= kMostSharingLog2; ++log2) {
      for (u32 capacity = 1; capacity <= 20'000 && !HasFatalFailure(); ++capacity) check(fraction, capacity, log2);
    }
  }
}

// Local and remote frees can each stay one short of the threshold: a floating span is never f-empty.
TEST(Emptiness, BothSidesTogetherStayBelowTheFraction) {
  for (const Fraction fraction : kFractions) {
    for (u32 capacity = 1; capacity <= 20'000; ++capacity) {
      const u32 most = 2 * (reuse_threshold_at(reuse_shift(fraction), capacity, 0) - 1);
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
  g_sharing_log2.set(1);
  EXPECT_EQ(reuse_threshold(2048), 32u) << "half of a thirty-second, over two";
  g_sharing_log2.set(2);
  EXPECT_EQ(reuse_threshold(2048), 16u) << "and over four";
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

TEST(Emptiness, TheBudgetIsTheOptionAShareAndAnEighthOfWhatTheHeapHolds) {
  EXPECT_EQ(slack_budget(65536, 0, 0, false), 65536u);
  EXPECT_EQ(slack_budget(65536, 0, 7, false), 65536u);
  EXPECT_EQ(slack_budget(65536, 0, 8, false), 65537u);
  EXPECT_EQ(slack_budget(65536, 5, 8, false), 65542u);
  EXPECT_EQ(slack_budget(0, usize{1} << 29, usize{1} << 30, false), usize{5} << 27);
}

TEST(Emptiness, AHeapThatIsAloneMayKeepHalfOfWhatItHolds) {
  EXPECT_EQ(slack_budget(65536, 0, 1, true), 65536u);
  EXPECT_EQ(slack_budget(65536, 5, 8, true), 65545u);
  EXPECT_EQ(slack_budget(0, usize{1} << 29, usize{1} << 30, true), usize{1} << 30);
}

// That of empty spans grows with nothing that the heap holds.
TEST(Emptiness, TheBudgetOfEmptySpansIsTheOptionAndAShare) {
  EXPECT_EQ(empties_budget(65536, 0), 65536u);
  EXPECT_EQ(empties_budget(65536, 5), 65541u);
}

TEST(Emptiness, HeapsShareWhatTheProcessMayKeep) {
  for (const u32 heaps : {1u, 2u, 16u, 1000u}) {
    EXPECT_EQ(share_of(heaps - 1, heaps), 0u);
    EXPECT_EQ(share_of(heaps, heaps), 1u);
    EXPECT_LE(heaps * share_of(7777, heaps), 7777u) << "all of them together";
  }
  EXPECT_EQ(share_of(18, 0), 18u) << "the fallback heap alone";
}

// Half of what the owner holds beyond the option, up to a limit; an eighth of it where that is more.
TEST(Emptiness, MailMayWaitForAnOwnerThatHoldsMuch) {
  EXPECT_EQ(mail_budget(0, 0), kSliceBytes) << "it is divided by";
  EXPECT_EQ(mail_budget(65536, 0), 65536u);
  EXPECT_EQ(mail_budget(65536, 100), 65586u);
  EXPECT_EQ(mail_budget(0, 2 * kMostMail), kMostMail);
  EXPECT_EQ(mail_budget(0, 8 * kMostMail), kMostMail);
  EXPECT_EQ(mail_budget(0, 16 * kMostMail), 2 * kMostMail);
}

// Nobody can be asked for more than there is, and what is there already is no reason.
TEST(Emptiness, ASpanIsClaimedAStepLaterOrAtTheLastBlock) {
  for (u32 capacity = 1; capacity <= 300; ++capacity) {
    const u32 step = reuse_threshold(capacity);
    for (u32 most = 0; most <= capacity; ++most) {
      for (const u32 remote : {0u, most / 2, most}) {
        const u32 at = claim_after(step, most, remote);
        ASSERT_GT(at, remote);
        ASSERT_LE(at - remote, step);
        ASSERT_TRUE(at - remote == step || (at == most && remote < most));
        ASSERT_TRUE(remote == most || at <= most) << "it can be reached";
      }
    }
  }
}

TEST(Emptiness, WhatWasTakenIsClaimedAtHalfOfWhatWasCut) {
  for (u32 capacity = 1; capacity <= 300; ++capacity) {
    const u32 least = reuse_threshold(capacity);
    for (u32 carved = 0; carved <= capacity; ++carved) {
      const u32 at = claim_in_use(least, carved);
      ASSERT_GE(at, least);
      ASSERT_GE(at, carved / 2);
      ASSERT_TRUE(at == least || at == carved / 2);
    }
  }
}

TEST(Emptiness, AReusableSpanIsCountedAnewOftenEnough) {
  for (const ClassLayout& layout : kLayout) {
    u32 events = 0;
    for (u32 free = reuse_threshold(layout.capacity); free < layout.capacity; ++events) {
      const u32 frees = frees_to_recount(layout.capacity, free);
      ASSERT_GE(frees, 1u);
      ASSERT_LE(frees, free) << layout.block_bytes;
      free += frees;
      ASSERT_LE(free, layout.capacity);
    }
    EXPECT_LE(events, 3u) << layout.block_bytes;
  }
}

}  // namespace
}  // namespace coffer
