// SPDX-License-Identifier: MIT
// Slices of large blocks that a heap keeps: what they serve, how many they are, and who gets them back.
#include "exchange/kept_slices.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "exchange/sums.hpp"
#include "forks.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "os/probe.hpp"
#include "pool/slice_pool.hpp"
#include "sleeper.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize slices(u32 count) { return count * kSliceBytes; }
u64 kept() { return t_heap->kept_slices.get(); }
u64 free_slices(u32 chunk = 0) { return g_arenas.arenas[0].chunks[chunk].free.load(relaxed); }

Statistics statistics() {
  Statistics now;
  collect_statistics(now);
  return now;
}

// The pool has found a resident run of each length in chunk 0, the last one a whole half of it: slices 0 to 31 are
// kept.
void start_keeping() {
  start_heaps();
  for (u32 count = 3; count <= kMostSlices; ++count) {
    for (u32 times = 0; times < 2; ++times) give(take(slices(count)));
  }
  ASSERT_EQ(kept(), low_mask(32));
  ASSERT_EQ(t_heap->kept_chunk.get(), g_arenas.arenas[0].spans);
  ASSERT_EQ(free_slices(), ~low_mask(32));
}

FRESH_TEST(KeptSlices, ServeWithoutThePool) {
  start_keeping();
  const usize held = held_bytes();
  void* first = take(slices(10));
  EXPECT_EQ(span_of(first), g_arenas.arenas[0].spans);
  EXPECT_EQ(kept(), low_mask(32) & ~low_mask(10));
  void* second = take(slices(22));
  EXPECT_EQ(kept(), 0u) << "to the last";
  EXPECT_EQ(check_everything(), 0u);
  give(second);
  EXPECT_EQ(kept(), low_mask(32) & ~low_mask(10));
  void* third = take(slices(3));
  give(first);
  EXPECT_EQ(kept(), low_mask(32) & ~(u64{7} << 12)) << "neighbours join";
  take(slices(3));
  give(third);
  EXPECT_EQ(free_slices(), ~low_mask(32)) << "the pool knows of nothing";
  EXPECT_EQ(held_bytes(), held);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreTheLastOnesWhereNoneIsWanted) {
  start_keeping();
  const Blocks blocks = {take(slices(4)), take(slices(5)), take(slices(6))};
  take(slices(17));
  give(blocks[0]);
  EXPECT_EQ(kept(), low_mask(4));
  give(blocks[1]);
  EXPECT_EQ(kept(), low_mask(5) << 4);
  give(blocks[2]);
  EXPECT_EQ(kept(), low_mask(6) << 9);
  EXPECT_EQ(free_slices() & low_mask(32), low_mask(9));
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, CountAsFree) {
  start_keeping();
  void* block = take(slices(10));
  Statistics now = statistics();
  EXPECT_EQ(now.held, slices(10));
  EXPECT_EQ(now.live, slices(10));
  EXPECT_EQ(now.large_blocks, 1u);
  EXPECT_GE(now.free_resident, slices(22));
  EXPECT_GE(now.bound, now.resident);
  give(block);
  now = statistics();
  EXPECT_EQ(now.held, 0u);
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.large, 0u);
  EXPECT_EQ(now.resident, now.free_resident);
}

