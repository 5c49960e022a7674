// SPDX-License-Identifier: MIT
// The bracket, and the process whose kernel offers no barrier: its brackets have fences, and free no fast path.
#include "heap/bracket.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "heap/heaps.hpp"
#include "heap/refill.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

void start_without_barrier(usize slack = usize{64} << 10) {
  fake::set_barrier(false);
  start_heaps(slack);
}

FRESH_TEST(Bracket, NamesTheSpanWhileItLasts) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(20);
  {
    const Bracket bracket(heap, span);
    EXPECT_EQ(heap->bracket.load(relaxed), span);
    EXPECT_TRUE(bracket.owned());
  }
  EXPECT_EQ(heap->bracket.load(relaxed), nullptr);
  for (Heap* owner : {static_cast<Heap*>(nullptr), heap_by_index(0)}) {
    span->owner.store(owner, relaxed);
    const Bracket bracket(heap, span);
    EXPECT_EQ(heap->bracket.load(relaxed), span);
    EXPECT_FALSE(bracket.owned());
  }
  EXPECT_EQ(heap->bracket.load(relaxed), nullptr);
}

FRESH_TEST(Bracket, NeedsNoFenceWhereThereIsABarrier) {
  start_heaps();
  take();
  if (!os::has_barrier()) GTEST_SKIP() << "this kernel has none";
  EXPECT_FALSE(fences_brackets());
  EXPECT_EQ(g_arenas.arenas[0].fast_frontier.load(relaxed), g_arenas.arenas[0].frontier.load(relaxed));
  EXPECT_GT(g_arenas.arenas[0].fast_frontier.load(relaxed), 0u);
}

// --- Without a barrier. ---

FRESH_TEST(NoBarrier, TheFastPathOfFreeIsOff) {
  start_without_barrier();
  const Blocks blocks = take_many(kCapacity + 1);
  EXPECT_TRUE(fences_brackets());
  EXPECT_EQ(g_arenas.arenas[0].fast_frontier.load(relaxed), 0u);
  EXPECT_GT(g_arenas.arenas[0].frontier.load(relaxed), 0u);
}

FRESH_TEST(NoBarrier, FreesAreStillLocalOnes) {
  start_without_barrier();
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  for (u32 i = 0; i < kThreshold - 1; ++i) {
    give(blocks[i]);
    EXPECT_EQ(local_count(span), i + 1);
    EXPECT_EQ(span->local_free.get(), blocks[i]);
    EXPECT_EQ(remote_count(span), 0u);
    EXPECT_EQ(t_heap->bracket.load(relaxed), nullptr);
    EXPECT_EQ(t_heap->chain_count.get(), 0u);
  }
  give(blocks[kThreshold - 1]);
  EXPECT_EQ(state_of(span), SpanState::reusable) << "events come, too";
  give_many(blocks, kThreshold, kCapacity);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  const Blocks wide = take_many(9, 32 * 1024);
  give(wide[7]);
  EXPECT_EQ(state_of(span_of(wide[0])), SpanState::reusable) << "and from later slots";
  give(nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, OthersFreesAreRemoteOnes) {
  start_without_barrier();
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  Worker other;
  other.run([&] {
    give_many(blocks, 0, 2);
    EXPECT_EQ(t_heap->chain_count.get(), 2u);
    EXPECT_EQ(t_heap->bracket.load(relaxed), nullptr);
    close_chain(t_heap);
  });
  EXPECT_EQ(remote_count(span), 2u);
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, LargeBlocksAreFreed) {
  start_without_barrier();
  void* slots = take(100'000);
  void* chunks = take(5 << 20);
  give(slots);
  give(chunks);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, SettlesByAFence) {
  start_without_barrier();
  own_heap();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(kCapacity + 1); });
  push_blocks(blocks, 0, kThreshold);
  rob_heaps();
  ASSERT_EQ(unsettled_bytes(), kSlotBytes);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), 0u);
}

FRESH_TEST(NoBarrier, MisuseIsFound) {
  start_without_barrier();
  const Blocks blocks = take_many(2);
  give(blocks[0]);
  const Outcome again = outcome_of([&] { give(blocks[0]); });
  EXPECT_TRUE(again.aborted());
  EXPECT_NE(again.errors.find("already free"), std::string::npos) << again.errors;
  const Outcome inside = outcome_of([&] { give(static_cast<char*>(blocks[1]) + 16); });
  EXPECT_TRUE(inside.aborted());
}

// --- An owner that frees and allocates all the time, while its spans are taken from it as fast as can be. ---

// Claims every private span of others that it meets, and hands it on; how many.
u32 claim_from_others() {
  u32 claimed = 0;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SlotUse) {
      const RemoteWord word = load_word(span, acquire);
      // A new span has no owner for a moment. The CAS is of the word that was seen, so its owner is the one seen.
      Heap* owner = span->owner.load(acquire);
      if (!can_be_claimed(word.state()) || owner == nullptr || owner == t_heap) return;
      u64 seen = word.bits();
      const u64 claimed_word = word.with_state(SpanState::claimed).bits();
      if (!span->remote.compare_exchange(seen, claimed_word, acq_rel, relaxed)) return;
      hand_on_claimed(span);
      ++claimed;
    });
  });
  return claimed;
}

// Each block is written by whoever holds it: one that two hold at a time shows.
void take_from_a_busy_owner() {
  constexpr u32 kWanted = 1500, kEach = 300;
  own_heap();
  std::atomic<bool> done{false};
  std::thread owner([&] {
    for (u64 round = 0; !done.load(); ++round) {
      const Blocks blocks = take_many(kEach, 512);
      for (u32 i = 0; i < kEach; ++i) *static_cast<u64*>(blocks[i]) = round << 32 | i;
      for (u32 i = 0; i < kEach; ++i) ASSERT_EQ(*static_cast<u64*>(blocks[i]), (round << 32 | i));
      for (u32 i = 0; i < kEach; ++i) give(blocks[(i * 7) % kEach]);
    }
  });
  Worker thief;
  thief.run([&] {
    Blocks mine;
    for (u32 claimed = 0; claimed < kWanted && !testing::Test::HasFailure();) {
      const u32 now = claim_from_others();
      claimed += now;
      if (now == 0) std::this_thread::yield();
      rob_heaps();
      settle_unsettled();
      mine.push_back(take(512));
      *static_cast<u64*>(mine.back()) = ~u64{0};
      if (mine.size() > 50) {
        give_many(mine);
        mine.clear();
      }
    }
    give_now(mine);
  });
  done.store(true);
  owner.join();
  thief.end();
  settle_unsettled();
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

FRESH_TEST(BusyOwner, LosesNothing) {
  start_heaps();
  take_from_a_busy_owner();
}

FRESH_TEST(BusyOwner, LosesNothingWithoutABarrier) {
  start_without_barrier();
  take_from_a_busy_owner();
}

}  // namespace
}  // namespace coffer
