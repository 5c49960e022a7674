// SPDX-License-Identifier: MIT
#include "exchange/ownership.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;

// --- Where a span with room goes. ---

usize budget_now() {
  const config::Options& options = config::options();
  const u32 heaps = attached_heaps();
  return slack_budget(options.slack, heaps_share_of(options.free_limit, heaps), held_by(own_heap()), heaps <= 1);
}
usize empties_budget_now() {
  const config::Options& options = config::options();
  return empties_budget(options.slack, heaps_share_of(options.free_limit, attached_heaps()));
}

// What a heap keeps, as it counts it: in partly used spans, and in empty ones.
void set_kept(Heap* heap, usize partly, usize empties) {
  heap->slack.set(partly + empties);
  heap->empties.set(empties);
}

// Places a span with `live` live blocks in a heap whose budget for such spans leaves `room` bytes, while it keeps far
// too much of the other kind; what became of it.
enum class Placed { kept, shared, listed, ended };
Placed placed(u32 live, usize room) {
  Heap* heap = own_heap();
  Span* span = make_reusable(live);
  const bool empty = live == 0;
  const usize budget = empty ? empties_budget_now() : budget_now();
  EXPECT_LE(room, budget);
  constexpr usize kMuch = usize{1} << 30;
  const usize partly = empty ? kMuch : budget - room, empties = empty ? budget - room : kMuch;
  set_kept(heap, partly, empties);
  const usize held = held_by(heap);
  place_again(span);
  const bool kept = owner_of(span) == heap;
  if (kept) {
    EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
    EXPECT_EQ(span->ring_slack.get(), empty ? kSliceBytes : (kCapacity - live) * kSize);
    EXPECT_EQ(heap->slack.get(), partly + empties + span->ring_slack.get());
    EXPECT_EQ(heap->empties.get(), empties + (empty ? kSliceBytes : 0));
    leave_ring(heap, span);
    let_go(heap, span);
  }
  EXPECT_TRUE(reusable_of(heap).empty());
  EXPECT_EQ(held_by(heap), held - kSliceBytes);
  EXPECT_EQ(heap->slack.get(), partly + empties);
  EXPECT_EQ(heap->empties.get(), empties);
  set_kept(heap, 0, 0);
  if (kept) return Placed::kept;
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

FRESH_TEST(Place, TheSlackDecides) {
  start_tight(kSliceBytes);
  own_heap();
  EXPECT_EQ(placed(20, 12 * kSize), Placed::kept);
  EXPECT_EQ(placed(20, 12 * kSize - 1), Placed::listed);
  EXPECT_EQ(placed(kCapacity - kThreshold + 1, 0), Placed::shared) << "too few free blocks for anybody else";
  EXPECT_EQ(placed(0, kSliceBytes), Placed::kept) << "an empty span counts whole";
  EXPECT_EQ(placed(0, kSliceBytes - 1), Placed::ended);
}

// The process may keep so much free; each heap its share.
FRESH_TEST(Place, HeapsShareWhatMayBeFree) {
  start_tight(0);
  set_free_limit(usize{64} << 20);
  const Blocks blocks = take_many(4 * kCapacity);
  Heap* heap = own_heap();
  Span* partly = make_reusable(20);
  Span* empty = make_reusable(0);
  ASSERT_EQ(budget_now(), (usize{32} << 20) + 6 * kSliceBytes / 2);
  ASSERT_EQ(empties_budget_now(), usize{32} << 20);
  // Half of what may be free: there is room for as much again as long as the heap is alone.
  set_kept(heap, budget_now() - (usize{16} << 20), usize{16} << 20);
  place_again(partly);
  place_again(empty);
  EXPECT_EQ(life_of(partly), SpanLife::reusable);
  EXPECT_EQ(life_of(empty), SpanLife::reusable);
  Worker other;
  other.run([] { own_heap(); });
  place_again(partly);
  place_again(empty);
  EXPECT_EQ(state_of(partly), SpanState::listed) << "half of that is another's now";
  EXPECT_EQ(state_of(empty), SpanState::free);
  set_kept(heap, 0, 0);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Place, SetsTheNextEventAndTheNextClaim) {
  start_heaps();
  Heap* heap = own_heap();
  const struct {
    u32 live, frees, claim_at;
  } cases[] = {{28, kThreshold, kThreshold},
               {kThreshold + 1, kThreshold + 1, kThreshold},
               {20, 12, kThreshold},
               {kThreshold, kThreshold, kThreshold},
               {3, 3, 3},
               {1, 1, 1},
               {0, kNever, kThreshold}};
  for (const auto& one : cases) {
    for (const SpanState from : {SpanState::owned, SpanState::claimed}) {
      Span* span = make_reusable(one.live);
      set_state(span, from);
      place_again(span);
      EXPECT_EQ(life_of(span), SpanLife::reusable);
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
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  push_blocks(blocks, 3 + kThreshold - 1, 3 + kThreshold);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(span));
  EXPECT_EQ(check_everything(), 0u);
}

// What it counted for at its last event does not stand in its own way.
FRESH_TEST(Place, ASpanThatIsCountedAnewCountsOnce) {
  start_tight(14 * kSize);
  Heap* heap = own_heap();
  count_as_several();
  Blocks blocks;
  Span* span = make_on_ring(kCapacity - 5, kClass, &blocks);
  ASSERT_EQ(heap->slack.get(), 5 * kSize);
  ASSERT_EQ(budget_now(), 18 * kSize) << "the option, and an eighth of what is held";
  give_many(blocks, 0, 5);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(heap->slack.get(), 10 * kSize);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  give_many(blocks, 5, 15);
  EXPECT_EQ(state_of(span), SpanState::listed) << "twenty are too many";
  EXPECT_EQ(heap->slack.get(), 0u);
}

// The same for one that is empty, and for one that becomes so: it goes from one budget to the other.
FRESH_TEST(Place, AnEmptySpanCountsOnceAndInItsOwnBudget) {
  start_tight(kSliceBytes);
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = make_on_ring(kCapacity - 24, kClass, &blocks);
  ASSERT_EQ(heap->slack.get(), 24 * kSize);
  ASSERT_EQ(heap->empties.get(), 0u);
  give_many(blocks);
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
    EXPECT_EQ(heap->slack.get(), kSliceBytes);
    EXPECT_EQ(heap->empties.get(), kSliceBytes);
    place_again(span);
  }
  // The budget for partly used spans is still there, and that for empty ones is full.
  make_on_ring(20);
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(heap->slack.get(), kSliceBytes + 12 * kSize);
  EXPECT_EQ(heap->empties.get(), kSliceBytes);
  const usize held = held_bytes();
  make_on_ring(0);
  EXPECT_EQ(held_bytes(), held) << "it ended";
  EXPECT_EQ(ring_length(heap, kClass), 2u);
  EXPECT_EQ(check_everything(), 0u);
  // Blocks come from the oldest, which was empty.
  take();
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(heap->slack.get(), 12 * kSize);
  EXPECT_EQ(heap->empties.get(), 0u);
}

// A push claimed it between the owner's look and its own step: whoever claimed it brings it.
FRESH_TEST(Place, LosesToAClaim) {
  start_heaps();
  Heap* heap = own_heap();
  for (const u32 live : {20u, 0u}) {
    Span* span = make_reusable(live);
    set_state(span, SpanState::claimed);
    const usize held = held_by(heap);
    for (const bool up : {false, true}) {
      const Inside inside;
      up ? give_up(heap, span) : place(heap, span);
      EXPECT_EQ(state_of(span), SpanState::claimed);
      EXPECT_EQ(owner_of(span), heap);
      EXPECT_EQ(held_by(heap), held);
      EXPECT_TRUE(reusable_of(heap).empty());
      EXPECT_EQ(span->countdown.get(), static_cast<i32>(kNever)) << "no event of its own";
    }
  }
}

FRESH_TEST(Place, CountsASpanAnewWithoutAnAtomicWhileItsClaimStays) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = make_on_ring(20, kClass, &blocks);
  const u64 word = span->remote.load(relaxed);
  ASSERT_EQ(span->countdown.get(), 12);
  give_many(blocks, 0, 12);
  EXPECT_EQ(span->remote.load(relaxed), word);
  EXPECT_EQ(heap->slack.get(), 24 * kSize);
  EXPECT_EQ(span->countdown.get(), 8) << "then it is empty";
  EXPECT_EQ(claim_at_of(span), kThreshold);
  EXPECT_EQ(check_everything(), 0u);
}

