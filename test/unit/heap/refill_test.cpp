// SPDX-License-Identifier: MIT
// Where blocks come from when the heap's list is empty, and in which order.
#include "heap/refill.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "heaps.hpp"
#include "os/probe.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"

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
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_EQ(held_by(t_heap), kSliceBytes);
  EXPECT_EQ(absent_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// A thread's first blocks begin anywhere in their span; where it has many, the order of addresses is kept.
FRESH_TEST(Refill, LaterSpansAreCutFromTheirFirstBlockOn) {
  start_heaps();
  g_span_choices.coloured.set(1);
  u32 early = 0, late = 0, elsewhere = 0;
  const Span* before = nullptr;
  for (u32 i = 0; i < 200 * kCapacity; ++i) {
    const void* block = take();
    const Span* span = span_of(block);
    if (span == before) continue;
    before = span;
    if (held_by(t_heap) <= usize{2} << 20) {
      ++early;
      if (block != block_at(span, 0)) ++elsewhere;
    } else {
      ++late;
      EXPECT_EQ(block, block_at(span, 0));
    }
  }
  EXPECT_GT(early, 30u);
  EXPECT_GT(late, 50u);
  EXPECT_GT(elsewhere, early / 2);
}

FRESH_TEST(Refill, TakesWhatTheOwnerFreedThenWhatOthersFreedThenAnAbsentPage) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  give(blocks[0]);
  give(blocks[2]);
  Worker other;
  other.run([&] { give_now({blocks[1], blocks[3]}); });
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(local_count(span), 0u) << "malloc's list has them";
  EXPECT_EQ(remote_count(span), 2u);
  EXPECT_EQ(take(), blocks[2]);
  EXPECT_EQ(take(), blocks[0]);
  EXPECT_EQ(remote_count(span), 2u) << "not before the local ones are used up";
  EXPECT_EQ(take(), blocks[3]);
  EXPECT_EQ(remote_count(span), 0u);
  EXPECT_EQ(take(), blocks[1]);
  EXPECT_EQ(absent_count(span), kCapacity - kBlocksPerPage);
  EXPECT_EQ(reinterpret_cast<uptr>(take()), span->first_block + kBlocksPerPage * kSize);
  EXPECT_EQ(absent_count(span), kCapacity - 2 * kBlocksPerPage);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Refill, WhatWasFreedLastComesFirst) {
  start_heaps();
  const Blocks blocks = take_many(3);  // others of the page are still on the heap's list
  give(blocks[0]);
  give(blocks[2]);
  EXPECT_EQ(take(), blocks[2]);
  EXPECT_EQ(take(), blocks[0]);
  const Span* span = span_of(blocks[0]);
  EXPECT_TRUE(feeds_malloc(span));
  take_many(kCapacity);
  EXPECT_EQ(life_of(span), SpanLife::floating);
  EXPECT_FALSE(feeds_malloc(span)) << "it is not hot any more";
  give(blocks[1]);
  EXPECT_EQ(local_count(span), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

// Fills `count` spans, and returns their blocks span by span. The last one stays hot, with no block left.
std::vector<Blocks> fill_spans(u32 count) {
  std::vector<Blocks> spans;
  for (u32 i = 0; i < count; ++i) spans.push_back(take_many(kCapacity));
  return spans;
}

// The spans that the next `count` blocks come from, in order.
std::vector<Span*> sources(u32 count) {
  std::vector<Span*> spans;
  for (u32 i = 0; i < count; ++i) {
    Span* span = span_of(take());
    if (spans.empty() || spans.back() != span) spans.push_back(span);
  }
  return spans;
}

FRESH_TEST(Refill, ThenAReusableSpanThenAnOrphanThenANewOne) {
  start_heaps();
  const std::vector<Blocks> spans = fill_spans(2);
  give_many(spans[0], 0, kThreshold);
  Span* reusable = span_of(spans[0][0]);
  Span* orphan = nullptr;
  Worker other;
  other.run([&] {
    const Blocks blocks = take_many(kCapacity);
    orphan = span_of(blocks[0]);
    give_many(blocks, 16);
    empty_own_heap();
  });
  other.end();
  ASSERT_EQ(life_of(reusable), SpanLife::reusable);
  ASSERT_EQ(state_of(orphan), SpanState::listed);
  const usize held = held_by(t_heap);
  const std::vector<Span*> seen = sources(kThreshold + 16 + 1);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], reusable);
  EXPECT_EQ(seen[1], orphan);
  EXPECT_NE(seen[2], span_of(spans[1][0])) << "a new one";
  EXPECT_EQ(owner_of(orphan), t_heap);
  EXPECT_EQ(held_by(t_heap), held + 2 * kSliceBytes);
  EXPECT_EQ(life_of(orphan), SpanLife::floating);
  EXPECT_EQ(life_of(seen[2]), SpanLife::hot);
  EXPECT_TRUE(listed_spans().empty());
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Refill, TheOldestReusableSpanComesFirst) {
  start_heaps();
  const std::vector<Blocks> spans = fill_spans(4);
  for (const u32 i : {1u, 0u, 2u}) give_many(spans[i], 0, kThreshold);
  EXPECT_EQ(reusable_of(t_heap),
            (std::vector<Span*>{span_of(spans[2][0]), span_of(spans[0][0]), span_of(spans[1][0])}));
  for (const u32 i : {1u, 0u, 2u}) {
    for (u32 n = 0; n < kThreshold; ++n) EXPECT_EQ(span_of(take()), span_of(spans[i][0]));
  }
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Refill, AnExhaustedSpanFloatsUnlessOthersFreedMeanwhile) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  Worker other;
  other.run([&] { give_now({blocks[7]}); });
  EXPECT_EQ(take(), blocks[7]);
  EXPECT_EQ(life_of(span), SpanLife::hot);
  take();
  EXPECT_EQ(life_of(span), SpanLife::floating);
  EXPECT_EQ(floating_of(t_heap), std::vector<Span*>{span});
}

