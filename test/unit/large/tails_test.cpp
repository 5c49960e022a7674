// SPDX-License-Identifier: MIT
// What is resident behind large blocks: it goes back when it is old, at once when memory is short or somebody asks, and
// what is charged stays right. (issue 16: 100 blocks of 2 MiB and a page, where 4 MiB had been, kept 411 MB for ever.)
#include "pool/tails.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "budget/budget.hpp"
#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/limit.hpp"
#include "support/build.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr usize kEverything = ~usize{0} / 2;
constexpr usize kShort = kChunkBytes + kCarvePage;  // of a block with a tail
constexpr usize kTail = kChunkBytes - kCarvePage;

usize charged() { return budget().charged.load(relaxed); }

// Everything that is charged is held, free, a tail or a record.
void expect_sums(usize tails) {
  EXPECT_EQ(resident_tails(), tails);
  EXPECT_EQ(charged(), held() + dirty() + tails + counters().metadata.load(relaxed));
}

usize resident_behind(void* block, usize size) {
  const usize used = round_up(size, os::page_size());
  return resident_pages(static_cast<char*>(block) + used, round_up(size, kChunkBytes) - used);
}

// A block where a longer one was.
char* block_with_tail(usize size = kShort) {
  void* longer = allocate(round_up(size, kChunkBytes));
  std::memset(longer, 1, round_up(size, kChunkBytes));
  EXPECT_TRUE(free_block(longer));
  char* const block = static_cast<char*>(allocate(size));
  EXPECT_EQ(block, longer);
  std::memset(block, 2, size);
  EXPECT_EQ(tail_bytes(chunk_of(block)), round_up(size, kChunkBytes) - round_up(size, kCarvePage));
  return block;
}

void refuse_purges() {
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
}

FRESH_TEST(Tails, GoWhenTheyAreOld) {
  start_ground();
  char* const block = block_with_tail();
  expect_sums(kTail);
  purge_tails_that_wait();
  expect_sums(kTail);
  const u64 purges = fake::calls_of(fake::kPurge);
  purge_tails_that_wait();
  EXPECT_EQ(fake::calls_of(fake::kPurge), purges + 1);
  expect_sums(0);
  EXPECT_EQ(tail_bytes(chunk_of(block)), 0u);
  EXPECT_EQ(resident_behind(block, kShort), 0u);
  EXPECT_TRUE(all_bytes(block, kShort, 2));
  purge_tails_that_wait();
  EXPECT_EQ(fake::calls_of(fake::kPurge), purges + 1) << "once";
  EXPECT_TRUE(free_block(block));
  EXPECT_EQ(dirty(), round_up(kShort, kSliceBytes));
  expect_sums(0);
}

// What a call does in place of the reclaimer is one call of the kernel at most.
FRESH_TEST(Tails, GoOneAStep) {
  start_ground();
  block_with_tail();
  block_with_tail();
  for (u32 i = 0; i < 40; ++i) ASSERT_NE(allocate(kChunkBytes), nullptr);
  block_with_tail();
  EXPECT_TRUE(purge_tails_step()) << "they are seen, all in one step";
  expect_sums(3 * kTail);
  for (usize left = 3; left-- > 0;) {
    purge_tails_step();
    expect_sums(left * kTail);
    EXPECT_EQ(fake::calls_of(fake::kPurge), 3 - left);
  }
  EXPECT_TRUE(purge_tails_step());
}

FRESH_TEST(Tails, OfABlockThatIsReplacedAreYoungAgain) {
  start_ground();
  char* block = block_with_tail();
  for (u32 step = 0; step < 4; ++step) {
    purge_tails_that_wait();
    EXPECT_TRUE(free_block(block));
    block = static_cast<char*>(allocate(kShort));
    expect_sums(kTail);
  }
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u);
}

// The reclaimer stays for them only where they are many.
FRESH_TEST(Tails, AreWaitedForAboveTheOption) {
  start_ground();
  block_with_tail();
  changeable_options().free_limit = kMiB;
  EXPECT_TRUE(purge_tails_that_wait());
  changeable_options().free_limit = 8 * kMiB;
  EXPECT_FALSE(purge_tails_that_wait());
}

