// SPDX-License-Identifier: MIT
// What becomes of a heap when its thread ends: it stays whole, and the next thread that starts goes on with it.
#include <gtest/gtest.h>

#include <mutex>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

// Two full spans and a page of a third: the first two float, the third is hot.
Blocks fill_two_and_a_page() { return take_many(2 * kCapacity + kBlocksPerPage); }

// Runs `work` in a thread that ends then; its heap.
template <class Work>
Heap* in_thread_that_ends(Work&& work) {
  Heap* heap = nullptr;
  Worker thread;
  thread.run([&] {
    heap = own_heap();
    work();
  });
  thread.end();
  EXPECT_EQ(heap->attached.load(relaxed), 0u);
  EXPECT_EQ(heap->self.load(relaxed), heap);
  EXPECT_EQ(heap->inside.load(relaxed), kOutside);
  EXPECT_EQ(held_back(heap), 0u);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
  return heap;
}

FRESH_TEST(ThreadEnd, TheHeapStaysWhole) {
  start_heaps();
  own_heap();
  Blocks blocks;
  Block* list = nullptr;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    blocks.push_back(take());
    give_many(blocks, 0, kThreshold);
    give(blocks[2 * kCapacity]);
    list = t_heap->blocks[kClass].get();
  });
  Span* hot = span_of(blocks.back());
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span_of(blocks[kCapacity - 1])});
  EXPECT_EQ(floating_of(heap), std::vector<Span*>{span_of(blocks[kCapacity])});
  EXPECT_EQ(heap->hot[kClass].get(), hot);
  EXPECT_EQ(heap->blocks[kClass].get(), list);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(held_by(heap), 3 * kSliceBytes);
  EXPECT_TRUE(listed_spans().empty());
}

FRESH_TEST(ThreadEnd, TheNextThreadGoesOnWithIt) {
  start_heaps();
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
    give(blocks[2 * kCapacity]);
  });
  Span* span = span_of(blocks[kCapacity - 1]);
  const usize held = held_bytes();
  Worker next;
  next.run([&] {
    ASSERT_EQ(own_heap(), heap);
    EXPECT_EQ(take(), blocks[2 * kCapacity]) << "what the last one freed";
    give(blocks[kThreshold - 1]);
    EXPECT_EQ(life_of(span), SpanLife::reusable) << "a local free like any other";
    give_many(blocks, kThreshold, kCapacity);
  });
  EXPECT_EQ(held_bytes(), held);
  EXPECT_EQ(check_everything(), 0u);
  push_blocks(blocks, kCapacity, kCapacity + kThreshold);
  EXPECT_EQ(mail_first(heap->mailbox.load(relaxed)), span_number(span_of(blocks[kCapacity])));
  next.run([&] { take_mail(heap); });
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ThreadEnd, TheHeapThatWasLeftLastIsTakenFirst) {
  start_heaps();
  own_heap();
  Heap* heaps[3];
  {
    Worker threads[3];
    for (u32 i = 0; i < 3; ++i) threads[i].run([&] { heaps[i] = own_heap(); });
    for (const u32 i : {1u, 0u, 2u}) threads[i].end();
  }
  Worker threads[3];
  for (const u32 i : {2u, 0u, 1u}) {
    threads[i].run([&] { EXPECT_EQ(own_heap(), heaps[i]); });
  }
}

