// SPDX-License-Identifier: MIT
// What a fork child makes of heaps that somebody had seized, and of mail on its way: of threads that it does not have,
// of ended ones, and of its own.
#include <gtest/gtest.h>

#include "exchange/registry_record.hpp"
#include "forks.hpp"
#include "heap/refill.hpp"
#include "sleeper.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;

// Blocks of two spans, one floating; the other, of which some are free, is the caller's hot one.
Blocks take_some() { return take_many(2 * kCapacity - 3); }

// --- The heap of the thread that forks. ---

FRESH_TEST(Fork, TheOwnHeapWasSeized) {
  Two two;
  const Blocks mine = take_some();
  give_many(mine, 0, kThreshold);
  ASSERT_EQ(ring_length(t_heap, kClass), 1u);
  const Seized seized(t_heap);
  const Stopped stopped(two.theirs, kInSlowPath);  // by the other thread, which the child does not have
  in_fork_child([&] {
    EXPECT_EQ(t_heap->self.load(relaxed), t_heap) << "it goes on with its heap";
    EXPECT_EQ(t_heap->attached.load(relaxed), 1u);
    EXPECT_EQ(attached_heaps(), 1u);
    EXPECT_EQ(two.theirs->inside.load(relaxed), kOutside);
    EXPECT_EQ(held_by(t_heap), 0u);
    EXPECT_EQ(t_heap->slack.get(), 0u);
    EXPECT_EQ(t_heap->hot[kClass].get(), nullptr);
    EXPECT_EQ(state_of(span_of(mine[kThreshold])), SpanState::listed);
    EXPECT_EQ(remote_count(span_of(mine[kThreshold])), kThreshold);
    EXPECT_EQ(state_of(span_of(mine.back())), SpanState::shared) << "three are free";
    EXPECT_EQ(remote_count(span_of(mine.back())), 3u) << "the heap's list counts";
    const Blocks again = take_many(kThreshold);
    for (const void* block : again) EXPECT_EQ(owner_of(span_of(block)), t_heap);
    EXPECT_EQ(span_of(again[0]), span_of(mine[kThreshold])) << "adopted";
    give_now(mine, kThreshold);
    give_now(again);
    const Inside inside;
    empty_heap(t_heap);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

// The walk is another thread's, which the child made before its first slow call.
FRESH_TEST(Fork, TheOwnHeapWasSeizedAndANewThreadMakesTheWalk) {
  if (kSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in such a child";
  Two two;
  const Blocks mine = take_some();
  const Seized seized(t_heap);
  run_fresh([&] {
    Worker thread;
    Heap* other = nullptr;
    thread.run([&] {
      give(take());
      other = t_heap;
    });
    EXPECT_EQ(g_pending.load(relaxed), 0u) << "it has made the walk";
    EXPECT_EQ(t_heap->attached.load(relaxed), 1u);
    EXPECT_NE(other, t_heap);
    EXPECT_EQ(attached_heaps(), 2u);
    give_now(mine);
    EXPECT_EQ(check_everything(), 0u);
  });
}

// Another thread had counted a record, and not yet begun with it: its lists lead nowhere.
FRESH_TEST(Fork, ARecordWasInTheMaking) {
  Two two;
  const u32 index = g_registry.made.fetch_add(1, relaxed);
  ASSERT_EQ(record(index)->self.load(relaxed), nullptr);
  in_fork_child([&] {
    give(take());
    EXPECT_EQ(record(index)->self.load(relaxed), record(index));
    if constexpr (!kSanitizer) {  // ThreadSanitizer allows no threads in such a child
      Sleeper threads[3];
      bool got = false;
      for (Sleeper& sleeper : threads) {
        sleeper.thread.run([] { give(take()); });
        sleeper.thread.run([&] { got |= t_heap == record(index); });
      }
      EXPECT_TRUE(got);
    }
    EXPECT_EQ(check_everything(), 0u);
  });
}

// The first call of the child is a free, which finds the null heap.
FRESH_TEST(Fork, TheOwnHeapWasSeizedAndTheChildFrees) {
  Two two;
  const Blocks mine = take_some();
  const Seized seized(t_heap);
  run_fresh([&] {
    give(mine[0]);
    EXPECT_EQ(g_pending.load(relaxed), 0u) << "it is no fast path";
    EXPECT_EQ(t_heap->self.load(relaxed), t_heap);
    give_now(mine, 1);
    EXPECT_EQ(check_everything(), 0u);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

// Its thread was at the end of a free, its event still to come: a signal handler forked there, and the free goes on in
// the child. By then the span is nobody's; or another thread of the child has it.
FRESH_TEST(Fork, TheOwnHeapWasSeizedInTheMidstOfAFree) {
  Two two;
  const Blocks mine = take_some();
  Span* span = span_of(mine[0]);
  give_many(mine, 0, kThreshold - 1);
  Block* last = static_cast<Block*>(mine[kThreshold - 1]);
  ASSERT_TRUE(test::push_own(span, last));
  const Seized seized(t_heap);
  for (const bool adopted : {false, true}) {
    if (adopted && kSanitizer) continue;
    run_fresh([&] {
      Heap* other = nullptr;
      if (adopted) {
        settle_fork();
        Worker thread;
        thread.run([&] {
          take_many(kThreshold + 1);
          other = own_heap();
        });
        ASSERT_EQ(owner_of(span), other);
        local_event(span);
        EXPECT_EQ(owner_of(span), other);
        EXPECT_FALSE(stands_on_ring(span));
      } else {
        local_event(span);
        EXPECT_EQ(state_of(span), SpanState::listed);
        EXPECT_EQ(remote_count(span), kThreshold);
      }
      EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
      EXPECT_EQ(ring_length(t_heap, kClass), 0u);
      EXPECT_EQ(check_everything(), 0u);
    });
  }
  // In the parent, whoever has the heap gets the span by mail.
  local_event(span);
  EXPECT_EQ(state_of(span), SpanState::claimed);
}

// Heaps that wait are for the child's next threads, which start where it runs.
FRESH_TEST(Fork, HeapsOfVanishedThreadsWaitOnTheChildsProcessor) {
  Two two;
  os::fake::set_current_processor(3);
  in_fork_child([&] {
    // relaxed: the child has one thread.
    EXPECT_EQ(waiting_index(g_registry.waiting[0].newest.load(relaxed)), 0u);
    EXPECT_EQ(waiting_index(g_registry.waiting[3].newest.load(relaxed)), two.theirs->index.get());
  });
}

// Its floating spans were claimed, and mailed or not.
FRESH_TEST(Fork, MailOfAHeapThatLivesOnIsMailedAgain) {
  Two two;
  const Blocks mine = take_many(3 * kCapacity + 1);
  push_blocks(mine, 0, kThreshold);
  for (u32 i = 0; i < kThreshold; ++i) {
    Block* block = static_cast<Block*>(mine[kCapacity + i]);
    push_remote(span_of(block), block, block, 1);  // vanished before it mailed
  }
  ASSERT_EQ(state_of(span_of(mine[kCapacity])), SpanState::claimed);
  in_fork_child([&] {
    EXPECT_EQ(mail_of(t_heap), 2 * kSliceBytes);
    take_mail(t_heap);
    EXPECT_EQ(ring_length(t_heap, kClass), 2u);
    EXPECT_EQ(life_of(span_of(mine[2 * kCapacity])), SpanLife::floating);
  });
}

// --- Of a thread that vanished. ---

FRESH_TEST(Fork, AVanishedThreadsHeapWasSeized) {
  Two two;
  Blocks theirs;
  two.other.run([&] { theirs = take_some(); });
  push_blocks(theirs, 0, kThreshold);
  const Seized seized(two.theirs);
  in_fork_child([&] {
    EXPECT_EQ(two.theirs->self.load(relaxed), two.theirs);
    EXPECT_EQ(two.theirs->attached.load(relaxed), 0u);
    EXPECT_EQ(two.theirs->mailbox.load(relaxed), 0u);
    EXPECT_EQ(state_of(span_of(theirs[kThreshold])), SpanState::listed);
    EXPECT_EQ(state_of(span_of(theirs.back())), SpanState::shared);
    give_now(theirs, kThreshold);
    EXPECT_EQ(held_bytes(), 0u);
    if constexpr (!kSanitizer) {
      Worker thread;
      thread.run([&] { EXPECT_EQ(own_heap(), two.theirs); });
    }
  });
}

// The thread that forks had it: it gives it back in the parent, and in the child there is nothing to give back.
FRESH_TEST(Fork, WhoHasSeizedAHeapForks) {
  Two two;
  static Blocks theirs;
  two.other.run([&] { theirs = take_some(); });
  EXPECT_TRUE(seize_one(two.theirs, [](Heap* heap) {
    in_fork_child([&] {
      EXPECT_EQ(heap->self.load(relaxed), heap);
      give_now(theirs);
      EXPECT_EQ(held_bytes(), 0u);
    });
  }));
  EXPECT_EQ(two.theirs->self.load(relaxed), two.theirs);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Fork, AVanishedThreadWasInAFastPath) {
  Two two;
  Blocks theirs;
  two.other.run([&] { theirs = take_some(); });
  Span* span = span_of(theirs[0]);
  for (const uptr inside : {kPopping, kInSlowPath, at_work_on(span)}) {
    const Stopped stopped(two.theirs, inside);
    in_fork_child([&] {
      EXPECT_EQ(two.theirs->inside.load(relaxed), kOutside);
      EXPECT_EQ(state_of(span), SpanState::shared);
      EXPECT_EQ(owner_of(span), nullptr);
    });
  }
}

// --- Of one that had ended: its heap is whole, and stays so. ---

FRESH_TEST(Fork, HeapsOfEndedThreadsStayWhole) {
  Two two;
  const Ended third([] {
    const Blocks blocks = take_some();
    give_many(blocks, 0, kThreshold);
    return blocks;
  });
  Heap* const ended = third.heap;
  const Blocks& theirs = third.blocks;
  const usize held = held_by(ended);
  in_fork_child([&] {
    EXPECT_EQ(held_by(ended), held);
    EXPECT_EQ(reusable_of(ended), std::vector<Span*>{span_of(theirs[kThreshold])});
    EXPECT_EQ(ended->hot[kClass].get(), span_of(theirs.back()));
    EXPECT_NE(ended->blocks[kClass].get(), nullptr);
    give_now(theirs, kThreshold);
    EXPECT_TRUE(empty_one(ended));
    EXPECT_EQ(held_bytes(), 0u);
    if constexpr (!kSanitizer) {
      Worker one, another;
      Heap* heaps[2];
      one.run([&] { heaps[0] = own_heap(); });
      another.run([&] { heaps[1] = own_heap(); });
      EXPECT_NE(heaps[0], heaps[1]);
      EXPECT_TRUE(heaps[0] == ended || heaps[1] == ended) << "it waits for a thread";
    }
  });
}

FRESH_TEST(Fork, AnEndedThreadsHeapWasSeized) {
  Two two;
  const Ended third(take_some);
  Heap* const ended = third.heap;
  const Blocks& theirs = third.blocks;
  const Seized seized(ended);
  in_fork_child([&] {
    EXPECT_EQ(ended->self.load(relaxed), ended);
    EXPECT_EQ(held_by(ended), 0u);
    EXPECT_EQ(owner_of(span_of(theirs[0])), nullptr);
    give_now(theirs);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

FRESH_TEST(Fork, ASpanOfAnEndedThreadThatWasClaimedAndNotMailed) {
  Two two;
  const Ended third([] { return take_many(kCapacity + 1); });
  Heap* const ended = third.heap;
  Span* span = span_of(third.blocks[0]);
  ASSERT_TRUE(claim(span));
  in_fork_child([&] {
    EXPECT_EQ(owner_of(span), ended);
    EXPECT_EQ(ended->mailbox.load(relaxed), 0u) << "the child has taken it for the heap, which has no thread";
    EXPECT_EQ(state_of(span), SpanState::owned);
    EXPECT_EQ(reusable_of(ended), std::vector<Span*>{span});
    EXPECT_EQ(held_by(ended), 2 * kSliceBytes);
  });
}

// --- Between two steps of who has a heap. ---

// It had counted the span off, and it was still the heap's. Of the thread that forks, of the heap of threads without
// one, and of a thread that ended before.
FRESH_TEST(Fork, ASpanThatWasCountedOffAndNotHandedOn) {
  Two two;
  Blocks mine = take_many(kCapacity + 1), fallbacks;
  {
    const FallbackHeap fallback;
    bool zero = false;
    for (u32 i = 0; i < kCapacity + 1; ++i) fallbacks.push_back(allocate_block(fallback.get(), kClass, true, &zero));
  }
  const Ended third([] { return take_many(kCapacity + 1); });
  const Blocks& ended = third.blocks;
  const usize held = held_by(t_heap);
  Heap* const heap_of_ended = third.heap;
  for (const Blocks& blocks : {mine, fallbacks, ended}) {
    Span* span = span_of(blocks[0]);
    ASSERT_TRUE(claim(span));
    let_go(owner_of(span), span);
  }
  in_fork_child([&] {
    for (Heap* heap : {t_heap, heap_by_index(0), heap_of_ended}) {
      EXPECT_EQ(held_by(heap), held) << "its owner keeps it";
    }
    for (const Blocks& blocks : {mine, fallbacks}) {
      EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::claimed);
      EXPECT_TRUE(is_mailed(span_of(blocks[0])));
    }
    EXPECT_EQ(heap_of_ended->mailbox.load(relaxed), 0u) << "without a thread it has none: the child has taken it";
    EXPECT_EQ(state_of(span_of(ended[0])), SpanState::owned);
    EXPECT_EQ(owner_of(span_of(ended[0])), heap_of_ended);
    EXPECT_EQ(reusable_of(heap_of_ended), std::vector<Span*>{span_of(ended[0])});
    for (const Blocks& blocks : {mine, fallbacks, ended}) give_now(blocks);
    Allocator::trim(0);
    EXPECT_EQ(held_by(t_heap), 0u);
    EXPECT_EQ(held_bytes(), 0u);
  });
}

// Nobody's already, and not shared yet.
FRESH_TEST(Fork, ASpanThatWasHandedOnAndNotShared) {
  Two two;
  Blocks theirs;
  two.other.run([&] { theirs = take_many(kCapacity + 1); });
  Span* span = span_of(theirs[0]);
  ASSERT_TRUE(claim(span));
  let_go(two.theirs, span);
  span->owner.store(nullptr, relaxed);
  in_fork_child([&] { EXPECT_EQ(state_of(span), SpanState::shared); });
}

// The rings of vanished threads are nobody's.
FRESH_TEST(Fork, SpansStandOnNoRingOfAVanishedThread) {
  Two two;
  Blocks theirs;
  two.other.run([&] {
    theirs = take_many(3 * kCapacity);
    give_many(theirs, 0, kThreshold);
    give_many(theirs, kCapacity, kCapacity + kThreshold);
    ASSERT_EQ(ring_length(t_heap, kClass), 2u);
  });
  Span* span = span_of(theirs[kThreshold]);
  const SpanNumber next = span->ring_next.get();
  span->ring_next.set(12345);  // half written
  in_fork_child([&] {
    EXPECT_FALSE(stands_on_ring(span));
    EXPECT_EQ(ring_length(two.theirs, kClass), 0u);
    // The heap adopts both, uses them up, and keeps them as its own reusable ones.
    const Blocks again = take_many(2 * kThreshold + 1);
    ASSERT_EQ(owner_of(span), t_heap);
    ASSERT_EQ(life_of(span), SpanLife::floating);
    give_many(theirs, kThreshold, 2 * kThreshold);
    EXPECT_EQ(life_of(span), SpanLife::reusable);
    EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  });
  span->ring_next.set(next);
}

}  // namespace
}  // namespace coffer
