// SPDX-License-Identifier: MIT
#include "heap/ownership.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "heap/heaps.hpp"

namespace coffer {
namespace {

using namespace test;

// --- Where a reusable span goes. ---

// Places a span with `live` live blocks in a heap whose budget leaves `room` bytes; what became of it.
enum class Placed { kept, shared, listed, ended };
Placed placed(u32 live, usize room) {
  Heap* heap = own_heap();
  Span* span = make_reusable(live);
  const usize budget = slack_budget(config::options().slack, live == 0 ? 0 : held_by(heap), several_heaps());
  EXPECT_LE(room, budget);
  const usize slack = heap->slack.get();
  heap->slack.set(budget - room);
  const usize held = held_by(heap);
  place_again(span);
  if (owner_of(span) == heap) {
    EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
    EXPECT_EQ(heap->slack.get(), budget - room + span->ring_slack.get());
    leave_ring(heap, span);
    let_go(heap, span);
    heap->slack.set(slack);
    return Placed::kept;
  }
  EXPECT_TRUE(reusable_of(heap).empty());
  EXPECT_EQ(held_by(heap), held - kSlotBytes);
  heap->slack.set(slack);
  switch (state_of(span)) {
    case SpanState::free:
      return Placed::ended;
    case SpanState::listed:
      EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
      EXPECT_TRUE(g_partial_pool.remove(span));
      return Placed::listed;
    default:
      EXPECT_EQ(state_of(span), SpanState::shared);
      return Placed::shared;
  }
}

FRESH_TEST(Place, TheOnlyHeapKeepsAllButEmptySpans) {
  start_heaps();
  own_heap();
  EXPECT_EQ(placed(20, 0), Placed::kept);
  EXPECT_EQ(placed(1, 0), Placed::kept);
  let_come_back();
  EXPECT_EQ(placed(0, kSlotBytes), Placed::kept) << "an empty span counts whole";
  EXPECT_EQ(placed(0, kSlotBytes - 1), Placed::ended);
}

FRESH_TEST(Place, EndsAnEmptySpanUnlessItsClassCameBack) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  EXPECT_EQ(placed(0, kSlotBytes), Placed::ended);
  EXPECT_EQ(placed(0, kSlotBytes), Placed::ended) << "it was given up twice, and asked for never";
  class_came_back(heap, kClass);
  EXPECT_EQ(placed(0, kSlotBytes), Placed::kept);
}

FRESH_TEST(Place, AmongOthersTheSlackDecides) {
  start_heaps();
  own_heap();
  Worker other;
  other.run([] { own_heap(); });
  EXPECT_EQ(placed(20, 12 * kSize), Placed::kept);
  EXPECT_EQ(placed(20, 12 * kSize - 1), Placed::listed);
  EXPECT_EQ(placed(kCapacity - kThreshold + 1, 0), Placed::shared) << "too few free blocks for anybody else";
  let_come_back();
  EXPECT_EQ(placed(0, kSlotBytes), Placed::kept);
  EXPECT_EQ(placed(0, kSlotBytes - 1), Placed::ended);
}

FRESH_TEST(Place, SetsTheNextEventAndTheNextClaim) {
  start_heaps();
  Heap* heap = own_heap();
  let_come_back();
  const struct {
    u32 live, frees, claim_at;
  } cases[] = {{28, recount_step(kCapacity), kThreshold},
               {kThreshold + 1, kThreshold + 1, kThreshold},
               {kThreshold, kThreshold, kThreshold},
               {3, 3, 3},
               {1, 1, 1},
               {0, kNever, kNoClaim}};
  for (const auto& one : cases) {
    for (const SpanState from : {SpanState::hot, SpanState::floating, SpanState::reusable, SpanState::claimed}) {
      Span* span = make_reusable(one.live);
      set_state(span, from);
      place_again(span);
      EXPECT_EQ(state_of(span), SpanState::reusable);
      EXPECT_EQ(static_cast<u32>(span->countdown.get()), one.frees) << one.live;
      EXPECT_EQ(claim_at_of(span), one.claim_at) << one.live;
      EXPECT_EQ(local_count(span) + absent_count(span), kCapacity - one.live);
      leave_ring(heap, span);
    }
  }
}

// What others freed before is no reason to claim; what they free from then on is.
FRESH_TEST(Place, CountsRemoteFreesFromNowOn) {
  start_heaps();
  Blocks blocks;
  Span* span = make_reusable(20, kClass, &blocks);
  push_blocks(blocks, 0, 3);
  place_again(span);
  EXPECT_EQ(span->ring_slack.get(), 15 * kSize);
  EXPECT_EQ(claim_at_of(span), 3 + kThreshold);
  push_blocks(blocks, 3, 3 + kThreshold - 1);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  push_blocks(blocks, 3 + kThreshold - 1, 3 + kThreshold);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(span));
  EXPECT_EQ(check_everything(), 0u);
}

