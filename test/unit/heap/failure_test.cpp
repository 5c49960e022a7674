// SPDX-License-Identifier: MIT
// A malloc that fails again: it looks for nothing while nothing came back, and finds whatever did.
#include "heap/failure.hpp"

#include <gtest/gtest.h>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "os/fake/fake.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

// A search begins with a refill.
u32 refills() { return t_heap->chain_turn.get(); }

// The first failure gives back what was kept, which could have served it; the second one finds nothing to give.
void fail(usize size = kSize) {
  ASSERT_EQ(take(size), nullptr);
  ASSERT_EQ(take(size), nullptr);
  const u32 before = refills();
  EXPECT_EQ(take(size), nullptr);
  EXPECT_EQ(refills(), before) << "it looked for memory again";
}

Blocks fill() {
  start_heaps(usize{64} << 10, usize{8} << 20);
  return take_many(4 * kCapacity);
}

Blocks full_and_failed() {
  Blocks blocks = fill();
  exhaust_slices();
  fail();
  return blocks;
}

FRESH_TEST(Failure, AsksTheKernelOnceAndSearchesNothing) {
  fill();
  Sleeper sleeper;  // whose heap a search steals from, by a barrier
  exhaust_slices();
  fail();
  const u64 calls = os::call_count(), asked = os::fake::failed_calls();
  const u64 barriers = os::fake::calls_of(os::fake::kBarrier);
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(take(2 * kSize), nullptr) << "what has nothing for a class has nothing for a larger one";
  EXPECT_EQ(os::fake::failed_calls() - asked, 2u);
  EXPECT_EQ(os::call_count(), calls);
  EXPECT_EQ(os::fake::calls_of(os::fake::kBarrier), barriers);
  const u32 before = refills();
  EXPECT_EQ(take(kSize / 2), nullptr);
  EXPECT_NE(refills(), before) << "a smaller class may have something";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, ABlockOfAFloatingSpanEndsIt) {
  const Blocks blocks = full_and_failed();
  give(blocks[40]);
  EXPECT_EQ(take(), blocks[40]);
  fail();
}

