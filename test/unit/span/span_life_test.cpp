// SPDX-License-Identifier: MIT
// Every transition of the table in span/span.hpp but those by a push (push_test.cpp), with those that must fail.
#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "ground.hpp"
#include "heap/heap.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "span/emptiness.hpp"
#include "span/span.hpp"

namespace coffer {
namespace {

using test::first_arena;
using test::start_ground;

constexpr ClassIndex kClass = 3;            // 64 bytes, 512 blocks
constexpr ClassIndex kWide = kClasses - 1;  // 32 KiB, eight slices
Heap g_heap;

u32 claim_at_of(const Span* span) { return span->claim_at.load(relaxed); }

SpanState state_of(const Span* span) { return load_word(span, relaxed).state(); }

void set_word(Span* span, SpanState state, u32 count = 0, u32 first = 0) {
  span->remote.store(load_word(span, relaxed).with(state, count, first).bits(), relaxed);
}

Block* block(const Span* span, u32 index) {
  return reinterpret_cast<Block*>(span->first_block + uptr{index} * span->block_bytes.get());
}

// Pushes single blocks, the first of which is `from`.
void push(Span* span, u32 from, u32 count) {
  for (u32 i = from; i < from + count; ++i) {
    ASSERT_NE(push_remote(span, block(span, i), block(span, i), 1), PushDuty::double_free);
  }
}

// A span of which `local` blocks are on its local list, by the count, and `uncut` lie in absent pages.
Span* make_filled(u32 local, u32 uncut = 0) {
  Span* span = make_span(kClass, nullptr);
  span->owner.store(&g_heap, relaxed);
  span->carved.set(span->capacity.get() - uncut);
  set_countdown(span, local, kNever);
  return span;
}

FRESH_TEST(SpanLife, BeginsOwned) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, &g_heap);
    ASSERT_NE(span, nullptr);
    const ClassLayout& layout = kLayout[c];
    const u32 slices = 1u << layout.slices_log2;
    EXPECT_EQ(state_of(span), SpanState::owned);
    EXPECT_EQ(load_word(span, relaxed).count(), 0u);
    EXPECT_EQ(load_word(span, relaxed).first(), 0u);
    EXPECT_EQ(load_word(span, relaxed).tag(), 1u);
    EXPECT_EQ(span->owner.load(relaxed), &g_heap);
    EXPECT_EQ(span->size_class.get(), c);
    EXPECT_EQ(span->block_bytes.get(), layout.block_bytes);
    EXPECT_EQ(span->capacity.get(), layout.capacity);
    EXPECT_EQ(span->local_free.get(), nullptr);
    EXPECT_EQ(local_count(span), 0u);
    EXPECT_EQ(absent_count(span), layout.capacity) << "no page is carved";
    EXPECT_EQ(claim_at_of(span), reuse_threshold(layout.capacity));
    EXPECT_EQ(span->absent.get(), low_mask(slices * kPagesPerSlice));
    EXPECT_EQ(absent_are(span), AbsentPages::zero);
    const uptr start = span_start(span);
    EXPECT_EQ(start % (slices * kSliceBytes), 0u) << "on its own size";
    EXPECT_EQ(span_bytes(span), slices * kSliceBytes);
    for (u32 i = 0; i < slices; ++i) {
      EXPECT_EQ(first_record(span + i), span);
      EXPECT_EQ(slice_record(&first_arena(), start + i * kSliceBytes), span + i);
    }
    EXPECT_FALSE(is_large(span));
  }
}

FRESH_TEST(SpanLife, KnowsItsBlocks) {
  start_ground();
  for (const ClassIndex c : {ClassIndex{0}, kClass, ClassIndex{14}, ClassIndex{50}, kWide}) {
    const Span* span = make_span(c, nullptr);
    const uptr start = span_start(span), bytes = span->block_bytes.get();
    for (uptr address = start - 64; address < start + span_bytes(span) + 64; ++address) {
      const bool is = address >= span->first_block && (address - span->first_block) % bytes == 0 &&
                      (address - span->first_block) / bytes < span->capacity.get();
      ASSERT_EQ(is_block_start(span, address), is) << c << " at " << address - start;
    }
  }
}

FRESH_TEST(SpanLife, DoesNotBeginWithoutMemory) {
  start_ground(usize{8} << 20);
  u32 spans = 0;
  os::fake::set_address_space(1);
  while (make_span(kWide, nullptr) != nullptr) ++spans;
  EXPECT_EQ(spans, 4 * kSlicesPerChunk / 8);
}

// --- The owner's transitions. ---

