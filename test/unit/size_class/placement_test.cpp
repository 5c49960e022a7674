#include "size_class/placement.hpp"

#include <gtest/gtest.h>

namespace coffer {
namespace {

usize span_bytes_of(const ClassLayout& layout) { return kSlotBytes << layout.slots_log2; }

bool passes(const BlockTest& test, i64 offset) { return static_cast<u64>(offset) * test.multiplier < test.limit; }

TEST(Placement, BlockTestIsExactAtEveryOffset) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const ClassLayout& layout = kLayout[c];
    const i64 span = static_cast<i64>(span_bytes_of(layout));
    const i64 block_bytes = layout.block_bytes;
    const i64 end = block_bytes * layout.capacity;
    i64 wrong = 0;
    i64 next = 0;  // the next offset that is a block's start
    for (i64 offset = -span; offset <= 2 * span; ++offset) {
      const bool start = offset == next && offset < end;
      if (start) next += block_bytes;
      wrong += passes(layout.test, offset) != start ? 1 : 0;
    }
    EXPECT_EQ(next, end) << "class " << c;
    EXPECT_EQ(wrong, 0) << "class " << c;
  }
}

// The table of today has few block sizes; the test must hold for those of a later one.
TEST(Placement, BlockTestIsExactForAnyMultipleOfTheQuantum) {
  for (u64 bytes = kQuantum; bytes <= kLargestSmall; bytes += kQuantum) {
    for (const u64 count : {u64{1}, u64{8}, kMaxSpanSlots * kSlotBytes / bytes}) {
      const BlockTest test = block_test(bytes, count);
      for (u64 i = 0; i < count + 3; ++i) {
        const i64 offset = static_cast<i64>(i * bytes);
        ASSERT_EQ(passes(test, offset), i < count) << bytes << " * " << i;
        ASSERT_FALSE(passes(test, offset + 1)) << bytes << " * " << i;
        ASSERT_FALSE(passes(test, offset - 1)) << bytes << " * " << i;
      }
      ASSERT_FALSE(passes(test, -static_cast<i64>(bytes))) << bytes;
    }
  }
}

TEST(Placement, BlocksLieInTheirSpan) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const ClassLayout& layout = kLayout[c];
    EXPECT_EQ(layout.block_bytes, class_bytes(c));
    EXPECT_GE(layout.capacity, kMinBlocksPerSpan);
    const usize used = layout.first + usize{layout.capacity} * layout.block_bytes;
    EXPECT_LE(used, span_bytes_of(layout));
    EXPECT_LT(layout.first, kSlotBytes) << "block 0 lies in the first slot";
    EXPECT_GT(used + layout.block_bytes, span_bytes_of(layout)) << "room for one more block in class " << c;
  }
}

// Option `span`: every span that a class can have, at every offset that a pointer near it can have.
TEST(Placement, BlockTestIsExactInLongerSpans) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlots; ++log2) {
      const SpanShape shape = span_shape(c, log2);
      ASSERT_EQ(shape.slots_log2, log2 > kLayout[c].slots_log2 ? log2 : kLayout[c].slots_log2);
      const i64 span = static_cast<i64>(kSlotBytes << shape.slots_log2);
      const i64 block_bytes = kLayout[c].block_bytes;
      EXPECT_EQ(shape.capacity, span / block_bytes);
      const BlockTest test = {kLayout[c].test.multiplier, shape.limit};
      EXPECT_EQ(test.limit, block_test(kLayout[c].block_bytes, shape.capacity).limit);
      i64 wrong = 0;
      i64 next = 0;
      for (i64 offset = -span; offset <= 2 * span; ++offset) {
        const bool start = offset == next && offset < block_bytes * shape.capacity;
        if (start) next += block_bytes;
        wrong += passes(test, offset) != start ? 1 : 0;
      }
      EXPECT_EQ(next, block_bytes * shape.capacity);
      EXPECT_EQ(wrong, 0) << "class " << c << ", " << (1u << log2) << " slots";
    }
  }
}

TEST(Placement, FewestSlotsThatKeepTheTailSmall) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bytes = class_bytes(c);
    u32 fewest = 0;
    for (; (1u << fewest) < kMaxSpanSlots; ++fewest) {
      const usize span = kSlotBytes << fewest;
      const usize blocks = span / bytes;
      if (blocks >= kMinBlocksPerSpan && (span - blocks * bytes) * 100 <= span * 2) break;
    }
    EXPECT_EQ(kLayout[c].slots_log2, fewest) << bytes;
  }
}

TEST(Placement, AlignedClassForAllSizesAndAlignments) {
  for (usize alignment = 1; alignment <= 2 * kLargestSmall; alignment *= 2) {
    for (usize size = 0; size <= kLargestSmall + 2; ++size) {
      ClassIndex wanted = 0;
      while (wanted < kClasses && (class_bytes(wanted) < size || class_bytes(wanted) % alignment != 0)) ++wanted;
      ASSERT_EQ(aligned_class(size, alignment), wanted) << size << " aligned to " << alignment;
    }
  }
  EXPECT_EQ(aligned_class(~usize{0}, 16), kClasses);
  EXPECT_EQ(aligned_class(16, usize{1} << 63), kClasses);
}

}  // namespace
}  // namespace coffer
