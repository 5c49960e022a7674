// SPDX-License-Identifier: MIT
// What heaps are seized for: memory that they keep goes to whoever needs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "exchange/seizing.hpp"
#include "heap/refill.hpp"
#include "os/os.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

// --- Stealing all heaps. ---

FRESH_TEST(StealFromHeaps, TakesWhatHoldsNoLiveBlock) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(2);
  Span *idle = nullptr, *used = nullptr;
  Blocks hot;
  sleeper.thread.run([&] {
    place_again(idle = make_reusable(0));
    place_again(used = make_reusable(1));
    give(take(512));  // hot, without a live block
    hot = take_many(1, 2048);
  });
  push_blocks(spans[0], 0, kThreshold);
  steal_from_heaps(Take::empty_spans);
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
  EXPECT_EQ(life_of(span_of(spans[0][kThreshold])), SpanLife::reusable) << "the sleeper's, still";
  EXPECT_EQ(state_of(idle), SpanState::free);
  EXPECT_EQ(life_of(used), SpanLife::reusable);
  EXPECT_EQ(sleeper.heap->hot[compute_class(512)].get(), nullptr);
  EXPECT_EQ(life_of(span_of(hot[0])), SpanLife::reusable);
  EXPECT_TRUE(listed_spans().empty());
  EXPECT_EQ(held_bytes(), 4 * kSliceBytes);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(StealFromHeaps, ForTheirPagesTakesAllButWhatFloats) {
  start_heaps(usize{1} << 20);
  Full full;
  steal_from_heaps(Take::pages);
  EXPECT_EQ(state_of(full.mailed), SpanState::listed);
  EXPECT_EQ(state_of(full.reusable), SpanState::listed);
  EXPECT_EQ(state_of(full.its_hot), SpanState::listed);
  EXPECT_EQ(life_of(full.floating), SpanLife::floating);
  full.expect_to_go_on();
}

FRESH_TEST(StealFromHeaps, TrimTakesTheCallersOwnToo) {
  start_heaps(usize{1} << 20);
  Full full;
  const Blocks mine = take_many(8);
  give(take(512));
  ASSERT_EQ(life_of(span_of(mine[0])), SpanLife::hot);
  Allocator::trim(0);
  EXPECT_EQ(t_heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->hot[compute_class(512)].get(), nullptr);
  EXPECT_EQ(state_of(span_of(mine[0])), SpanState::listed);
  EXPECT_EQ(held_by(t_heap), 0u);
  EXPECT_EQ(full.heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->self.load(relaxed), t_heap);
  EXPECT_EQ(check_everything(), 0u);
  give_now(mine);
  full.expect_to_go_on();
}

// A thread inside is asked a few times.
FRESH_TEST(StealFromHeaps, DoesNotWait) {
  start_heaps(usize{1} << 20);
  Full full;
  const Stopped stopped(full.heap, kInSlowPath);
  steal_from_heaps(Take::pages);
  full.expect_untouched();
}

