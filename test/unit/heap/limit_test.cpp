// SPDX-License-Identifier: MIT
// The limit as the whole allocator keeps it: blocks of all kinds, under it and at it.
#include "pool/limit.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "budget/budget.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kMiB = usize{1} << 20;

usize charged() { return budget().charged.load(relaxed); }

// Takes blocks until there is no more; each is written to.
Blocks take_all(usize size) {
  Blocks blocks;
  while (void* block = take(size)) {
    std::memset(block, 7, size);
    blocks.push_back(block);
  }
  return blocks;
}

FRESH_TEST(LimitedHeap, EverySizeReachesTheLimitAgainAndAgain) {
  start_heaps();
  set_limit(24 * kMiB);
  for (const usize size : {16, 1000, 5000, 30'000, 40'000, 600'000, 1'100'000, 3'000'000, 1000, 3'000'000, 40'000}) {
    const Blocks blocks = take_all(size);
    EXPECT_LE(charged(), 24 * kMiB);
    // Slices and classes round up; metadata counts, too.
    const usize rounded = size <= kLargestSmall      ? size * 9 / 8
                          : size <= kLargestSliceRun ? round_up(size, kSliceBytes)
                                                     : size;
    EXPECT_GE((blocks.size() + 1) * rounded, 20 * kMiB) << size;
    EXPECT_EQ(check_everything(), 0u) << size;
    give_now(blocks);
    EXPECT_EQ(check_everything(), 0u) << size;
  }
}

