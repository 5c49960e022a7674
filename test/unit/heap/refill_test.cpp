// Where blocks come from when the heap's list is empty, and in which order.
#include "heap/refill.hpp"

#include <gtest/gtest.h>

#include <set>

#include "heap/heaps.hpp"
#include "os/probe.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(Refill, ANewSpanIsCutPageByPage) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  for (u32 i = 0; i < kCapacity; ++i) {
    EXPECT_EQ(reinterpret_cast<uptr>(blocks[i]), span->first_block + i * kSize) << "in address order";
  }
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
  EXPECT_EQ(state_of(span), SpanState::hot);
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_EQ(t_heap->held.get(), kSlotBytes);
  EXPECT_EQ(absent_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Refill, TakesWhatTheOwnerFreedThenWhatOthersFreedThenAnAbsentPage) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  give(blocks[0]);
  give(blocks[2]);
  Worker other;
  other.run([&] { give_now({blocks[1], blocks[3]}); });
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(local_count(span), 2u);
  EXPECT_EQ(remote_count(span), 2u);
  EXPECT_EQ(take(), blocks[2]);
  EXPECT_EQ(take(), blocks[0]);
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(remote_count(span), 2u) << "not before the local ones are used up";
  EXPECT_EQ(take(), blocks[3]);
  EXPECT_EQ(remote_count(span), 0u);
  EXPECT_EQ(take(), blocks[1]);
  EXPECT_EQ(absent_count(span), kCapacity - kBlocksPerPage);
  EXPECT_EQ(reinterpret_cast<uptr>(take()), span->first_block + kBlocksPerPage * kSize);
  EXPECT_EQ(absent_count(span), kCapacity - 2 * kBlocksPerPage);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Refill, WhatWasFreedWaitsWhileTheHeapHasBlocks) {
  start_heaps();
  void* first = take();
  give(first);
  // Three blocks of the page are still on the heap's list.
  for (u32 i = 1; i < kBlocksPerPage; ++i) EXPECT_NE(take(), first);
  EXPECT_EQ(take(), first);
}

// Fills `count` spans, and returns their blocks span by span. The last one stays hot, with no block left.
std::vector<Blocks> fill_spans(u32 count) {
  std::vector<Blocks> spans;
  for (u32 i = 0; i < count; ++i) spans.push_back(take_many(kCapacity));
  return spans;
}

FRESH_TEST(Refill, ThenAReusableSpanThenAnOrphanThenANewOne) {
  start_heaps();
  Worker other;
  // The orphan: half of it is free when its thread ends.
  Blocks left;
  other.run([&] {
    left = take_many(kCapacity);
    give_many(left, 16);
  });
  other.end();
  Span* orphan = span_of(left[0]);
  ASSERT_EQ(state_of(orphan), SpanState::listed);
  const std::vector<Blocks> spans = fill_spans(3);
  // fill_spans has adopted it already, before it made a span: it is the first.
  ASSERT_EQ(span_of(spans[0][0]), orphan);
  give_now(left, 0, 16);
  std::vector<std::set<Span*>> sources;
  (void)sources;
}

FRESH_TEST(Refill, TheOldestReusableSpanComesFirst) {
  start_heaps();
  const std::vector<Blocks> spans = fill_spans(4);
  for (const u32 i : {1u, 0u, 2u}) give_many(spans[i], 0, kThreshold);
  EXPECT_EQ(reusable_of(t_heap), (std::vector<Span*>{span_of(spans[2][0]), span_of(spans[0][0]), span_of(spans[1][0])}));
  for (const u32 i : {1u, 0u, 2u}) {
    for (u32 n = 0; n < kThreshold; ++n) EXPECT_EQ(span_of(take()), span_of(spans[i][0]));
  }
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
