// SPDX-License-Identifier: MIT
#include "exchange/sums.hpp"

#include <gtest/gtest.h>

#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(Sums, AgreeWithTheCounters) {
  start_heaps();
  const Blocks blocks = take_many(1000, 300);
  void* large = take(3'000'000);
  give_many(blocks, 500);
  take(200'000);
  give(large);
  const Sums sums = sum_chunks();
  EXPECT_EQ(sums.held, counters().held.load(relaxed));
  EXPECT_EQ(sums.dirty, counters().dirty.load(relaxed));
  EXPECT_EQ(sums.large, 7 * kSliceBytes);
  EXPECT_EQ(sums.large_blocks, 1u);
}

FRESH_TEST(AbsentBlocks, AreCountedFromTheLayout) {
  start_heaps();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    for (;;) {
      ASSERT_EQ(count_absent_blocks(span), absent_count(span)) << c;
      bool zero = false;
      if (cut_page(span, &zero) == nullptr) break;
    }
    ASSERT_EQ(count_absent_blocks(span), 0u);
  }
}

}  // namespace
}  // namespace coffer
