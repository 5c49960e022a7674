// What becomes of a heap's spans when its thread ends.
#include <gtest/gtest.h>

#include <mutex>

#include "heap/heaps.hpp"
#include "heap/refill.hpp"

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
  EXPECT_EQ(heap->mailbox.load(relaxed), kMailboxClosed);
  EXPECT_EQ(heap->held.get(), 0u);
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(heap->floating.get(), 0u);
  EXPECT_EQ(heap->chain_count.get(), 0u);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    EXPECT_EQ(heap->blocks[c].get(), nullptr);
    EXPECT_EQ(heap->hot[c].get(), nullptr);
    EXPECT_EQ(heap->reusable[c].get(), 0u);
  }
  return heap;
}

FRESH_TEST(ThreadEnd, AHotSpanIsListedWithAllItsFreeBlocks) {
  start_heaps();
  Blocks blocks;
  in_thread_that_ends([&] {
    blocks = take_many(kBlocksPerPage + 1);
    give(blocks[2]);
  });
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(owner_of(span), nullptr);
  EXPECT_EQ(remote_count(span), kCapacity - kBlocksPerPage) << "the heap's list, the local list, the absent pages";
  EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
}

FRESH_TEST(ThreadEnd, AHotSpanWithoutALiveBlockEnds) {
  start_heaps();
  Blocks blocks;
  in_thread_that_ends([&] {
    blocks = take_many(3);
    give_many(blocks);
  });
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(held_bytes(), 0u);
}

FRESH_TEST(ThreadEnd, FloatingSpansAreSharedAsTheyAre) {
  start_heaps();
  Blocks blocks;
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
    ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::floating);
  });
  Span* nearly = span_of(blocks[0]);
  Span* full = span_of(blocks[kCapacity]);
  EXPECT_EQ(state_of(nearly), SpanState::shared);
  EXPECT_EQ(remote_count(nearly), kThreshold - 1);
  EXPECT_EQ(state_of(full), SpanState::shared);
  EXPECT_EQ(remote_count(full), 0u);
  // Each further free is everybody's: the one that reaches the threshold lists the span.
  give_now({blocks[kThreshold - 1]});
  EXPECT_EQ(state_of(nearly), SpanState::listed);
  give_now(blocks, kCapacity, kCapacity + kThreshold - 1);
  EXPECT_EQ(state_of(full), SpanState::shared);
  give_now({blocks[kCapacity + kThreshold - 1]});
  EXPECT_EQ(state_of(full), SpanState::listed);
  // And the one that frees the last block gives it back.
  give_now(blocks, kThreshold, kCapacity);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  give_now(blocks, kCapacity + kThreshold);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// Local and remote frees together reach the threshold only when they are added.
FRESH_TEST(ThreadEnd, BothSidesOfAFloatingSpanAreAdded) {
  start_heaps();
  Blocks blocks;
  Heap* main = own_heap();
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
    Block* block = static_cast<Block*>(blocks[10]);
    EXPECT_EQ(push_remote(span_of(block), block, block, 1), PushDuty::none);
  });
  EXPECT_EQ(main, t_heap);
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
  EXPECT_EQ(remote_count(span_of(blocks[0])), kThreshold);
}

FRESH_TEST(ThreadEnd, ReusableSpansAreListed) {
  start_heaps(usize{1} << 20);
  Blocks blocks;
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold);
    give_many(blocks, kCapacity, 2 * kCapacity);
    ASSERT_EQ(reusable_count(t_heap, kClass), 2u);
  });
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
  EXPECT_EQ(span_of(blocks[kCapacity]), nullptr) << "without a live block it ends";
}

FRESH_TEST(ThreadEnd, TheChainIsPushed) {
  start_heaps();
  const Blocks mine = take_many(6);
  in_thread_that_ends([&] { give_many(mine); });
  EXPECT_EQ(remote_count(span_of(mine[0])), 6u);
}

FRESH_TEST(ThreadEnd, MailIsTaken) {
  start_heaps();
  Blocks blocks;
  Heap* main = own_heap();
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    for (u32 i = 0; i < kThreshold; ++i) {
      Block* block = static_cast<Block*>(blocks[i]);
      do_duty(main, span_of(block), push_remote(span_of(block), block, block, 1));
    }
    ASSERT_EQ(t_heap->mailbox.load(relaxed), span_number(span_of(blocks[0])));
  });
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
}

// Claimed, but not mailed yet: the claimant finds no owner, and shares it.
FRESH_TEST(ThreadEnd, AClaimedSpanIsItsClaimants) {
  start_heaps();
  Blocks blocks;
  PushDuty duty = PushDuty::none;
  take();
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 10, 12);
    for (u32 i = 0; i < kThreshold; ++i) {
      Block* block = static_cast<Block*>(blocks[i]);
      duty = push_remote(span_of(block), block, block, 1);
    }
    ASSERT_EQ(duty, PushDuty::mail);
  });
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(owner_of(span), nullptr);
  do_duty(t_heap, span, duty);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(remote_count(span), kThreshold + 2);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ThreadEnd, OrphansAreAdoptedWithTheirBlocks) {
  start_heaps();
  Blocks blocks;
  in_thread_that_ends([&] {
    blocks = take_many(kCapacity);
    give_many(blocks, 0, 8);
  });
  give_now(blocks, 8, 16);
  Span* span = span_of(blocks[0]);
  // The local list of the old owner, then what came back since.
  for (u32 i = 0; i < 16; ++i) {
    void* block = take();
    const u32 expected = i < 8 ? 7 - i : 15 - (i - 8);
    EXPECT_EQ(block, blocks[expected]) << i;
  }
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ThreadEnd, SpansOfSeveralSlotsToo) {
  start_heaps();
  Blocks blocks;
  in_thread_that_ends([&] { blocks = take_many(8, 32 * 1024); });
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(state_of(span), SpanState::shared) << "no block is free";
  give_now({blocks[7]});
  EXPECT_EQ(state_of(span), SpanState::listed);
  give_now(blocks, 0, 7);
  EXPECT_EQ(held_bytes(), 0u);
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
  }
  give_now(left);
  if (t_heap != &g_null_heap) release_idle(t_heap);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_TRUE(listed_spans().empty());
}

}  // namespace
}  // namespace coffer
