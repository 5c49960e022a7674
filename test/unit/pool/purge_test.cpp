#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/hints.hpp"
#include "pool/slot_pool.hpp"
#include "support/random.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;
constexpr usize kPages = 64 * kCarvePage;  // what a call may purge beside twice what was freed

usize dirty() { return counters().dirty.load(relaxed); }
usize& free_limit_option() { return test::changeable_options().free_limit; }
Arena& first_arena() { return g_arenas.arenas[0]; }
char* slot_at(u32 slot) { return reinterpret_cast<char*>(first_arena().base + uptr{slot} * kSlotBytes); }

void start() {
  free_limit_option() = u64{1} << 40;
  ASSERT_TRUE(arenas_start(512 * kMiB));
  slot_pool_start(1);
}

// Slots [0, slots), written to.
void take_and_touch(u32 slots) {
  for (u32 i = 0; i < slots; ++i) {
    ASSERT_EQ(acquire_slots(1, 1, 0).slot, i);
    std::memset(slot_at(i), 7, kSlotBytes);
  }
}

usize resident(u32 slot) { return test::resident_pages(slot_at(slot), kSlotBytes) * os::page_size(); }

void refuse_purges(fake::Damage damage = fake::Damage::none) {
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.duration = fake::Duration::from_then_on;
  faults.damage = damage;
  fake::set_faults(faults);
}

// --- purge_free. ---

FRESH_TEST(PurgeFree, GivesThePagesOfFreeSlotsBack) {
  start();
  take_and_touch(8);
  release_slots(&first_arena(), 2, 3, 0b111);
  release_slots(&first_arena(), 6, 1, 1);
  EXPECT_EQ(dirty(), 4 * kSlotBytes);
  EXPECT_EQ(resident(2), kSlotBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), 4 * kSlotBytes);
  EXPECT_EQ(dirty(), 0u);
  for (const u32 slot : {2u, 3u, 4u, 6u}) EXPECT_EQ(resident(slot), 0u) << slot;
  for (const u32 slot : {0u, 1u, 5u, 7u}) EXPECT_TRUE(test::all_bytes(slot_at(slot), kSlotBytes, 7)) << slot;
  EXPECT_EQ(first_arena().chunks[0].free.load(relaxed) & 0xff, 0b0101'1100u) << "they are free as before";
  EXPECT_EQ(test::forgotten_room(first_arena()), 0u);
  const SlotRun again = acquire_slots(1, 1, 0);
  EXPECT_EQ(again.dirty, 0u);
  EXPECT_TRUE(test::all_bytes(slot_at(again.slot), kSlotBytes, 0));
  EXPECT_EQ(purge_free(~usize{0} / 2), 0u) << "nothing is left";
}

FRESH_TEST(PurgeFree, StopsWhereItIsTold) {
  start();
  take_and_touch(8);
  release_slots(&first_arena(), 0, 8, 0xff);
  EXPECT_EQ(purge_free(kSlotBytes), kSlotBytes);
  EXPECT_EQ(dirty(), 7 * kSlotBytes);
  EXPECT_EQ(purge_free(kSlotBytes + 1), 2 * kSlotBytes) << "by whole slots";
  EXPECT_EQ(purge_free(0), 0u);
  EXPECT_EQ(dirty(), 5 * kSlotBytes);
}

FRESH_TEST(PurgeFree, GoesOnWhereItStoppedLast) {
  start();
  for (u32 i = 0; i < 6; ++i) acquire_slots(32, 32, 0);
  for (u32 chunk = 0; chunk < 3; ++chunk) release_slots(&first_arena(), chunk * kSlotsPerChunk, 2, 0b11);
  const auto left = [](u32 chunk) { return first_arena().chunks[chunk].dirty.load(relaxed); };
  EXPECT_EQ(purge_free(3 * kSlotBytes), 3 * kSlotBytes);
  EXPECT_EQ(left(0), 0u);
  EXPECT_EQ(left(1), 0b10u);
  release_slots(&first_arena(), 2, 1, 1);
  EXPECT_EQ(purge_free(2 * kSlotBytes), 2 * kSlotBytes);
  EXPECT_EQ(left(0), 0b100u) << "its turn comes after the others";
  EXPECT_EQ(left(1), 0u);
  EXPECT_EQ(left(2), 0b10u);
  EXPECT_EQ(purge_free(8 * kSlotBytes), 2 * kSlotBytes);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(PurgeFree, TakesFreeChunksToo) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  std::memset(slot_at(0), 7, 3 * kChunkBytes);
  return_chunks(run.arena, 0, 1, true);
  return_chunks(run.arena, 2, 1, true);
  EXPECT_EQ(dirty(), 2 * kChunkBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), 2 * kChunkBytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(resident(0), 0u);
  EXPECT_TRUE(test::all_bytes(slot_at(kSlotsPerChunk), kChunkBytes, 7)) << "chunk 1 is in use";
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0b010u);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_TRUE(run.fresh);
}