FRESH_TEST(Tails, GoAtOnceWhenSomebodyAsks) {
  start_ground();
  char* const first = block_with_tail();
  char* const second = block_with_tail();
  EXPECT_EQ(purge_tails(1), kTail) << "whole tails, the highest first";
  EXPECT_EQ(tail_bytes(chunk_of(second)), 0u);
  expect_sums(kTail);
  EXPECT_EQ(purge_tails(kEverything), kTail);
  EXPECT_EQ(resident_behind(first, kShort) + resident_behind(second, kShort), 0u);
  expect_sums(0);
}

FRESH_TEST(Tails, MakeRoomUnderALimit) {
  start_ground();
  char* const block = block_with_tail();
  budget().limit.store(charged() + 1, relaxed);  // the cell holds one more than the limit
  EXPECT_FALSE(charge(kTail));
  EXPECT_TRUE(charge_or_purge(kTail)) << "in place of the tail";
  uncharge(kTail);
  expect_sums(0);
  EXPECT_TRUE(all_bytes(block, kShort, 2));
}

FRESH_TEST(Tails, GoWhenALimitIsSet) {
  start_ground();
  block_with_tail();
  set_limit(charged() - kTail);
  expect_sums(0);
}

FRESH_TEST(Tails, AreNotLeftNearALimitOfTheCgroup) {
  start_ground();
  fake::set_memory_limit(64 * kMiB);
  void* const longer = allocate(4 * kChunkBytes);
  std::memset(longer, 1, 4 * kChunkBytes);
  EXPECT_TRUE(free_block(longer));
  counters().held.fetch_add(60 * kMiB, relaxed);
  look_at_group_limit();
  EXPECT_TRUE(limit_pressure());
  void* const block = allocate(3 * kChunkBytes + kCarvePage);
  counters().held.fetch_sub(60 * kMiB, relaxed);
  EXPECT_EQ(block, longer);
  expect_sums(0);
  EXPECT_EQ(resident_behind(block, 3 * kChunkBytes + kCarvePage), 0u);
}

FRESH_TEST(Tails, GoForNewMemoryNearALimitOfTheCgroup) {
  start_ground();
  fake::set_memory_limit(64 * kMiB);
  block_with_tail(4 * kChunkBytes + kCarvePage);
  EXPECT_FALSE(limit_pressure());
  counters().held.fetch_add(60 * kMiB, relaxed);
  allocate(2 * kChunkBytes);
  counters().held.fetch_sub(60 * kMiB, relaxed);
  expect_sums(0);
}

FRESH_TEST(Tails, ThatTheKernelKeepsStayCharged) {
  start_ground();
  char* const block = block_with_tail();
  refuse_purges();
  EXPECT_EQ(purge_tails(kEverything), 0u);
  expect_sums(kTail);
  for (u32 step = 0; step < 2; ++step) purge_tails_that_wait();
  EXPECT_FALSE(purge_tails_that_wait()) << "waiting does not help";
  expect_sums(kTail);
  fake::stop_faults();
  EXPECT_EQ(purge_tails(kEverything), kTail);
  expect_sums(0);
  EXPECT_TRUE(free_block(block));
}

// --- Blocks that change their size. ---

FRESH_TEST(Tails, OfShrunkBlocksGoToo) {
  start_ground();
  char* const block = static_cast<char*>(allocate(2 * kChunkBytes));
  std::memset(block, 2, 2 * kChunkBytes);
  usize size = 2 * kChunkBytes;
  for (u32 step = 0; step < 20; ++step) {
    size -= 60 * 1024;
    ASSERT_EQ(resize(block, size), block);
  }
  expect_sums(2 * kChunkBytes - size);
  EXPECT_EQ(purge_tails(kEverything), 2 * kChunkBytes - size);
  expect_sums(0);
  EXPECT_EQ(resident_behind(block, size), 0u);
  EXPECT_TRUE(all_bytes(block, size, 2));
}