FRESH_TEST(StealFromHeaps, IsDoneBeforeANull) {
  start_heaps(usize{1} << 20, usize{8} << 20);
  own_heap();
  Sleeper sleeper;
  Blocks theirs;
  sleeper.thread.run([&] { give(take(512)); });
  exhaust_slices();
  EXPECT_NE(take(), nullptr) << "the slice of the sleeper's hot span";
  EXPECT_EQ(sleeper.heap->hot[compute_class(512)].get(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Heaps that sleep while the process grows. ---

FRESH_TEST(StealFromIdle, TakesMailAndHalfEmptySpansOfAHeapThatSleeps) {
  start_heaps(usize{1} << 20);
  own_heap();
  Full full;
  // One that is fuller, and a free of a block of another.
  Blocks& fuller = full.spans[2];
  constexpr u32 kFew = kCapacity / 2 - 1;
  const Blocks mine = take_many(1);
  full.thread.run([&] {
    give_many(fuller, kThreshold, kThreshold + kFew);
    give(mine[0]);
  });
  fuller.erase(fuller.begin() + kThreshold, fuller.begin() + kThreshold + kFew);
  ASSERT_EQ(life_of(span_of(fuller.back())), SpanLife::reusable);
  ASSERT_EQ(held_back(full.heap), 1u);
  ASSERT_EQ(attached_heaps(), 2u);
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1)) << "it leaves a note";
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices - 1)) << "not enough was taken since";
  full.expect_untouched();
  EXPECT_EQ(held_back(full.heap), 1u);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, 1));
  EXPECT_EQ(state_of(full.mailed), SpanState::listed);
  EXPECT_EQ(state_of(full.reusable), SpanState::listed);
  EXPECT_EQ(life_of(full.its_hot), SpanLife::hot) << "what was carved of it is live";
  EXPECT_EQ(life_of(full.floating), SpanLife::floating);
  EXPECT_EQ(reusable_of(full.heap), std::vector<Span*>{span_of(fuller.back())});
  EXPECT_EQ(full.heap->slack.get(), kCapacity / 4 * kSize) << "as counted at its last event";
  EXPECT_EQ(held_back(full.heap), 0u);
  EXPECT_EQ(remote_count(span_of(mine[0])), 1u) << "its chains are closed";
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices - 1)) << "not again so soon";
  empty_own_heap();
  full.expect_to_go_on();
}

// Others would put their blocks beside the thread's, and save nothing: what was never carved is no better than a new
// span.
FRESH_TEST(StealFromIdle, LeavesASpanThatTheThreadHasBegunWith) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  Blocks live;
  sleeper.thread.run([&] {
    do live.push_back(take());
    while (t_heap->blocks[kClass].get() != nullptr || live.size() <= kBlocksPerPage);
  });
  Span* span = span_of(live[0]);
  ASSERT_EQ(span->carved.get(), live.size());
  ASSERT_LT(span->carved.get(), kCapacity / 2);
  const u32 half = half_of(span->carved.get());
  push_blocks(live, 0, half - 1);
  steal_from_idle_heaps(t_heap, 1);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(life_of(span), SpanLife::hot);
  push_blocks(live, half - 1, half);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(state_of(span), SpanState::listed) << "half of what was carved is free";
  EXPECT_EQ(check_everything(), 0u);
}

// The barrier would be in vain: it waits for the same locks and lines as all.
FRESH_TEST(StealFromIdle, AsksForNoBarrierWhereTheThreadIsInASlowPath) {
  start_heaps(usize{1} << 20);
  own_heap();
  Full full;
  steal_from_idle_heaps(t_heap, 1);
  {
    const Stopped stopped(full.heap, kInSlowPath);
    const u64 barriers = fake::calls_of(fake::kBarrier);
    EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices));
    EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  }
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1)) << "the call is over";
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(state_of(full.mailed), SpanState::listed);
}

// Each attached heap may grow by so much before.
FRESH_TEST(StealFromIdle, WaitsLongerWhereThereAreMoreHeaps) {
  start_heaps(usize{1} << 20);
  own_heap();
  Worker others[15];
  for (Worker& other : others) other.run([] { own_heap(); });
  Full full;
  ASSERT_EQ(attached_heaps(), 17u);
  // One call looks at four of them.
  const auto grow = [](u32 slices) {
    bool any = steal_from_idle_heaps(t_heap, slices);
    for (u32 i = 0; i < 4; ++i) any = steal_from_idle_heaps(t_heap, 0) || any;
    return any;
  };
  EXPECT_FALSE(grow(1));
  EXPECT_FALSE(grow(kIdleSlices + 1)) << "64 KiB for each of 17";
  full.expect_untouched();
  EXPECT_TRUE(grow(1));
  EXPECT_EQ(state_of(full.reusable), SpanState::listed);
}