// Its last block must claim it, so pushes that saw the old claim_at have to look again.
FRESH_TEST(Place, LowersTheClaimByAnAtomic) {
  start_heaps();
  Blocks blocks;
  Span* span = make_on_ring(20, kClass, &blocks);
  push_blocks(blocks, 0, kThreshold - 1);
  give_many(blocks, kThreshold - 1, kThreshold + 11);
  const u64 word = span->remote.load(relaxed);
  EXPECT_EQ(claim_at_of(span), kThreshold - 1 + kThreshold) << "counted from what waited";
  span->claim_at.store(kCapacity, relaxed);
  place_again(span);
  EXPECT_NE(span->remote.load(relaxed), word);
  EXPECT_EQ(claim_at_of(span), kThreshold - 1 + kThreshold);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Handing on all of it. ---

FRESH_TEST(EmptyHeap, HandsOnAllButFloatingSpans) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  Worker other;
  Blocks theirs;
  other.run([&] { theirs = take_many(3, 64); });
  const Blocks full = take_many(kCapacity), mailed = take_many(kCapacity), some = take_many(kCapacity);
  const Blocks hot = take_many(kBlocksPerPage + 1);
  give_many(some, 0, 8);
  give(hot[2]);
  push_blocks(mailed, 0, kThreshold);
  ASSERT_EQ(life_of(span_of(some[8])), SpanLife::reusable);
  ASSERT_EQ(state_of(span_of(mailed[8])), SpanState::claimed);
  give_many(theirs, 0, 2);
  ASSERT_EQ(held_back(heap), 2u);
  {
    const Inside inside;
    empty_heap(heap);
  }
  EXPECT_EQ(life_of(span_of(full[0])), SpanLife::floating);
  EXPECT_EQ(owner_of(span_of(full[0])), heap);
  EXPECT_EQ(held_by(heap), kSliceBytes);
  EXPECT_EQ(listed_spans().size(), 3u);
  EXPECT_EQ(remote_count(span_of(some[8])), 8u);
  EXPECT_EQ(remote_count(span_of(mailed[8])), kThreshold);
  EXPECT_EQ(remote_count(span_of(hot[0])), kCapacity - kBlocksPerPage) << "list, local list and absent pages";
  EXPECT_EQ(remote_count(span_of(theirs[0])), 2u) << "the chain is pushed";
  EXPECT_EQ(heap->slack.get(), 0u);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    EXPECT_EQ(heap->blocks[c].get(), nullptr);
    EXPECT_EQ(heap->hot[c].get(), nullptr);
    EXPECT_EQ(heap->reusable[c].get(), 0u);
  }
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(owner_of(span_of(take())), heap) << "it goes on";
  EXPECT_EQ(held_by(heap), 2 * kSliceBytes) << "with one that was listed";
}

