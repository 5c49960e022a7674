// SPDX-License-Identifier: MIT
#include "size_class/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "placement_table/generator.hpp"

namespace coffer {
namespace {

usize span_bytes_of(const ClassLayout& layout) { return kSliceBytes << layout.slices_log2; }

bool passes(const BlockTest& test, i64 offset) {
  return coffer::passes(static_cast<u64>(offset), test.multiplier, test.limit);
}

// Calls visit(class, layout) for every span that a class can have by any options.
template <class Visit>
void for_each_span(Visit&& visit) {
  for (const LayoutTable* table : {&kLayout, &kFlatLayout}) {
    for (ClassIndex c = 0; c < kClasses; ++c) {
      for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlices; ++log2) visit(c, span_shape((*table)[c], log2));
    }
  }
}

// The starts of a span's blocks, from its definition: one after the other, a line more after each row.
std::vector<usize> starts_of(const ClassLayout& layout) {
  std::vector<usize> starts;
  usize at = layout.first;
  for (u32 i = 0; i < layout.capacity; ++i) {
    starts.push_back(at);
    at += layout.block_bytes;
    if (!layout.stride().is_flat() && (i + 1) % layout.stride().row() == 0) at += kCacheLine;
  }
  return starts;
}

TEST(Placement, BlockTestIsExactAtEveryByteOfEverySpan) {
  for_each_span([](ClassIndex c, const ClassLayout& layout) {
    const std::vector<usize> starts = starts_of(layout);
    // Flat spans of every colour: the first and the last one are as the others.
    for (const u32 colour : {0u, layout.colours - 1}) {
      const i64 first = layout.first + colour * static_cast<i64>(kCacheLine);
      usize next = 0;
      usize wrong = 0;
      for (i64 at = 0; at < static_cast<i64>(span_bytes_of(layout)); ++at) {
        const bool start = next < starts.size() && at - first + layout.first == static_cast<i64>(starts[next]);
        if (start) ++next;
        wrong += passes(layout.test, at - first) != start ? 1 : 0;
      }
      EXPECT_EQ(next, starts.size()) << "class " << c << ", " << (1u << layout.slices_log2) << " slices";
      EXPECT_EQ(wrong, 0u) << "class " << c << ", " << (1u << layout.slices_log2) << " slices, colour " << colour;
    }
  });
}

TEST(Placement, BlockTestOfFlatSpansIsExactFarBeyondThem) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const ClassLayout& layout = kFlatLayout[c];
    const i64 span = static_cast<i64>(span_bytes_of(layout));
    for (i64 at = -span; at < 0; ++at) ASSERT_FALSE(passes(layout.test, at)) << c << " at " << at;
    for (i64 at = i64{layout.block_bytes} * layout.capacity; at < 2 * span; ++at) {
      ASSERT_FALSE(passes(layout.test, at)) << c << " at " << at;
    }
    for (u32 bit = 20; bit < 47; ++bit) {
      for (const i64 near : {-i64{layout.block_bytes}, i64{0}, i64{layout.block_bytes}}) {
        ASSERT_FALSE(passes(layout.test, (i64{1} << bit) + near)) << c;
        ASSERT_FALSE(passes(layout.test, near - (i64{1} << bit))) << c;
      }
    }
  }
}