FRESH_TEST(PurgeFree, WalksAllArenas) {
  free_limit_option() = u64{1} << 40;
  ASSERT_TRUE(arenas_start(8 * kMiB));
  slot_pool_start(1);
  for (u32 i = 0; i < 10; ++i) ASSERT_EQ(acquire_slots(32, 32, 0).count, 32u);
  ASSERT_EQ(g_arenas.count.load(relaxed), 2u);
  release_slots(&g_arenas.arenas[1], 5, 2, 0b11);
  release_slots(&first_arena(), 70, 1, 1);
  EXPECT_EQ(purge_free(~usize{0} / 2), 3 * kSlotBytes);
  EXPECT_EQ(dirty(), 0u);
}

// The kernel refuses: what it did not give back still counts, whole or torn.
FRESH_TEST(PurgeFree, WhatIsRefusedStaysDirty) {
  start();
  take_and_touch(8);
  release_slots(&first_arena(), 0, 4, 0b1111);
  for (const fake::Damage damage : {fake::Damage::none, fake::Damage::torn}) {
    refuse_purges(damage);
    EXPECT_EQ(purge_free(~usize{0} / 2), 0u);
    EXPECT_EQ(fake::failed_calls(), 1u) << "one call for four neighbours";
    EXPECT_EQ(dirty(), 4 * kSlotBytes);
    EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), 0b1111u);
    EXPECT_EQ(first_arena().chunks[0].free.load(relaxed) & 0xff, 0b1111u);
  }
  fake::stop_faults();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  return_chunks(run.arena, run.index, 1, true);
  refuse_purges();
  EXPECT_EQ(purge_free(~usize{0} / 2), 0u);
  fake::stop_faults();
  EXPECT_EQ(dirty(), kChunkBytes + 4 * kSlotBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), kChunkBytes + 4 * kSlotBytes);
}

FRESH_TEST(PurgeFree, RefusalOfOneRunSparesTheOthers) {
  start();
  take_and_touch(8);
  for (const u32 slot : {1u, 3u, 5u}) release_slots(&first_arena(), slot, 1, 1);
  fake::Faults faults;
  faults.nth = 2;
  faults.kinds = fake::kPurge;
  fake::set_faults(faults);
  EXPECT_EQ(purge_free(3 * kSlotBytes), 2 * kSlotBytes);
  EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), 0b1000u);
}

// The kernel fills a huge page whole: slots that nobody used are resident, too.
FRESH_TEST(PurgeFree, AHugePageIsGivenUpWhole) {
  test::changeable_options().huge = config::HugePolicy::always;
  start();
  take_and_touch(4);
  release_slots(&first_arena(), 0, 1, 1);
  ASSERT_EQ(first_arena().chunks[0].huge.get(), 1u);
  EXPECT_EQ(purge_free(~usize{0} / 2), 61 * kSlotBytes);
  EXPECT_EQ(first_arena().chunks[0].huge.get(), 0u);
  EXPECT_EQ(dirty(), 0u);
  for (u32 slot = 4; slot < kSlotsPerChunk; ++slot) EXPECT_EQ(resident(slot), 0u) << slot;
  EXPECT_TRUE(test::all_bytes(slot_at(1), 3 * kSlotBytes, 7));
}

// --- How much may stay. ---

constexpr u64 kHalfLife = 250'000'000;

void hold(usize bytes) { counters().held.store(bytes, relaxed); }

FRESH_TEST(FreeLimit, IsTheOptionAndAnEighthOfWhatIsHeld) {
  free_limit_option() = 1000;
  fake::set_clock(1);
  hold(0);
  EXPECT_EQ(free_limit(0), 1000u);
  EXPECT_EQ(free_limit(800), 1100u) << "what was just freed was held until now";
  hold(8000);
  EXPECT_EQ(free_limit(0), 2000u);
}

FRESH_TEST(FreeLimit, DecaysByHalfInAQuarterOfASecond) {
  free_limit_option() = 0;
  const u64 start = 1'000'000'000;
  const usize peak = 64 * kMiB;
  fake::set_clock(start);
  hold(peak);
  EXPECT_EQ(free_limit(0), peak / 8);
  hold(0);
  const auto after = [&](u64 nanoseconds) {
    fake::set_clock(start + nanoseconds);
    return free_limit(0);
  };
  EXPECT_EQ(after(0), peak / 8);
  EXPECT_EQ(after(kHalfLife / 2), peak / 8 * 3 / 4) << "between two halvings the decay is linear";
  EXPECT_EQ(after(kHalfLife), peak / 16);
  EXPECT_EQ(after(kHalfLife * 3 / 2), peak / 16 * 3 / 4);
  EXPECT_EQ(after(2 * kHalfLife), peak / 32);
  EXPECT_EQ(after(63 * kHalfLife), 0u);
  EXPECT_EQ(after(64 * kHalfLife), 0u);
  EXPECT_EQ(after(1000 * kHalfLife), 0u);
}

