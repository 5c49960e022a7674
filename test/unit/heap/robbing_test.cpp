// SPDX-License-Identifier: MIT
// What is taken from heaps without a push that claims it: mail, spans without a live block, and all of idle heaps.
#include <gtest/gtest.h>

#include "heap/refill.hpp"
#include "heap/sleeper.hpp"
#include "heap/taking.hpp"
#include "os/os.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(Rob, TakesAllMailAndReusableSpansWithoutALiveBlock) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper, another;
  const std::vector<Blocks> spans = sleeper.fill(3);
  const std::vector<Blocks> others = another.fill(1, 2 * kSize);
  Span *idle = nullptr, *used = nullptr, *hot = nullptr;
  sleeper.thread.run([&] {
    let_come_back();
    idle = make_reusable(0);
    place_again(idle);
    used = make_reusable(1);
    place_again(used);
    hot = span_of(take(512));
  });
  push_blocks(spans[0], 0, kThreshold);
  push_blocks(spans[1], 0, kThreshold);
  push_blocks(others[0], 0, 2);
  ASSERT_TRUE(is_mailed(span_of(spans[0][0])) && is_mailed(span_of(spans[1][0])) && is_mailed(span_of(others[0][0])));
  rob_heaps();
  EXPECT_EQ(sleeper.heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(another.heap->mailbox.load(relaxed), 0u);
  for (const void* block : {spans[0][0], spans[1][0], others[0][0]}) EXPECT_TRUE(is_taken(span_of(block)));
  EXPECT_TRUE(is_taken(idle));
  EXPECT_EQ(state_of(used), SpanState::reusable);
  EXPECT_EQ(state_of(hot), SpanState::hot);
  EXPECT_EQ(state_of(span_of(spans[2][0])), SpanState::floating);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(idle), SpanState::free);
  EXPECT_EQ(listed_spans().size(), 3u);
  EXPECT_EQ(check_everything(), 0u);
  rob_heaps();
  EXPECT_EQ(unsettled_bytes(), 0u) << "nothing more to take";
}

FRESH_TEST(Rob, LeavesClosedBoxesClosed) {
  start_heaps();
  Sleeper sleeper;
  sleeper.thread.end();
  rob_heaps();
  EXPECT_EQ(sleeper.heap->mailbox.load(relaxed), kMailboxClosed);
}

FRESH_TEST(Rob, TakesTheFallbackHeapsMail) {
  start_heaps(usize{1} << 20);
  Blocks blocks;
  {
    const FallbackHeap fallback;
    bool zero = false;
    for (u32 i = 0; i < kCapacity + 1; ++i) blocks.push_back(allocate_block(fallback.get(), kClass, true, &zero));
  }
  push_blocks(blocks, 0, kThreshold);
  ASSERT_TRUE(is_mailed(span_of(blocks[0])));
  rob_heaps();
  EXPECT_TRUE(is_taken(span_of(blocks[0])));
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(check_everything(), 0u);
}

// --- Idle heaps. ---

// As often as a heap has to be found standing still, and once more for each that there is.
void look_for_long(const Heap* but) {
  for (u32 i = 0; i < 32; ++i) rob_idle_heaps(but);
}

FRESH_TEST(RobIdle, TakesMailReusableAndHotSpansOfAHeapThatSleeps) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(3);
  Blocks hot, full;
  sleeper.thread.run([&] {
    give_many(spans[0], 0, kThreshold);
    hot = take_many(2, 512);
    full = take_many(16, 2048);
  });
  push_blocks(spans[1], 0, kThreshold);
  ASSERT_TRUE(is_mailed(span_of(spans[1][0])));
  ASSERT_EQ(state_of(span_of(spans[0][0])), SpanState::reusable);
  for (u32 looks = 0; looks < 5; ++looks) rob_idle_heaps(t_heap);
  EXPECT_EQ(unsettled_bytes(), 0u) << "the first sees where it stands, four that it did not move";
  look_for_long(t_heap);
  EXPECT_TRUE(is_taken(span_of(spans[0][0])));
  EXPECT_TRUE(is_taken(span_of(spans[1][0])));
  EXPECT_TRUE(is_taken(span_of(hot[0])));
  EXPECT_EQ(state_of(span_of(spans[2][0])), SpanState::floating) << "nothing is free in it";
  EXPECT_EQ(state_of(span_of(full[0])), SpanState::hot) << "nor in this one";
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(listed_spans().size(), 3u);
  EXPECT_EQ(check_everything(), 0u);
  // It wakes up, and uses the rest of its lists before it finds out.
  sleeper.thread.run([&] {
    EXPECT_EQ(span_of(take(512)), span_of(hot[0]));
    give_many(take_many(200, 512));
    give_many(take_many(40));
  });
  EXPECT_EQ(check_everything(), 0u);
}