FRESH_TEST(KeptSlices, GoBackBeforeMoreIsTaken) {
  start_keeping();
  void* const block = take(slices(30));
  EXPECT_EQ(kept(), u64{3} << 30);
  give(take(slices(4)));
  EXPECT_EQ(kept(), 0u) << "they did not serve, and joined with free ones they do";
  EXPECT_EQ(free_slices(), ~low_mask(30));
  give(block);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreOfTheLowestChunkOnly) {
  start_keeping();
  Blocks low, high;
  for (u32 i = 0; i < 2; ++i) low.push_back(take(slices(32)));
  for (u32 i = 0; i < 2; ++i) high.push_back(take(slices(32)));
  ASSERT_EQ(span_of(high[0]), span_of(low[0]) + kSlicesPerChunk);
  // The pool gets to know the higher chunk as the lowest.
  for (u32 i = 0; i < 2; ++i) {
    EXPECT_TRUE(free_large(high[0], span_of(high[0])));
    high[0] = take(slices(32));
  }
  give(high[0]);
  EXPECT_EQ(t_heap->kept_chunk.get(), span_of(high[1]) - 32);
  EXPECT_NE(kept(), 0u);
  EXPECT_TRUE(free_large(low[0], span_of(low[0])));
  EXPECT_EQ(span_of(take(slices(32))), g_arenas.arenas[0].spans) << "lower than what was kept";
  EXPECT_EQ(kept(), 0u);
  EXPECT_TRUE(free_large(low[1], span_of(low[1])));
  give(high[1]);
  EXPECT_EQ(kept(), 0u) << "others come first";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreNoMoreThanTheBudget) {
  start_keeping();
  empty_own_heap();
  set_free_limit(0);
  changeable_options().slack = slices(6);
  Blocks blocks;
  for (u32 i = 0; i < 3; ++i) blocks.push_back(take(slices(6)));
  give(blocks[0]);
  EXPECT_EQ(kept_bytes(t_heap), slices(6));
  take(slices(3));
  give(blocks[1]);
  EXPECT_EQ(kept_bytes(t_heap), slices(3)) << "this one went to the pool";
  EXPECT_EQ(check_everything(), 0u);
  empty_own_heap();
  // An empty span is kept in the same budget.
  const Blocks small = take_many(2 * kCapacity);
  give_many(small);
  ASSERT_GT(t_heap->empties.get(), 0u);
  give(blocks[2]);
  EXPECT_EQ(kept_bytes(t_heap), 0u);
  changeable_options().slack = usize{64} << 10;
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreNotZero) {
  start_keeping();
  void* block = take(slices(20));
  std::memset(block, 7, slices(20));
  give(block);
  ASSERT_NE(kept(), 0u);
  void* again = Allocator::allocate_zeroed(slices(15));
  EXPECT_EQ(again, block);
  EXPECT_TRUE(all_bytes(again, slices(15), 0));
}

FRESH_TEST(KeptSlices, ServeAlignedBlocks) {
  start_keeping();
  void* first = take(slices(3));
  void* aligned = Allocator::allocate_aligned(slices(8), slices(16));
  EXPECT_EQ(span_of(aligned), g_arenas.arenas[0].spans + 16);
  EXPECT_EQ(kept(), low_mask(32) & ~low_mask(3) & ~(low_mask(8) << 16));
  give(first);
  give(aligned);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreGrownInto) {
  start_keeping();
  void* block = take(slices(10));
  std::memset(block, 7, slices(10));
  EXPECT_EQ(Allocator::reallocate(block, slices(31)), block);
  EXPECT_EQ(kept(), 0u);
  EXPECT_TRUE(all_bytes(block, slices(10), 7));
  give(block);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, HaveNoBlock) {
  start_keeping();
  char* block = static_cast<char*>(take(slices(10)));
  Span* span = span_of(block);
  give(block);
  EXPECT_NE(kept(), 0u);
  EXPECT_EQ(span_of(block), nullptr);
  EXPECT_EQ(span_of(block + kSliceBytes), nullptr);
  EXPECT_FALSE(free_large(block, span));
  EXPECT_FALSE(end_large(block, span));
}

// --- Who gets them back. ---

FRESH_TEST(KeptSlices, GoBackWithIdleSpans) {
  for (void (*const work)(Heap*) : {&release_idle, &empty_heap}) {
    run_fresh([&] {
      start_keeping();
      const Inside inside;
      work(inside.heap());
      EXPECT_EQ(kept(), 0u);
      EXPECT_EQ(free_slices(), ~u64{0});
      EXPECT_EQ(held_bytes(), 0u);
      EXPECT_EQ(check_everything(), 0u);
    });
  }
}

