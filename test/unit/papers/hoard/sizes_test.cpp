// SPDX-License-Identifier: MIT
#include "papers/hoard/sizes.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "papers/hoard/superblock.hpp"

namespace coffer::papers::hoard {
namespace {

std::unique_ptr<SizeClasses> classes_for(usize superblock, usize word, u32 factor) {
  auto classes = std::make_unique<SizeClasses>();
  classes->build(largest_stride(superblock, word) - word, word, factor);
  return classes;
}

TEST(SizeClasses, EveryRequestGetsTheSmallestClassThatServesIt) {
  for (const usize superblock : {usize{4096}, usize{8192}, usize{65536}, kLargestSuperblock}) {
    for (const usize word : {usize{0}, kWord}) {
      for (const u32 factor : {110u, 120u, 125u, 150u, 200u}) {
        const auto classes = classes_for(superblock, word, factor);
        for (usize request = 0; request <= classes->largest(); ++request) {
          const u32 c = classes->of(request);
          ASSERT_LT(c, classes->count());
          ASSERT_GE(classes->usable(c), request);
          if (c > 0) {
            ASSERT_LT(classes->usable(c - 1), request);
          }
        }
      }
    }
  }
}

// Section 3: rounding up wastes at most a factor b, from where 16-byte alignment allows it.
TEST(SizeClasses, FactorHoldsFromWhereItIsSaidTo) {
  for (const usize superblock : {usize{4096}, usize{8192}, usize{65536}}) {
    for (const usize word : {usize{0}, kWord}) {
      for (const u32 factor : {110u, 120u, 125u, 150u, 200u}) {
        const auto classes = classes_for(superblock, word, factor);
        ASSERT_LT(classes->holds_from(), 200u);
        for (usize request = classes->holds_from() + 1; request <= classes->largest(); ++request) {
          ASSERT_LE(classes->usable(classes->of(request)) * 100, request * factor) << request;
        }
        // ... and not before.
        if (classes->holds_from() == 0) continue;
        const u32 last = classes->of(classes->holds_from());
        const usize smallest = last == 0 ? 1 : classes->usable(last - 1) + 1;
        EXPECT_GT(classes->usable(last) * 100, smallest * factor);
      }
    }
  }
}

// What docs/papers.md states.
TEST(SizeClasses, DefaultsOfThePaper) {
  const auto classes = classes_for(8192, kWord, 120);
  EXPECT_EQ(classes->count(), 30u);
  EXPECT_EQ(classes->holds_from(), 88u);
  EXPECT_EQ(classes->largest(), 4040u);
  EXPECT_EQ(capacity_of(8192, classes->stride(classes->count() - 1), kWord), 2u);
}

TEST(SizeClasses, NeighboursAreNeverFartherApartThanTheFactorOrOneQuantum) {
  const auto classes = classes_for(8192, kWord, 120);
  for (u32 c = 1; c < classes->count(); ++c) {
    const u32 step = classes->stride(c) - classes->stride(c - 1);
    EXPECT_TRUE(step == 16 || classes->stride(c) * 100 <= classes->stride(c - 1) * 121) << classes->stride(c);
    EXPECT_EQ(classes->stride(c) % 16, 0u);
  }
}

// The largest a superblock's a can be over the bytes of its blocks: the constant of Theorem 1 has this factor.
TEST(SizeClasses, BlocksFillTwoThirdsOfASuperblockAtLeast) {
  const auto classes = classes_for(8192, kWord, 120);
  for (u32 c = 0; c < classes->count(); ++c) {
    const usize bytes = usize{capacity_of(8192, classes->stride(c), kWord)} * classes->stride(c);
    EXPECT_GE(bytes * 3, 2 * 8192u) << classes->stride(c);
  }
}

}  // namespace
}  // namespace coffer::papers::hoard