// The barrier is for what is there to be taken.
FRESH_TEST(StealFromIdle, LeavesAHeapAloneThatHasNothing) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  sleeper.thread.run([&] { give(take()); });
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1));
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  ASSERT_EQ(held_by(sleeper.heap), 0u);
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  EXPECT_NE(sleeper.heap->inside.load(relaxed) & kNothingFound, 0u) << "the next look is at the note alone";
  // A chain is all that it has.
  const Blocks mine = take_many(1);
  sleeper.thread.run([&] { give(mine[0]); });
  ASSERT_EQ(held_back(sleeper.heap), 1u);
  for (u32 i = 0; i < 2; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
  EXPECT_EQ(held_back(sleeper.heap), 0u);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1);
}

FRESH_TEST(StealFromIdle, LeavesAHotSpanWithoutRoom) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  Blocks full;
  sleeper.thread.run([&] { full = take_many(kCapacity / 2 + 1); });
  for (u32 i = 0; i < 3; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
  EXPECT_EQ(life_of(span_of(full[0])), SpanLife::hot);
  EXPECT_EQ(sleeper.heap->hot[kClass].get(), span_of(full[0]));
  sleeper.thread.run([&] { give_many(full, 0, 7); });
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices)) << "it was awake";
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(state_of(span_of(full[7])), SpanState::listed) << "three on its list, too: half of what was carved";
}

FRESH_TEST(StealFromIdle, LeavesAHeapAtWorkAndTheCallers) {
  start_heaps(usize{1} << 20);
  const Blocks mine = take_many(kCapacity + 1);
  give_many(mine, 0, kCapacity / 2);
  Sleeper busy;
  busy.fill(1);
  for (u32 i = 0; i < 40; ++i) {
    EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices));
    busy.thread.run([] { take_many(2 * kBlocksPerPage + 1, 512); });  // a slow refill now and then
  }
  EXPECT_EQ(life_of(span_of(mine[kCapacity / 2])), SpanLife::reusable);
}

