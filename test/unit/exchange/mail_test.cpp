// SPDX-License-Identifier: MIT
// Claimed spans: how they get to their owner, or to whoever has its heap. Orders of steps: test/unit/interleavings.
#include "exchange/mail.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "heap/refill.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr usize kWideSize = 32 * 1024;

// --- The box. ---

FRESH_TEST(Mail, TheLastThatCameLiesFirst) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(3);
  const std::vector<Blocks> wide = sleeper.fill(1, kWideSize);
  for (u32 i = 0; i < 2; ++i) push_blocks(spans[i], 0, kThreshold);
  push_blocks(wide[0], 0, 1);
  const u64 box = sleeper.heap->mailbox.load(relaxed);
  EXPECT_EQ(mail_first(box), span_number(span_of(wide[0][0])));
  EXPECT_EQ(mail_bytes(box), 10 * kSliceBytes);
  EXPECT_EQ(span_of(wide[0][0])->mail_next.load(relaxed), span_number(span_of(spans[1][0])));
  EXPECT_EQ(span_of(spans[1][0])->mail_next.load(relaxed), span_number(span_of(spans[0][0])));
  EXPECT_EQ(span_of(spans[0][0])->mail_next.load(relaxed), 0u);
  for (u32 i = 0; i < 3; ++i) EXPECT_EQ(is_mailed(span_of(spans[i][0])), i < 2);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Mail, FollowsAClaimOfEverySpan) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  Blocks hot, reusable, floating;
  sleeper.thread.run([&] {
    reusable = take_many(kCapacity);
    floating = take_many(kCapacity);
    hot = take_many(kCapacity - 2);
    give_many(reusable, 0, kThreshold);
  });
  ASSERT_EQ(life_of(span_of(reusable[10])), SpanLife::reusable);
  ASSERT_EQ(life_of(span_of(floating[0])), SpanLife::floating);
  ASSERT_EQ(life_of(span_of(hot[0])), SpanLife::hot);
  const struct {
    Blocks& blocks;
    usize from, count;
  } cases[] = {{reusable, kThreshold, kThreshold}, {floating, 0, kThreshold}, {hot, 0, kThreshold}};
  for (const auto& one : cases) {
    Span* span = span_of(one.blocks[0]);
    push_blocks(one.blocks, one.from, one.from + one.count - 1);
    EXPECT_EQ(state_of(span), SpanState::owned) << "one short";
    push_blocks(one.blocks, one.from + one.count - 1, one.from + one.count);
    EXPECT_EQ(state_of(span), SpanState::claimed);
    EXPECT_TRUE(is_mailed(span));
    // More pushes mail nothing again.
    const u64 box = sleeper.heap->mailbox.load(relaxed);
    push_blocks(one.blocks, one.from + one.count, one.from + one.count + 2);
    EXPECT_EQ(sleeper.heap->mailbox.load(relaxed), box);
  }
  EXPECT_EQ(check_everything(), 0u);
  sleeper.thread.run([&] {
    take_mail(t_heap);
    EXPECT_EQ(life_of(span_of(hot[0])), SpanLife::hot);
    EXPECT_EQ(ring_length(t_heap, kClass), 2u);
  });
  EXPECT_EQ(check_everything(), 0u);
}

// --- Taking it. ---

Span* make_claimed(u32 live) {
  Span* span = make_reusable(live);
  set_state(span, SpanState::claimed);
  return span;
}

FRESH_TEST(TakeMail, PlacesWhatIsThere) {
  start_tight(13 * kSize);  // and an eighth of three spans: twenty-five blocks
  Heap* heap = own_heap();
  count_as_several();
  Span* keeps = make_claimed(20);
  Span* listed = make_claimed(10);
  Span* empty = make_claimed(0);
  {
    const Stopped stopped(heap, kInSlowPath);
    for (Span* span : {empty, listed, keeps}) do_duty(span, PushDuty::claimed);
  }
  const Inside inside;
  take_mail(heap);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{keeps});
  EXPECT_EQ(state_of(keeps), SpanState::owned);
  EXPECT_EQ(claim_at_of(keeps), kThreshold) << "it can be claimed again";
  EXPECT_EQ(state_of(listed), SpanState::listed);
  EXPECT_EQ(state_of(empty), SpanState::free);
  EXPECT_EQ(held_by(heap), kSliceBytes);
  take_mail(heap);  // nothing
  EXPECT_EQ(ring_length(heap, kClass), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

// It was reusable when it was claimed, and stands on the ring.
FRESH_TEST(TakeMail, OfASpanOnTheRingCountsOnce) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = make_on_ring(20, kClass, &blocks);
  make_on_ring(10);
  const usize slack = heap->slack.get();
  push_blocks(blocks, 0, kThreshold);
  ASSERT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  take_mail(heap);
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(heap->slack.get(), slack + kThreshold * kSize);
  EXPECT_EQ(reusable_of(heap)[1], span) << "it keeps its place: still the oldest";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(TakeMail, OfTheHotSpanLeavesItHot) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, kThreshold);
  ASSERT_EQ(state_of(span), SpanState::claimed);
  push_blocks(blocks, kThreshold, kThreshold + 2);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(claim_at_of(span), 2 * kThreshold + 2) << "as many more claim it again";
  EXPECT_EQ(take(), blocks[kThreshold + 1]);
  EXPECT_EQ(claim_at_of(span), kCapacity / 2) << "its owner came for them";
  EXPECT_EQ(check_everything(), 0u);
}

