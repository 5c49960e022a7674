// SPDX-License-Identifier: MIT
#include "guard/guard.hpp"

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/bits.hpp"
#include "budget/budget.hpp"
#include "forks.hpp"
#include "heaps.hpp"
#include "inspect/profiling.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

// Every block that may have guards gets them, if there is room.
void start_guards() {
  start_heaps();
  guards_start(1);
}

std::vector<void*> guard_many(usize count, usize size) {
  std::vector<void*> blocks;
  for (usize i = 0; i < count; ++i) {
    void* block = guard::allocate(size, kQuantum);
    if (block != nullptr) blocks.push_back(block);
  }
  return blocks;
}

void fail_from_now_on(u32 kinds, u64 nth = 1, fake::Duration duration = fake::Duration::from_then_on) {
  fake::Faults faults;
  faults.nth = nth;
  faults.kinds = kinds;
  faults.duration = duration;
  fake::set_faults(faults);
}

usize page_bytes(usize size) { return round_up(size, os::page_size()); }

FRESH_TEST(Guard, NothingIsThereUntilItIsAskedFor) {
  start_heaps();
  give_many(take_many(1000));
  int here = 0;
  EXPECT_FALSE(guard::owns(&here));
  EXPECT_FALSE(guard::owns(nullptr));
  EXPECT_EQ(guard::held_bytes(), 0u);
  EXPECT_EQ(guard::live_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Guard, BlocksStandAtEitherEndOfTheirPages) {
  start_guards();
  const usize page = os::page_size();
  for (const usize size : {usize{1}, usize{15}, usize{16}, usize{100}, page, page + 1, 5 * page - 8, usize{1} << 20}) {
    u32 left = 0, right = 0;
    for (u32 i = 0; i < 40; ++i) {
      const uptr block = reinterpret_cast<uptr>(take(size));
      ASSERT_TRUE(guard::owns(reinterpret_cast<void*>(block)));
      EXPECT_EQ(Allocator::usable_size(reinterpret_cast<void*>(block)), size);
      EXPECT_EQ(block % kQuantum, 0u);
      const usize behind = round_up(block + size, page) - (block + size);
      left += block % page == 0 ? 1 : 0;
      right += behind < kQuantum ? 1 : 0;
      EXPECT_TRUE(block % page == 0 || behind < kQuantum);
      std::memset(reinterpret_cast<void*>(block), 0x5a, size);
      give(reinterpret_cast<void*>(block));
    }
    EXPECT_GE(left, 8u) << size;
    EXPECT_GE(right, 8u) << size;
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Guard, LargeAlignmentsAndSizesAreKept) {
  start_guards();
  for (usize alignment = 16; alignment <= guard::kMostSize; alignment *= 2) {
    void* block = guard::allocate(5000, alignment);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u);
    give(block);
  }
  EXPECT_EQ(guard::allocate(guard::kMostSize + 1, kQuantum), nullptr);
  EXPECT_EQ(guard::allocate(16, 2 * guard::kMostSize), nullptr);
  void* large = take(guard::kMostSize + 1);
  EXPECT_FALSE(guard::owns(large));
  give(large);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Guard, WhatTheyHoldIsCounted) {
  start_guards();
  Figures before;
  collect_figures(before);
  const usize held = held_bytes(), charged = budget().charged.load(relaxed);
  const std::vector<void*> small = guard_many(10, 100), large = guard_many(2, 300'000);
  const usize metadata = budget().charged.load(relaxed) - charged - 10 * page_bytes(100) - 2 * page_bytes(300'000);
  EXPECT_LT(metadata, usize{1} << 20);
  EXPECT_EQ(guard::held_bytes(), 10 * page_bytes(100) + 2 * page_bytes(300'000));
  EXPECT_EQ(held_bytes() - held, guard::held_bytes());
  EXPECT_EQ(guard::live_bytes(), 10 * 100 + 2 * 300'000u);
  Figures now;
  collect_figures(now);
  EXPECT_EQ(now.live - before.live, guard::live_bytes());
  EXPECT_EQ(now.bound - before.bound, guard::held_bytes() + metadata);
  EXPECT_LE(now.held, now.bound);
  EXPECT_EQ(check_everything(), 0u);
  give_many(small);
  give_many(large);
  EXPECT_EQ(guard::held_bytes(), 0u);
  EXPECT_EQ(held_bytes(), held);
  EXPECT_EQ(budget().charged.load(relaxed), charged + metadata);
  EXPECT_EQ(check_everything(), 0u);
}

// However many are wanted: their number, and what their pages waste, is bounded; freed ones rest.
FRESH_TEST(Guard, AreBounded) {
  start_guards();
  const std::vector<void*> blocks = guard_many(2 * guard::kRecords, 64);
  EXPECT_LE(blocks.size(), guard::kMostLive);
  EXPECT_GE(blocks.size(), guard::kMostWaste / os::page_size() < guard::kMostLive ? 60u : guard::kMostLive);
  EXPECT_LE(guard::held_bytes(), guard::kMostWaste + blocks.size() * 64);
  EXPECT_EQ(check_everything(), 0u);
  give_many(blocks);
  const std::vector<void*> again = guard_many(guard::kRest, 64);
  EXPECT_GE(again.size(), 32u);
  for (const void* block : again) {
    for (const void* freed : blocks) EXPECT_NE(block, freed);
  }
  EXPECT_EQ(check_everything(), 0u);
}

// The range goes round and round, also with blocks that fill it soon.
FRESH_TEST(Guard, PlacesComeBack) {
  start_guards();
  usize got = 0;
  for (u32 i = 0; i < 3000; ++i) {
    void* block = guard::allocate(i % 3 == 0 ? guard::kMostSize : 40'000, kQuantum);
    if (block == nullptr) continue;
    ++got;
    std::memset(block, 1, 40'000);
    give(block);
  }
  EXPECT_GE(got, 1500u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Guard, GoesOnWithoutAddressSpace) {
  start_guards();
  fail_from_now_on(fake::kReserve);
  EXPECT_EQ(guard::allocate(100, kQuantum), nullptr);
  void* block = take(100);
  ASSERT_NE(block, nullptr);
  EXPECT_FALSE(guard::owns(block));
  fake::stop_faults();
  void* guarded = guard::allocate(100, kQuantum);
  EXPECT_TRUE(guard::owns(guarded));
  give(block);
  give(guarded);
  EXPECT_EQ(check_everything(), 0u);
}

// At the start, and later; wherever the kernel refuses, and if it does half of it.
FRESH_TEST(Guard, GoesOnWithoutMemory) {
  start_guards();
  give_many(take_many(10));
  for (const fake::Damage damage : {fake::Damage::none, fake::Damage::torn}) {
    for (u64 nth = 1; nth < 6; ++nth) {
      fake::Faults faults;
      faults.nth = nth;
      faults.kinds = fake::kCommit | fake::kThread;
      faults.damage = damage;
      fake::set_faults(faults);
      for (u32 i = 0; i < 8; ++i) {
        void* block = guard::allocate(3 * os::page_size(), kQuantum);
        if (block != nullptr) give(block);
      }
      EXPECT_EQ(fake::failed_calls(), 1u);
      fake::stop_faults();
      EXPECT_EQ(guard::held_bytes(), 0u);
      EXPECT_EQ(check_everything(), 0u);
    }
  }
}

// Pages that the kernel does not take back stay held, and are tried again.
FRESH_TEST(Guard, PagesThatStayAreTriedAgain) {
  start_guards();
  const std::vector<void*> blocks = guard_many(3, 100);
  ASSERT_EQ(blocks.size(), 3u);
  fail_from_now_on(fake::kRemap);
  give_many(blocks);
  EXPECT_EQ(guard::held_bytes(), 3 * page_bytes(100));
  EXPECT_EQ(guard::live_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  fake::stop_faults();
  for (u32 i = 0; i < 3; ++i) give(take(100));
  EXPECT_EQ(guard::held_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Guard, TheLimitHoldsForThem) {
  start_guards();
  give(take(100));
  const usize charged = budget().charged.load(relaxed);
  Allocator::set_limit(charged + 10 * os::page_size());
  const std::vector<void*> blocks = guard_many(20, 100);
  EXPECT_EQ(blocks.size(), 10u);
  EXPECT_LE(budget().charged.load(relaxed), charged + 10 * os::page_size());
  EXPECT_EQ(check_everything(), 0u);
  give_many(blocks);
  EXPECT_EQ(budget().charged.load(relaxed), charged);
}

FRESH_TEST(Guard, CheckFindsWhatWasWrittenBesideABlock) {
  start_guards();
  char* block = static_cast<char*>(guard::allocate(100, kQuantum));
  const bool left = reinterpret_cast<uptr>(block) % os::page_size() == 0;
  char& beside = block[left ? 100 : -1];
  const char before = beside;
  beside = static_cast<char>(before + 1);
  EXPECT_EQ(check_everything(), 1u);
  beside = before;
  EXPECT_EQ(check_everything(), 0u);
  counters().held.fetch_add(16, relaxed);
  EXPECT_EQ(check_everything(), 1u);
  counters().held.fetch_sub(16, relaxed);
  give(block);
}

// Threads that vanish in a fork child while they make and free guarded blocks, some of them under the lock.
FRESH_TEST(Guard, ChildrenOfAFork) {
  start_guards();
  void* kept = take(100);
  Atomic<bool> stop;
  std::thread busy([&] {
    while (!stop.load(relaxed)) {
      void* block = guard::allocate(200, kQuantum);
      if (block != nullptr) give(block);
    }
  });
  for (u32 i = 0; i < 100; ++i) {
    run_fresh([&] {
      settle_fork();
      EXPECT_EQ(check_everything(), 0u);
      give(kept);
      void* block = guard::allocate(50, kQuantum);
      EXPECT_TRUE(guard::owns(block));
      give(block);
      give_many(take_many(10));
      // What the other thread had in hand stays held.
      EXPECT_LE(guard::held_bytes(), os::page_size());
      EXPECT_EQ(check_everything(), 0u);
    });
  }
  stop.store(true, relaxed);
  busy.join();
  give(kept);
  EXPECT_EQ(check_everything(), 0u);
}

// The share of blocks is that of their bytes, until large ones, which are all as likely.
FRESH_TEST(Guard, AreChosenByBytes) {
  constexpr usize kMean = 64 * 1024;
  start_heaps();
  seed_samples(7);
  guards_start(kMean);
  for (const usize size : {64, 1024, 16'000, 200'000, 1'000'000}) {
    const usize count = size < 1024 ? 200'000 : size < 100'000 ? 20'000 : 400;
    usize guarded = 0;
    for (usize i = 0; i < count; ++i) {
      void* block = take(size);
      guarded += guard::owns(block) ? 1 : 0;
      give(block);
    }
    const usize counted = size <= kLargestSmall ? class_layout(class_of(size)).block_bytes : kLargestSmall;
    const double chance = 1 - std::exp(-static_cast<double>(counted) / static_cast<double>(kMean));
    const double wanted = static_cast<double>(count) * chance;
    EXPECT_NEAR(static_cast<double>(guarded), wanted, 5 * std::sqrt(wanted)) << size;
  }
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