// The tables of today have few block sizes; the test must hold for those of later ones.
TEST(Placement, BlockTestIsExactForAnyMultipleOfTheQuantum) {
  for (u32 bytes = kQuantum; bytes <= kLargestSmall + kCacheLine; bytes += kQuantum) {
    for (const u64 count : {u64{1}, u64{7}, kMaxSpanSlices * kSliceBytes / bytes}) {
      const BlockTest test = block_test({bytes, kNoSpacers}, count);
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

TEST(Placement, BlockNumbersAndOffsetsBelongTogether) {
  for_each_span([](ClassIndex c, const ClassLayout& layout) {
    const Stride stride = layout.stride();
    const std::vector<usize> starts = starts_of(layout);
    for (u32 i = 0; i < layout.capacity; ++i) {
      ASSERT_EQ(layout.first + stride.offset(i), starts[i]) << c;
      ASSERT_EQ(layout.first + stride.length(i + 1), starts[i] + layout.block_bytes) << c;
      ASSERT_EQ(stride.at_or_before(stride.offset(i)), i) << c;
      ASSERT_EQ(stride.at_or_after(stride.offset(i)), i) << c;
    }
    ASSERT_EQ(stride.length(0), 0u);
    usize after = 0;  // the first block that starts at `offset` or after it
    for (usize offset = 0; offset <= stride.offset(layout.capacity - 1); ++offset) {
      while (stride.offset(after) < offset) ++after;
      ASSERT_EQ(stride.at_or_after(offset), after) << c << " at " << offset;
      const usize before = stride.offset(after) == offset ? after : after - 1;
      ASSERT_EQ(stride.at_or_before(offset), before) << c << " at " << offset;
    }
    usize count = 0;
    for (usize length = 0; length <= span_bytes_of(layout); ++length) {
      if (stride.length(count + 1) == length) ++count;
      ASSERT_EQ(stride.count_in(length), count) << c << " in " << length;
    }
  });
}

TEST(Placement, BlocksLieInTheirSpan) {
  for_each_span([](ClassIndex c, const ClassLayout& layout) {
    EXPECT_GE(layout.block_bytes, class_bytes(c));
    EXPECT_LE(layout.block_bytes, class_bytes(c) + kCacheLine);
    const usize end = layout.first + (layout.colours - 1) * kCacheLine + layout.stride().length(layout.capacity);
    EXPECT_LE(end, span_bytes_of(layout)) << c;
    EXPECT_LT(layout.first + (layout.colours - 1) * kCacheLine, kSliceBytes) << "block 0 lies in the first slice";
    EXPECT_GT(layout.stride().length(layout.capacity + 1), span_bytes_of(layout)) << "room for one more in " << c;
    EXPECT_EQ(std::gcd(layout.colours, layout.colours == 1 ? 1 : layout.colour_step), 1u) << "all colours come";
  });
}

TEST(Placement, BlocksStandOnLines) {
  for_each_span([](ClassIndex c, const ClassLayout& layout) {
    const usize bytes = class_bytes(c);
    const bool divides = kCacheLine % bytes == 0;
    for (const usize start : starts_of(layout)) {
      if (bytes % kCacheLine == 0) {
        ASSERT_EQ(start % kCacheLine, 0u) << c;
      }
      if (divides) {
        ASSERT_EQ(start / kCacheLine, (start + bytes - 1) / kCacheLine) << "no block of this size straddles";
      }
    }
  });
}

// The table is what the generator chooses, and within the waste that it may have.
TEST(Placement, TableIsTheGenerators) {
  usize wasted = 0;
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    const PlacementChoice choice = generator::choose(c);
    EXPECT_EQ(kPlacementTable[c].block_bytes, choice.block_bytes) << c;
    EXPECT_EQ(kPlacementTable[c].row_log2, choice.row_log2) << c;
    EXPECT_EQ(kPlacementTable[c].slices_log2, choice.slices_log2) << c;
    EXPECT_EQ(kPlacementTable[c].colour_step, choice.colour_step) << c;
    if (class_bytes(c) <= kSliceBytes) wasted += generator::waste(c, kLayout[c]);
  }
  const u32 up_to_a_slice = compute_class(kSliceBytes) + 1;
  EXPECT_LE(wasted, up_to_a_slice * generator::kWastePermille * 10) << "more than 2 % over all classes up to a slice";
}

TEST(Placement, FewestSlicesThatKeepTheTailSmall) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bytes = class_bytes(c);
    u32 fewest = 0;
    for (; (1u << fewest) < kMaxSpanSlices; ++fewest) {
      const usize span = kSliceBytes << fewest;
      const usize blocks = span / bytes;
      if (blocks >= least_blocks(bytes) && (span - blocks * bytes) * 100 <= span * 2) break;
    }
    EXPECT_EQ(kFlatLayout[c].slices_log2, fewest) << bytes;
  }
}

// Figure 1 of the paper, from the table: 256 blocks of every size, spans one after the other, from every colour.
TEST(Placement, EverySizeReachesTheCacheIndices) {
  for (ClassIndex c = compute_class(kCacheLine); c < kSizeClasses; ++c) {
    for (u32 colour = 0; colour < kLayout[c].colours; ++colour) {
      EXPECT_GE(generator::spread(kLayout[c], generator::kSurveyed, colour).indices, 930u) << class_bytes(c);
    }
  }
}

TEST(Placement, AlignedClassForAllSizesAndAlignments) {
  for (usize alignment = 1; alignment <= 2 * kLargestSmall; alignment *= 2) {
    for (usize size = 0; size <= kLargestSmall + 2; ++size) {
      ClassIndex wanted = alignment <= kCacheLine ? 0 : kSizeClasses;
      while (wanted < kClasses && (class_bytes(wanted) < size || class_bytes(wanted) % alignment != 0)) ++wanted;
      ASSERT_EQ(aligned_class(size, alignment), wanted) << size << " aligned to " << alignment;
    }
  }
  EXPECT_EQ(aligned_class(~usize{0}, 16), kClasses);
  EXPECT_EQ(aligned_class(16, usize{1} << 63), kClasses);
}

TEST(Placement, AlignedClassesKeepTheirAlignmentInEverySpan) {
  for_each_span([](ClassIndex c, const ClassLayout& layout) {
    for (usize alignment = 1; alignment <= kLargestSmall; alignment *= 2) {
      if (!is_aligned_class(c, alignment)) continue;
      const u32 colours = alignment <= kCacheLine ? 1 : layout.colours;  // colours are lines
      ASSERT_EQ(colours, 1u);
      for (const usize start : starts_of(layout)) ASSERT_EQ(start % alignment, 0u) << c << " to " << alignment;
    }
  });
}

// What programs ask for with an alignment most: whole multiples of it that are powers of two, or up to eight times it.
TEST(Placement, AlignedRequestsWasteLittle) {
  for (usize alignment = 2 * kCacheLine; alignment <= kLargestSmall; alignment *= 2) {
    for (usize times = 1; times <= 8 && times * alignment <= kLargestSmall; ++times) {
      if (times > 4 && alignment >= 1024 && times % 2 != 0) continue;  // 5 and 7 times go to 6 and 8
      const ClassIndex c = aligned_class(times * alignment, alignment);
      EXPECT_LE(class_bytes(c), times * alignment * 5 / 4) << times << " * " << alignment;
    }
    EXPECT_EQ(class_bytes(aligned_class(alignment, alignment)), alignment);
  }
}

}  // namespace
}  // namespace coffer
