// SPDX-License-Identifier: MIT
// What a thread works with in mixed spans is counted, and forgotten where it is little in its time.
#include "exchange/mixed_free.hpp"

#include <gtest/gtest.h>

#include "heaps.hpp"
#include "os/os.hpp"
#include "policy/mixing.hpp"
#include "pool/slice_pool.hpp"
#include "size_class/size_class.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u32 kBytes = 5000, kOthers = 9000;

u32 counted(const Heap* heap, u32 bytes) { return heap->churn[class_of(bytes)].get(); }

FRESH_TEST(Churn, IsCountedUpToWhatDecides) {
  start_heaps();
  Heap* const heap = own_heap();
  keep_churn();
  const u64 never_over = heap->churn_began.get();
  for (u32 i = 1; i <= kChurn; ++i) {
    count_churn(heap, kBytes, 1);
    EXPECT_EQ(counted(heap, kBytes), i);
  }
  count_churn(heap, kBytes, 1);
  EXPECT_EQ(counted(heap, kBytes), kChurn);
  count_churn(heap, kOthers, 1000);
  EXPECT_EQ(counted(heap, kOthers), kChurn);
  EXPECT_EQ(heap->churn_began.get(), never_over);
}

// Of all classes, at the next look at the clock: then a new time begins.
FRESH_TEST(Churn, OfALongTimeIsForgotten) {
  start_heaps();
  Heap* const heap = own_heap();
  const u64 before = os::coarse_ns();
  keep_churn();
  count_churn(heap, kOthers, kChurn);
  for (u32 i = 1; i < kChurnLook; ++i) count_churn(heap, kBytes, 1);
  heap->churn_began.set(before - churn_ns(shard_count()) - 1);
  EXPECT_EQ(counted(heap, kBytes), kChurnLook - 1);
  EXPECT_EQ(counted(heap, kOthers), kChurn);
  count_churn(heap, kBytes, 1);
  EXPECT_EQ(counted(heap, kBytes), 0u);
  EXPECT_EQ(counted(heap, kOthers), 0u);
  EXPECT_GE(heap->churn_began.get(), before);
}

// Where more threads come to the locks of mixed spans, less is enough.
static_assert(churn_ns(2) == 2 * churn_ns(1) && churn_ns(1) == kChurnNs);

// Blocks of the largest class are longer than any request.
FRESH_TEST(Churn, OfTheLongestBlocksIsThatOfTheLargestClass) {
  start_heaps();
  Heap* const heap = own_heap();
  keep_churn();
  count_churn(heap, kLargestSmall + 64, 1);
  EXPECT_EQ(counted(heap, kLargestSmall), 1u);
}

}  // namespace
}  // namespace coffer