// What another processor left is taken when there is one more heap for each processor than threads.
FRESH_TEST(ThreadEnd, AHeapWaitsForAThreadOfItsProcessor) {
  start_heaps();
  os::fake::set_processors(2);
  own_heap();
  Heap* heaps[2];
  for (u32 processor : {0u, 1u}) {
    os::fake::set_current_processor(processor);
    Worker thread;
    thread.run([&] { heaps[processor] = own_heap(); });
  }
  EXPECT_NE(heaps[0], heaps[1]);
  EXPECT_EQ(heaps_ever(), 4u);
  for (u32 processor : {0u, 1u, 0u}) {
    os::fake::set_current_processor(processor);
    Worker thread;
    thread.run([&] { EXPECT_EQ(own_heap(), heaps[processor]); });
  }
  os::fake::set_current_processor(2);
  Worker threads[3];
  threads[0].run([&] { EXPECT_EQ(own_heap(), heaps[0]); });
  threads[1].run(
      [&] { EXPECT_EQ(own_heap(), heap_by_index(4)) << "there are three threads now, and four heaps may be"; });
  threads[2].run([&] { EXPECT_EQ(own_heap(), heap_by_index(5)); });
}

FRESH_TEST(ThreadEnd, TheChainIsPushed) {
  start_heaps();
  const Blocks mine = take_many(6);
  in_thread_that_ends([&] { give_many(mine); });
  EXPECT_EQ(remote_count(span_of(mine[0])), 6u);
}

// Mail that came before the end.
FRESH_TEST(ThreadEnd, MailIsPlaced) {
  start_heaps(usize{1} << 20);
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    push_blocks(blocks, 0, kThreshold);
    ASSERT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(span_of(blocks[0])));
  });
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span_of(blocks[0])});
}

// Mail that comes while the heap is another's for a moment is placed by whoever puts it in, or the thread's end.
FRESH_TEST(ThreadEnd, LateMailIsPlacedByWhoeverComesSecond) {
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  {
    const Seized seized(sleeper.heap);
    sleeper.thread.end();
    push_blocks(spans[0], 0, kThreshold);
    EXPECT_EQ(mail_of(sleeper.heap), kSliceBytes) << "neither could";
  }
  take_late_mail(sleeper.heap);
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
  EXPECT_EQ(reusable_of(sleeper.heap), std::vector<Span*>{span_of(spans[0][0])});
  EXPECT_EQ(check_everything(), 0u);
}

// While another has the heap: what is in the chain goes out with the next thread, or whoever empties the heap.
FRESH_TEST(ThreadEnd, AThreadMayEndWhileItsHeapIsSeized) {
  start_heaps();
  const Blocks mine = take_many(6);
  Sleeper sleeper;
  sleeper.thread.run([&] { give_many(mine, 0, 3); });
  {
    const Seized seized(sleeper.heap);
    sleeper.thread.end();
    EXPECT_EQ(remote_count(span_of(mine[0])), 0u);
    EXPECT_EQ(sleeper.heap->inside.load(relaxed), kOutside);
    EXPECT_EQ(sleeper.heap->attached.load(relaxed), 0u);
  }
  EXPECT_TRUE(empty_one(sleeper.heap));
  EXPECT_EQ(remote_count(span_of(mine[0])), 3u);
  EXPECT_EQ(check_everything(), 0u);
}

// And one may start with it.
FRESH_TEST(ThreadEnd, AThreadMayStartWithAHeapThatIsSeized) {
  start_heaps();
  own_heap();
  Sleeper sleeper;
  sleeper.fill(1);
  Heap* heap = sleeper.heap;
  sleeper.thread.end();
  Worker next;
  void* block = nullptr;
  {
    const Seized seized(heap);
    next.run([&] {
      block = take();
      EXPECT_EQ(t_heap, heap);
      EXPECT_EQ(heap->inside.load(relaxed), kOutside);
    });
    EXPECT_EQ(owner_of(span_of(block)), heap_by_index(0)) << "from the fallback heap meanwhile";
  }
  next.run([&] { EXPECT_EQ(owner_of(span_of(take())), heap); });
  EXPECT_EQ(check_everything(), 0u);
}

// --- What others free. ---

