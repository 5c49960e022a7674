// SPDX-License-Identifier: MIT
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
  usize floating = 0;
  for (const Span* span : floating_of(heap)) floating += span_bytes(span);
  EXPECT_EQ(held_by(heap), floating) << "nothing else is its own any more";
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(heap->relaxed_bytes.get(), 0u);
  EXPECT_EQ(heap->chain_count.get(), 0u);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    EXPECT_EQ(heap->blocks[c].get(), nullptr);
    EXPECT_EQ(heap->hot[c].get(), nullptr);
    EXPECT_EQ(heap->reusable[c].get(), 0u);
    EXPECT_EQ(heap->patience[c].get(), 0u);
    EXPECT_EQ(heap->comeback[c].get(), 0u);
    EXPECT_EQ(heap->relaxed_class[c].get(), 0u);
  }
  EXPECT_EQ(check_everything(), 0u);
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

// They keep the heap's record as their owner, so that a thread's end costs no walk over them.
FRESH_TEST(ThreadEnd, FloatingSpansStayTheRecords) {
  start_heaps();
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
    ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::floating);
  });
  Span* nearly = span_of(blocks[0]);
  Span* full = span_of(blocks[kCapacity]);
  EXPECT_EQ(floating_of(heap), (std::vector<Span*>{nearly, full}));
  EXPECT_EQ(owner_of(nearly), heap);
  EXPECT_EQ(held_by(heap), 2 * kSlotBytes);
  // Each further free is a remote one. The one that reaches the threshold finds the mailbox closed, and takes the span.
  give_now(blocks, kThreshold - 1, 2 * kThreshold - 2);
  EXPECT_EQ(state_of(nearly), SpanState::floating);
  give_now({blocks[2 * kThreshold - 2]});
  EXPECT_EQ(state_of(nearly), SpanState::claimed);
  EXPECT_EQ(owner_of(nearly), nullptr);
  EXPECT_EQ(held_by(heap), kSlotBytes);
  EXPECT_EQ(unsettled_bytes(), kSlotBytes);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(nearly), SpanState::listed);
  EXPECT_EQ(remote_count(nearly), 2 * kThreshold - 1) << "both sides are added";
  // And the free of the last block gives it back; before it is settled, the settler does.
  give_now(blocks, 2 * kThreshold - 1, kCapacity);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  give_now(blocks, kCapacity);
  EXPECT_EQ(held_bytes(), kSlotBytes);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(held_by(heap), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ThreadEnd, TheNextThreadOfTheRecordInheritsFloatingSpans) {
  start_heaps();
  own_heap();
  Blocks blocks;
  Heap* heap = in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold - 1);
  });
  Span* span = span_of(blocks[0]);
  Worker next;
  next.run([&] {
    ASSERT_EQ(own_heap(), heap);
    give(blocks[kThreshold - 1]);
    EXPECT_EQ(state_of(span), SpanState::reusable) << "a local free like any other";
    EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
    give_many(blocks, kThreshold, kCapacity);
    EXPECT_EQ(span_of(blocks[0]), nullptr);
  });
  EXPECT_EQ(floating_of(heap), std::vector<Span*>{span_of(blocks[kCapacity])});
  EXPECT_EQ(check_everything(), 0u);
  // Its mail comes again, too.
  push_blocks(blocks, kCapacity, kCapacity + kThreshold);
  EXPECT_EQ(mail_first(heap->mailbox.load(relaxed)), span_number(span_of(blocks[kCapacity])));
  next.run([&] { take_mail(heap); });
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span_of(blocks[kCapacity])});
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ThreadEnd, ReusableSpansAreListed) {
  start_heaps(usize{1} << 20);
  Blocks blocks;
  Span* idle = nullptr;
  in_thread_that_ends([&] {
    blocks = fill_two_and_a_page();
    give_many(blocks, 0, kThreshold);
    let_come_back();
    place_again(idle = make_reusable(0));
    ASSERT_EQ(ring_length(t_heap, kClass), 2u);
  });
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
  EXPECT_EQ(state_of(idle), SpanState::free) << "without a live block it ends";
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
    ASSERT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(span_of(blocks[0])));
  });
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::listed);
}

// Claimed, but not mailed yet: the claimant finds the box closed, and takes it.
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
  do_duty(t_heap, span, duty);
  EXPECT_EQ(owner_of(span), nullptr);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(remote_count(span), kThreshold + 2);
  EXPECT_EQ(check_everything(), 0u);
}

// The hot span was taken while the thread slept: what it had left of its blocks goes back, too.
FRESH_TEST(ThreadEnd, BlocksOfAHotSpanThatWasTakenGoBack) {
  start_heaps(0);
  Blocks blocks;
  own_heap();
  in_thread_that_ends([&] {
    blocks = take_many(kCapacity - 3);
    Span* span = span_of(blocks[0]);
    ASSERT_TRUE(claim(span, SpanState::hot));
    do_duty(&g_null_heap, span, PushDuty::claimed);
    rob_heaps();
    ASSERT_EQ(owner_of(span), nullptr);
    ASSERT_TRUE(settle_unsettled());
    ASSERT_EQ(state_of(span), SpanState::shared);
    ASSERT_NE(t_heap->blocks[kClass].get(), nullptr);
    EXPECT_EQ(check_everything(), 0u);
  });
  EXPECT_EQ(remote_count(span_of(blocks[0])), 3u);
  give_now(blocks);
  EXPECT_EQ(held_bytes(), 0u);
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
  settle_unsettled();
  if (t_heap != &g_null_heap) release_idle(t_heap);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_TRUE(listed_spans().empty());
}

}  // namespace
}  // namespace coffer