// For a seizer: the span that the thread is at work on stays in the box.
FRESH_TEST(TakeMail, LeavesOneSpan) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(3);
  for (const Blocks& blocks : spans) push_blocks(blocks, 0, kThreshold);
  Span* one = span_of(spans[1][0]);
  take_mail(sleeper.heap, one);
  EXPECT_EQ(mail_of(sleeper.heap), kSliceBytes);
  EXPECT_EQ(mail_first(sleeper.heap->mailbox.load(relaxed)), span_number(one));
  EXPECT_EQ(one->mail_next.load(relaxed), 0u);
  EXPECT_EQ(state_of(one), SpanState::claimed);
  EXPECT_EQ(ring_length(sleeper.heap, kClass), 2u);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(sleeper.heap);
  EXPECT_EQ(ring_length(sleeper.heap, kClass), 3u);
}

// The owner goes on using a span that is in its box.
FRESH_TEST(TakeMail, AfterTheOwnerWentOnUsingTheSpan) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity - 4);
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, kCapacity / 2);
  ASSERT_EQ(state_of(span), SpanState::claimed);
  // All that is left of it, carved, freed or pushed, and then a new one.
  const Blocks more = take_many(4 + 3);
  for (u32 i = 0; i < 4; ++i) EXPECT_EQ(span_of(more[i]), span);
  give_many(blocks, kCapacity / 2, kCapacity / 2 + 3);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(check_everything(), 0u);
  give_now(more);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Who places the mail of a thread that does not come by. ---

FRESH_TEST(Mail, MayWaitUpToTheBudgetAndIsPlacedThen) {
  start_heaps(kSliceBytes);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(6);
  ASSERT_EQ(held_by(sleeper.heap), 6 * kSliceBytes);
  // The option and half of what it holds: four slices.
  const u64 barriers = fake::calls_of(fake::kBarrier);
  for (u32 i = 0; i < 3; ++i) {
    push_blocks(spans[i], 0, kThreshold);
    EXPECT_TRUE(is_mailed(span_of(spans[i][0]))) << i;
  }
  EXPECT_EQ(mail_of(sleeper.heap), 3 * kSliceBytes);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  push_blocks(spans[3], 0, kThreshold);
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1) << "one for all";
  EXPECT_EQ(ring_length(sleeper.heap, kClass), 4u) << "placed, within the sleeper's slack";
  EXPECT_EQ(check_everything(), 0u);
  push_blocks(spans[4], 0, kThreshold);
  EXPECT_TRUE(is_mailed(span_of(spans[4][0]))) << "there is room again";
}

FRESH_TEST(Mail, ThatIsPlacedBeyondTheSlackGetsToOthers) {
  start_tight(0);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  Span* span = span_of(spans[0][0]);
  // What may be in the box, a slice, is passed. Of its one span an eighth may be free, and with this it is a byte more.
  sleeper.heap->slack.set(1);
  push_blocks(spans[0], 0, kThreshold);
  sleeper.heap->slack.set(0);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(held_by(sleeper.heap), 0u);
  EXPECT_EQ(take(), spans[0][kThreshold - 1]) << "the next who needs one gets it";
  sleeper.thread.run([&] { give_now(spans[0], kThreshold); });
  EXPECT_EQ(check_everything(), 0u);
}

// The owner takes the mail at once, and has nothing left: no budget to divide by.
FRESH_TEST(Mail, ToAHeapThatHoldsNothingMeanwhile) {
  start_tight(0);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  Span* span = span_of(spans[0][0]);
  ASSERT_TRUE(claim(span));
  sleeper.heap->held.store(0, relaxed);
  do_duty(span, PushDuty::claimed);
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
}