// What a robber takes: spans that are half empty, of what was carved.
FRESH_TEST(GiveUpHalfEmpty, TakesWhatIsHalfFree) {
  start_heaps();
  Heap* heap = own_heap();
  constexpr u32 kHalf = kCapacity / 2;
  const Blocks blocks = take_many(kHalf + 1);
  Span* span = span_of(blocks[0]);
  Span* full = make_reusable(kHalf);  // half of its blocks, but none that was carved
  Blocks taken;
  Span* room = make_reusable(kHalf + kBlocksPerPage / 2, kClass, &taken);
  give_many(taken, 0, kHalf - kBlocksPerPage / 2);
  place_again(full);
  place_again(room);
  const auto give_it_up = [&] {
    const Inside inside;
    give_up_half_empty(heap, 64);
  };
  give_it_up();
  EXPECT_EQ(life_of(span), SpanLife::hot) << "three of twenty";
  EXPECT_EQ(life_of(full), SpanLife::reusable);
  EXPECT_EQ(state_of(room), SpanState::listed);
  ASSERT_TRUE(g_partial_pool.adopt(kClass, 0, [&](Span* listed) { return take_over(heap, listed); }) == room);
  place_again(room);
  EXPECT_EQ(take(), static_cast<char*>(blocks.back()) + kSize) << "its list was not touched";
  give_many(blocks, 0, 7);
  give_it_up();
  EXPECT_EQ(life_of(span), SpanLife::hot);
  give(blocks[7]);
  give_it_up();
  EXPECT_EQ(state_of(span), SpanState::listed) << "two on the heap's list, and eight freed";
  EXPECT_EQ(remote_count(span), kCapacity - kHalf + 6);
  EXPECT_EQ(check_everything(), 0u);
}

