// SPDX-License-Identifier: MIT
// What `inside` and `self` of a heap say, and the process whose kernel offers no barrier: its calls have fences, and
// both fast paths are closed.
#include "exchange/inside.hpp"

#include <gtest/gtest.h>

#include "heap/refill.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

// --- What a call says. ---

FRESH_TEST(Inside, LastsAsLongAsTheCall) {
  start_heaps();
  Heap* heap = own_heap();
  EXPECT_EQ(heap->inside.load(relaxed), kOutside);
  {
    Inside inside;
    EXPECT_EQ(heap->inside.load(relaxed), kInSlowPath);
    EXPECT_EQ(inside.heap(), heap);
    EXPECT_EQ(inside.own(), heap);
  }
  EXPECT_EQ(heap->inside.load(relaxed), kOutside);
  const Seized seized(heap);
  {
    Inside inside;
    EXPECT_EQ(heap->inside.load(relaxed), kInSlowPath) << "of the thread's heap, whoever has it";
    EXPECT_EQ(inside.heap(), &g_null_heap);
    EXPECT_EQ(inside.own(), nullptr) << "it gets no second one";
  }
  EXPECT_EQ(heap->inside.load(relaxed), kOutside);
}

FRESH_TEST(Inside, OfANewThreadGetsAHeap) {
  start_heaps();
  Worker other;
  other.run([] {
    {
      Inside inside;
      EXPECT_EQ(inside.heap(), &g_null_heap);
      Heap* heap = inside.own();
      EXPECT_EQ(heap, t_heap);
      EXPECT_EQ(heap->inside.load(relaxed), kInSlowPath);
    }
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  });
}

// In a signal handler, wherever the thread is.
FRESH_TEST(Inside, AgainLeavesWhatItFound) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(8);
  for (const uptr before : {kOutside, kPopping, kInSlowPath, at_work_on(span)}) {
    const Stopped stopped(heap, before);
    {
      const InsideAgain again;
      EXPECT_EQ(again.heap(), heap);
      EXPECT_EQ(heap->inside.load(relaxed), kInSlowPath);
    }
    EXPECT_EQ(heap->inside.load(relaxed), before);
  }
}

// Every way through malloc and free ends outside.
void expect_to_end_outside() {
  Heap* heap = t_heap;
  Blocks theirs;
  Worker other;
  other.run([&] { theirs = take_many(3 * kCapacity); });
  const auto is_outside = [&] { return heap->inside.load(relaxed) == kOutside; };
  for (const usize size :
       {usize{1}, usize{64}, kSize, usize{20'000}, usize{32} << 10, usize{100'000}, usize{5} << 20}) {
    Blocks blocks;
    for (u32 i = 0; i < 70; ++i) {
      blocks.push_back(take(size));
      ASSERT_TRUE(is_outside()) << size << ", block " << i;
    }
    for (void* block : blocks) {
      give(block);
      ASSERT_TRUE(is_outside()) << size;
    }
    void* block = take(size);
    deallocate_as<Claim::size>(block, size);
    ASSERT_TRUE(is_outside()) << size;
  }
  for (void* block : theirs) {
    give(block);
    ASSERT_TRUE(is_outside());
  }
  give(nullptr);
  Allocator::trim(0);
  ASSERT_TRUE(is_outside());
}

FRESH_TEST(Inside, EveryCallEndsOutside) {
  start_heaps();
  own_heap();
  expect_to_end_outside();
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Inside, EveryCallEndsOutsideWithMixedSpans) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::always;
  own_heap();
  expect_to_end_outside();
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Inside, EveryCallEndsOutsideWhileTheHeapIsSeized) {
  start_heaps();
  own_heap();
  {
    const Seized seized(t_heap);
    expect_to_end_outside();
  }
  EXPECT_EQ(check_everything(), 0u);
}

// --- A thread whose heap another has. ---