FRESH_TEST(KeptSlices, GoBackAtTrim) {
  start_keeping();
  EXPECT_TRUE(Allocator::trim(0));
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// Of a thread that sleeps, and of one that has ended.
FRESH_TEST(KeptSlices, AreFoundByOthersBeforeANull) {
  for (const bool ended : {false, true}) {
    run_fresh([ended] {
      start_heaps(0, usize{8} << 20);
      Worker other;
      other.run([] {
        for (u32 times = 0; times < 2; ++times) give(take(slices(32)));
        ASSERT_EQ(kept(), low_mask(32));
      });
      if (ended) other.end();
      exhaust_slices();
      void* block = take(slices(32));
      EXPECT_NE(block, nullptr);
      EXPECT_EQ(take(slices(32)), nullptr);
      EXPECT_EQ(check_everything(), 0u);
    });
  }
}

FRESH_TEST(KeptSlices, AreFoundByASmallBlockBeforeANull) {
  start_heaps(0, usize{8} << 20);
  Worker other;
  other.run([] {
    for (u32 times = 0; times < 2; ++times) give(take(slices(32)));
    ASSERT_EQ(kept(), low_mask(32));
  });
  take();
  exhaust_slices();
  EXPECT_NE(Allocator::allocate(30'000), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, BelongToWhoFreed) {
  start_keeping();
  void* block = take(slices(32));
  const u64 before = kept();
  Worker other;
  other.run([&] {
    take();
    give(block);
    EXPECT_EQ(kept(), low_mask(32));
    EXPECT_EQ(take(slices(32)), block);
    give(block);
  });
  EXPECT_EQ(kept(), before);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(KeptSlices, AreNobodysWithoutAHeap) {
  start_keeping();
  void* block = take(slices(32));
  Worker other;
  other.run([&] {
    give(block);
    EXPECT_EQ(kept(), 0u);
  });
  EXPECT_EQ(free_slices(), ~u64{0});
}

// --- In a fork child they are the pool's, be their heap's thread gone or not. ---

FRESH_TEST(KeptSlices, AreTheirHeapsInAChildOfOneThread) {
  start_keeping();
  run_fresh([] {
    settle_fork();
    EXPECT_EQ(kept(), low_mask(32));
    EXPECT_EQ(check_everything(), 0u);
  });
}

FRESH_TEST(KeptSlices, AreThePoolsWhereThreadsVanished) {
  start_keeping();
  void* block = take(slices(4));
  Worker other;
  other.run([] {
    take();
    give(take(slices(32)));
    give(take(slices(32)));
    EXPECT_NE(kept(), 0u);
  });
  in_fork_child([&] {
    EXPECT_EQ(kept(), 0u);
    EXPECT_EQ(sum_chunks().large_blocks, 1u);
    give(block);
    void* again = take(slices(32));
    EXPECT_NE(again, nullptr);
    give(again);
  });
}

// Its slices are ended, and not kept yet; or no longer kept, and no block yet.
FRESH_TEST(KeptSlices, OnTheirWayAreThePools) {
  start_keeping();
  Worker other;
  void* block = nullptr;
  other.run([&] {
    block = take(slices(32));
    EXPECT_TRUE(end_large(block, span_of(block)));
  });
  in_fork_child([&] { EXPECT_EQ(sum_chunks().large_blocks, 0u); });
}

// --- Many threads. ---

FRESH_TEST(KeptSlices, OfManyThreadsThatPassBlocksOn) {
  start_heaps();
  constexpr u32 kThreads = 4, kPlaces = 24, kRounds = 3000;
  static Atomic<void*> places[kPlaces];
  run_together(kThreads, [](u32 thread) {
    Random random(thread + 1);
    for (u32 round = 0; round < kRounds; ++round) {
      const usize size = slices(2) + random.below(slices(30) - 1);
      char* block = static_cast<char*>(take(size));
      ASSERT_NE(block, nullptr);
      block[0] = block[size - 1] = static_cast<char>(thread);
      // acq_rel: hands the block over.
      char* old = static_cast<char*>(places[random.below(kPlaces)].exchange(block, acq_rel));
      if (old != nullptr) give(old);
      if (round % 500 == 0) steal_from_heaps(Take::pages);
    }
  });
  for (Atomic<void*>& place : places) {
    if (void* block = place.load(relaxed)) give(block);
  }
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(sum_chunks().large_blocks, 0u);
}

}  // namespace
}  // namespace coffer