// Of each ring so many, the newest.
FRESH_TEST(GiveUpHalfEmpty, LooksAtSoManyOfARing) {
  start_heaps();
  Heap* heap = own_heap();
  Span* spans[3];
  for (Span*& span : spans) place_again(span = make_reusable(1));
  Span* other = make_on_ring(1, compute_class(512));
  const Inside inside;
  give_up_half_empty(heap, 2);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{spans[0]});
  EXPECT_EQ(state_of(other), SpanState::listed);
  give_up_half_empty(heap, 2);
  EXPECT_TRUE(reusable_of(heap).empty());
  EXPECT_EQ(heap->slack.get(), 0u);
}

FRESH_TEST(GiveUpHalfEmpty, GivesBackTheSlicesOfLargeBlocksThatTheHeapKeeps) {
  start_heaps();
  for (u32 times = 0; times < 2; ++times) give(take(200 * 1024));
  ASSERT_NE(t_heap->kept_slices.get(), 0u);
  const Inside inside;
  give_up_half_empty(inside.heap(), 64);
  EXPECT_EQ(t_heap->kept_slices.get(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

// A push claimed it, and the mail is on its way: it is the heap's, but hot no more.
FRESH_TEST(GiveUpHalfEmpty, LosesToAClaim) {
  start_heaps();
  Heap* heap = own_heap();
  const Blocks blocks = take_many(8);
  Span* span = span_of(blocks[0]);
  give_many(blocks, 1, 5);
  ASSERT_TRUE(claim(span));
  {
    const Inside inside;
    give_up_half_empty(heap, 64);
  }
  EXPECT_EQ(heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(owner_of(span), heap);
  EXPECT_EQ(held_by(heap), kSliceBytes);
  give(blocks[0]);
  do_duty(span, PushDuty::claimed);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(heap);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(heap->slack.get(), (kCapacity - 3) * kSize);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Other duties. ---

// All its blocks are free, and somebody has the duty to end it.
void make_returning(Span* span, SpanState state) {
  span->remote.store(load_word(span, relaxed).with(state, kCapacity, 0).bits(), relaxed);
}

FRESH_TEST(Duty, OfAnEmptySharedSpanIsToGiveItBack) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(0);
  make_returning(span, SpanState::shared);
  do_duty(span, PushDuty::give_back);
  EXPECT_EQ(state_of(span), SpanState::free);
  span = make_reusable(20);
  give_up(heap, span);
  ASSERT_EQ(listed_spans(), std::vector<Span*>{span});
  make_returning(span, SpanState::listed);
  do_duty(span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

// The two halves of it in the other order: whoever frees the last block comes before the one who lists.
FRESH_TEST(Duty, OfTwoTheSecondGivesTheSpanBack) {
  start_heaps();
  own_heap();
  Span* span = make_reusable(0);
  make_returning(span, SpanState::listed);
  do_duty(span, PushDuty::take_off);
  EXPECT_EQ(state_of(span), SpanState::listed);
  do_duty(span, PushDuty::list);
  EXPECT_EQ(state_of(span), SpanState::free);
  EXPECT_TRUE(listed_spans().empty());
}

FRESH_TEST(ReleaseIdle, EndsSpansWithoutALiveBlockAndNoOther) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  const Blocks idle = take_many(1, 64);
  give_many(idle);         // hot, without a live block
  void* live = take(128);  // hot, in use
  make_on_ring(0);
  Span* used = make_on_ring(3);
  make_on_ring(0);
  ASSERT_EQ(held_bytes(), 5 * kSliceBytes);
  {
    const Inside inside;
    release_idle(heap);
  }
  EXPECT_EQ(heap->hot[compute_class(64)].get(), nullptr);
  EXPECT_EQ(heap->hot[compute_class(128)].get(), nullptr);
  EXPECT_EQ(reusable_of(heap, compute_class(128)), std::vector<Span*>{span_of(live)});
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{used});
  EXPECT_EQ(held_bytes(), 2 * kSliceBytes);
  EXPECT_EQ(held_by(heap), 2 * kSliceBytes);
  const u32 capacity = span_of(live)->capacity.get();
  EXPECT_EQ(heap->slack.get(), (kCapacity - 3) * kSize + (capacity - 1) * 128);
  // The list of the class in use went back; the class goes on.
  EXPECT_EQ(span_of(take(128)), span_of(live));
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