FRESH_TEST(Tails, AreGrownIntoAfterTheyWent) {
  start_ground();
  char* const block = block_with_tail();
  purge_tails(kEverything);
  ASSERT_EQ(resize(block, kShort + 100 * kCarvePage), block);
  expect_sums(0);
  EXPECT_TRUE(all_bytes(block, kShort, 2));
  EXPECT_TRUE(all_bytes(block + kShort, 100 * kCarvePage, 0));
  ASSERT_EQ(resize(block, kShort), block);
  EXPECT_TRUE(free_block(block));
  expect_sums(0);
}

FRESH_TEST(Tails, OfABlockThatCouldNotGrowAreAsBefore) {
  start_ground(usize{64} << 20);
  char* const block = block_with_tail();
  EXPECT_EQ(resize(block, usize{1} << 45), nullptr);
  expect_sums(kTail);
  EXPECT_EQ(purge_tails(kEverything), kTail) << "nobody holds it";
  expect_sums(0);
}

FRESH_TEST(Tails, OfMovedBlocksGoWithThem) {
  start_ground();
  char* const block = block_with_tail();
  allocate(kChunkBytes);
  char* const moved = static_cast<char*>(resize(block, 5 * kChunkBytes + 5));
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, block);
  EXPECT_TRUE(all_bytes(moved, kShort, 2));
  expect_sums(tail_bytes(chunk_of(moved)));
  EXPECT_EQ(purge_tails(kEverything), tail_bytes(chunk_of(moved)));
}

// --- Threads. ---

void* g_block;
std::atomic<bool> g_freed;
std::thread* g_other;

// While the kernel purges the tail, another thread frees the block: nobody may get the chunks before the purge is done.
FRESH_TEST(Tails, HoldTheirBlockWhileTheyGo) {
  start_ground();
  g_block = block_with_tail();
  fake::set_at_purge([] {
    fake::set_at_purge(nullptr);
    g_other = new std::thread([] {
      EXPECT_TRUE(free_block(g_block));
      g_freed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(g_freed);
  });
  EXPECT_EQ(purge_tails(kEverything), kTail);
  ASSERT_NE(g_other, nullptr);
  g_other->join();
  EXPECT_TRUE(g_freed);
  expect_sums(0);
  EXPECT_EQ(dirty(), round_up(kShort, kSliceBytes));
}

// Threads replace, shrink and grow blocks, and write all of them; one purges. No block loses anything.
FRESH_TEST(Tails, AmongThreads) {
  constexpr u32 kThreads = 3;
  constexpr u32 kRounds = kThreadSanitizer ? 20 : 200;
  start_ground(usize{1} << 30);
  std::atomic<u32> working{kThreads};
  run_together(kThreads + 1, [&](u32 self) {
    if (self > kThreads) {
      while (working != 0) {
        purge_tails(kEverything);
        purge_tails_that_wait();
      }
      return;
    }
    u64 random = self;
    const auto below = [&](u64 most) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      return (random >> 33) % most;
    };
    for (u32 round = 0; round < kRounds; ++round) {
      usize size = kMiB + kMiB / 8 + below(3 * kMiB);
      char* block = static_cast<char*>(allocate(size));
      const auto mark = static_cast<unsigned char>(1 + round % 250);
      std::memset(block, mark, size);
      const usize wanted = kMiB + kMiB / 8 + below(3 * kMiB);
      if (char* resized = static_cast<char*>(resize(block, wanted))) {
        EXPECT_TRUE(all_bytes(resized, size < wanted ? size : wanted, mark));
        block = resized;
        if (wanted > size) std::memset(block + size, mark, wanted - size);
        size = wanted;
      }
      EXPECT_TRUE(all_bytes(block, size, mark));
      EXPECT_TRUE(free_block(block));
    }
    working -= 1;
  });
  purge_tails(kEverything);
  expect_sums(0);
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace coffer