FRESH_TEST(LimitedHeap, WhatOneBlockLeavesAnotherGets) {
  start_heaps();
  set_limit(24 * kMiB);
  for (const usize size : {40'000, 3'000'000}) {
    Blocks blocks = take_all(size);
    ASSERT_EQ(take(size), nullptr);
    give(blocks.back());
    blocks.back() = take(size);
    EXPECT_NE(blocks.back(), nullptr) << size;
    give_now(blocks);
  }
}

FRESH_TEST(LimitedHeap, IdleSpansOfThisHeapGoFirst) {
  start_heaps(usize{1} << 30);
  const Blocks small = take_many(8 * 1024);
  give_many(small);  // all of them empty, kept by the slack
  const usize held = held_bytes();
  ASSERT_GE(held, 8 * kMiB - kMiB);
  set_limit(charged());
  void* block = take(6 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_LE(charged(), get_limit());
  give(block);
}

FRESH_TEST(LimitedHeap, ReallocGrowsWithinItAndLeavesTheBlockAtIt) {
  start_heaps();
  for (const usize from : {usize{40'000}, usize{200'000}, 3 * kMiB}) {
    set_limit(0);
    auto* block = static_cast<char*>(take(from));
    std::memset(block, 42, from);
    set_limit(charged() + kMiB);
    EXPECT_EQ(Allocator::reallocate(block, from + 8 * kMiB), nullptr);
    EXPECT_EQ(block[0], 42);
    EXPECT_EQ(block[from - 1], 42);
    EXPECT_EQ(check_everything(), 0u);
    // In place, by less than there is.
    void* grown = Allocator::reallocate(block, from + kMiB / 2);
    EXPECT_NE(grown, nullptr) << from;
    EXPECT_LE(charged(), get_limit());
    EXPECT_EQ(check_everything(), 0u);
    if (grown != nullptr) give(grown);
  }
}

FRESH_TEST(LimitedHeap, PagesThatMoveArePaidForOnce) {
  start_heaps();
  void* block = take(10 * kMiB);
  std::memset(block, 1, 10 * kMiB);
  void* behind = take(3 * kMiB);
  set_limit(charged() + 3 * kMiB);
  void* grown = Allocator::reallocate(block, 12 * kMiB);
  ASSERT_NE(grown, nullptr) << "there is no room for 12 MiB beside the 10";
  EXPECT_NE(grown, block);
  EXPECT_EQ(static_cast<char*>(grown)[10 * kMiB - 1], 1);
  EXPECT_EQ(check_everything(), 0u);
  give(behind);
  give(grown);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(LimitedHeap, LoweredBelowWhatIsInUseItFailsNewMemoryOnly) {
  start_heaps();
  Blocks blocks = take_many(5000);
  void* large = take(3 * kMiB);
  const Blocks more = take_many(200, 70'000);
  set_limit(kMiB);
  EXPECT_EQ(take(70'000), nullptr);
  EXPECT_EQ(take(3 * kMiB), nullptr);
  EXPECT_NE(Allocator::reallocate(large, 2 * kMiB + 100), nullptr) << "shrinking is no new memory";
  EXPECT_EQ(Allocator::reallocate(large, 9 * kMiB), nullptr);
  // What is free in spans in use may be handed out.
  give(blocks.back());
  blocks.back() = take();
  EXPECT_NE(blocks.back(), nullptr);
  give_many(more);
  give(large);
  give_now(blocks);
  EXPECT_EQ(check_everything(), 0u);
  set_limit(8 * kMiB);
  EXPECT_NE(take(3 * kMiB), nullptr);
}

FRESH_TEST(LimitedHeap, AThreadWithoutARecordGetsOneWhenThereIsRoomAgain) {
  start_heaps();
  give(take());
  set_limit(charged());
  std::vector<std::unique_ptr<Worker>> threads;
  for (bool got = true; got && threads.size() < 200;) {
    threads.push_back(std::make_unique<Worker>());
    threads.back()->run([&] { got = own_heap() != nullptr; });
  }
  EXPECT_LT(threads.size(), 200u) << "64 KiB of records have room for some forty";
  set_limit(0);
  bool got = false;
  threads.back()->run([&] { got = own_heap() != nullptr; });
  EXPECT_TRUE(got);
}

FRESH_TEST(LimitedHeap, TooSmallForAnythingIsNullAndCanBeRaised) {
  changeable_options().limit = 100;
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(take(kMiB), nullptr);
  set_limit(16 * kMiB);
  EXPECT_NE(take(), nullptr);
  EXPECT_NE(take(kMiB), nullptr);
}

FRESH_TEST(LimitedHeap, AForkChildInheritsIt) {
  start_heaps();
  set_limit(16 * kMiB);
  void* block = take(10 * kMiB);
  ASSERT_NE(block, nullptr);
  run_fresh([&] {
    EXPECT_EQ(get_limit(), 16 * kMiB);
    EXPECT_EQ(take(10 * kMiB), nullptr);
    give(block);
    EXPECT_NE(take(10 * kMiB), nullptr);
    EXPECT_EQ(check_everything(), 0u);
  });
  EXPECT_EQ(take(10 * kMiB), nullptr) << "the child's free is not the parent's";
}

// Everything at once, while purges and moves fail now and then: the sum is kept to the byte.
FRESH_TEST(LimitedHeap, TheSumIsExactWhateverHappens) {
  start_heaps();
  set_free_limit(kMiB);
  Random random(20260101);
  struct Held {
    void* at;
    usize size;
  };
  std::vector<Held> blocks;
  os::fake::Faults faults;
  faults.one_in = 20;
  faults.kinds = os::fake::kPurge | os::fake::kMovePages | os::fake::kRemap | os::fake::kCommit;
  const auto size = [&]() -> usize {
    switch (random.below(4)) {
      case 0:
        return 1 + random.below(30'000);
      case 1:
        return 33'000 + random.below(900'000);
      default:
        return kMiB + random.below(6 * kMiB);
    }
  };
  for (u32 i = 0; i < 6000; ++i) {
    if (i % 500 == 0) os::fake::set_faults(i % 1000 == 0 ? os::fake::Faults{} : faults);
    if (i % 300 == 0) set_limit(random.below(5) == 0 ? 0 : (8 + random.below(40)) * kMiB);
    const u64 dice = random.below(10);
    if (dice < 5) {
      const usize bytes = size();
      if (void* block = take(bytes)) {
        *static_cast<char*>(block) = 1;
        blocks.push_back({block, bytes});
      }
    } else if (!blocks.empty()) {
      Held& held = blocks[random.below(blocks.size())];
      if (dice < 8) {
        const usize bytes = random.below(2) == 0 ? size() : held.size + random.below(200'000);
        if (void* block = Allocator::reallocate(held.at, bytes)) held = {block, bytes};
      } else {
        give(held.at);
        held = blocks.back();
        blocks.pop_back();
      }
    }
    if (i % 50 != 0) continue;
    ASSERT_EQ(check_everything(), 0u) << i;
  }
  os::fake::stop_faults();
  for (const Held& held : blocks) give(held.at);
  EXPECT_EQ(check_everything(), 0u);
  set_limit(48 * kMiB);
  EXPECT_NE(take(44 * kMiB), nullptr);
}

}  // namespace
}  // namespace coffer