FRESH_TEST(ThreadEnd, MailToAHeapWithoutAThreadIsPlacedAtOnce) {
  start_heaps(usize{1} << 20);
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
  });
  Span* span = span_of(blocks[0]);
  const u64 barriers = os::fake::calls_of(os::fake::kBarrier);
  push_blocks(blocks, kThreshold - 1, 2 * kThreshold - 2);
  EXPECT_EQ(life_of(span), SpanLife::floating);
  push_blocks(blocks, 2 * kThreshold - 2, 2 * kThreshold - 1);
  EXPECT_EQ(life_of(span), SpanLife::reusable) << "both sides are counted";
  EXPECT_EQ(heap->slack.get(), (2 * kThreshold - 1) * kSize);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(os::fake::calls_of(os::fake::kBarrier), barriers) << "nobody can be inside";
  EXPECT_EQ(check_everything(), 0u);
}

// And beyond its slack it goes to whoever needs it; the free of the last block gives it back.
FRESH_TEST(ThreadEnd, WhatOthersFreeInItGetsToOthers) {
  start_tight(0);
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] { blocks = fill_two_and_a_page(); });
  Span* span = span_of(blocks[0]);
  ASSERT_EQ(held_by(heap), 3 * kSliceBytes);
  // An eighth of what it holds; counted at each push that claims.
  constexpr u32 kMayKeep = 3 * kSliceBytes / 8 / kSize / kThreshold * kThreshold;
  static_assert(kMayKeep != 0);
  push_blocks(blocks, 0, kMayKeep);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(heap->slack.get(), kMayKeep * kSize);
  push_blocks(blocks, kMayKeep, kMayKeep + kThreshold);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(owner_of(span), nullptr);
  EXPECT_EQ(held_by(heap), 2 * kSliceBytes);
  EXPECT_EQ(heap->slack.get(), 0u);
  give_now(blocks, kMayKeep + kThreshold, kCapacity);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  give_now(blocks, kCapacity);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_TRUE(empty_one(heap));
  EXPECT_EQ(held_bytes(), 0u);
}

// Claimed, but not mailed yet: the claimant's mail comes to a heap without a thread.
FRESH_TEST(ThreadEnd, AClaimedSpanIsItsClaimants) {
  start_heaps();
  Blocks blocks;
  PushDuty duty = PushDuty::none;
  take();
  Heap* heap = nullptr;
  {
    Worker thread;
    thread.run([&] {
      heap = own_heap();
      blocks = fill_two_and_a_page();
      give_many(blocks, 10, 12);
      for (u32 i = 0; i < kThreshold; ++i) {
        Block* block = static_cast<Block*>(blocks[i]);
        duty = push_remote(span_of(block), block, block, 1);
      }
      ASSERT_EQ(duty, PushDuty::claimed);
    });
  }
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(owner_of(span), heap);
  do_duty(span, duty);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  EXPECT_EQ(heap->slack.get(), (kThreshold + 2) * kSize);
  EXPECT_EQ(check_everything(), 0u);
}

// Many threads come and go, and free what others left; nothing is lost.
FRESH_TEST(ThreadEnd, GenerationsOfThreadsLeaveNothingBehind) {
  constexpr u32 kThreads = 3, kGenerations = 30;
  start_heaps();
  std::mutex mutex;
  Blocks left;
  for (u32 generation = 0; generation < kGenerations; ++generation) {
    run_together(kThreads, [&](u32 self) {
      Blocks mine;
      for (u32 i = 0; i < 300; ++i) mine.push_back(take(16 << ((i + self) % 8)));
      Blocks theirs;
      {
        const std::lock_guard lock(mutex);
        theirs.swap(left);
        for (u32 i = 0; i < 150; ++i) left.push_back(mine[i]);
      }
      give_many(theirs);
      give_many(mine, 150);
    });
    ASSERT_EQ(check_everything(), 0u) << generation;
    ASSERT_LE(heaps_ever(), kThreads + 1) << "they go on with the heaps of the ended ones";
  }
  give_now(left);
  steal_from_heaps(Take::pages);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_TRUE(listed_spans().empty());
}

}  // namespace
}  // namespace coffer
