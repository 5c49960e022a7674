// SPDX-License-Identifier: MIT
// Rings of reusable spans: their links outlive the spans, so what stands on one may be anything by now.
#include "heap/ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "heap/heaps.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kOtherSize = 2 * kSize;
constexpr ClassIndex kOther = compute_class(kOtherSize);

FRESH_TEST(Ring, AnyRecordMayLeaveAndTheOldestIsPopped) {
  start_heaps();
  Heap* heap = own_heap();
  std::vector<Span*> spans;
  for (u32 i = 0; i < 4; ++i) spans.push_back(make_reusable(kCapacity));
  EXPECT_EQ(pop_ring(heap, kClass), nullptr);
  EXPECT_EQ(ring_length(heap, kClass), 0u);
  std::vector<u32> order = {0, 1, 2, 3};
  do {
    for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(push_ring(heap, spans[i], 100u << i));
    EXPECT_EQ(heap->slack.get(), 1500u);
    EXPECT_EQ(ring_length(heap, kClass), 4u);
    std::vector<Span*> left(spans.rbegin(), spans.rend());
    for (const u32 i : order) {
      const usize slack = heap->slack.get();
      if (spans[i] == left.back()) {
        EXPECT_EQ(pop_ring(heap, kClass), spans[i]);
      } else {
        leave_ring(heap, spans[i]);
      }
      left.erase(std::find(left.begin(), left.end(), spans[i]));
      EXPECT_EQ(reusable_of(heap), left);
      EXPECT_EQ(ring_length(heap, kClass), left.size());
      EXPECT_EQ(heap->slack.get(), slack - (100u << i));
      EXPECT_EQ(spans[i]->ring_of.load(relaxed), 0u);
    }
    EXPECT_EQ(heap->reusable[kClass].get(), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

FRESH_TEST(Ring, WhoJoinsAgainIsTheNewestAndCountsOnce) {
  start_heaps();
  Heap* heap = own_heap();
  std::vector<Span*> spans;
  for (u32 i = 0; i < 3; ++i) {
    spans.push_back(make_reusable(kCapacity));
    EXPECT_TRUE(push_ring(heap, spans[i], 10));
  }
  EXPECT_TRUE(push_ring(heap, spans[0], 7));
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{spans[0], spans[2], spans[1]}));
  EXPECT_EQ(heap->slack.get(), 27u);
  EXPECT_TRUE(push_ring(heap, spans[0], 8)) << "the newest may, too";
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{spans[0], spans[2], spans[1]}));
  EXPECT_EQ(heap->slack.get(), 28u);
  for (Span* span : spans) leave_ring(heap, span);
  EXPECT_TRUE(push_ring(heap, spans[1], 5));
  EXPECT_TRUE(push_ring(heap, spans[1], 6)) << "and the only one";
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{spans[1]});
  EXPECT_EQ(heap->slack.get(), 6u);
  leave_ring(heap, spans[1]);
  leave_ring(heap, spans[1]);
  EXPECT_EQ(heap->slack.get(), 0u);
}

FRESH_TEST(Ring, ARecordMayBeCountedAnewAndKeepsItsPlace) {
  start_heaps();
  Heap* heap = own_heap();
  Span* oldest = make_reusable(kCapacity);
  Span* newest = make_reusable(kCapacity);
  EXPECT_FALSE(stands_on_ring(heap, oldest));
  EXPECT_TRUE(push_ring(heap, oldest, 10));
  EXPECT_TRUE(push_ring(heap, newest, 10));
  EXPECT_TRUE(stands_on_ring(heap, oldest));
  set_ring_slack(heap, oldest, 3);
  EXPECT_EQ(heap->slack.get(), 13u);
  set_ring_slack(heap, oldest, 30);
  EXPECT_EQ(heap->slack.get(), 40u);
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{newest, oldest}));
  // It stands there since an earlier life, of another class.
  const u8 own = oldest->size_class.get();
  oldest->size_class.set(own + 1);
  EXPECT_FALSE(stands_on_ring(heap, oldest));
  oldest->size_class.set(own);
  EXPECT_EQ(pop_ring(heap, kClass), oldest);
  EXPECT_FALSE(stands_on_ring(heap, oldest));
  EXPECT_EQ(heap->slack.get(), 10u);
}

