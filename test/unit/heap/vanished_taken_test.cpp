// SPDX-License-Identifier: MIT
// What a fork child makes of spans that were taken from their owners, or were about to be: of threads that it does not
// have, and of its own.
#include <gtest/gtest.h>

#include "heap/forks.hpp"
#include "heap/refill.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(Fork, WhatWasUnsettledIsSettled) {
  Two two;
  const Blocks mine = take_many(kCapacity + 1);
  Blocks theirs, idle;
  two.other.run([&] {
    theirs = take_many(kCapacity + 1);
    idle = take_many(kCapacity + 1, 2 * kSize);
  });
  push_blocks(mine, 0, kThreshold);
  push_blocks(theirs, 0, kThreshold);
  push_blocks(idle, 0, 16);
  rob_heaps();
  ASSERT_EQ(unsettled_bytes(), 3 * kSlotBytes);
  // As if each old owner were in the middle of something.
  t_heap->bracket.store(span_of(mine[0]), relaxed);
  two.theirs->bracket.store(span_of(theirs[0]), relaxed);
  in_fork_child([&] {
    EXPECT_EQ(unsettled_bytes(), 0u);
    EXPECT_EQ(state_of(span_of(mine[0])), SpanState::listed);
    EXPECT_EQ(state_of(span_of(theirs[0])), SpanState::listed);
    EXPECT_EQ(span_of(idle[0]), nullptr);
  });
}

// Between the taker's two steps: nobody's, and not among the unsettled yet.
FRESH_TEST(Fork, ASpanThatWasTakenAndNotPushed) {
  Two two;
  Blocks theirs;
  two.other.run([&] { theirs = take_many(kCapacity + 1); });
  Span* span = span_of(theirs[0]);
  ASSERT_TRUE(claim(span, SpanState::floating));
  span->taken_from.set(two.theirs->index.get());
  let_go(two.theirs, span);
  span->owner.store(nullptr, relaxed);
  in_fork_child([&] { EXPECT_EQ(state_of(span), SpanState::shared); });
}

// Between the count and the owner: the taker had counted the span off, and it was still the heap's. Of the thread that
// forks, of the heap of threads without one, and of a thread that ended before.
FRESH_TEST(Fork, ASpanThatWasCountedOffAndNotTaken) {
  Two two;
  Blocks mine = take_many(kCapacity + 1), fallbacks, ended;
  {
    const FallbackHeap fallback;
    bool zero = false;
    for (u32 i = 0; i < kCapacity + 1; ++i) fallbacks.push_back(allocate_block(fallback.get(), kClass, true, &zero));
  }
  {
    Worker third;
    third.run([&] { ended = take_many(kCapacity + 1); });
  }
  const usize held = held_by(t_heap);
  for (const Blocks& blocks : {mine, fallbacks, ended}) {
    Span* span = span_of(blocks[0]);
    ASSERT_TRUE(claim(span, SpanState::floating));
    span->taken_from.set(owner_of(span)->index.get());
    let_go(owner_of(span), span);
  }
  in_fork_child([&] {
    EXPECT_EQ(held_by(t_heap), held) << "its owner keeps it, and has mail";
    EXPECT_EQ(owner_of(span_of(mine[0])), t_heap);
    EXPECT_EQ(state_of(span_of(fallbacks[0])), SpanState::claimed);
    EXPECT_EQ(state_of(span_of(ended[0])), SpanState::shared);
    give_now(mine);
    give_now(fallbacks);
    give_now(ended);
    Allocator::trim(0);
    EXPECT_EQ(held_by(t_heap), 0u);
  });
}

// Its blocks are partly in the list of the thread that vanished: they come back with it.
FRESH_TEST(Fork, AHotSpanThatWasTakenFromAVanishedThread) {
  Two two;
  Blocks theirs;
  two.other.run([&] { theirs = take_many(kCapacity - 3); });
  push_blocks(theirs, 0, kCapacity / 2);
  rob_heaps();
  Span* span = span_of(theirs[0]);
  ASSERT_EQ(owner_of(span), nullptr);
  in_fork_child([&] {
    EXPECT_EQ(state_of(span), SpanState::listed);
    EXPECT_EQ(remote_count(span), kCapacity / 2 + 3);
  });
}

// Of one that lives on, they stay its own.
FRESH_TEST(Fork, AHotSpanThatWasTakenFromTheThreadThatForks) {
  Two two;
  const Blocks mine = take_many(kCapacity - 1);  // one is left, on the thread's list
  push_blocks(mine, 0, kCapacity / 2);
  rob_heaps();
  Span* span = span_of(mine[0]);
  ASSERT_EQ(owner_of(span), nullptr);
  in_fork_child([&] {
    EXPECT_EQ(remote_count(span), kCapacity / 2);
    EXPECT_EQ(span_of(take()), span);
    EXPECT_EQ(check_everything(), 0u);
    take();
    EXPECT_EQ(owner_of(span), t_heap) << "adopted";
  });
}

FRESH_TEST(Fork, ASpanOfAnEndedThreadThatWasClaimedAndNotTaken) {
  Two two;
  Blocks theirs;
  {
    Worker third;
    third.run([&] { theirs = take_many(kCapacity + 1); });
  }
  Span* span = span_of(theirs[0]);
  ASSERT_TRUE(claim(span, SpanState::floating));
  in_fork_child([&] {
    EXPECT_EQ(state_of(span), SpanState::shared);
    EXPECT_EQ(owner_of(span), nullptr);
  });
}

FRESH_TEST(Fork, FloatingSpansOfEndedThreadsStayTheirs) {
  Two two;
  Blocks theirs;
  Heap* ended = nullptr;
  {
    Worker third;
    third.run([&] {
      ended = own_heap();
      theirs = take_many(kCapacity + 1);
    });
  }
  in_fork_child([&] {
    EXPECT_EQ(owner_of(span_of(theirs[0])), ended);
    give_now(theirs);
    settle_unsettled();
    EXPECT_EQ(held_bytes(), 0u);
  });
}

// The rings of vanished threads are nobody's: records that stand on them may stand on others.
FRESH_TEST(Fork, RecordsStandOnNoRingOfAVanishedThread) {
  Two two;
  Blocks theirs;
  two.other.run([&] {
    theirs = take_many(3 * kCapacity);
    give_many(theirs, 0, kThreshold);
    give_many(theirs, kCapacity, kCapacity + kThreshold);
    ASSERT_EQ(ring_length(t_heap, kClass), 2u);
  });
  Span* span = span_of(theirs[0]);
  const SpanNumber next = span->ring_next.get();
  span->ring_next.set(12345);  // half written
  in_fork_child([&] {
    EXPECT_EQ(span->ring_of.load(relaxed), 0u);
    EXPECT_EQ(ring_length(two.theirs, kClass), 0u);
    // The heap adopts both, uses them up, and keeps them as its own reusable ones.
    const Blocks again = take_many(2 * kThreshold + 1);
    ASSERT_EQ(owner_of(span), t_heap);
    ASSERT_EQ(state_of(span), SpanState::floating);
    give_many(theirs, kThreshold, 2 * kThreshold);
    EXPECT_EQ(state_of(span), SpanState::reusable);
    EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  });
  span->ring_next.set(next);
}

}  // namespace
}  // namespace coffer
