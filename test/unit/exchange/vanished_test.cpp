// SPDX-License-Identifier: MIT
// What a fork child makes of the threads that it does not have. Where a thread vanished between two stores, the test
// writes what it had written so far; the child that is forked from there has to come to terms with it.
#include <gtest/gtest.h>

#include <cstring>

#include "exchange/sums.hpp"
#include "forks.hpp"
#include "heap/refill.hpp"
#include "large/large.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/tails.hpp"

namespace coffer {
namespace {

using namespace test;

Chunk& chunk_of(const Span* span) {
  return g_arenas.arenas[0].chunks[static_cast<usize>(span - g_arenas.arenas[0].spans) / kSlicesPerChunk];
}

u32 chunk_index(const void* block) {
  return static_cast<u32>((reinterpret_cast<uptr>(block) - g_arenas.arenas[0].base) / kChunkBytes);
}

FRESH_TEST(Fork, OfASingleThreadLeavesNothingToDo) {
  start_heaps();
  void* block = take();
  take();
  const u32 generation = t_heap->generation.get();
  run_fresh([&] {
    EXPECT_FALSE(is_settled());
    settle_fork();
    EXPECT_TRUE(is_settled());
    EXPECT_EQ(t_heap->generation.get(), generation + 1);
    EXPECT_FALSE(has_vanished(t_heap));
    give(block);
    EXPECT_EQ(span_of(take()), span_of(block)) << "its lists are as they were";
    EXPECT_EQ(check_everything(), 0u);
  });
  EXPECT_EQ(t_heap->generation.get(), generation);
}

FRESH_TEST(Fork, TheChildKeepsItsOwnHeapAndGetsTheOthers) {
  Two two;
  const Blocks mine = take_many(kCapacity + 3);
  give(mine[0]);
  in_fork_child([&] {
    EXPECT_EQ(attached_heaps(), 1u);
    EXPECT_EQ(two.theirs->attached.load(relaxed), 0u);
    EXPECT_EQ(life_of(span_of(mine[0])), SpanLife::floating);
    EXPECT_EQ(local_count(span_of(mine[0])), 1u);
    if constexpr (!kSanitizer) {  // ThreadSanitizer allows no threads in such a child
      Worker thread;
      thread.run([&] { EXPECT_EQ(own_heap(), two.theirs); });
    }
  });
  EXPECT_EQ(attached_heaps(), 2u) << "the parent has all its threads";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Fork, SpansOfVanishedThreadsBecomeNobodys) {
  Two two;
  Blocks blocks, wide;
  two.other.run([&] {
    blocks = take_many(3 * kCapacity + 2);
    give_many(blocks, 0, kThreshold - 1);                      // floating
    give_many(blocks, kCapacity, kCapacity + kThreshold + 1);  // reusable
    give_many(blocks, 2 * kCapacity, 2 * kCapacity + 1);       // floating
    give(blocks[3 * kCapacity]);                               // hot, with blocks on the heap's list
    wide = take_many(8, 32 * 1024);                            // hot, none left
  });
  Span* hot = span_of(blocks.back());
  in_fork_child([&] {
    EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::shared);
    EXPECT_EQ(remote_count(span_of(blocks[0])), kThreshold - 1);
    EXPECT_EQ(state_of(span_of(blocks[kCapacity])), SpanState::listed);
    EXPECT_EQ(remote_count(span_of(blocks[kCapacity])), kThreshold + 1);
    EXPECT_EQ(state_of(hot), SpanState::listed);
    EXPECT_EQ(remote_count(hot), kCapacity - 1) << "the heap's list was put back";
    EXPECT_EQ(state_of(span_of(wide[0])), SpanState::shared);
    // Its blocks can be freed, and the last one of each span gives it back.
    give_now(blocks, kThreshold - 1, kCapacity);
    give_now(blocks, kCapacity + kThreshold + 1, 2 * kCapacity);
    give_now(blocks, 2 * kCapacity + 1, 3 * kCapacity);
    give_now({blocks.back()});
    give_now(wide);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

FRESH_TEST(Fork, WhatWasInAnOpenChainIsLost) {
  Two two;
  const Blocks mine = take_many(4);
  two.other.run([&] { give_many(mine, 0, 3); });
  in_fork_child([&] {
    EXPECT_EQ(held_back(two.theirs), 0u);
    EXPECT_EQ(remote_count(span_of(mine[0])), 0u) << "three blocks a thread at most stay taken: they were not pushed";
  });
}

// --- Between two steps of the pool. ---

FRESH_TEST(Fork, SlicesThatWereClaimedAndNotDescribed) {
  Two two;
  void* block = take();
  two.other.run([] { acquire_slices(4, 4, 0); });
  const Span* claimed = chunk_of(span_of(block)).free.load(relaxed) != 0 ? span_of(block) + 4 : nullptr;
  ASSERT_NE(claimed, nullptr);
  in_fork_child([&] {
    EXPECT_EQ(held_bytes(), kSliceBytes);
    EXPECT_EQ(count_bits(chunk_of(span_of(block)).free.load(relaxed)), kSlicesPerChunk - 1);
    EXPECT_EQ(counters().dirty.load(relaxed), 4 * kSliceBytes) << "whether they were used is not known";
  });
}

FRESH_TEST(Fork, SlicesWhoseSpanWasUndescribedAndNotReleased) {
  Two two;
  const Blocks wide = take_many(8, 32 * 1024);
  Span* span = span_of(wide[0]);
  t_heap->hot[span->size_class.get()].set(nullptr);
  let_go(t_heap, span);
  span->owner.store(nullptr, relaxed);
  // end_span tells the later slices first.
  for (const u32 told : {0u, 3u, 7u}) {
    for (u32 i = 1; i <= told; ++i) span[i].use.store(SliceUse::none, relaxed);
    span->use.store(SliceUse::none, relaxed);
    in_fork_child([&] { EXPECT_EQ(held_bytes(), 0u) << told; });
  }
}

FRESH_TEST(Fork, SlicesOfALargeBlockHalfFreed) {
  Two two;
  void* block = take(300'000);
  Span* span = span_of(block);
  span->use.store(SliceUse::none, relaxed);
  in_fork_child([&] {
    EXPECT_EQ(held_bytes(), 0u);
    EXPECT_EQ(chunk_of(span).free.load(relaxed), ~u64{0});
  });
}

FRESH_TEST(Fork, ChunksThatWereTakenAndNotDescribed) {
  Two two;
  take();
  two.other.run([] {
    ChunkRun run;
    EXPECT_TRUE(take_chunks(3, 1, false, &run));
  });
  in_fork_child([&] { EXPECT_EQ(g_arenas.arenas[0].groups[0].taken.get(), 1u); });
}

// Of a thread that never had a heap no count tells.
FRESH_TEST(Fork, SlicesOfALargeBlockHalfFreedByAThreadWithoutAHeap) {
  start_heaps();
  void* freed = Allocator::allocate(100'000);
  Span* span = span_of(Allocator::allocate(100'000));
  Worker other;
  other.run([&] {
    give(freed);
    ASSERT_EQ(t_heap, &g_null_heap);
  });
  ASSERT_EQ(heaps_ever(), 2u);
  span->use.store(SliceUse::none, relaxed);
  in_fork_child([] {
    EXPECT_EQ(held_bytes(), 0u);
    EXPECT_EQ(sum_chunks().large_blocks, 0u);
  });
}

FRESH_TEST(Fork, ChunksThatALargeBlockWasGrowingInto) {
  Two two;
  void* block = take(3 * kChunkBytes);
  ChunkRun more;
  EXPECT_TRUE(take_chunks_at(&g_arenas.arenas[0], 3, 2, &more));
  in_fork_child([&] {
    EXPECT_EQ(g_arenas.arenas[0].groups[0].taken.get(), 7u);
    give(block);
    EXPECT_EQ(g_arenas.arenas[0].groups[0].taken.get(), 0u);
  });
}

// While a tail is on its way to the kernel, or its block is resized.
FRESH_TEST(Fork, ATailThatSomebodyHeld) {
  Two two;
  void* const longer = take(2 * kChunkBytes);
  std::memset(longer, 1, 2 * kChunkBytes);
  give(longer);
  void* const block = take(kChunkBytes + 1);
  EXPECT_EQ(block, longer);
  Arena* const arena = &g_arenas.arenas[0];
  const u32 index = chunk_index(block);
  const usize tail = tail_bytes(arena->chunks[index]);
  EXPECT_GT(tail, 0u);
  hold_tail(arena, index);
  in_fork_child([&] {
    EXPECT_EQ(tail_bytes(arena->chunks[index]), tail);
    EXPECT_EQ(purge_tails(kChunkBytes), tail);
    give(block);
  });
  in_fork_child([&] { give(block); });
}

FRESH_TEST(Fork, ATailOfABlockThatWasHalfFree) {
  Two two;
  void* const longer = take(2 * kChunkBytes);
  std::memset(longer, 1, 2 * kChunkBytes);
  give(longer);
  void* const block = take(kChunkBytes + 1);
  Arena* const arena = &g_arenas.arenas[0];
  slice_record(arena, reinterpret_cast<uptr>(block))->use.store(SliceUse::none, relaxed);
  hold_tail(arena, chunk_index(block));
  in_fork_child([&] {
    EXPECT_EQ(resident_tails(), 0u);
    EXPECT_EQ(purge_tails(kChunkBytes), 0u);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

FRESH_TEST(Fork, RoomThatWasFreedAndNotNoted) {
  Two two;
  void* block = take();
  Span* span = span_of(block);
  Chunk& chunk = chunk_of(span);
  // Freed by fetch_or; the map is as if the chunk had been full.
  Arena& arena = g_arenas.arenas[0];
  for (u32 order = 0; order < kOrders; ++order) {
    arena.groups[0].room[order].store(0, relaxed);
    arena.summary[order].store(order % 2, relaxed);
  }
  EXPECT_NE(chunk.free.load(relaxed), 0u);
  in_fork_child([&] {
    const SliceRun run = acquire_slices(32, 32, 0);
    EXPECT_EQ(run.slice, 32u);
    release_slices(run.arena, run.slice, 32, 0);
  });
}

FRESH_TEST(Fork, CountsThatWereNotKept) {
  Two two;
  take();
  take(300'000);
  counters().held.fetch_add(12345, relaxed);
  counters().dirty.fetch_add(12345, relaxed);
  in_fork_child([] { EXPECT_EQ(sum_chunks().large_blocks, 1u); });
}

// --- Between two steps of a span's life. ---

Span* make_orphan(SpanState state, u32 live) {
  Span* span = make_span(kClass, nullptr);
  bool zero = false;
  for (u32 carved = 0; carved < live; carved += kBlocksPerPage) cut_page(span, &zero);
  span->remote.store(load_word(span, relaxed).with_state(state).bits(), relaxed);
  return span;
}

FRESH_TEST(Fork, ASpanThatNobodyHadSigned) {
  Two two;
  make_orphan(SpanState::owned, 0);                    // made, not taken in
  Span* claimed = make_orphan(SpanState::claimed, 8);  // handed on by its owner, and not shared yet
  Span* full = make_orphan(SpanState::claimed, 32);
  in_fork_child([&] {
    EXPECT_EQ(held_bytes(), 2 * kSliceBytes);
    EXPECT_EQ(state_of(claimed), SpanState::listed);
    EXPECT_EQ(state_of(full), SpanState::shared);
  });
}

// What an absent page holds is not known, so who takes the span, or its slices when it ended, does not go by it.
FRESH_TEST(Fork, ASpanWhosePagesHadNotGoneBack) {
  Two two;
  Span* span = make_orphan(SpanState::claimed, kBlocksPerPage + 1);
  std::memset(reinterpret_cast<void*>(span->first_block), 7, 2 * kCarvePage);
  span->absent.set(span->absent.get() | 2);
  span->carved.set(kBlocksPerPage);
  in_fork_child([&] {
    EXPECT_EQ(absent_are(span), AbsentPages::unknown);
    EXPECT_EQ(untouched_pages(span), 0u) << "they count as resident";
    EXPECT_TRUE(g_partial_pool.remove(span));
    end_span(span);
    EXPECT_EQ(counters().dirty.load(relaxed), kSliceBytes);
  });
}

FRESH_TEST(Fork, ASpanThatWasListedAndNotLinked) {
  Two two;
  Span* span = make_orphan(SpanState::claimed, 8);
  ASSERT_EQ(mark_shared(span), ShareResult::listed);
  in_fork_child([&] {
    EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
    take();
    EXPECT_EQ(owner_of(span), t_heap) << "it can be adopted";
  });
}

void set_returning(Span* span) {
  const RemoteWord word = load_word(span, relaxed);
  span->remote.store(word.with(word.state(), kCapacity, word.first()).bits(), relaxed);
}

FRESH_TEST(Fork, ASpanThatWasReturningAndNotEnded) {
  Two two;
  set_returning(make_orphan(SpanState::shared, 8));
  Span* linked = make_orphan(SpanState::claimed, 8);
  share_claimed(linked);
  ASSERT_EQ(state_of(linked), SpanState::listed);
  set_returning(linked);
  Span* awaited = make_orphan(SpanState::listed, 8);  // its remover came, its inserter did not
  set_returning(awaited);
  EXPECT_FALSE(g_partial_pool.remove(awaited));
  in_fork_child([&] {
    EXPECT_EQ(held_bytes(), 0u);
    EXPECT_TRUE(listed_spans().empty());
  });
}

FRESH_TEST(Fork, ASpanOfTheChildThatWasClaimedAndNotMailed) {
  Two two;
  const Blocks mine = take_many(kCapacity + 1);
  for (u32 i = 0; i < kThreshold; ++i) {
    Block* block = static_cast<Block*>(mine[i]);
    push_remote(span_of(block), block, block, 1);
  }
  Span* span = span_of(mine[0]);
  ASSERT_EQ(state_of(span), SpanState::claimed);
  in_fork_child([&] {
    take_mail(t_heap);
    EXPECT_EQ(life_of(span), SpanLife::reusable);
    EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  });
}

FRESH_TEST(Fork, SpansOfTheChildThatWereMailed) {
  Two two;
  const Blocks mine = take_many(2 * kCapacity + 1);
  two.other.run([&] {
    give_now(mine, 0, kThreshold);
    give_now(mine, kCapacity, kCapacity + kThreshold);
  });
  in_fork_child([&] {
    take_mail(t_heap);
    EXPECT_EQ(ring_length(t_heap, kClass), 2u) << "each once";
    EXPECT_TRUE(floating_of(t_heap).empty());
  });
}

// --- In the middle of a list. ---

FRESH_TEST(Fork, AListIsCutWhereItLeadsNowhere) {
  Two two;
  Blocks blocks;
  two.other.run([&] {
    blocks = take_many(2 * kBlocksPerPage);
    give_many(blocks, 0, 4);
  });
  Span* span = span_of(blocks[0]);
  // The last free wrote the head before its link was written.
  set_next(static_cast<Block*>(blocks[2]), reinterpret_cast<Block*>(0x123456));
  in_fork_child([&] {
    EXPECT_EQ(local_count(span), 2u) << "what lies behind is lost";
    EXPECT_EQ(state_of(span), SpanState::listed);
  });
}

FRESH_TEST(Fork, AListThatIsInBothPlacesCountsOnce) {
  Two two;
  Blocks blocks;
  two.other.run([&] {
    blocks = take_many(4);
    give_many(blocks, 1);
    put_back_list(t_heap, kClass, span_of(blocks[0]));
    t_heap->blocks[kClass].set(span_of(blocks[0])->local_free.get());
  });
  in_fork_child([&] { EXPECT_EQ(local_count(span_of(blocks[0])), kBlocksPerPage - 1); });
}

FRESH_TEST(Fork, APageThatWasTakenAndNotCounted) {
  Two two;
  void* block = nullptr;
  two.other.run([&] { block = take(); });
  Span* span = span_of(block);
  span->absent.set(span->absent.get() & (span->absent.get() - 1));
  in_fork_child([&] {
    EXPECT_EQ(absent_count(span), kCapacity - 2 * kBlocksPerPage);
    EXPECT_EQ(remote_count(span), kCapacity - 2 * kBlocksPerPage + 3) << "a page's blocks are lost";
  });
}

// A thread that was ending had left its heap, which was not among those that wait yet.
FRESH_TEST(Fork, AHeapThatWasBeingGivenBack) {
  Two two;
  Blocks blocks;
  two.other.run([&] { blocks = take_many(3); });
  run_fresh([&] {
    two.theirs->attached.store(0, relaxed);
    settle_fork();
    EXPECT_EQ(two.theirs->attached.load(relaxed), 0u);
    EXPECT_EQ(owner_of(span_of(blocks[0])), two.theirs) << "it is whole";
    EXPECT_EQ(two.theirs->hot[kClass].get(), span_of(blocks[0]));
    EXPECT_EQ(check_everything(), 0u);
    if constexpr (!kSanitizer) {
      Worker thread;
      thread.run([&] { EXPECT_EQ(own_heap(), two.theirs); });
    }
  });
}

FRESH_TEST(Fork, AChildMayForkAgain) {
  Two two;
  Blocks blocks;
  two.other.run([&] { blocks = take_many(3); });
  run_fresh([&] {
    run_fresh([&] {
      EXPECT_NE(g_pending.load(relaxed), 0u) << "nobody has looked so far";
      give_now(blocks);
      EXPECT_EQ(check_everything(), 0u);
      EXPECT_EQ(span_of(blocks[0]), nullptr);
    });
    EXPECT_EQ(check_everything(), 0u);
    EXPECT_NE(span_of(blocks[0]), nullptr);
  });
}

// The free that needs the walk may be a local one.
FRESH_TEST(Fork, ALocalEventWaitsForTheWalk) {
  Two two;
  const Blocks mine = take_many(kCapacity + 1);
  run_fresh([&] {
    give_many(mine, 0, kThreshold - 1);
    EXPECT_NE(g_pending.load(relaxed), 0u) << "the fast path asks nobody";
    give(mine[kThreshold - 1]);
    EXPECT_EQ(g_pending.load(relaxed), 0u);
    EXPECT_EQ(check_everything(), 0u);
  });
}

}  // namespace
}  // namespace coffer
