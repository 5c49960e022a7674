// SPDX-License-Identifier: MIT
// What a heap hands on when it keeps more than its budgets, which shrink when other heaps come.
#include <gtest/gtest.h>

#include <vector>

#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(ShedSurplus, HandsOnASpanACallFromOneClassAfterTheOther) {
  start_heaps(0);
  Heap* heap = own_heap();
  const ClassIndex classes[] = {compute_class(512), kClass, compute_class(2048)};
  for (const ClassIndex c : classes) {
    for (u32 i = 0; i < 2; ++i) make_on_ring(1, c);
  }
  const auto left = [&] {
    return ring_length(heap, classes[0]) + ring_length(heap, classes[1]) + ring_length(heap, classes[2]);
  };
  shed_surplus(heap);
  EXPECT_EQ(left(), 6u) << "within what may be free";
  g_heaps_share.store(0, relaxed);  // there is one thread
  changeable_options().reclaimer = false;
  const usize held = held_by(heap);
  shed_surplus(heap);
  EXPECT_EQ(left(), 5u);
  EXPECT_EQ(held_by(heap), held - kSliceBytes);
  EXPECT_EQ(listed_spans().size(), 1u);
  for (u32 i = 0; i < 5; ++i) shed_surplus(heap);
  EXPECT_EQ(left(), 0u);
  EXPECT_EQ(listed_spans().size(), 6u);
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ShedSurplus, StopsAtTheBudget) {
  start_heaps(0);
  Heap* heap = own_heap();
  count_as_several();
  for (u32 i = 0; i < 2; ++i) make_on_ring(8);
  set_free_limit(0);
  changeable_options().reclaimer = false;
  // An eighth of two spans is eight blocks; twenty-four are free in each.
  changeable_options().slack = 20 * kSize;
  shed_surplus(heap);
  EXPECT_EQ(ring_length(heap, kClass), 1u);
  shed_surplus(heap);
  EXPECT_EQ(ring_length(heap, kClass), 1u);
}

// What may be kept falls with what the heap holds, and it holds less with each span that goes, be it that its thread
// frees or that others take its mail: so what is over goes at that moment, however many spans that is.
FRESH_TEST(ShedDown, HandsOnWhatIsOverWhenTheHeapHoldsLess) {
  start_heaps(0);
  Heap* heap = own_heap();
  count_as_several();
  changeable_options().slack = 0;
  changeable_options().reclaimer = false;
  set_free_limit(0);
  // An eighth of 36 spans, which is 144 blocks of which 4 spans have 28 free each, and none more.
  const Blocks blocks = take_many(32 * kCapacity);
  for (u32 i = 0; i < 4; ++i) make_on_ring(kCapacity - 28);
  ASSERT_EQ(held_by(heap), 36 * kSliceBytes);
  shed_down(heap, 0);
  EXPECT_EQ(ring_length(heap, kClass), 4u) << "it fits";
  // Frees make spans reusable that fit no more, and each that goes takes an eighth of itself with it.
  for (u32 i = 0; i < 31; ++i) give_many(blocks, i * kCapacity, i * kCapacity + kThreshold);
  const auto most = [&] { return held_by(heap) / kSmallPart; };
  EXPECT_LE(heap->slack.get(), most());
  EXPECT_GT(ring_length(heap, kClass), 0u);
  EXPECT_EQ(check_everything(), 0u);
  // Others free all else, and take the mail.
  Worker thread;
  thread.run([&] {
    for (u32 i = 0; i < 31; ++i) give_now(blocks, i * kCapacity + kThreshold, (i + 1) * kCapacity);
    seize(&heap, 1, finish);
  });
  EXPECT_LE(heap->slack.get(), most());
  EXPECT_EQ(check_everything(), 0u);
}

// What is over because heaps came is left to shed_surplus; but it grows by nothing.
FRESH_TEST(ShedDown, LeavesWhatWasOverBefore) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  count_as_several();
  changeable_options().reclaimer = false;
  set_free_limit(0);
  for (u32 i = 0; i < 4; ++i) make_on_ring(kCapacity - 28);
  changeable_options().slack = 0;
  const usize over = 4 * 28 * kSize - held_by(heap) / kSmallPart;
  EXPECT_EQ(over_budget(heap), over);
  shed_down(heap, over);
  EXPECT_EQ(ring_length(heap, kClass), 4u);
  shed_down(heap, over - 1);
  EXPECT_EQ(ring_length(heap, kClass), 3u);
  shed_down(heap, 0);
  EXPECT_EQ(ring_length(heap, kClass), 0u) << "an eighth of a span is less than what it has free";
}