// A span of a smaller class that becomes hot after the failure and that its thread empties, by frees that no event
// tells of.
FRESH_TEST(Failure, AHotSpanThatEmptiesEndsIt) {
  fill();
  Blocks small = take_many(60, kSize / 2);
  Span* const span = span_of(small[0]);
  ASSERT_EQ(span->capacity.get(), 64u);
  exhaust_slices();
  fail();
  small.push_back(take(kSize / 2));
  ASSERT_EQ(span_of(small.back()), span);
  ASSERT_EQ(life_of(span), SpanLife::hot);
  give_many(small);
  EXPECT_NE(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, AReusableSpanThatEmptiesEndsIt) {
  fill();
  Blocks live;
  Span* span = make_on_ring(10, compute_class(kSize / 2), &live);
  exhaust_slices();
  fail();
  // Others freed some, and then the owner the rest: neither side alone makes an event.
  span->claim_at.store(kNever, relaxed);
  set_countdown(span, local_count(span), 100);
  const u32 supply = g_supply.load(relaxed);
  push_blocks(live, 0, 5);
  EXPECT_NE(g_supply.load(relaxed), supply);
  fail();
  ASSERT_EQ(span->countdown.get(), 1u);
  give_many(live, 5);
  EXPECT_NE(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, WhatAnotherThreadFreesInItsOwnSpansEndsIt) {
  fill();
  Worker other;
  Blocks theirs;
  other.run([&] { theirs = take_many(kCapacity); });
  exhaust_slices();
  fail();
  other.run([&] { give_many(theirs, 0, kCapacity - 1); });
  EXPECT_EQ(take(), nullptr) << "partly used spans of others are not searched";
  fail();
  other.run([&] { give(theirs.back()); });
  EXPECT_NE(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// As the reclaimer does with heaps that sleep.
FRESH_TEST(Failure, ASpanThatIsTakenFromAnotherHeapEndsIt) {
  fill();
  Sleeper sleeper;
  const Blocks theirs = sleeper.fill(1)[0];
  sleeper.thread.run([&] { give_many(theirs, 0, kCapacity / 2); });
  exhaust_slices();
  fail();
  ASSERT_TRUE(empty_one(sleeper.heap));
  EXPECT_NE(take(), nullptr);
}

// The notes of two searches are the same bits.
FRESH_TEST(Failure, ANoteThatAnotherSearchLeftAnewSaysNothing) {
  fill();
  Worker other, third;
  Blocks theirs;
  other.run([&] { theirs = take_many(kCapacity); });
  third.run([] { take_many(1, 64); });
  exhaust_slices();
  fail();
  other.run([&] {
    Span* const span = span_of(theirs[0]);
    set_countdown(span, local_count(span), 100);  // no event tells of these
    give_many(theirs);
  });
  third.run([] { note_all_heaps(t_heap); });
  EXPECT_NE(take(), nullptr);
}

FRESH_TEST(Failure, ABlockThatWaitsOnTheChainOfAnotherThreadEndsIt) {
  const Blocks blocks = fill();
  Worker other;
  other.run([&] { take_many(1, 64); });
  exhaust_slices();
  fail();
  other.run([&] { give(blocks[3]); });
  EXPECT_EQ(take(), blocks[3]);
  fail();
}

FRESH_TEST(Failure, ALargeBlockEndsIt) {
  fill();
  void* const large = allocate_large_block(3 * kSliceBytes, kQuantum, new bool);
  ASSERT_NE(large, nullptr);
  exhaust_slices();
  fail();
  give(large);
  EXPECT_NE(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, ALargeBlockThatShrinksEndsIt) {
  fill();
  void* const large = allocate_large_block(8 * kSliceBytes - 1024, kQuantum, new bool);
  exhaust_slices();
  fail();
  EXPECT_EQ(Allocator::reallocate(large, 4 * kSliceBytes), large);
  EXPECT_NE(take(), nullptr);
}

FRESH_TEST(Failure, WhatTheKernelGivesAgainEndsIt) {
  full_and_failed();
  os::fake::set_faults({});
  EXPECT_NE(take(), nullptr);
  EXPECT_FALSE(is_short());
}

FRESH_TEST(Failure, ALimitThatRisesEndsIt) {
  start_heaps();
  set_limit(usize{4} << 20);
  while (take() != nullptr) {
  }
  fail();
  const u64 calls = os::call_count();
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(os::call_count(), calls) << "the kernel is not asked for what the limit does not allow";
  set_limit(usize{5} << 20);
  EXPECT_NE(take(), nullptr);
}

FRESH_TEST(Failure, ALimitThatGoesEndsItThoughTheKernelHasNothing) {
  start_heaps();
  take();  // there is a chunk
  set_limit(1);
  fail(4 * kSize);
  exhaust_kernel();
  Allocator::set_limit(0);
  EXPECT_NE(take(4 * kSize), nullptr) << "the slices of the chunk";
}

FRESH_TEST(Failure, ALimitThatRisesEndsItThoughTheKernelHasNothing) {
  start_heaps();
  take();  // there is a chunk
  set_limit(1);
  fail(4 * kSize);
  exhaust_kernel();
  set_limit(usize{4} << 20);
  EXPECT_NE(take(4 * kSize), nullptr) << "the slices of the chunk";
}

FRESH_TEST(Failure, IsForgottenWithTheShortage) {
  const Blocks blocks = full_and_failed();
  end_shortage();  // as a thread without a heap does
  give(blocks[7]);
  EXPECT_EQ(take(), blocks[7]);
  fail();
  end_shortage();
  give(blocks[9]);  // counts for nobody
  begin_shortage();
  EXPECT_EQ(take(), blocks[9]);
}

// --- What a shortage is quick to find. ---

// A single hole in a mixed span, which no policy would look for.
FRESH_TEST(Failure, AHoleIsFoundBeforeIt) {
  start_heaps(usize{64} << 10, usize{8} << 20);
  test::changeable_options().mixed = config::MixedPolicy::automatic;
  const Blocks first = take_many(16, 64);
  ASSERT_EQ(span_of(first[5])->use.load(relaxed), SliceUse::mixed);
  exhaust_slices();
  while (take(64) != nullptr) {
  }
  give(first[5]);
  EXPECT_EQ(take(64), first[5]);
  fail(64);
  give(first[6]);
  const u64 calls = os::call_count();
  EXPECT_EQ(take(64), first[6]);
  EXPECT_EQ(os::call_count(), calls) << "before anything else is tried";
  EXPECT_EQ(take(64), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// One that was carved to the request's size, and is shorter than the class's blocks.
FRESH_TEST(Failure, AHoleThatFitsExactlyIsFoundBeforeIt) {
  start_heaps(usize{64} << 10, usize{8} << 20);
  test::changeable_options().mixed = config::MixedPolicy::automatic;
  constexpr usize kExact = 50'000;
  static_assert(class_bytes(compute_class(kExact)) > kExact + kQuantum);
  Blocks blocks = take_many(20, kExact);
  exhaust_kernel();
  while (void* block = take(kExact)) blocks.push_back(block);
  fail(kExact);
  for (void* const block : blocks) {
    if (span_of(block)->use.load(relaxed) != SliceUse::mixed) continue;
    give(block);
    EXPECT_EQ(take(kExact), block);
    return;
  }
  FAIL() << "none lies in a mixed span";
}

FRESH_TEST(Failure, AfterItAFreedBlockIsHotAtOnce) {
  const Blocks blocks = full_and_failed();
  for (const usize i : {usize{5}, usize{70}, usize{40}, usize{100}}) {
    give(blocks[i]);
    Span* const span = span_of(blocks[i]);
    EXPECT_EQ(life_of(span), SpanLife::hot);
    const u32 before = refills();
    EXPECT_EQ(take(), blocks[i]);
    EXPECT_EQ(refills(), before) << "malloc's fast path has it";
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, AfterItAHotSpanWithPagesThatWereNotCutStaysHot) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity + kBlocksPerPage);
  begin_shortage();
  give_many(blocks, 0, kThreshold);
  EXPECT_EQ(life_of(span_of(blocks[0])), SpanLife::reusable);
  EXPECT_EQ(life_of(span_of(blocks.back())), SpanLife::hot);
  EXPECT_EQ(span_of(take()), span_of(blocks.back()));
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Failure, AfterItAHotSpanWithBlocksStaysHot) {
  const Blocks blocks = full_and_failed();
  give(blocks[5]);
  give(blocks[70]);
  EXPECT_EQ(life_of(span_of(blocks[5])), SpanLife::hot);
  EXPECT_EQ(life_of(span_of(blocks[70])), SpanLife::reusable);
  EXPECT_EQ(take(), blocks[5]);
  // Remote frees count as well.
  Worker other;
  other.run([&] { push_blocks(blocks, 6, 7); });
  give(blocks[40]);
  EXPECT_EQ(own_heap()->hot[span_of(blocks[5])->size_class.get()].get(), span_of(blocks[5])) << "and claimed";
  take_many(3);
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// Its owner freed into its local list, since it was looked at in vain before.
FRESH_TEST(Failure, AfterItAHotSpanWithALocalListKeepsItsCount) {
  const Blocks blocks = full_and_failed();
  give(blocks[5]);
  EXPECT_EQ(take(), blocks[5]);
  Span* const hot = span_of(blocks[5]);
  Worker other;
  other.run([&] { push_blocks(blocks, 6, 7); });
  give(blocks[40]);
  ASSERT_EQ(own_heap()->hot[hot->size_class.get()].get(), hot) << "and claimed";
  give(blocks[8]);
  EXPECT_EQ(local_count(hot), 1u);
  give(blocks[100]);
  EXPECT_EQ(local_count(hot), 1u);
  EXPECT_EQ(check_everything(), 0u);
  take_many(4);
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
