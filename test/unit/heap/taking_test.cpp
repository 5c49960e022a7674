// SPDX-License-Identifier: MIT
// Claimed spans: mailed or taken, and what becomes of them then. Orders of steps: test/unit/interleavings.
#include "heap/taking.hpp"

#include <gtest/gtest.h>

#include <set>

#include "heap/sleeper.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr usize kWideSize = 32 * 1024;
constexpr ClassIndex kWide = compute_class(kWideSize);

// --- Mail or take. ---

FRESH_TEST(HandOn, MailsWithinTheOptionAndHalfOfWhatTheOwnerHolds) {
  start_heaps(kSlotBytes);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(6);
  ASSERT_EQ(held_by(sleeper.heap), 6 * kSlotBytes);
  // The budget is four slots and a quarter.
  for (u32 i = 0; i < 4; ++i) {
    push_blocks(spans[i], 0, kThreshold);
    EXPECT_TRUE(is_mailed(span_of(spans[i][0]))) << i;
  }
  EXPECT_EQ(mail_bytes(sleeper.heap->mailbox.load(relaxed)), 4 * kSlotBytes);
  push_blocks(spans[4], 0, kThreshold);
  EXPECT_TRUE(is_taken(span_of(spans[4][0])));
  EXPECT_EQ(mail_bytes(sleeper.heap->mailbox.load(relaxed)), 4 * kSlotBytes);
  EXPECT_EQ(held_by(sleeper.heap), 5 * kSlotBytes);
  EXPECT_EQ(unsettled_bytes(), kSlotBytes);
  EXPECT_EQ(taken_from(span_of(spans[4][0])), sleeper.heap);
  EXPECT_EQ(check_everything(), 0u);
  // It wakes: what was mailed is its own again, and there is room for more.
  sleeper.thread.run([&] { take_mail(t_heap); });
  push_blocks(spans[5], 0, kThreshold);
  EXPECT_TRUE(is_mailed(span_of(spans[5][0])));
}

FRESH_TEST(HandOn, MailsOneSpanHoweverLarge) {
  start_heaps(0);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(2, kWideSize);
  ASSERT_EQ(span_of(spans[0][0])->slots.get(), 8u);
  push_blocks(spans[0], 0, 1);
  EXPECT_TRUE(is_mailed(span_of(spans[0][0])));
  push_blocks(spans[1], 0, 1);
  EXPECT_TRUE(is_taken(span_of(spans[1][0])));
  EXPECT_EQ(unsettled_bytes(), 8 * kSlotBytes);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(HandOn, TakesWhereTheThreadEnded) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  sleeper.thread.end();
  Span* span = span_of(spans[0][0]);
  ASSERT_EQ(state_of(span), SpanState::floating);
  push_blocks(spans[0], 0, kThreshold);
  EXPECT_TRUE(is_taken(span));
  EXPECT_EQ(sleeper.heap->mailbox.load(relaxed), kMailboxClosed);
  EXPECT_EQ(held_by(sleeper.heap), 0u);
}

// From every private state that a push finds.
FRESH_TEST(HandOn, FollowsAClaimInEachState) {
  start_heaps(usize{1} << 20);
  Sleeper sleeper;
  Blocks hot, reusable, floating;
  sleeper.thread.run([&] {
    reusable = take_many(kCapacity);
    floating = take_many(kCapacity);
    hot = take_many(kCapacity - 2);
    give_many(reusable, 0, kThreshold);
  });
  ASSERT_EQ(state_of(span_of(reusable[0])), SpanState::reusable);
  ASSERT_EQ(state_of(span_of(floating[0])), SpanState::floating);
  ASSERT_EQ(state_of(span_of(hot[0])), SpanState::hot);
  const struct {
    Blocks& blocks;
    usize from, count;
  } cases[] = {{reusable, kThreshold, kThreshold}, {floating, 0, kThreshold}, {hot, 0, kCapacity / 2}};
  for (const auto& one : cases) {
    Span* span = span_of(one.blocks[0]);
    const SpanState before = state_of(span);
    push_blocks(one.blocks, one.from, one.from + one.count - 1);
    EXPECT_EQ(state_of(span), before) << "one short";
    push_blocks(one.blocks, one.from + one.count - 1, one.from + one.count);
    EXPECT_TRUE(is_mailed(span));
    // More pushes hand nothing on again.
    const u64 box = sleeper.heap->mailbox.load(relaxed);
    push_blocks(one.blocks, one.from + one.count, one.from + one.count + 2);
    EXPECT_EQ(sleeper.heap->mailbox.load(relaxed), box);
  }
  EXPECT_EQ(check_everything(), 0u);
  sleeper.thread.run([&] {
    take_mail(t_heap);
    EXPECT_EQ(state_of(span_of(hot[0])), SpanState::hot);
    EXPECT_EQ(ring_length(t_heap, kClass), 2u);
  });
  EXPECT_EQ(check_everything(), 0u);
}