FRESH_TEST(FreeLimit, StartsAnewFromANewPeak) {
  free_limit_option() = 0;
  fake::set_clock(kHalfLife);
  hold(64 * kMiB);
  free_limit(0);
  fake::set_clock(3 * kHalfLife);
  hold(32 * kMiB);  // more than a quarter of the old peak
  EXPECT_EQ(free_limit(0), 4 * kMiB);
  hold(0);
  EXPECT_EQ(free_limit(0), 4 * kMiB);
  fake::set_clock(4 * kHalfLife);
  EXPECT_EQ(free_limit(0), 2 * kMiB);
}

// --- purge_after_free. ---

// Frees `slots` slots, that nothing is purged meanwhile.
void free_without_purge(u32 slot, u32 slots) {
  free_limit_option() = u64{1} << 40;
  release_slots(&first_arena(), slot, slots, low_mask(slots));
}

FRESH_TEST(PurgeAfterFree, KeepsWhatTheLimitAllows) {
  start();
  fake::set_clock(kHalfLife);
  take_and_touch(64);
  free_without_purge(0, 32);
  // 32 slots are held: an eighth of them, and the option.
  free_limit_option() = 28 * kSlotBytes;
  purge_after_free(0);
  EXPECT_EQ(dirty(), 32 * kSlotBytes);
  free_limit_option() = 28 * kSlotBytes - 1;
  purge_after_free(0);
  EXPECT_EQ(dirty(), 31 * kSlotBytes) << "only what is over the limit";
  // What is within the option alone needs no look at the clock, nor at the peak.
  free_limit_option() = 31 * kSlotBytes;
  hold(0);
  purge_after_free(0);
  EXPECT_EQ(dirty(), 31 * kSlotBytes);
}

FRESH_TEST(PurgeAfterFree, PurgesAtMostTwiceWhatWasFreedAndSixtyFourPages) {
  start();
  take_and_touch(64);
  free_without_purge(0, 32);
  free_without_purge(32, 32);
  fake::set_clock(1000 * kHalfLife);
  hold(0);
  free_limit_option() = 0;
  usize before = dirty();
  purge_after_free(0);
  EXPECT_EQ(before - dirty(), kPages);
  before = dirty();
  purge_after_free(3 * kSlotBytes);
  EXPECT_EQ(before - dirty(), 6 * kSlotBytes + kPages);
}

FRESH_TEST(PurgeAfterFree, EveryReleaseIsJudged) {
  start();
  fake::set_clock(kHalfLife);
  take_and_touch(64);
  free_limit_option() = 0;
  // 64 slots were held: eight may stay. Each release is within its own budget.
  for (u32 i = 0; i < 64; ++i) release_slots(&first_arena(), i, 1, 1);
  EXPECT_EQ(dirty(), 8 * kSlotBytes);
  fake::set_clock(100 * kHalfLife);
  purge_after_free(0);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(PurgeAfterFree, LooksAtSixteenChunksAtMost) {
  start();
  for (u32 i = 0; i < 2 * 40; ++i) acquire_slots(32, 32, 0);
  const u32 last = 39 * kSlotsPerChunk;
  free_without_purge(last, 1);
  fake::set_clock(1000 * kHalfLife);
  hold(0);
  free_limit_option() = 0;
  purge_after_free(0);
  EXPECT_EQ(dirty(), kSlotBytes) << "chunks 0 to 15 had nothing";
  purge_after_free(0);
  EXPECT_EQ(dirty(), kSlotBytes) << "nor had 16 to 31";
  purge_after_free(0);
  EXPECT_EQ(dirty(), 0u);
}

// --- Threads. ---

// Nobody's memory is purged while he has it.
FRESH_TEST(PurgeFree, NeverTakesWhatIsInUse) {
  constexpr u32 kThreads = 3, kRounds = 3000;
  start();
  fake::set_jitter(true);
  free_limit_option() = 0;
  test::run_together(kThreads, [&](u32 self) {
    test::Random random(self);
    for (u32 round = 0; round < kRounds; ++round) {
      if (self == 1) {
        purge_free((1 + random.below(8)) * kSlotBytes);
        continue;
      }
      const u32 count = 1u << random.below(4);
      const SlotRun run = acquire_slots(count, count, 0);
      ASSERT_EQ(run.count, count);
      for (u32 i = 0; i < count; ++i) {
        u64* word = reinterpret_cast<u64*>(slot_at(run.slot + i) + kSlotBytes - sizeof(u64));
        if (((run.dirty >> i) & 1) == 0) {
          ASSERT_EQ(*word, 0u);
        }
        *word = round + 1;
      }
      std::this_thread::yield();
      for (u32 i = 0; i < count; ++i) {
        const u64 word = *reinterpret_cast<u64*>(slot_at(run.slot + i) + kSlotBytes - sizeof(u64));
        ASSERT_EQ(word, round + 1) << "purged in use";
      }
      release_slots(run.arena, run.slot, count, low_mask(count));
    }
  });
  EXPECT_EQ(counters().held.load(relaxed), 0u);
  const usize resident_slots = count_bits(first_arena().chunks[0].dirty.load(relaxed));
  EXPECT_EQ(dirty(), resident_slots * kSlotBytes);
  EXPECT_EQ(test::forgotten_room(first_arena()), 0u);
}

}  // namespace
}  // namespace coffer
