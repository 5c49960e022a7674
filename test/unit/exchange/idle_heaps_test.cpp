// SPDX-License-Identifier: MIT
// The reclaimer's chore: heaps that slept for a tick are emptied; and who asks for the reclaimer.
#include <gtest/gtest.h>

#include <memory>

#include "exchange/seizing.hpp"
#include "heap/refill.hpp"
#include "pool/reclaimer.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

FRESH_TEST(IdleHeaps, AreEmptiedAfterAStepAndTheThreadGoesOn) {
  start_heaps(usize{1} << 20);
  own_heap();
  Full full;
  empty_idle_heaps();
  full.expect_untouched();
  EXPECT_FALSE(empty_idle_heaps()) << "all of them could be had";
  EXPECT_EQ(state_of(full.mailed), SpanState::listed);
  EXPECT_EQ(state_of(full.reusable), SpanState::listed);
  EXPECT_EQ(state_of(full.its_hot), SpanState::listed);
  EXPECT_EQ(life_of(full.floating), SpanLife::floating);
  EXPECT_EQ(held_by(full.heap), 2 * kSliceBytes);
  EXPECT_EQ(check_everything(), 0u);
  // Until it goes on or gets mail, nobody looks at it again.
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_FALSE(empty_idle_heaps());
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  push_blocks(full.spans[0], 0, kThreshold);
  EXPECT_FALSE(empty_idle_heaps());
  EXPECT_EQ(state_of(full.floating), SpanState::listed) << "late mail";
  full.spans[0].erase(full.spans[0].begin(), full.spans[0].begin() + kThreshold);
  full.expect_to_go_on();
  // It was awake.
  full.thread.run([&] { full.hot = take_many(2); });
  empty_idle_heaps();
  empty_idle_heaps();
  EXPECT_EQ(full.heap->hot[kClass].get(), nullptr);
}

FRESH_TEST(IdleHeaps, OneThatIsAwakeIsLeftAlone) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper busy;
  for (u32 i = 0; i < 20; ++i) {
    empty_idle_heaps();
    Span* hot = busy.heap->hot[compute_class(512)].get();
    EXPECT_TRUE(i == 0 || hot != nullptr);
    busy.thread.run([] { take_many(kBlocksPerPage * 2 + 1, 512); });
  }
}

FRESH_TEST(IdleHeaps, OneThatWorksInPlaceIsLeftAlone) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper busy;
  busy.thread.run([] { give(take()); });
  Span* hot = busy.heap->hot[kClass].get();
  for (u32 i = 0; i < 20; ++i) {
    EXPECT_FALSE(empty_idle_heaps());
    busy.thread.run([] { give(take()); });
  }
  EXPECT_EQ(busy.heap->hot[kClass].get(), hot);
  for (u32 i = 0; i < 2; ++i) empty_idle_heaps();
  EXPECT_EQ(state_of(hot), SpanState::free);
}

FRESH_TEST(IdleHeaps, OneThatIsAloneGivesUpWhatItDidNotUse) {
  start_heaps(0);
  Heap* heap = own_heap();
  set_free_limit(0);
  changeable_options().reclaimer = false;
  for (u32 i = 0; i < 4; ++i) make_on_ring(kCapacity / 2);
  const usize kept = heap->slack.get();
  ASSERT_EQ(kept, 4 * kSliceBytes / 2);
  const auto end_tick = [] {
    give(take(64));  // it is awake, and uses another class
    empty_idle_heaps();
  };
  end_tick();
  EXPECT_EQ(heap->slack.get(), kept) << "as far as is known, it was used";
  make_on_ring(kCapacity / 2);
  end_tick();
  EXPECT_EQ(ring_length(heap, kClass), 5u) << "so it was";
  end_tick();
  // An eighth of what is left, which is less than half of a span.
  EXPECT_EQ(ring_length(heap, kClass), 0u);
  EXPECT_EQ(listed_spans().size(), 5u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(IdleHeaps, OneInTheMiddleOfACallIsTriedAgain) {
  start_heaps(usize{1} << 20);
  own_heap();
  Full full;
  empty_idle_heaps();
  {
    const Stopped stopped(full.heap, kInSlowPath);
    EXPECT_FALSE(empty_idle_heaps()) << "it may be a short call";
    EXPECT_TRUE(empty_idle_heaps()) << "the reclaimer stays";
    full.expect_untouched();
  }
  for (u32 i = 0; i < 2; ++i) EXPECT_FALSE(empty_idle_heaps());
  EXPECT_EQ(state_of(full.its_hot), SpanState::listed);
}

FRESH_TEST(IdleHeaps, ManyAreEmptiedByFewBarriers) {
  constexpr u32 kThreads = 40;
  start_heaps(usize{1} << 20);
  own_heap();
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  for (u32 i = 0; i < kThreads; ++i) {
    sleepers.push_back(std::make_unique<Sleeper>());
    sleepers.back()->thread.run([] { take(); });
  }
  empty_idle_heaps();
  const u64 barriers = fake::calls_of(fake::kBarrier);
  empty_idle_heaps();
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 3);
  for (const auto& sleeper : sleepers) EXPECT_EQ(held_by(sleeper->heap), 0u);
  EXPECT_EQ(listed_spans().size(), kThreads);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(IdleHeaps, WhoIsAwakeAgainAsksForTheReclaimerWhereHeapsMayKeepMuch) {
  start_heaps(usize{1} << 20);
  take();
  Heap* heap = t_heap;
  EXPECT_FALSE(heaps_may_keep_much());
  set_free_limit(usize{64} << 10);
  EXPECT_TRUE(heaps_may_keep_much());
  EXPECT_TRUE(empty_idle_heaps()) << "they may be idle at the next step";
  EXPECT_FALSE(empty_idle_heaps());
  EXPECT_EQ(heap->emptied.load(relaxed), 1u);
  set_free_limit(usize{1} << 40);
  take();  // its list went with its hot span
  EXPECT_EQ(heap->emptied.load(relaxed), 0u) << "its next slow path says that it is awake";
}

FRESH_TEST(IdleHeaps, SoDoesWhoOnlyFrees) {
  start_heaps(usize{1} << 20);
  const Blocks mine = take_many(kCapacity + 1);
  ASSERT_EQ(life_of(span_of(mine[0])), SpanLife::floating);
  for (u32 i = 0; i < 2; ++i) empty_idle_heaps();
  ASSERT_EQ(t_heap->emptied.load(relaxed), 1u);
  give_many(mine, 0, kThreshold);
  EXPECT_EQ(life_of(span_of(mine[0])), SpanLife::reusable);
  EXPECT_EQ(t_heap->emptied.load(relaxed), 0u);
}

// Where none can be had, calls do its chores when somebody asked.
FRESH_TEST(IdleHeaps, AThreadThatStartsAsksForTheReclaimerWhereHeapsMayKeepMuch) {
  start_heaps(usize{1} << 20);
  changeable_options().reclaimer = false;
  own_heap();
  Worker first, second;
  first.run([] { own_heap(); });
  EXPECT_FALSE(calls_sweep());
  set_free_limit(usize{128} << 10);
  second.run([] { own_heap(); });
  EXPECT_TRUE(calls_sweep()) << "64 KiB for each of three";
}

}  // namespace
}  // namespace coffer
