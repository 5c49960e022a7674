// SPDX-License-Identifier: MIT
#include "span/choices.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "ground.hpp"
#include "span/span.hpp"

namespace coffer {
namespace {

void choose_span(usize bytes) {
  test::changeable_options().span = bytes;
  span_choices_start();
}

FRESH_TEST(SpanChoices, TheTableDecidesByDefault) {
  test::start_ground();
  span_choices_start();
  for (const ClassIndex c : {0u, 20u, 50u, kClasses - 1}) {
    const Span* span = make_span(c, nullptr);
    EXPECT_EQ(span->slices.get(), 1u << kLayout[c].slices_log2);
    EXPECT_EQ(span->capacity.get(), kLayout[c].capacity);
    EXPECT_EQ(span->limit, kLayout[c].test.limit);
  }
}

FRESH_TEST(SpanChoices, SizesBetweenPowersOfTwoRoundUp) {
  for (const auto& [bytes, log2] :
       {std::pair{32768, 0}, {32769, 1}, {65536, 1}, {65537, 2}, {131073, 3}, {262144, 3}}) {
    choose_span(static_cast<usize>(bytes));
    EXPECT_EQ(g_span_choices.least_slices_log2.get(), static_cast<u32>(log2)) << bytes;
  }
}

// All of a longer span can be carved, written, and ended; no more than that.
FRESH_TEST(SpanChoices, LongerSpansAreCutToTheirLastBlock) {
  test::start_ground();
  for (const usize bytes : {64 * 1024, 128 * 1024, 256 * 1024}) {
    choose_span(bytes);
    for (ClassIndex c = 0; c < kClasses; ++c) {
      Span* span = make_span(c, nullptr);
      ASSERT_NE(span, nullptr);
      ASSERT_GE(span_bytes(span), bytes);
      ASSERT_EQ(span->capacity.get(), stride_of(span).count_in(span_bytes(span)));
      u32 blocks = 0;
      bool zero = false;
      for (Block* list = test::cut_page(span, &zero); list != nullptr; list = test::cut_page(span, &zero)) {
        for (Block* block = list; block != nullptr;) {
          Block* next = next_of(block);
          ASSERT_TRUE(is_block_start(span, reinterpret_cast<uptr>(block)));
          ASSERT_EQ(first_record(slice_record(&test::first_arena(), reinterpret_cast<uptr>(block))), span);
          std::memset(static_cast<void*>(block), 1, kLayout[c].block_bytes);
          ++blocks;
          block = next;
        }
      }
      ASSERT_EQ(blocks, span->capacity.get());
      end_span(span);
    }
  }
}

// Calls visit(block) for every block of a new span of the class.
template <class Visit>
void for_each_block(ClassIndex size_class, Visit&& visit) {
  Span* span = make_span(size_class, nullptr);
  ASSERT_NE(span, nullptr);
  bool zero = false;
  for (Block* list = test::cut_page(span, &zero); list != nullptr; list = test::cut_page(span, &zero)) {
    for (Block* block = list; block != nullptr; block = next_of(block)) visit(span, reinterpret_cast<uptr>(block));
  }
  end_span(span);
}

// Option align, with every other that decides where blocks lie.
FRESH_TEST(SpanChoices, WithAlignAllEveryBlockOfALineAndMoreStartsOnOne) {
  test::start_ground();
  for (const usize span_size : {32 << 10, 256 << 10}) {
    for (const auto placement : {config::PlacementPolicy::flat, config::PlacementPolicy::index}) {
      for (const bool colour : {false, true}) {
        test::changeable_options().placement = placement;
        test::changeable_options().colour = colour;
        test::changeable_options().align = config::AlignPolicy::all;
        choose_span(static_cast<usize>(span_size));
        for (ClassIndex c = 0; c < kClasses; ++c) {
          for (u32 i = 0; i < 3; ++i) {
            for_each_block(c, [&](Span* span, uptr block) {
              ASSERT_TRUE(class_bytes(c) < kCacheLine || block % kCacheLine == 0) << class_bytes(c);
              ASSERT_TRUE(class_bytes(c) >= kCacheLine || span->block_bytes.get() == class_bytes(c));
              ASSERT_GE(span->block_bytes.get(), class_bytes(c));
              ASSERT_TRUE(is_block_start(span, block));
            });
          }
        }
      }
    }
  }
}

// By default only those do that are a multiple of a line; what divides a line lies in one.
FRESH_TEST(SpanChoices, WithoutItMultiplesOfALineDo) {
  test::start_ground();
  choose_span(32 << 10);
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    usize beside = 0;
    for_each_block(c, [&](Span* span, uptr block) {
      ASSERT_EQ(span->block_bytes.get(), kLayout[c].block_bytes);
      beside += block % kCacheLine != 0 ? 1 : 0;
      const bool straddles = block % kCacheLine + class_bytes(c) > kCacheLine;
      ASSERT_FALSE(straddles && kCacheLine % class_bytes(c) == 0);
    });
    EXPECT_EQ(beside == 0, class_bytes(c) % kCacheLine == 0) << class_bytes(c);
  }
}

}  // namespace
}  // namespace coffer