FRESH_TEST(Ring, ARecordOfAnothersRingIsLeftAlone) {
  start_heaps();
  Heap* heap = own_heap();
  Span* span = make_reusable(kCapacity);
  EXPECT_TRUE(push_ring(heap, span, 10));
  Worker other;
  other.run([&] {
    Heap* theirs = own_heap();
    EXPECT_FALSE(push_ring(theirs, span, 20));
    leave_ring(theirs, span);
    EXPECT_EQ(theirs->slack.get(), 0u);
    EXPECT_EQ(ring_length(theirs, kClass), 0u);
  });
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{span});
  EXPECT_EQ(span->ring_slack.get(), 10u);
  leave_ring(heap, span);
  other.run([&] {
    EXPECT_TRUE(push_ring(own_heap(), span, 20));
    leave_ring(own_heap(), span);
  });
}

// --- Records whose spans went. ---

// A reusable span of the caller, on its ring; and what it still holds of it.
Span* ring_span(Blocks* blocks) {
  Span* span = make_reusable(8, kClass, blocks);
  place_again(span);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  return span;
}
// Takes it away from its owner, as a free that finds the mailbox full does.
void take_away(Span* span) {
  const usize before = unsettled_bytes();
  ASSERT_TRUE(claim(span, SpanState::reusable));
  Heap* owner = owner_of(span);
  const u64 box = owner->mailbox.exchange(kMailboxClosed, relaxed);
  hand_on_claimed(span);
  owner->mailbox.store(box, relaxed);
  ASSERT_EQ(unsettled_bytes(), before + span_bytes(span));
}

FRESH_TEST(Ring, WhatWasTakenIsPassedOver) {
  start_heaps();
  Blocks blocks;
  Span* unsettled = ring_span(&blocks);
  Span* listed = ring_span(&blocks);
  Span* good = ring_span(&blocks);
  take_away(listed);
  ASSERT_TRUE(settle_unsettled());
  ASSERT_EQ(state_of(listed), SpanState::listed);
  take_away(unsettled);
  EXPECT_EQ(reusable_of(t_heap), (std::vector<Span*>{good, listed, unsettled}));
  EXPECT_EQ(check_everything(), 0u) << "they may stand there";
  EXPECT_EQ(span_of(take()), good);
  EXPECT_EQ(ring_length(t_heap, kClass), 0u);
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_EQ(state_of(listed), SpanState::listed);
  EXPECT_EQ(owner_of(unsettled), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Ring, WhatIsAnothersByNowIsPassedOver) {
  start_heaps();
  Blocks blocks;
  Span* span = ring_span(&blocks);
  take_away(span);
  Worker other;
  other.run([&] {
    EXPECT_EQ(span_of(take()), span) << "settled and adopted";
    EXPECT_EQ(owner_of(span), t_heap);
    EXPECT_EQ(state_of(span), SpanState::hot);
  });
  EXPECT_NE(span_of(take()), span);
  EXPECT_EQ(ring_length(t_heap, kClass), 0u);
  EXPECT_NE(owner_of(span), t_heap);
  EXPECT_EQ(check_everything(), 0u);
}

// Its new heap is about to keep it, and has not seen yet that the record stands here.
FRESH_TEST(Ring, WhatIsAnothersReusableSpanIsPassedOver) {
  start_heaps();
  Blocks blocks;
  Span* span = ring_span(&blocks);
  Worker other;
  Heap* theirs = nullptr;
  other.run([&] { theirs = own_heap(); });
  span->owner.store(theirs, relaxed);
  EXPECT_NE(span_of(take()), span);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  EXPECT_EQ(ring_length(t_heap, kClass), 0u);
}

// Its new heap cannot put it on its own ring while it stands here: it shares what it would have kept.
FRESH_TEST(Ring, WhatStandsOnAnothersIsSharedInsteadOfKept) {
  start_heaps();
  Blocks blocks, theirs;
  Span* span = ring_span(&blocks);
  take_away(span);
  Worker other;
  other.run([&] {
    theirs = take_many(kCapacity - 8 + 1);
    ASSERT_EQ(span_of(theirs[0]), span);
    ASSERT_EQ(state_of(span), SpanState::floating);
    give_many(theirs, 0, kThreshold);
    EXPECT_EQ(state_of(span), SpanState::listed);
    EXPECT_EQ(owner_of(span), nullptr);
    EXPECT_EQ(held_by(t_heap), kSlotBytes);
    EXPECT_EQ(t_heap->slack.get(), 0u);
  });
  EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  EXPECT_EQ(check_everything(), 0u);
}

// It came back to its heap by way of the partial pool, and is hot or floating now.
FRESH_TEST(Ring, WhatCameBackInAnotherStateKeepsIt) {
  start_heaps();
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = ring_span(&blocks);
  Span* good = ring_span(&blocks);
  for (const SpanState state : {SpanState::floating, SpanState::hot, SpanState::claimed}) {
    set_state(span, state);
    span->claim_at.store(kThreshold, relaxed);
    EXPECT_TRUE(push_ring(heap, span, 5));
    EXPECT_TRUE(push_ring(heap, good, 5));
    EXPECT_EQ(span_of(take()), good);
    EXPECT_EQ(state_of(span), state);
    EXPECT_EQ(claim_at_of(span), kThreshold) << "it is claimed as that state wants it";
    // Back to where it was.
    heap->blocks[kClass].set(nullptr);
    heap->hot[kClass].set(nullptr);
    set_state(good, SpanState::reusable);
  }
}

FRESH_TEST(Ring, ARecordThatWasMadeAnewInAnotherClassStandsOnOneRing) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = ring_span(&blocks);
  Span* good = ring_span(&blocks);
  push_blocks(blocks, 0, 8);
  take_mail(heap);  // without a live block: ended, by its owner
  ASSERT_EQ(state_of(span), SpanState::free);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{good}) << "its owner knows";
  // The same, by others.
  blocks.clear();
  span = ring_span(&blocks);
  take_away(span);
  push_blocks(blocks, 0, 8);
  ASSERT_TRUE(settle_unsettled());
  ASSERT_EQ(state_of(span), SpanState::free);
  EXPECT_EQ(reusable_of(heap), (std::vector<Span*>{span, good}));
  EXPECT_EQ(check_everything(), 0u);
  const usize slack = heap->slack.get();
  const Blocks again = take_many(16 + 1, kOtherSize);
  ASSERT_EQ(span_of(again[0]), span) << "the lowest free slot";
  ASSERT_EQ(state_of(span), SpanState::floating);
  EXPECT_EQ(check_everything(), 0u);
  give_many(again, 0, 2);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  EXPECT_EQ(reusable_of(heap), std::vector<Span*>{good});
  EXPECT_EQ(reusable_of(heap, kOther), std::vector<Span*>{span});
  EXPECT_EQ(heap->slack.get(), slack - 24 * kSize + 2 * kOtherSize);
  EXPECT_EQ(check_everything(), 0u);
}