FRESH_TEST(SpanLife, HotFloatsUnlessBlocksCameBack) {
  start_ground();
  Span* span = make_filled(0);
  EXPECT_EQ(mark_floating(span), Retired::floating);
  EXPECT_EQ(state_of(span), SpanState::owned);
  Span* second = make_filled(0);
  push(second, 0, 1);
  EXPECT_EQ(mark_floating(second), Retired::has_blocks) << "there is something to allocate after all";
  EXPECT_EQ(state_of(second), SpanState::owned);
  EXPECT_EQ(load_word(second, relaxed).count(), 1u);
  // A push claimed it while it was hot: it comes by mail.
  Span* third = make_filled(0);
  set_word(third, SpanState::claimed);
  EXPECT_EQ(mark_floating(third), Retired::claimed);
  EXPECT_EQ(state_of(third), SpanState::claimed);
  set_word(third, SpanState::claimed, 3, 9);
  EXPECT_EQ(mark_floating(third), Retired::has_blocks) << "which the owner may use meanwhile";
  EXPECT_EQ(state_of(third), SpanState::claimed);
}

FRESH_TEST(SpanLife, FloatingIsClaimedByThePushThatReachesTheThreshold) {
  start_ground();
  Span* span = make_filled(0);
  ASSERT_EQ(mark_floating(span), Retired::floating);
  push(span, 0, reuse_threshold(512) - 1);
  EXPECT_EQ(state_of(span), SpanState::owned);
  push(span, reuse_threshold(512) - 1, 1);
  EXPECT_EQ(state_of(span), SpanState::claimed);
}

FRESH_TEST(SpanLife, ReusableIsClaimedAtAStepMoreThanThereIs) {
  start_ground();
  Span* span = make_filled(0);
  set_word(span, SpanState::owned, 3, 9);
  const u32 wanted = 3 + reuse_threshold(span->capacity.get());
  for (const u32 other : {wanted - 1, wanted, wanted + 1}) {
    span->claim_at.store(other, relaxed);
    const RemoteWord before = load_word(span, relaxed);
    EXPECT_TRUE(mark_reusable(span));
    EXPECT_EQ(claim_at_of(span), wanted);
    const RemoteWord after = other > wanted ? before.owned() : before;
    EXPECT_EQ(load_word(span, relaxed).bits(), after.bits()) << "who may have seen a higher one must fail";
  }
}

FRESH_TEST(SpanLife, WhatIsClaimedIsNotMadeReusable) {
  start_ground();
  Span* claimed = make_filled(0);
  set_word(claimed, SpanState::claimed, 64, 9);
  const u64 before = claimed->remote.load(relaxed);
  claimed->claim_at.store(7, relaxed);
  EXPECT_FALSE(mark_reusable(claimed));
  EXPECT_EQ(claim_at_of(claimed), 7u);
  EXPECT_EQ(claimed->remote.load(relaxed), before) << "it is the claimant's";
}

// Nor is more asked for than can come: blocks that the owner has are not pushed.
FRESH_TEST(SpanLife, ReusableIsClaimedAtTheLastBlockThatIsLive) {
  start_ground();
  Span* span = make_filled(512 - 5 - 3);
  set_word(span, SpanState::owned, 3, 9);
  EXPECT_TRUE(mark_reusable(span));
  EXPECT_EQ(claim_at_of(span), 8u);
  // The owner alone has blocks: a claim is of those that it hands out from now on.
  set_word(span, SpanState::owned, 8, 9);
  EXPECT_TRUE(mark_reusable(span));
  EXPECT_EQ(claim_at_of(span), 8 + reuse_threshold(512));
}

FRESH_TEST(SpanLife, WhatGetsHotIsClaimedNoEarlierThanBefore) {
  start_ground();
  Span* span = make_filled(5);
  set_word(span, SpanState::owned, 2, 9);
  const u32 half = span->carved.get() / 2;
  for (const u32 before : {half - 1, half, half + 1}) {
    span->claim_at.store(before, relaxed);
    const u64 word = span->remote.load(relaxed);
    raise_claim(span);
    EXPECT_EQ(claim_at_of(span), before < half ? half : before);
    EXPECT_EQ(span->remote.load(relaxed), word);
  }
}

// The blocks that others freed are taken: from here on their count begins at none. Who has read another claim_at must
// fail.
FRESH_TEST(SpanLife, WhatIsTakenIsClaimedAtHalfOfWhatWasCut) {
  start_ground();
  for (const SpanState state : {SpanState::owned, SpanState::claimed}) {
    Span* span = make_filled(0);
    set_word(span, SpanState::claimed);
    push(span, 0, 300);
    set_word(span, state, 300, load_word(span, relaxed).first());
    const RemoteWord before = load_word(span, relaxed);
    u32 count = 0;
    take_remote(span, &count);
    EXPECT_EQ(count, 300u);
    EXPECT_EQ(claim_at_of(span), 256u);
    EXPECT_EQ(load_word(span, relaxed).bits(), before.taken().bits());
    EXPECT_NE(load_word(span, relaxed).tag(), before.tag());
  }
}