// One that lives on its lists, and one that only frees.
FRESH_TEST(StealFromIdle, LeavesAThreadThatWorksInPlace) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper allocates, frees;
  Blocks blocks;
  allocates.thread.run([] { give(take()); });
  frees.thread.run([&] { blocks = take_many(40, 16); });
  Span* hot = allocates.heap->hot[kClass].get();
  const u64 barriers = fake::calls_of(fake::kBarrier);
  for (void* block : blocks) {
    EXPECT_FALSE(steal_from_idle_heaps(t_heap, kIdleSlices));
    allocates.thread.run([] { give(take()); });
    frees.thread.run([=] { give(block); });
  }
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  EXPECT_EQ(allocates.heap->hot[kClass].get(), hot);
  for (u32 i = 0; i < 2; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
  EXPECT_EQ(state_of(hot), SpanState::free);
  EXPECT_EQ(held_by(frees.heap), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// What is fuller than half stays, and a second look would find no more.
FRESH_TEST(StealFromIdle, LeavesAHeapAloneWhereItFoundNothing) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  Blocks blocks;
  sleeper.thread.run([&] { blocks = take_many(2 * kCapacity + 3); });
  const auto barriers_of_looks = [] {
    const u64 before = fake::calls_of(fake::kBarrier);
    for (u32 i = 0; i < 4; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
    return fake::calls_of(fake::kBarrier) - before;
  };
  EXPECT_EQ(barriers_of_looks(), 1u);
  EXPECT_EQ(barriers_of_looks(), 0u);
  Span* half = span_of(blocks[kCapacity]);
  sleeper.thread.run([&] { give_many(blocks, kCapacity, kCapacity + kCapacity / 2); });
  EXPECT_EQ(barriers_of_looks(), 2u) << "it was awake: half a span, and then nothing";
  EXPECT_EQ(state_of(half), SpanState::listed);
  EXPECT_EQ(barriers_of_looks(), 0u);
  push_blocks(blocks, 0, kThreshold);
  EXPECT_EQ(barriers_of_looks(), 1u) << "mail";
  EXPECT_EQ(life_of(span_of(blocks[kThreshold])), SpanLife::reusable);
  EXPECT_EQ(check_everything(), 0u);
}

// Of a thread that was stopped in a fast path nothing else can be had.
FRESH_TEST(StealFromIdle, TakesTheMailOfAThreadInAFastPathIfItHasSome) {
  start_heaps(usize{1} << 20);
  own_heap();
  Full full;
  const Stopped stopped(full.heap, at_work_on(full.reusable));
  const auto barriers_of_looks = [] {
    const u64 before = fake::calls_of(fake::kBarrier);
    for (u32 i = 0; i < 4; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
    return fake::calls_of(fake::kBarrier) - before;
  };
  EXPECT_EQ(barriers_of_looks(), 1u);
  EXPECT_EQ(full.heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(life_of(full.reusable), SpanLife::reusable);
  EXPECT_EQ(barriers_of_looks(), 0u);
}

// Who allocates from it is inside by another record: it may have something at any time.
FRESH_TEST(StealFromIdle, TheFallbackHeapIsRobbedAlsoAfterNothingWasFound) {
  start_heaps(usize{1} << 20);
  own_heap();
  Blocks blocks;
  {
    const FallbackHeap fallback;
    bool zero = false;
    for (u32 i = 0; i < kBlocksPerPage; ++i) blocks.push_back(allocate_block(fallback.get(), kClass, false, &zero));
  }
  Worker other;
  other.run([] { own_heap(); });
  for (u32 i = 0; i < 3; ++i) steal_from_idle_heaps(t_heap, kIdleSlices);
  EXPECT_EQ(life_of(span_of(blocks[0])), SpanLife::hot);
  push_blocks(blocks, 0, kBlocksPerPage / 2);
  ASSERT_EQ(mail_of(heap_by_index(0)), 0u);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, kIdleSlices));
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed) << "half of what was carved";
}

FRESH_TEST(StealFromIdle, TakesMuchMailAtOnce) {
  start_heaps(kSliceBytes);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(6);
  push_blocks(spans[0], 0, Full::kMany);
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1)) << "the option";
  push_blocks(spans[1], 0, Full::kMany);
  ASSERT_EQ(mail_of(sleeper.heap), 2 * kSliceBytes);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, 1));
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
  EXPECT_EQ(listed_spans().size(), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(StealFromIdle, LeavesMailWhileFreeMemoryIsAtHand) {
  start_heaps(kSliceBytes);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(6);
  for (u32 i = 0; i < 2; ++i) push_blocks(spans[i], 0, Full::kMany);
  const SliceRun run = acquire_slices(16, 1, 0);
  release_slices(run.arena, run.slice, run.count, low_mask(run.count));
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1));
  EXPECT_EQ(mail_of(sleeper.heap), 2 * kSliceBytes);
  purge_free(usize{1} << 20);
  EXPECT_TRUE(steal_from_idle_heaps(t_heap, 1));
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
}

FRESH_TEST(StealFromIdle, IsDoneBeforeANewSpanIsMade) {
  start_heaps(usize{1} << 20);
  own_heap();
  bool zero = false;
  ASSERT_NE(allocate_large_block(usize{5} << 20, kQuantum, &zero), nullptr) << "not in a small process";
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  sleeper.thread.run([&] { give_many(spans[0], 0, 16); });
  ASSERT_EQ(life_of(span_of(spans[0][20])), SpanLife::reusable);
  const Blocks mine = take_many(40 * kCapacity);
  const auto is_theirs = [&](const void* block) { return span_of(block) == span_of(spans[0][20]); };
  EXPECT_EQ(std::count_if(mine.begin(), mine.end(), is_theirs), 16);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