// A heap that sleeps goes on naming the span that was taken from it.
FRESH_TEST(RobIdle, LeavesSpansThatAnotherHeapHasNow) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  Blocks theirs;
  sleeper.thread.run([&] { theirs = take_many(2); });
  look_for_long(t_heap);
  ASSERT_TRUE(settle_unsettled());
  Span* span = span_of(theirs[0]);
  ASSERT_EQ(state_of(span), SpanState::listed);
  void* mine = take();
  ASSERT_EQ(span_of(mine), span);
  ASSERT_EQ(state_of(span), SpanState::hot);
  ASSERT_EQ(sleeper.heap->hot[kClass].get(), span);
  Worker robber;
  for (u32 i = 0; i < 40; ++i) {
    robber.run([] { rob_idle_heaps(own_heap()); });
    take_many(kBlocksPerPage + 1, 512);  // this heap is at work
  }
  EXPECT_EQ(sleeper.heap->hot[kClass].get(), span) << "it still does";
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(RobIdle, TakesMuchMailAtOnce) {
  start_heaps(kSlotBytes);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(6);
  push_blocks(spans[0], 0, kThreshold);
  rob_idle_heaps(t_heap);
  EXPECT_TRUE(is_mailed(span_of(spans[0][0]))) << "the option";
  push_blocks(spans[1], 0, kThreshold);
  ASSERT_TRUE(is_mailed(span_of(spans[1][0])));
  rob_idle_heaps(t_heap);
  EXPECT_TRUE(is_taken(span_of(spans[0][0])));
  EXPECT_TRUE(is_taken(span_of(spans[1][0])));
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(check_everything(), 0u);
}

// Of few heaps each span that is made would be a look, and all looks fall into a moment in which others only free.
FRESH_TEST(RobIdle, IsDueOnceForEachStepOfTheClockWhileHeapsAreFew) {
  start_heaps();
  own_heap();
  u32 due = 0;
  std::vector<u64> times = {0};
  for (u32 i = 0; i < 100'000; ++i) {
    const u64 before = os::coarse_ns();
    due += look_is_due() ? 1 : 0;
    for (const u64 now : {before, os::coarse_ns()}) {
      if (now != times.back()) times.push_back(now);
    }
  }
  EXPECT_GE(due, 1u);
  EXPECT_LT(due, times.size() + 1);
  g_crowded.set(1);
  for (u32 i = 0; i < 100; ++i) EXPECT_TRUE(look_is_due());
}

FRESH_TEST(RobIdle, LeavesHeapsAlone) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper busy;
  busy.fill(1);
  for (u32 i = 0; i < 40; ++i) {
    rob_idle_heaps(t_heap);
    busy.thread.run([] { take_many(kBlocksPerPage + 1, 512); });  // a slow refill now and then
  }
  EXPECT_EQ(unsettled_bytes(), 0u) << "it is at work";
  const Blocks mine = take_many(kCapacity + 1);
  give_many(mine, 0, kThreshold);
  Span* span = span_of(mine[0]);
  look_for_long(t_heap);
  EXPECT_EQ(state_of(span), SpanState::reusable) << "its own caller is not robbed";
  EXPECT_EQ(owner_of(span), t_heap);
}

FRESH_TEST(RobIdle, IsDoneBeforeANewSpanIsMade) {
  start_heaps(usize{1} << 20);
  own_heap();
  bool zero = false;
  ASSERT_NE(allocate_large_block(usize{5} << 20, kQuantum, &zero), nullptr) << "not in a small process";
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  sleeper.thread.run([&] { give_many(spans[0], 0, 16); });
  ASSERT_EQ(state_of(span_of(spans[0][0])), SpanState::reusable);
  bool used = false;
  for (u64 i = 0; i < 64 && !used; ++i) {
    os::fake::set_clock((i + 1) * 4'000'000);  // while heaps are few, a look for each step of the clock
    used = span_of(take_many(kCapacity)[0]) == span_of(spans[0][0]);
  }
  const Blocks more = take_many(8 * kCapacity);
  for (const void* block : more) used = used || span_of(block) == span_of(spans[0][0]);
  EXPECT_TRUE(used);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Quiet heaps: what the reclaimer takes. ---

FRESH_TEST(Quiet, AHeapThatStandsStillLosesItsReusableSpansThoughItIsTheOnlyOne) {
  start_heaps(0);
  Heap* heap = own_heap();
  Span* one = make_reusable(1);
  Span* other = make_reusable(3, kClass + 8);
  place_again(one);
  place_again(other);
  test::changeable_options().free_limit = heap->slack.get() - 1;
  for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(take_from_quiet_heaps()) << "not yet";
  EXPECT_EQ(state_of(one), SpanState::reusable);
  EXPECT_FALSE(take_from_quiet_heaps());
  EXPECT_EQ(listed_spans().size(), 2u);
  EXPECT_EQ(owner_of(one), nullptr);
  EXPECT_EQ(check_everything(), 0u);
  // It adopts them when it wakes up.
  EXPECT_EQ(span_of(take()), one);
  EXPECT_EQ(owner_of(one), heap);
  EXPECT_EQ(heap->slack.get(), 0u) << "their records left the ring of the one class, and are on none of the other";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Quiet, AHeapAtWorkLosesNone) {
  start_heaps(0);
  Span* span = make_reusable(1);
  place_again(span);
  test::changeable_options().free_limit = usize{1} << 20;
  for (u32 i = 0; i < 20; ++i) {
    EXPECT_FALSE(take_from_quiet_heaps()) << "nobody has to wait for so little";
    take_many(1, 32 * 1024);  // a slow refill
  }
  EXPECT_EQ(state_of(span), SpanState::reusable);
}

FRESH_TEST(Quiet, WhatKeepsLessThanTheSlackIsLeftAlone) {
  start_heaps(usize{1} << 20);
  Span* span = make_reusable(1);
  place_again(span);
  for (u32 i = 0; i < 20; ++i) EXPECT_FALSE(take_from_quiet_heaps());
  EXPECT_EQ(state_of(span), SpanState::reusable);
}

}  // namespace
}  // namespace coffer
