// SPDX-License-Identifier: MIT
// Rings of reusable spans: what stands on one is its heap's own, though a push may have claimed it.
#include "exchange/ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kOtherSize = 2 * kSize;
constexpr ClassIndex kOther = compute_class(kOtherSize);

FRESH_TEST(Ring, AnySpanMayLeaveAndTheOldestIsPopped) {
  start_heaps();
  Heap* heap = own_heap();
  std::vector<Span*> spans;
  for (u32 i = 0; i < 4; ++i) spans.push_back(make_reusable(kCapacity));
  EXPECT_EQ(pop_ring(heap, kClass), nullptr);
  EXPECT_EQ(ring_length(heap, kClass), 0u);
  std::vector<u32> order = {0, 1, 2, 3};
  do {
    for (u32 i = 0; i < 4; ++i) push_ring(heap, spans[i], 100u << i);
    EXPECT_EQ(heap->slack.get(), 1500u);
    EXPECT_EQ(ring_length(heap, kClass), 4u);
    std::vector<Span*> left(spans.rbegin(), spans.rend());
    for (const u32 i : order) {
      const usize slack = heap->slack.get();
      if (spans[i] == left.back()) {
        EXPECT_EQ(pop_ring(heap, kClass), spans[i]);
      } else {
        leave_ring(heap, spans[i]);
      }
      left.erase(std::find(left.begin(), left.end(), spans[i]));
      EXPECT_EQ(reusable_of(heap), left);
      EXPECT_EQ(ring_length(heap, kClass), left.size());
      EXPECT_EQ(heap->slack.get(), slack - (100u << i));
      EXPECT_FALSE(stands_on_ring(spans[i]));
    }
    EXPECT_EQ(heap->reusable[kClass].get(), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

FRESH_TEST(Ring, WhoLeavesTwiceCountsOnce) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(kCapacity);
  push_ring(heap, span, 6);
  leave_ring(heap, span);
  leave_ring(heap, span);
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(heap->reusable[kClass].get(), 0u);
}

FRESH_TEST(Ring, ASpanMayBeCountedAnewAndKeepsItsPlace) {
  start_heaps();
  Heap* heap = own_heap();
  Span* oldest = make_reusable(kCapacity);
  Span* newest = make_reusable(kCapacity);
  EXPECT_FALSE(stands_on_ring(oldest));
  push_ring(heap, oldest, 10);
  EXPECT_TRUE(stands_on_ring(oldest)) << "alone, too";
  push_ring(heap, newest, 10);
  set_ring_slack(heap, oldest, 3);
  EXPECT_EQ(heap->slack.get(), 13u);
  set_ring_slack(heap, oldest, 30);
  EXPECT_EQ(heap->slack.get(), 40u);
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{newest, oldest}));
  EXPECT_EQ(pop_ring(heap, kClass), oldest);
  EXPECT_FALSE(stands_on_ring(oldest));
  EXPECT_EQ(heap->slack.get(), 10u);
}

FRESH_TEST(Ring, EachClassHasItsOwn) {
  start_heaps();
  Heap* heap = own_heap();
  Span* one = make_reusable(1);
  Span* other = make_reusable(1, kOther);
  push_ring(heap, one, 1);
  push_ring(heap, other, 2);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{one});
  EXPECT_EQ(reusable_of(heap, kOther), std::vector<Span*>{other});
  EXPECT_EQ(pop_ring(heap, kOther), other);
  EXPECT_EQ(pop_ring(heap, kOther), nullptr);
  EXPECT_EQ(heap->slack.get(), 1u);
}

// --- What malloc takes from it. ---

FRESH_TEST(Ring, TheOldestIsUsedFirst) {
  start_heaps();
  Heap* heap = own_heap();
  Span* oldest = make_on_ring(8);
  Span* newest = make_on_ring(8);
  EXPECT_EQ(span_of(take()), oldest);
  EXPECT_EQ(life_of(oldest), SpanLife::hot);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{newest});
  EXPECT_EQ(check_everything(), 0u);
}

// A push claimed it while it stands there, and has not mailed it yet: its owner uses it, and its mail finds it hot.
FRESH_TEST(Ring, WhatIsClaimedIsUsedAndItsMailFindsItHot) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* claimed = make_on_ring(8, kClass, &blocks);
  PushDuty duty = PushDuty::none;
  for (u32 i = 0; i < kThreshold; ++i) {
    Block* block = static_cast<Block*>(blocks[i]);
    duty = push_remote(claimed, block, block, 1);
  }
  ASSERT_EQ(duty, PushDuty::claimed);
  void* block = take();
  EXPECT_EQ(span_of(block), claimed);
  EXPECT_EQ(heap->hot[kClass].get(), claimed);
  EXPECT_EQ(state_of(claimed), SpanState::claimed);
  EXPECT_FALSE(stands_on_ring(claimed));
  EXPECT_EQ(heap->slack.get(), 0u);
  do_duty(claimed, duty);
  give(blocks[kThreshold]);
  give(block);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(heap);
  EXPECT_EQ(life_of(claimed), SpanLife::hot);
  EXPECT_EQ(state_of(claimed), SpanState::owned);
  EXPECT_EQ(claim_at_of(claimed), kThreshold) << "counted anew";
  EXPECT_EQ(check_everything(), 0u);
}

// Ended by its owner, and made anew in another class: it stands on one ring.
FRESH_TEST(Ring, WhatEndsLeavesIt) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = make_on_ring(8, kClass, &blocks);
  Span* good = make_on_ring(8);
  push_blocks(blocks, 0, 8);
  {
    const Inside inside;
    release_idle(heap);
  }
  ASSERT_EQ(state_of(span), SpanState::free);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{good});
  const Blocks again = take_many(16 + 1, kOtherSize);
  ASSERT_EQ(span_of(again[0]), span) << "the lowest free slice";
  give_many(again, 0, 2);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{good});
  EXPECT_EQ(reusable_of(heap, kOther), std::vector<Span*>{span});
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
