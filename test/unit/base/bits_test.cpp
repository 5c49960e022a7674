// SPDX-License-Identifier: MIT
#include "base/bits.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace coffer {
namespace {

TEST(Bits, PowersOfTwo) {
  EXPECT_FALSE(is_power_of_two(0));
  for (u32 i = 0; i < 64; ++i) {
    EXPECT_TRUE(is_power_of_two(u64{1} << i));
  }
  for (u32 i = 2; i < 64; ++i) {
    EXPECT_FALSE(is_power_of_two((u64{1} << i) - 1));
    EXPECT_FALSE(is_power_of_two((u64{1} << i) + 1));
  }
}

TEST(Bits, Rounding) {
  EXPECT_EQ(round_up(0, 16), 0u);
  EXPECT_EQ(round_up(1, 16), 16u);
  EXPECT_EQ(round_up(16, 16), 16u);
  EXPECT_EQ(round_up(17, 4096), 4096u);
  EXPECT_EQ(round_down(15, 16), 0u);
  EXPECT_EQ(round_down(4097, 4096), 4096u);
  EXPECT_EQ(divide_up(0, 7), 0u);
  EXPECT_EQ(divide_up(14, 7), 2u);
  EXPECT_EQ(divide_up(15, 7), 3u);
}

TEST(Bits, PositionsAndCounts) {
  for (u32 i = 0; i < 64; ++i) {
    EXPECT_EQ(lowest_bit(~u64{0} << i), i);
    EXPECT_EQ(highest_bit(~u64{0} >> i), 63 - i);
    EXPECT_EQ(count_bits(low_mask(i)), i);
  }
  EXPECT_EQ(low_mask(64), ~u64{0});
  EXPECT_EQ(count_bits(~u64{0}), 64u);
}

TEST(Bits, CeilLog2IsTheSmallestExponent) {
  for (u64 x = 1; x < 5000; ++x) {
    const u32 k = ceil_log2(x);
    EXPECT_GE(u64{1} << k, x);
    EXPECT_LT(k == 0 ? 0 : u64{1} << (k - 1), x);
  }
  EXPECT_EQ(ceil_log2((u64{1} << 40) + 1), 41u);
  EXPECT_EQ(ceil_log2(u64{1} << 63), 63u);
}

TEST(Bits, CheckedSums) {
  constexpr usize kMost = std::numeric_limits<usize>::max();
  usize result = 0;
  EXPECT_TRUE(checked_add(kMost - 1, 1, &result));
  EXPECT_EQ(result, kMost);
  EXPECT_FALSE(checked_add(kMost, 1, &result));
  EXPECT_TRUE(checked_multiply(usize{1} << 32, (usize{1} << 32) - 1, &result));
  EXPECT_FALSE(checked_multiply(usize{1} << 32, usize{1} << 32, &result));
  EXPECT_TRUE(checked_multiply(kMost, 0, &result));
  EXPECT_EQ(result, 0u);
}

u64 run_starts_one_by_one(u64 word, u32 n) {
  u64 starts = 0;
  for (u32 i = 0; i + n <= 64; ++i) {
    const u64 run = low_mask(n) << i;
    if ((word & run) == run) starts |= u64{1} << i;
  }
  return starts;
}

TEST(Bits, RunStartsAgreesWithTheDefinition) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    // From nearly empty to nearly full words.
    u64 word = random();
    for (int i = 0; i < round % 4; ++i) word |= random();
    for (u32 n = 1; n <= 64; ++n) {
      ASSERT_EQ(run_starts(word, n), run_starts_one_by_one(word, n)) << std::hex << word << " run of " << std::dec << n;
    }
  }
  for (u32 n = 1; n <= 64; ++n) {
    EXPECT_EQ(run_starts(~u64{0}, n), run_starts_one_by_one(~u64{0}, n));
    EXPECT_EQ(run_starts(0, n), 0u);
  }
}

TEST(Bits, AlignedPositions) {
  for (u32 step = 1; step <= 64; step *= 2) {
    const u64 positions = aligned_positions(step);
    for (u32 i = 0; i < 64; ++i) EXPECT_EQ((positions >> i) & 1, i % step == 0 ? 1u : 0u) << step << " at " << i;
  }
}

}  // namespace
}  // namespace coffer