// Putting everything down meets the record before it meets the class that it is hot in.
FRESH_TEST(Ring, ARecordThatIsHotInAnotherClassIsPutDownAsThat) {
  start_heaps(usize{1} << 20);
  Heap* heap = own_heap();
  Blocks blocks;
  Span* span = ring_span(&blocks);
  take_away(span);
  push_blocks(blocks, 0, 8);
  ASSERT_TRUE(settle_unsettled());
  const Blocks again = take_many(1, kOtherSize);
  ASSERT_EQ(span_of(again[0]), span);
  ASSERT_EQ(heap->hot[kOther].get(), span);
  ASSERT_NE(heap->blocks[kOther].get(), nullptr);
  ASSERT_EQ(reusable_of(heap), std::vector<Span*>{span});
  release_idle(heap);
  EXPECT_EQ(ring_length(heap, kClass), 0u);
  EXPECT_EQ(reusable_of(heap, kOther), std::vector<Span*>{span});
  EXPECT_EQ(remote_count(span), 0u) << "its owner's own blocks come back locally";
  EXPECT_EQ(local_count(span), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

// The record is a later slot of a span of several by now.
FRESH_TEST(Ring, ARecordThatIsNoSpansFirstIsPassedOver) {
  start_heaps();
  Blocks blocks;
  std::vector<Span*> spans;
  for (u32 i = 0; i < 8; ++i) {
    Blocks of_one;
    spans.push_back(ring_span(&of_one));
    blocks.insert(blocks.end(), of_one.begin(), of_one.end());
  }
  for (Span* span : spans) take_away(span);
  push_blocks(blocks, 0, blocks.size());
  ASSERT_TRUE(settle_unsettled());
  ASSERT_EQ(held_bytes(), 0u);
  const void* wide = take(32 * 1024);
  ASSERT_EQ(span_of(wide)->slots.get(), 8u);
  ASSERT_TRUE(std::find(spans.begin(), spans.end(), span_of(wide) + 3) != spans.end());
  EXPECT_EQ(ring_length(t_heap, kClass), 8u);
  EXPECT_EQ(check_everything(), 0u);
  take();
  EXPECT_EQ(ring_length(t_heap, kClass), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