FRESH_TEST(SeizedThread, AllocatesFromTheFallbackHeapAndFreesAsAStranger) {
  start_heaps();
  const Blocks mine = take_many(kCapacity + 3);
  Span* span = span_of(mine[0]);
  Heap* heap = t_heap;
  ASSERT_NE(heap->blocks[kClass].get(), nullptr);
  Block* list = heap->blocks[kClass].get();
  Blocks blocks;
  {
    const Seized seized(heap);
    blocks = take_many(2 * kCapacity);
    for (const void* block : blocks) ASSERT_EQ(owner_of(span_of(block)), heap_by_index(0));
    EXPECT_EQ(heap->blocks[kClass].get(), list) << "untouched";
    give(mine[0]);
    EXPECT_EQ(remote_count(span), 1u);
    EXPECT_EQ(local_count(span), 0u);
    EXPECT_EQ(held_back(heap), 0u) << "nor is anything held back";
    give(mine[kCapacity]);
    EXPECT_EQ(remote_count(span_of(mine[kCapacity])), 1u) << "of its hot span, too";
    void* large = take(100'000);
    ASSERT_NE(large, nullptr);
    give(large);
    EXPECT_EQ(t_heap, heap);
  }
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(take(), list) << "it goes on";
  give_now(blocks);
  give(mine[1]);
  EXPECT_EQ(local_count(span), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

// Its own push claims the span: the mail waits for whoever has the heap, or the thread.
FRESH_TEST(SeizedThread, MailsItsOwnSpanToItself) {
  start_heaps();
  const Blocks mine = take_many(kCapacity + 1);
  Span* span = span_of(mine[0]);
  {
    const Seized seized(t_heap);
    give_many(mine, 0, kThreshold);
    EXPECT_EQ(state_of(span), SpanState::claimed);
    EXPECT_EQ(mail_of(t_heap), kSliceBytes);
  }
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
}

// The heap is seized between the fast path of a free and its event.
FRESH_TEST(SeizedThread, AnEventClaimsTheSpanAndMailsIt) {
  start_heaps();
  const Blocks mine = take_many(kCapacity + 1);
  Span* span = span_of(mine[0]);
  Heap* heap = t_heap;
  give_many(mine, 0, kThreshold - 1);
  EXPECT_TRUE(push_own(span, mine[kThreshold - 1]));
  {
    const Seized seized(heap);
    local_event(span);
    EXPECT_EQ(heap->inside.load(relaxed), kOutside);
    EXPECT_EQ(state_of(span), SpanState::claimed);
    EXPECT_EQ(owner_of(span), heap);
    EXPECT_TRUE(is_mailed(span));
    EXPECT_EQ(mail_of(heap), kSliceBytes);
    EXPECT_EQ(span->countdown.get(), static_cast<i32>(kNever)) << "no event of its own";
    EXPECT_EQ(local_count(span), kThreshold);
    EXPECT_TRUE(reusable_of(heap).empty()) << "the heap is another's now";
  }
  EXPECT_EQ(check_everything(), 0u);
  // The thread goes on freeing in it, and whoever takes the mail places it.
  give(mine[kThreshold]);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(local_count(span), kThreshold + 1);
  EXPECT_EQ(heap->slack.get(), 0u);
  take_mail(heap);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  EXPECT_EQ(heap->slack.get(), (kThreshold + 1) * kSize);
  EXPECT_EQ(mail_of(heap), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// A push was first: the mail is in the box already, once.
FRESH_TEST(SeizedThread, AnEventOfAClaimedSpanMailsNothing) {
  start_heaps();
  const Blocks mine = take_many(2 * kCapacity + 1);
  Span* span = span_of(mine[0]);
  Heap* heap = t_heap;
  give_many(mine, 0, kThreshold - 1);
  EXPECT_TRUE(push_own(span, mine[kThreshold - 1]));
  push_blocks(mine, kThreshold, 2 * kThreshold);
  push_blocks(mine, kCapacity, kCapacity + kThreshold);
  ASSERT_EQ(mail_of(heap), 2 * kSliceBytes);
  {
    const Seized seized(heap);
    local_event(span);
    ASSERT_EQ(mail_of(heap), 2 * kSliceBytes);
    EXPECT_EQ(span->countdown.get(), static_cast<i32>(kNever));
  }
  take_mail(heap);
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(heap->slack.get(), 3 * kThreshold * kSize);
  EXPECT_EQ(check_everything(), 0u);
}

// So is one of the hot span, which stays hot.
FRESH_TEST(SeizedThread, AnEventOfTheHotSpanIsMailedToo) {
  start_heaps();
  const Blocks mine = take_many(4);
  Span* span = span_of(mine[0]);
  {
    const Seized seized(t_heap);
    local_event(span);
    EXPECT_EQ(state_of(span), SpanState::claimed);
    EXPECT_TRUE(is_mailed(span));
    EXPECT_EQ(span->countdown.get(), static_cast<i32>(kFreesOfALook)) << "it goes on looking whether lists are watched";
  }
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(SeizedThread, MisuseIsFoundAllTheSame) {
  start_heaps();
  const Blocks mine = take_many(8);
  give(mine[0]);
  t_heap->self.store(&g_null_heap, relaxed);
  const Outcome middle = outcome_of([&] { give(static_cast<char*>(mine[1]) + 16); });
  EXPECT_TRUE(middle.aborted());
  give(mine[2]);
  const Outcome again = outcome_of([&] { give(mine[2]); });
  EXPECT_TRUE(again.aborted());
  EXPECT_NE(again.errors.find("already free"), std::string::npos) << again.errors;
}

// --- Fast paths. ---

FRESH_TEST(Inside, NeedsNoFenceWhereThereIsABarrier) {
  start_heaps();
  take();
  if (!os::has_barrier()) GTEST_SKIP() << "this kernel has none";
  EXPECT_FALSE(fences_calls());
  const Arena& arena = g_arenas.arenas[0];
  EXPECT_EQ(arena.fast_frontier.load(relaxed), arena.frontier.load(relaxed));
  EXPECT_GT(arena.fast_frontier.load(relaxed), 0u);
  EXPECT_EQ(arena.fast_sizes.load(relaxed), kLargestSmall + 1);
}

// --- Without a barrier. ---

void start_without_barrier(usize slack = usize{64} << 10) {
  fake::set_barrier(false);
  start_heaps(slack);
}

FRESH_TEST(NoBarrier, BothFastPathsAreClosed) {
  start_without_barrier();
  const Blocks blocks = take_many(kCapacity + 1);
  EXPECT_TRUE(fences_calls());
  const Arena& arena = g_arenas.arenas[0];
  EXPECT_EQ(arena.fast_frontier.load(relaxed), 0u);
  EXPECT_GT(arena.frontier.load(relaxed), 0u);
  EXPECT_EQ(arena.fast_sizes.load(relaxed), 0u);
  ASSERT_NE(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(allocate_fast(kSize), nullptr);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
}

// A thread that saw that the fast path is to be opened, before another made the start.
FRESH_TEST(NoBarrier, NobodyOpensThemAgain) {
  start_without_barrier();
  take();
  g_pending.fetch_or(kFastPathClosed, relaxed);
  settle_fork();
  EXPECT_EQ(g_arenas.arenas[0].fast_sizes.load(relaxed), 0u);
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
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
    EXPECT_EQ(held_back(t_heap), 0u);
  }
  give(blocks[kThreshold - 1]);
  EXPECT_EQ(life_of(span), SpanLife::reusable) << "events come, too";
  give_many(blocks, kThreshold, kCapacity);
  EXPECT_EQ(t_heap->slack.get(), kSliceBytes);
  const Blocks wide = take_many(9, 32 * 1024);
  give(wide[7]);
  EXPECT_EQ(life_of(span_of(wide[0])), SpanLife::reusable) << "and from later slices";
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
    EXPECT_EQ(held_back(t_heap), 2u);
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
    close_chains(t_heap);
  });
  EXPECT_EQ(remote_count(span), 2u);
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, EveryCallEndsOutside) {
  start_without_barrier();
  own_heap();
  expect_to_end_outside();
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, LargeBlocksAreFreed) {
  start_without_barrier();
  void* slices = take(100'000);
  void* chunks = take(5 << 20);
  give(slices);
  give(chunks);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(NoBarrier, HeapsAreSeizedByAFence) {
  start_without_barrier();
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  push_blocks(spans[0], 0, kThreshold);
  EXPECT_TRUE(empty_one(sleeper.heap));
  EXPECT_EQ(state_of(span_of(spans[0][0])), SpanState::listed);
  {
    const Stopped stopped(sleeper.heap, kInSlowPath);
    EXPECT_FALSE(empty_one(sleeper.heap));
  }
  EXPECT_EQ(fake::calls_of(fake::kBarrier), 0u);
  EXPECT_EQ(check_everything(), 0u);
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

}  // namespace
}  // namespace coffer