// One span of 256 KiB that goes makes the budget less by 32 KiB: more than one small span that follows.
FRESH_TEST(ShedDown, GoesOnUntilItFits) {
  constexpr usize kWide = 32 * 1024;
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  count_as_several();
  changeable_options().reclaimer = false;
  set_free_limit(0);
  const Blocks blocks = take_many(9, kWide);  // eight in a span of eight slices
  ASSERT_EQ(life_of(span_of(blocks[0])), SpanLife::floating);
  for (u32 i = 0; i < 4; ++i) make_on_ring(kCapacity - 28);
  ASSERT_EQ(held_by(heap), (2 * 8 + 4) * kSliceBytes);
  ASSERT_EQ(heap->slack.get(), 4 * 28 * kSize);
  changeable_options().slack = 4 * 28 * kSize - held_by(heap) / kSmallPart;
  shed_down(heap, 0);
  EXPECT_EQ(ring_length(heap, kClass), 4u) << "it fits just so";
  give(blocks[0]);
  EXPECT_EQ(owner_of(span_of(blocks[0])), nullptr) << "there is no room for what it has free";
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

// The budget of empty spans shrinks when other heaps come, and with the option.
FRESH_TEST(ShedSurplus, EndsEmptySpansThatAreTooManyNow) {
  start_heaps(0);
  Heap* heap = own_heap();
  Span* used = make_reusable(8);
  for (u32 i = 0; i < 3; ++i) make_on_ring(0);
  place_again(used);
  ASSERT_EQ(heap->empties.get(), 3 * kSliceBytes);
  shed_surplus(heap);
  EXPECT_EQ(ring_length(heap, kClass), 4u) << "within what may be free";
  g_heaps_share.store(kSliceBytes, relaxed);  // relaxed, here and below: there is one thread
  for (u32 i = 0; i < 2; ++i) shed_surplus(heap);
  EXPECT_EQ(heap->empties.get(), kSliceBytes);
  EXPECT_EQ(held_bytes(), 2 * kSliceBytes);
  g_heaps_share.store(0, relaxed);
  changeable_options().slack = kSliceBytes - 1;  // the used one fits, and no empty one
  shed_surplus(heap);
  EXPECT_EQ(heap->empties.get(), 0u);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{used});
  shed_surplus(heap);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{used});
  EXPECT_EQ(check_everything(), 0u);
}

// Found by trials. The oldest span of a ring was claimed, and the heap kept what stood behind it, more than it may;
// when the span came by mail, and went, others stayed for it.
FRESH_TEST(ShedDown, ASpanInTheMailIsNoReasonToKeepOthers) {
  start_tight();
  Heap* heap = own_heap();
  count_as_several();
  Span* const full = make_reusable(kCapacity);
  for (u32 i = 0; i < 3; ++i) make_reusable(kCapacity);
  Blocks blocks;
  Span* const mailed = make_on_ring(28, kClass, &blocks);
  make_on_ring(12);
  ASSERT_EQ(heap->slack.get(), 24 * kSize);
  ASSERT_EQ(heap->slack.get(), held_by(heap) / 8);
  ASSERT_TRUE(claim(mailed));
  put_in_box(heap, mailed);
  const Inside inside;
  give_up(heap, full);
  shed_down(heap, 0);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{mailed}) << "it comes by mail; what stood behind it went";
  push_blocks(blocks, 0, 28);
  take_mail(heap);
  EXPECT_LE(heap->slack.get(), held_by(heap) / 8);
  EXPECT_EQ(ring_length(heap, kClass), 0u);
}

FRESH_TEST(ShedDown, PassesTheSpanThatItLeavesOut) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  changeable_options().reclaimer = false;
  set_free_limit(0);
  Span* const oldest = make_on_ring(4);
  make_on_ring(4);
  changeable_options().slack = 0;
  shed_down(heap, 0, oldest);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{oldest});
}

}  // namespace
}  // namespace coffer