FRESH_TEST(SpanLife, IsClaimedOnlyWhileItIsOwned) {
  start_ground();
  Span* span = make_filled(5);
  for (u32 number = 0; number < kSpanStates; ++number) {
    const SpanState state = static_cast<SpanState>(number);
    set_word(span, state, 3, 9);
    const RemoteWord before = load_word(span, relaxed);
    EXPECT_EQ(claim(span), state == SpanState::owned);
    const SpanState after = state == SpanState::owned ? SpanState::claimed : state;
    EXPECT_EQ(span->remote.load(relaxed), before.with_state(after).bits());
  }
}

FRESH_TEST(SpanLife, ClaimedIsReceivedWithWhatWasPushed) {
  start_ground();
  Span* span = make_filled(0);
  set_word(span, SpanState::claimed, 64, 9);
  const RemoteWord before = load_word(span, relaxed);
  receive_claimed(span);
  EXPECT_EQ(span->remote.load(relaxed), before.owned().bits());
  EXPECT_EQ(claim_at_of(span), 64 + reuse_threshold(span->capacity.get()));
}

// --- Into shared states. ---

struct ShareCase {
  u32 local, uncut, remote;
};

void expect_share(const ShareCase& one) {
  Span* span = make_filled(one.local, one.uncut);
  const u32 capacity = span->capacity.get();
  span->owner.store(nullptr, relaxed);
  set_word(span, SpanState::claimed);
  push(span, 0, one.remote);
  const RemoteWord before = load_word(span, relaxed);
  const u32 total = one.local + one.uncut + one.remote;
  const ShareResult result = mark_shared(span);
  const RemoteWord after = load_word(span, relaxed);
  if (total == capacity) {
    EXPECT_EQ(result, ShareResult::empty);
    EXPECT_EQ(after.bits(), before.bits()) << "the caller ends it";
    return;
  }
  const bool listed = total >= reuse_threshold(capacity);
  EXPECT_EQ(result, listed ? ShareResult::listed : ShareResult::shared) << total;
  EXPECT_EQ(after.state(), listed ? SpanState::listed : SpanState::shared) << total;
  EXPECT_EQ(after.count(), total) << "from now on the count is that of all free blocks";
  EXPECT_EQ(after.first(), before.first());
  EXPECT_EQ(after.tag(), before.tag());
  EXPECT_EQ(shared_base(span), one.local + one.uncut);
}

FRESH_TEST(SpanLife, IsSharedListedOrEmptyByItsFreeBlocks) {
  start_ground();
  const u32 capacity = kLayout[kClass].capacity;
  const u32 threshold = reuse_threshold(capacity);
  ASSERT_EQ(capacity, 512u);
  ASSERT_EQ(threshold, 64u);
  for (const u32 total : {0u, 1u, threshold - 1, threshold, threshold + 1, capacity - 1, capacity}) {
    expect_share({total, 0, 0});
    expect_share({0, total, 0});
    expect_share({0, 0, total});
    expect_share({total / 3, total / 3, total - 2 * (total / 3)});
  }
}

FRESH_TEST(SpanLife, SharedIsListedEarlyOnlyIfABlockIsFree) {
  start_ground();
  Span* span = make_filled(1);
  set_word(span, SpanState::claimed);
  ASSERT_EQ(mark_shared(span), ShareResult::shared);
  EXPECT_TRUE(list_early(span));
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(load_word(span, relaxed).count(), 1u);
  EXPECT_FALSE(list_early(span)) << "somebody listed it already";
  Span* full = make_filled(0);
  set_word(full, SpanState::claimed);
  ASSERT_EQ(mark_shared(full), ShareResult::shared);
  EXPECT_FALSE(list_early(full));
  EXPECT_EQ(state_of(full), SpanState::shared);
  for (const SpanState state : {SpanState::free, SpanState::owned, SpanState::claimed, SpanState::mixed}) {
    set_word(full, state, 5, 9);
    EXPECT_FALSE(list_early(full)) << static_cast<int>(state);
    EXPECT_EQ(state_of(full), state);
  }
  set_word(full, SpanState::shared, full->capacity.get(), 9);
  EXPECT_FALSE(list_early(full)) << "it is returning";
  EXPECT_EQ(state_of(full), SpanState::shared);
}