// --- Settling. ---

// Claims the spans, whatever is free in them, and takes them.
void take_all(const std::vector<Blocks>& spans) {
  for (const Blocks& blocks : spans) {
    Span* span = span_of(blocks[0]);
    const SpanState state = state_of(span);
    ASSERT_TRUE(claim(span, state));
    Heap* owner = owner_of(span);
    const u64 box = owner->mailbox.exchange(kMailboxClosed, relaxed);
    hand_on_claimed(span);
    owner->mailbox.store(box, relaxed);
  }
}

FRESH_TEST(Settle, MakesThemSharedListedOrEnds) {
  start_heaps();
  Sleeper sleeper;
  std::vector<Blocks> spans = sleeper.fill(4);
  push_blocks(spans[1], 0, kThreshold - 1);
  sleeper.thread.run([&] { give_many(spans[1], kThreshold - 1, kThreshold); });
  push_blocks(spans[2], 0, kThreshold - 1);
  take_all(spans);
  push_blocks(spans[3], 0, kCapacity);
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_EQ(unsettled_bytes(), 4 * kSlotBytes);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1) << "one for all";
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(state_of(span_of(spans[0][0])), SpanState::shared);
  EXPECT_EQ(remote_count(span_of(spans[0][0])), 0u);
  EXPECT_EQ(state_of(span_of(spans[1][0])), SpanState::listed);
  EXPECT_EQ(remote_count(span_of(spans[1][0])), kThreshold) << "both sides count now";
  EXPECT_EQ(state_of(span_of(spans[2][0])), SpanState::shared);
  EXPECT_EQ(remote_count(span_of(spans[2][0])), kThreshold - 1);
  EXPECT_EQ(span_of(spans[3][0]), nullptr);
  EXPECT_EQ(listed_spans(), std::vector<Span*>{span_of(spans[1][0])});
  EXPECT_EQ(held_bytes(), 3 * kSlotBytes);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_FALSE(settle_unsettled());
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1) << "nothing waits: no system call";
  // And each block is freed once.
  give_now(spans[0]);
  give_now(spans[1], kThreshold);
  give_now(spans[2], kThreshold - 1);
  EXPECT_EQ(held_bytes(), 0u);
}

FRESH_TEST(Settle, LeavesTheSpanThatItsOldOwnerIsAtWorkOn) {
  start_heaps();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(3);
  Span* busy = span_of(spans[1][0]);
  // In the middle of a free: the name is in the bracket, the block not on the list yet.
  sleeper.heap->bracket.store(busy, relaxed);
  take_all(spans);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(span_of(spans[0][0])), SpanState::shared);
  EXPECT_EQ(state_of(span_of(spans[2][0])), SpanState::shared);
  EXPECT_TRUE(is_taken(busy));
  EXPECT_EQ(unsettled_bytes(), 0u) << "it would have every later taker issue a barrier";
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_FALSE(settle_unsettled());
  EXPECT_FALSE(settle_unsettled());
  EXPECT_TRUE(is_taken(busy));
  EXPECT_NE(busy->taken_from.get() & kHeldUp, 0u);
  EXPECT_EQ(taken_from(busy), sleeper.heap);
  EXPECT_EQ(unsettled_bytes(), 0u) << "and is not subtracted again";
  // It goes on.
  Block* block = static_cast<Block*>(spans[1][0]);
  push_local(busy, block, busy->local_free.get());
  sleeper.heap->bracket.store(nullptr, release);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(state_of(busy), SpanState::shared);
  EXPECT_EQ(remote_count(busy), 1u);
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// The bracket of another thread than the old owner says nothing.
FRESH_TEST(Settle, LooksAtTheOldOwnersBracketOnly) {
  start_heaps();
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  take_all(spans);
  t_heap->bracket.store(span_of(spans[0][0]), relaxed);
  EXPECT_TRUE(settle_unsettled());
  t_heap->bracket.store(nullptr, relaxed);
}

