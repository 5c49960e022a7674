// SPDX-License-Identifier: MIT
#include "papers/scalloc/size_class.hpp"

#include <gtest/gtest.h>

#include <set>

namespace coffer::scalloc {
namespace {

TEST(ScallocSizeClass, EverySizeFitsAndWastesLessThanHalfAbove16) {
  for (usize size = 0; size <= kLargestBlock; size += size < 2000 ? 1 : 97) {
    const u32 size_class = class_of(size);
    ASSERT_GE(block_bytes(size_class), size);
    if (size_class > 1) {
      ASSERT_LT(block_bytes(size_class - 1), size);
    }
    if (size > 16) {
      ASSERT_LT(2 * (block_bytes(size_class) - size), block_bytes(size_class));
    }
  }
}

// Section 3.1.
TEST(ScallocSizeClass, SixteenStepsThenPowersOfTwo) {
  for (u32 c = 1; c <= 16; ++c) EXPECT_EQ(block_bytes(c), 16 * c);
  for (u32 c = 17; c < kClasses; ++c) EXPECT_EQ(block_bytes(c), usize{512} << (c - 17));
  EXPECT_EQ(block_bytes(kClasses - 1), usize{1} << 20);
}

TEST(ScallocSizeClass, NineRealSpanSizesOfWholePagesTheSmallestForSteps) {
  std::set<usize> sizes;
  for (u32 c = 1; c < kClasses; ++c) {
    const usize bytes = real_span_bytes(real_span_index(c));
    sizes.insert(bytes);
    EXPECT_EQ(bytes % 4096, 0u);
    EXPECT_LT(bytes, kLeastVirtualSpan);
    EXPECT_LE(kHeaderBytes + payload_bytes(c), bytes);
    EXPECT_EQ(bytes == 32 * 1024, c <= 16);
  }
  EXPECT_EQ(sizes.size(), 9u);
  EXPECT_EQ(*sizes.begin(), 32u * 1024);
}

// Section 7: "32KB" for 64 bytes, "127 blocks" for 256.
TEST(ScallocSizeClass, MatchesTheFiguresOfSection7) {
  EXPECT_EQ(real_span_bytes(real_span_index(class_of(64))), 32u * 1024);
  EXPECT_EQ(blocks_of(class_of(256)), 127u);
}

}  // namespace
}  // namespace coffer::scalloc