FRESH_TEST(SpanLife, ListedIsAdoptedUnlessItIsReturning) {
  start_ground();
  Span* span = make_filled(60, 20);
  set_word(span, SpanState::claimed);
  push(span, 0, 3);
  ASSERT_EQ(mark_shared(span), ShareResult::listed);
  push(span, 3, 4);
  span->owner.store(nullptr, relaxed);
  EXPECT_TRUE(mark_adopted(span, &g_heap));
  EXPECT_EQ(state_of(span), SpanState::owned);
  EXPECT_EQ(span->owner.load(relaxed), &g_heap);
  EXPECT_EQ(claim_at_of(span), 7 + reuse_threshold(span->capacity.get()));
  EXPECT_EQ(load_word(span, relaxed).count(), 7u) << "the remote list alone counts again";
  EXPECT_EQ(local_count(span), 60u);
  EXPECT_EQ(absent_count(span), 20u);
  u32 count = 0;
  const Block* list = take_remote(span, &count);
  EXPECT_EQ(count, 7u);
  for (u32 i = 7; i-- > 0; list = next_of(list)) EXPECT_EQ(list, block(span, i));
  EXPECT_EQ(list, nullptr);
  span->owner.store(nullptr, relaxed);
  for (u32 number = 0; number < kSpanStates; ++number) {
    const SpanState state = static_cast<SpanState>(number);
    set_word(span, state, state == SpanState::listed ? span->capacity.get() : 100, 9);
    EXPECT_FALSE(mark_adopted(span, &g_heap)) << static_cast<int>(state);
    EXPECT_EQ(state_of(span), state);
    EXPECT_EQ(span->owner.load(relaxed), nullptr);
  }
}

// For whoever looks at its pages: until it is shared again its count is that of its remote list.
FRESH_TEST(SpanLife, ListedIsLookedAtUnlessItIsReturning) {
  start_ground();
  Span* span = make_filled(60, 20);
  span->owner.store(nullptr, relaxed);
  set_word(span, SpanState::claimed);
  push(span, 0, 3);
  ASSERT_EQ(mark_shared(span), ShareResult::listed);
  EXPECT_TRUE(mark_looked_at(span));
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(span->owner.load(relaxed), nullptr);
  EXPECT_EQ(load_word(span, relaxed).count(), 3u);
  ASSERT_EQ(push_remote(span, block(span, 9), block(span, 9), 1), PushDuty::none) << "it is claimed already";
  EXPECT_EQ(mark_shared(span), ShareResult::listed);
  EXPECT_EQ(load_word(span, relaxed).count(), 84u);
  for (u32 number = 0; number < kSpanStates; ++number) {
    const SpanState state = static_cast<SpanState>(number);
    const u32 free = state == SpanState::listed ? span->capacity.get() : 100;
    set_word(span, state, free, 9);
    EXPECT_FALSE(mark_looked_at(span)) << static_cast<int>(state);
    EXPECT_EQ(state_of(span), state);
    EXPECT_EQ(load_word(span, relaxed).count(), free);
  }
}

// --- The end. ---

FRESH_TEST(SpanLife, EndsFreeWithANewTag) {
  start_ground();
  for (const ClassIndex c : {ClassIndex{0}, kClass, kWide}) {
    Span* span = make_span(c, nullptr);
    span->owner.store(&g_heap, relaxed);
    const u32 slices = span->slices.get();
    const uptr first = span->first_block;
    const u32 tag = load_word(span, relaxed).tag();
    EXPECT_EQ(counters().held.load(relaxed), slices * kSliceBytes);
    set_word(span, SpanState::shared, span->capacity.get(), 1);
    end_span(span);
    EXPECT_EQ(load_word(span, relaxed).bits(), RemoteWord::make(tag + 1, SpanState::free, 0, 0).bits());
    EXPECT_EQ(span->owner.load(relaxed), nullptr);
    EXPECT_FALSE(is_block_start(span, first)) << "no pointer passes for a block of it";
    for (u32 i = 0; i < slices; ++i) EXPECT_EQ(first_record(span + i), nullptr);
    EXPECT_EQ(first_arena().chunks[0].free.load(relaxed), ~u64{0});
    EXPECT_EQ(counters().held.load(relaxed), 0u);
    // The same record again, for another: a stale word never matches.
    Span* next = make_span(c, nullptr);
    EXPECT_EQ(next, span);
    EXPECT_EQ(load_word(next, relaxed).tag(), tag + 2);
    end_span(next);
  }
}

FRESH_TEST(SpanLife, CountsByItsCountdown) {
  start_ground();
  Span* span = make_span(kClass, nullptr);
  set_countdown(span, 10, 3);
  EXPECT_EQ(local_count(span), 10u);
  EXPECT_FALSE(test::push_own(span, block(span, 0)));
  EXPECT_FALSE(test::push_own(span, block(span, 1)));
  EXPECT_EQ(local_count(span), 12u);
  EXPECT_EQ(span->local_free.get(), block(span, 1));
  EXPECT_EQ(next_of(block(span, 1)), block(span, 0));
  EXPECT_TRUE(test::push_own(span, block(span, 2))) << "the third is the event";
  EXPECT_EQ(local_count(span), 13u);
  set_countdown(span, 13, kNever);
  EXPECT_EQ(local_count(span), 13u);
}

}  // namespace
}  // namespace coffer