FRESH_TEST(Refill, SendsAChainOffAndTakesTheMail) {
  start_heaps();
  Blocks others;
  Worker other;
  other.run([&] { others = take_many(kCapacity + 1); });
  const Blocks mine = take_many(kCapacity + 1);  // the first span floats
  give(others[0]);
  other.run([&] { give_now(mine, 0, kThreshold); });
  Span* span = span_of(mine[0]);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(span));
  EXPECT_EQ(held_back(t_heap), 1u);
  // One chain at each slow refill, in turn.
  t_heap->chain_turn.set(static_cast<u32>(&chain_of(t_heap, span_of(others[0])) - t_heap->chains) + kChains);
  // Not before the hot span's page is used up.
  take_many(kBlocksPerPage - 1);
  EXPECT_EQ(held_back(t_heap), 1u);
  take();
  EXPECT_EQ(held_back(t_heap), 0u);
  EXPECT_EQ(remote_count(span_of(others[0])), 1u);
  EXPECT_EQ(t_heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  EXPECT_TRUE(floating_of(t_heap).empty());
  EXPECT_EQ(t_heap->slack.get(), kThreshold * kSize);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Zero knowledge. ---

// Of a list, the first one; it is told of no other.
FRESH_TEST(Refill, TellsZerosOnlyOfPagesNeverCut) {
  start_heaps();
  const auto take_one = [](bool* zero) {
    *zero = false;
    return allocate_of_class(kClass, zero);
  };
  bool zero = false;
  Block* block = take_one(&zero);
  EXPECT_TRUE(zero);
  take_one(&zero);
  EXPECT_FALSE(zero);
  give(block);
  EXPECT_EQ(take_one(&zero), block);
  EXPECT_FALSE(zero) << "it was used before";
  for (u32 i = 2; i < kBlocksPerPage; ++i) take_one(&zero);
  take_one(&zero);
  EXPECT_TRUE(zero) << "the next page";
}

// --- The fallback heap. ---

FRESH_TEST(Refill, ThreadsWithoutAHeapShareOne) {
  start_heaps();
  bool zero = false;
  Block* block = nullptr;
  {
    const FallbackHeap fallback;
    ASSERT_NE(fallback.get(), nullptr);
    block = allocate_block(fallback.get(), kClass, true, &zero);
    EXPECT_EQ(owner_of(span_of(block)), fallback.get());
    EXPECT_EQ(fallback.get(), heap_by_index(0));
  }
  give_now({block});
  EXPECT_EQ(remote_count(span_of(block)), 1u) << "nobody frees into it as its owner";
  EXPECT_EQ(check_everything(), 0u);
}

// With two heaps a list has at most 2 KiB, so a page that was carved is parted; and blocks do not lie in a row.
FRESH_TEST(Refill, PlacedAndColouredPagesArePartedAsTheyLie) {
  start_heaps();
  g_span_choices.flat.set(0);
  g_span_choices.coloured.set(1);
  colours_start();
  Worker other;
  other.run([] { give(take()); });
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    const usize size = class_bytes(c);
    std::set<void*> seen;
    Blocks blocks;
    for (usize i = 0; i < 2 * kLayout[c].capacity; ++i) {
      blocks.push_back(take(size));
      ASSERT_TRUE(seen.insert(blocks.back()).second) << size;
      ASSERT_TRUE(is_block_start(span_of(blocks.back()), reinterpret_cast<uptr>(blocks.back()))) << size;
      std::memset(blocks.back(), 0xee, size);
    }
    ASSERT_EQ(check_everything(), 0u) << size;
    give_many(blocks);
  }
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