FRESH_TEST(Settle, WithoutABarrierNothingIsSettled) {
  start_heaps();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(3);
  take_all(spans);
  fake::Faults faults;
  faults.nth = 1;
  faults.duration = fake::Duration::from_then_on;
  faults.kinds = fake::kBarrier;
  fake::set_faults(faults);
  EXPECT_FALSE(settle_unsettled());
  EXPECT_FALSE(settle_unsettled());
  EXPECT_EQ(fake::failed_calls(), 2u);
  for (const Blocks& blocks : spans) EXPECT_TRUE(is_taken(span_of(blocks[0])));
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  // Blocks can be had and freed all the same.
  const Blocks mine = take_many(kCapacity + 1);
  give_now(spans[0]);
  give_now(mine);
  EXPECT_TRUE(is_taken(span_of(spans[0][0])));
  EXPECT_EQ(check_everything(), 0u);
  fake::stop_faults();
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(span_of(spans[0][0]), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Settle, IsDoneByTheFreeThatPassesTheLimit) {
  constexpr u32 kAtLimit = kUnsettledLimit / kSlotBytes;
  start_heaps(0);
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(kAtLimit + 2);
  sleeper.thread.end();
  const u64 barriers = fake::calls_of(fake::kBarrier);
  for (u32 i = 0; i < kAtLimit; ++i) push_blocks(spans[i], 0, kThreshold);
  EXPECT_EQ(unsettled_bytes(), kUnsettledLimit);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  EXPECT_TRUE(listed_spans().empty());
  push_blocks(spans[kAtLimit], 0, kThreshold);
  EXPECT_EQ(unsettled_bytes(), 0u);
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1);
  EXPECT_EQ(listed_spans().size(), kAtLimit + 1);
  push_blocks(spans[kAtLimit + 1], 0, kThreshold);
  EXPECT_EQ(unsettled_bytes(), kSlotBytes);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Settle, IsDoneBeforeANewSpanIsMade) {
  start_heaps();
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  push_blocks(spans[0], 0, kThreshold);
  rob_heaps();
  Span* span = span_of(spans[0][0]);
  ASSERT_TRUE(is_taken(span));
  const usize held = held_bytes();
  for (u32 i = kThreshold; i-- > 0;) EXPECT_EQ(take(), spans[0][i]);
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_EQ(held_bytes(), held);
  EXPECT_EQ(check_everything(), 0u);
}

// --- The old owner. ---

FRESH_TEST(OldOwner, UsesTheBlocksItHasAndFindsOutAtTheRefill) {
  start_heaps(0);
  Sleeper sleeper;
  Blocks blocks, rest, more;
  sleeper.thread.run([&] { blocks = take_many(kCapacity - 3); });
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, kCapacity / 2);
  rob_heaps();
  ASSERT_TRUE(settle_unsettled());
  ASSERT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(remote_count(span), kCapacity / 2) << "three lie in the sleeper's list, and count as live";
  EXPECT_EQ(check_everything(), 0u);
  // Another heap works with it.
  const Blocks mine = take_many(kCapacity / 2);
  for (const void* block : mine) ASSERT_EQ(span_of(block), span);
  sleeper.thread.run([&] {
    rest = take_many(3);
    for (const void* block : rest) EXPECT_EQ(span_of(block), span);
    EXPECT_EQ(t_heap->hot[kClass].get(), span);
    more = take_many(1);
    EXPECT_NE(span_of(more[0]), span);
    EXPECT_EQ(t_heap->hot[kClass].get(), span_of(more[0]));
    EXPECT_EQ(held_by(t_heap), kSlotBytes);
  });
  std::set<void*> all(blocks.begin() + kCapacity / 2, blocks.end());
  all.insert(mine.begin(), mine.end());
  all.insert(rest.begin(), rest.end());
  EXPECT_EQ(all.size(), kCapacity) << "each block once";
  EXPECT_EQ(check_everything(), 0u);
  // Its frees are remote ones now.
  sleeper.thread.run([&] { give_now(rest); });
  EXPECT_EQ(remote_count(span), 3u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(OldOwner, FreesRemotelyWhatWasTaken) {
  start_heaps();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(1);
  Span* span = span_of(spans[0][0]);
  take_all(spans);
  sleeper.thread.run([&] {
    give(spans[0][0]);
    EXPECT_EQ(t_heap->bracket.load(relaxed), nullptr);
    EXPECT_EQ(local_count(span), 0u);
    close_chain(t_heap);
  });
  EXPECT_EQ(remote_count(span), 1u);
  EXPECT_TRUE(settle_unsettled());
  EXPECT_EQ(remote_count(span), 1u);
}

// Taken, ended, and made anew by its old owner in another class, while its table still names the record.
FRESH_TEST(OldOwner, IsNotMistakenAboutARecordThatItMadeAnew) {
  start_heaps(0);
  Sleeper sleeper;
  Blocks blocks;
  sleeper.thread.run([&] { blocks = take_many(kCapacity); });  // hot, with no block left
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, kCapacity);
  rob_heaps();
  ASSERT_TRUE(settle_unsettled());
  ASSERT_EQ(state_of(span), SpanState::free);
  ASSERT_EQ(sleeper.heap->hot[kClass].get(), span);
  EXPECT_EQ(check_everything(), 0u);
  Blocks narrow;
  sleeper.thread.run([&] {
    narrow = take_many(20, 512);
    ASSERT_EQ(span_of(narrow[0]), span);
    give_many(narrow, 0, 2);
    EXPECT_EQ(check_everything(), 0u);
    // The first class asks again: what lies on the record's local list is not of its size.
    const void* block = take();
    EXPECT_NE(span_of(block), span);
    EXPECT_EQ(local_count(span), 2u);
    EXPECT_EQ(t_heap->hot[compute_class(512)].get(), span);
  });
  EXPECT_EQ(state_of(span), SpanState::hot);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