// What it counted for at its last event does not stand in its own way.
FRESH_TEST(Place, ASpanThatIsCountedAnewCountsOnce) {
  start_heaps(16 * kSize);
  Heap* heap = own_heap();
  Worker other;
  other.run([] { own_heap(); });
  Blocks blocks;
  Span* span = make_reusable(20, kClass, &blocks);
  place_again(span);
  ASSERT_EQ(heap->slack.get(), 12 * kSize);
  const u32 step = recount_step(kCapacity);
  ASSERT_EQ(step, 8u);
  give_many(blocks, 0, step);
  EXPECT_EQ(state_of(span), SpanState::reusable) << "the option, and a quarter of what is held";
  EXPECT_EQ(heap->slack.get(), 20 * kSize);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  give_many(blocks, step, 2 * step);
  EXPECT_EQ(state_of(span), SpanState::listed) << "twenty-eight are too many";
  EXPECT_EQ(heap->slack.get(), 0u);
}

// A push claimed it between the owner's look and its own step: whoever claimed it brings it.
FRESH_TEST(Place, LosesToAClaim) {
  start_heaps();
  Heap* heap = own_heap();
  for (const u32 live : {20u, 0u}) {
    for (const SpanState from : {SpanState::hot, SpanState::floating}) {
      Span* span = make_reusable(live);
      set_state(span, SpanState::claimed);
      const usize held = held_by(heap);
      {
        const Bracket bracket(heap, span);
        place(heap, span, from);
      }
      EXPECT_EQ(state_of(span), SpanState::claimed);
      EXPECT_EQ(owner_of(span), heap);
      EXPECT_EQ(held_by(heap), held);
      EXPECT_TRUE(reusable_of(heap).empty());
      EXPECT_EQ(span->countdown.get(), static_cast<i32>(kNever)) << "no event of its own";
    }
  }
}

FRESH_TEST(Place, ASpanWhoseRecordStandsOnAnothersRingIsHandedOn) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(20);
  Span* other = make_reusable(20);
  span->ring_of.store(ring_name(heap) + 1, relaxed);
  place_again(span);
  place_again(other);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{other});
  EXPECT_EQ(held_by(heap), kSlotBytes);
}

// --- Shedding. ---

FRESH_TEST(ShedSurplus, HandsOnTwoSpansACallFromOneClassAfterTheOther) {
  start_heaps(0);
  Heap* heap = own_heap();
  const ClassIndex classes[] = {compute_class(512), kClass, compute_class(2048)};
  // The heap is alone, so it keeps them all.
  for (const ClassIndex c : classes) {
    for (u32 i = 0; i < 2; ++i) place_again(make_reusable(1, c));
  }
  const auto left = [&] {
    return ring_length(heap, classes[0]) + ring_length(heap, classes[1]) + ring_length(heap, classes[2]);
  };
  shed_surplus(heap);
  EXPECT_EQ(left(), 6u) << "with one heap nobody starves";
  Worker other;
  other.run([] { own_heap(); });
  const usize held = held_by(heap);
  shed_surplus(heap);
  EXPECT_EQ(left(), 4u);
  EXPECT_EQ(held_by(heap), held - 2 * kSlotBytes);
  EXPECT_EQ(listed_spans().size(), 2u);
  shed_surplus(heap);
  shed_surplus(heap);
  EXPECT_EQ(left(), 0u);
  EXPECT_EQ(listed_spans().size(), 6u);
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ShedSurplus, StopsAtTheBudget) {
  start_heaps(0);
  Heap* heap = own_heap();
  for (u32 i = 0; i < 2; ++i) place_again(make_reusable(8));
  Worker other;
  other.run([] { own_heap(); });
  // A quarter of two spans is sixteen blocks, of the one that is left eight; twenty-four are free in each.
  test::changeable_options().slack = 16 * kSize;
  shed_surplus(heap);
  EXPECT_EQ(ring_length(heap, kClass), 1u);
  shed_surplus(heap);
  EXPECT_EQ(ring_length(heap, kClass), 1u);
}

// --- Mail. ---

Span* make_claimed(u32 live) {
  Span* span = make_reusable(live);
  set_state(span, SpanState::claimed);
  return span;
}