// A thread inside a slow path cannot be helped: the pusher tries once for each time that the box has grown so much.
FRESH_TEST(Mail, OfAThreadInASlowPathWaits) {
  start_heaps(kSliceBytes);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(8);
  const u64 barriers = fake::calls_of(fake::kBarrier);
  {
    const Stopped stopped(sleeper.heap, kInSlowPath);
    for (const Blocks& blocks : spans) push_blocks(blocks, 0, kThreshold);
    EXPECT_EQ(mail_of(sleeper.heap), 8 * kSliceBytes);
    EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1) << "five slices are the budget";
    EXPECT_EQ(check_everything(), 0u);
  }
  sleeper.thread.run([] { take_mail(t_heap); });
  EXPECT_EQ(mail_of(sleeper.heap), 0u);
  EXPECT_EQ(ring_length(sleeper.heap, kClass), 8u);
  EXPECT_EQ(check_everything(), 0u);
}

// With mail to a thread inside a fast path the pusher has more luck.
FRESH_TEST(Mail, OfAThreadInAFastPathIsPlaced) {
  start_heaps(0);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(2);
  {
    const Stopped stopped(sleeper.heap, at_work_on(span_of(spans[0][0])));
    push_blocks(spans[0], 0, kThreshold);
    EXPECT_TRUE(is_mailed(span_of(spans[0][0]))) << "it is at work on that one";
    push_blocks(spans[1], 0, kThreshold);
    EXPECT_EQ(life_of(span_of(spans[1][0])), SpanLife::reusable);
    EXPECT_TRUE(is_mailed(span_of(spans[0][0])));
  }
  {
    const Stopped stopped(sleeper.heap, kPopping);
    push_blocks(spans[1], kThreshold, 2 * kThreshold);
    EXPECT_EQ(mail_of(sleeper.heap), 0u);
    EXPECT_EQ(ring_length(sleeper.heap, kClass), 2u);
  }
  EXPECT_EQ(check_everything(), 0u);
}

// --- The fallback heap. ---

Blocks fallback_blocks(u32 count) {
  Blocks blocks;
  const FallbackHeap fallback;
  bool zero = false;
  for (u32 i = 0; i < count; ++i) blocks.push_back(allocate_block(fallback.get(), kClass, true, &zero));
  return blocks;
}

FRESH_TEST(Mail, OfTheFallbackHeapIsPlacedOverTheBudget) {
  start_heaps(0);
  const Blocks blocks = fallback_blocks(2 * kCapacity + 1);
  push_blocks(blocks, 0, kThreshold);
  EXPECT_TRUE(is_mailed(span_of(blocks[0]))) << "half of three slices";
  {
    const FallbackHeap busy;
    push_blocks(blocks, kCapacity, kCapacity + kThreshold);
    EXPECT_EQ(mail_of(heap_by_index(0)), 2 * kSliceBytes) << "who has it is at work";
  }
  EXPECT_EQ(check_everything(), 0u);
  steal_from_heaps(Take::empty_spans);
  EXPECT_EQ(mail_of(heap_by_index(0)), 0u);
  EXPECT_EQ(ring_length(heap_by_index(0), kClass), 3u) << "and its hot span";
  EXPECT_EQ(check_everything(), 0u);
}

// --- The end of a thread, while others mail. ---

// One of the two sees the other: the thread that ends the mail, or who mails that the thread has ended.
FRESH_TEST(Mail, ToThreadsThatEndIsNeverLost) {
  constexpr u32 kRounds = 300;
  start_heaps(usize{64} << 20);
  own_heap();
  for (u32 round = 0; round < kRounds; ++round) {
    Blocks blocks;
    Heap* heap = nullptr;
    std::atomic<u32> stage{0};
    std::thread thread([&] {
      blocks = take_many(2 * kCapacity + 1);
      heap = t_heap;
      stage.store(1);
      while (stage.load() != 2) {
      }
      for (u32 i = 0; i < round % 40; ++i) compiler_fence();
    });
    while (stage.load() != 1) {
    }
    stage.store(2);
    push_blocks(blocks, 0, kThreshold);
    push_blocks(blocks, kCapacity, kCapacity + kThreshold);
    thread.join();
    ASSERT_EQ(heap->attached.load(relaxed), 0u);
    ASSERT_EQ(heap->mailbox.load(relaxed), 0u) << round;
    give_now(blocks, kThreshold, kCapacity);
    give_now(blocks, kCapacity + kThreshold);
    ASSERT_EQ(check_everything(), 0u);
  }
}

}  // namespace
}  // namespace coffer
