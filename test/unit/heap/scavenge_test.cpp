// SPDX-License-Identifier: MIT
// Memory is exhausted: everything that is free is looked for before an allocation fails.
#include <gtest/gtest.h>

#include <cstring>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

// Two full spans of the class, the first floating; no slice is left.
std::vector<Blocks> full_and_exhausted() {
  start_heaps(0, usize{8} << 20);
  std::vector<Blocks> spans = {take_many(kCapacity), take_many(kCapacity)};
  exhaust_slices();
  return spans;
}

FRESH_TEST(Scavenge, FailsWhenNothingIsFree) {
  const std::vector<Blocks> spans = full_and_exhausted();
  bool zero = false;
  EXPECT_EQ(allocate_of_class(kClass, &zero), nullptr);
  EXPECT_EQ(allocate_of_class(kClass, &zero), nullptr);
  EXPECT_EQ(allocate_any(kSize), nullptr) << "nor has a larger class anything";
  give(spans[0][3]);
  give(spans[1][3]);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Scavenge, FindsABlockThatMadeNoSpanReusable) {
  const std::vector<Blocks> spans = full_and_exhausted();
  take_many(0);
  give(spans[0][5]);  // local; one of four that would make the span reusable
  ASSERT_EQ(life_of(span_of(spans[0][0])), SpanLife::floating);
  EXPECT_EQ(allocate_any(kSize), spans[0][5]);
  EXPECT_EQ(life_of(span_of(spans[0][0])), SpanLife::hot);
  EXPECT_EQ(life_of(span_of(spans[1][0])), SpanLife::floating);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Scavenge, FindsABlockThatAnotherThreadFreed) {
  const std::vector<Blocks> spans = full_and_exhausted();
  // A helper without a heap of its own: it could not have one now.
  Worker other;
  other.run([&] {
    void* block = spans[0][9];
    EXPECT_EQ(push_remote(span_of(block), static_cast<Block*>(block), static_cast<Block*>(block), 1), PushDuty::none);
  });
  EXPECT_EQ(allocate_any(kSize), spans[0][9]);
}

FRESH_TEST(Scavenge, FindsABlockOfNobodysSpan) {
  start_heaps(0, usize{8} << 20);
  const Blocks orphans = take_orphans();
  Span* span = span_of(orphans[0]);
  take_many(kCapacity);
  exhaust_slices();
  ASSERT_EQ(state_of(span), SpanState::shared);
  give_now({orphans[11]});
  ASSERT_EQ(state_of(span), SpanState::shared) << "one free block lists no span";
  EXPECT_EQ(allocate_any(kSize), orphans[11]);
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(owner_of(span), t_heap);
  EXPECT_TRUE(listed_spans().empty());
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Scavenge, GivesUpSpansThatAreKeptForSpeed) {
  start_heaps(usize{1} << 20, usize{8} << 20);
  // A hot span of another class, and a reusable one, both without a live block.
  constexpr usize kOther = 512;
  give(take(kOther));
  Span* hot = t_heap->hot[compute_class(kOther)].get();
  const Blocks reusable = take_many(64, 128);
  exhaust_slices();
  Blocks mine;
  for (void* block = take(); block != nullptr && span_of(block) != hot && mine.size() < 2000; block = take()) {
    mine.push_back(block);
  }
  EXPECT_EQ(t_heap->hot[compute_class(kOther)].get(), nullptr) << "its slice serves the class that asks";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Scavenge, ALargerClassServesTheLastRequests) {
  start_heaps(0, usize{8} << 20);
  Blocks wide = take_many(1, 2 * kSize);
  exhaust_slices();
  // No span of the class can be had, but the other one's blocks are larger.
  void* block = allocate_any(kSize);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(span_of(block), span_of(wide[0]));
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Scavenge, TheLastTwoSlicesServeAsALargeBlock) {
  start_heaps(0, usize{8} << 20);
  take_many(1);  // the heap exists
  std::vector<SliceRun> runs = exhaust_slices();
  // A class whose spans need two slices and more, but only two that are not aligned are left.
  constexpr usize kWide = 20 * 1024;
  ASSERT_GT(kFlatLayout[compute_class(kWide)].slices_log2, 0u);
  EXPECT_EQ(allocate_any(kWide), nullptr);
  give(reinterpret_cast<void*>(runs[5].arena->base + uptr{runs[5].slice} * kSliceBytes));
  give(reinterpret_cast<void*>(runs[6].arena->base + uptr{runs[6].slice} * kSliceBytes));
  void* block = allocate_any(kWide);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(is_large(span_of(block)));
  EXPECT_EQ(Allocator::usable_size(block), 2 * kSliceBytes);
  EXPECT_EQ(check_everything(), 0u);
  give(block);
}

FRESH_TEST(Scavenge, SingleSlicesServeAClassWhoseSpansTakeSeveral) {
  start_heaps(0, usize{8} << 20);
  changeable_options().mixed = config::MixedPolicy::automatic;
  take_many(1);  // the heap exists
  std::vector<SliceRun> runs = exhaust_slices();
  constexpr usize kWide = 20 * 1024;
  ASSERT_GT(kFlatLayout[compute_class(kWide)].slices_log2, 0u);
  std::vector<void*> freed;
  for (const u32 i : {5, 7, 9}) {
    freed.push_back(reinterpret_cast<void*>(runs[i].arena->base + uptr{runs[i].slice} * kSliceBytes));
    give(freed.back());
  }
  Blocks blocks;
  // The heap's first block lies in a mixed span of one slice, which has room, too.
  for (usize i = 0; i <= freed.size(); ++i) {
    void* block = allocate_any(kWide);
    ASSERT_NE(block, nullptr) << i;
    EXPECT_TRUE(is_mixed(span_of(block)));
    std::memset(block, 7, kWide);
    blocks.push_back(block);
  }
  EXPECT_EQ(allocate_any(kWide), nullptr);
  EXPECT_EQ(check_everything(), 0u);
  give_many(blocks);
  EXPECT_NE(allocate_any(kWide), nullptr) << "a failure before does not stand for what came back";
  EXPECT_EQ(check_everything(), 0u);
}

// Heaps outlive threads, and keep what is free in them.
FRESH_TEST(Scavenge, ALargeBlockHasWhatAnEndedThreadsHeapKeeps) {
  start_heaps(usize{4} << 20, usize{8} << 20);
  take_many(1);
  const Ended ended([] {
    const Blocks blocks = take_many(16 * kCapacity);
    give_many(blocks);
    return Blocks{};
  });
  ASSERT_GE(ended.heap->empties.get(), 8 * kSliceBytes);
  exhaust_slices();
  void* block = allocate_any(4 * kSliceBytes);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(ended.heap->empties.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  give(block);
}

// What mail and chain bring in while memory is short is used, too.
FRESH_TEST(Scavenge, UsesASpanThatComesByMail) {
  const std::vector<Blocks> spans = full_and_exhausted();
  {
    const Stopped stopped(t_heap, kInSlowPath);
    push_blocks(spans[0], 0, kThreshold);
  }
  ASSERT_EQ(state_of(span_of(spans[0][0])), SpanState::claimed);
  EXPECT_EQ(allocate_any(kSize), spans[0][kThreshold - 1]);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