FRESH_TEST(Mail, IsTakenByItsOwner) {
  start_heaps();
  Heap* heap = own_heap();
  Span* first = make_claimed(20);
  Span* second = make_claimed(20);
  do_duty(&g_null_heap, first, PushDuty::claimed);
  do_duty(&g_null_heap, second, PushDuty::claimed);
  EXPECT_EQ(mail_first(heap->mailbox.load(relaxed)), span_number(second));
  EXPECT_EQ(mail_bytes(heap->mailbox.load(relaxed)), 2 * kSlotBytes);
  take_mail(heap);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{first, second}));
  EXPECT_TRUE(floating_of(heap).empty());
  EXPECT_EQ(held_by(heap), 2 * kSlotBytes);
  take_mail(heap);  // nothing
  EXPECT_EQ(ring_length(heap, kClass), 2u);
}

// It was reusable when it was claimed, and its record stands on the ring.
FRESH_TEST(Mail, OfASpanOnTheRingCountsOnce) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = make_reusable(20, kClass, &blocks);
  place_again(span);
  place_again(make_reusable(10));
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

FRESH_TEST(Mail, OfTheHotSpanLeavesItHot) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, kCapacity / 2);
  ASSERT_EQ(state_of(span), SpanState::claimed);
  push_blocks(blocks, kCapacity / 2, kCapacity / 2 + 2);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(state_of(span), SpanState::hot);
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
  EXPECT_EQ(claim_at_of(span), kCapacity / 2 + 3) << "the next push claims it again";
  EXPECT_EQ(take(), blocks[kCapacity / 2 + 1]);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Mail, OfAnEmptySpanEndsIt) {
  start_heaps();
  Heap* heap = own_heap();
  do_duty(&g_null_heap, make_claimed(0), PushDuty::claimed);
  take_mail(heap);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(held_by(heap), 0u);
}

FRESH_TEST(Mail, AClosedBoxStaysClosed) {
  start_heaps();
  Heap* heap = own_heap();
  heap->mailbox.store(kMailboxClosed, relaxed);
  take_mail(heap);
  EXPECT_EQ(heap->mailbox.load(relaxed), kMailboxClosed);
}

// --- Other duties. ---

FRESH_TEST(Duty, OfAnEmptySharedSpanIsToGiveItBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(0);
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::give_back);
  EXPECT_EQ(state_of(span), SpanState::free);
  span = make_reusable(20);
  give_up(heap, span, SpanState::reusable);
  ASSERT_EQ(listed_spans(), std::vector<Span*>{span});
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

// The two halves of it in the other order: whoever frees the last block comes before the one who lists.
FRESH_TEST(Duty, OfTwoTheSecondGivesTheSpanBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(0);
  set_state(span, SpanState::returning);
  do_duty(heap, span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::returning);
  do_duty(heap, span, PushDuty::list);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

// --- The heap's list. ---

FRESH_TEST(MergeHeapList, PutsItBeforeTheLocalList) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage + 1);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  Block* list = t_heap->blocks[kClass].get();
  ASSERT_NE(list, nullptr);
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->zero[kClass].get(), 0u);
  EXPECT_EQ(span->local_free.get(), list);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u);
  EXPECT_EQ(check_everything(), 0u);
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u);
}

FRESH_TEST(MergeHeapList, LeavesAListThatIsInBothPlaces) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  t_heap->blocks[kClass].set(span->local_free.get());  // as a fork child may find it
  merge_heap_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(local_count(span), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(ReleaseIdle, EndsSpansWithoutALiveBlockAndNoOther) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  let_come_back();
  // Idle, but its owner does not know: the last block was freed by another.
  Worker other;
  const Blocks idle = take_many(1, 64);
  other.run([&] { give_now(idle); });
  other.end();
  void* live = take(128);  // hot, in use
  place_again(make_reusable(0));
  Span* used = make_reusable(3);
  place_again(used);
  place_again(make_reusable(0));
  ASSERT_EQ(held_bytes(), 5 * kSlotBytes);
  release_idle(heap);
  EXPECT_EQ(heap->hot[compute_class(64)].get(), nullptr);
  EXPECT_EQ(heap->hot[compute_class(128)].get(), nullptr);
  EXPECT_EQ(reusable_of(heap, compute_class(128)), std::vector<Span*>{span_of(live)});
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{used});
  EXPECT_EQ(held_bytes(), 2 * kSlotBytes);
  EXPECT_EQ(held_by(heap), 2 * kSlotBytes);
  const u32 capacity = span_of(live)->capacity.get();
  EXPECT_EQ(heap->slack.get(), (kCapacity - 3) * kSize + (capacity - 1) * 128);
  // The list of the class in use was merged; the class goes on.
  EXPECT_EQ(span_of(take(128)), span_of(live));
}

}  // namespace
}  // namespace coffer
