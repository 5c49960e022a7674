// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/hints.hpp"
#include "pool/reclaimer.hpp"
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

// The lowest addresses are used again first, so the highest go first.
FRESH_TEST(PurgeFree, BeginsAtTheHighestAddress) {
  start();
  for (u32 i = 0; i < 6; ++i) acquire_slots(32, 32, 0);
  for (u32 chunk = 0; chunk < 3; ++chunk) release_slots(&first_arena(), chunk * kSlotsPerChunk, 2, 0b11);
  const auto left = [](u32 chunk) { return first_arena().chunks[chunk].dirty.load(relaxed); };
  EXPECT_EQ(purge_free(3 * kSlotBytes), 3 * kSlotBytes);
  EXPECT_EQ(left(0), 0b11u);
  EXPECT_EQ(left(1), 0b01u);
  EXPECT_EQ(left(2), 0u);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0b011u);
  release_slots(&first_arena(), 2 * kSlotsPerChunk + 9, 1, 1);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0b111u);
  EXPECT_EQ(purge_free(2 * kSlotBytes), 2 * kSlotBytes);
  EXPECT_EQ(left(0), 0b11u);
  EXPECT_EQ(left(1) | left(2), 0u);
  EXPECT_EQ(purge_free(8 * kSlotBytes), 2 * kSlotBytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0u);
}

// Of a free chunk, too, no more goes than was asked for.
FRESH_TEST(PurgeFree, TakesPartOfAFreeChunk) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  std::memset(slot_at(0), 7, kChunkBytes);
  return_chunks(run.arena, 0, 1, true);
  EXPECT_EQ(purge_free(3 * kSlotBytes), 3 * kSlotBytes);
  EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), low_mask(61));
  EXPECT_EQ(dirty(), 61 * kSlotBytes);
  EXPECT_EQ(resident(61) + resident(63), 0u);
  EXPECT_EQ(resident(60), kSlotBytes);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(run.dirty, 61 * kSlotBytes);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(PurgeFree, ChunksReturnedInPartAreDirtyInPart) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  return_chunks_partly(run.arena, 0, 3, kChunkBytes + kSlotBytes + 1);
  EXPECT_EQ(dirty(), kChunkBytes + 2 * kSlotBytes);
  EXPECT_EQ(first_arena().chunks[1].dirty.load(relaxed), 0b11u);
  EXPECT_EQ(first_arena().chunks[2].dirty.load(relaxed), 0u);
  EXPECT_EQ(purge_free(~usize{0} / 2), kChunkBytes + 2 * kSlotBytes);
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

// --- purge_after: there is no reclaimer here, so calls end ticks. ---

u64 g_now = 1000 * kTickNs;

// The running tick began now.
void start_tick() {
  fake::set_clock(g_now);
  end_tick(tick_began());
}

// A tick passes; the next call finds it.
void pass_tick() {
  g_now += kTickNs;
  fake::set_clock(g_now);
}

// From now on what was freed before was free for a whole tick.
void pass_two_ticks() {
  for (int tick = 0; tick < 2; ++tick) {
    pass_tick();
    end_tick(tick_began());
  }
  pass_tick();
}

// Frees `slots` slots, that nothing is purged meanwhile.
void free_without_purge(u32 slot, u32 slots) {
  free_limit_option() = u64{1} << 40;
  release_slots(&first_arena(), slot, slots, low_mask(slots));
}

FRESH_TEST(PurgeAfter, KeepsWhatTheOptionAllows) {
  start();
  take_and_touch(64);
  free_without_purge(0, 32);
  pass_two_ticks();
  free_limit_option() = 32 * kSlotBytes;
  purge_after(0);
  EXPECT_EQ(dirty(), 32 * kSlotBytes);
  pass_tick();
  free_limit_option() = 30 * kSlotBytes;
  purge_after(0);
  EXPECT_EQ(dirty(), 30 * kSlotBytes) << "only what is over the limit";
}

// A little may be over, so that small purges share a system call.
FRESH_TEST(PurgeAfter, WaitsUntilACallIsWorthIt) {
  start();
  for (u32 i = 0; i < 20; ++i) acquire_slots(32, 32, 0);
  for (u32 i = 0; i < 16; ++i) free_without_purge(i * 32, 32);
  pass_two_ticks();
  free_limit_option() = 512 * kSlotBytes - kPages;
  purge_after(0);
  EXPECT_EQ(dirty(), 512 * kSlotBytes);
  pass_tick();
  free_limit_option() -= 1;
  purge_after(0);
  EXPECT_EQ(dirty(), 512 * kSlotBytes - kPages);
}

FRESH_TEST(PurgeAfter, PurgesAtMostTwiceAsMuchAndSixtyFourPages) {
  start();
  take_and_touch(64);
  free_without_purge(0, 32);
  free_without_purge(32, 32);
  pass_two_ticks();
  free_limit_option() = 0;
  usize before = dirty();
  purge_after(0);
  EXPECT_EQ(before - dirty(), kPages);
  before = dirty();
  purge_after(3 * kSlotBytes);
  EXPECT_EQ(before - dirty(), 6 * kSlotBytes + kPages);
}

// A fall goes when it was free for a whole tick, by the steps of calls that come then; no free before purges any of it.
FRESH_TEST(PurgeAfter, AFallWaitsForAWholeTick) {
  start();
  free_limit_option() = 8 * kSlotBytes;
  take_and_touch(64);
  pass_tick();
  for (u32 i = 1; i < 64; ++i) release_slots(&first_arena(), i, 1, 1);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u);
  pass_tick();
  purge_after(0);
  EXPECT_EQ(dirty(), 63 * kSlotBytes) << "the tick in which it fell";
  pass_tick();
  for (int call = 0; call < 20; ++call) purge_after(kSlotBytes);
  EXPECT_EQ(dirty(), 8 * kSlotBytes);
}

// What comes back in each tick is kept; when it stops coming back it goes.
FRESH_TEST(PurgeAfter, ABreathIsKept) {
  start();
  start_tick();
  free_limit_option() = 0;
  const auto breathe = [] {
    for (u32 i = 0; i < 40; ++i) acquire_slots(32, 32, 0);
    for (u32 i = 0; i < 40; ++i) release_slots(&first_arena(), i * 32, 32, low_mask(32));
  };
  for (int breath = 0; breath < 30; ++breath) {
    breathe();
    g_now += kTickNs / 3;
    fake::set_clock(g_now);
  }
  EXPECT_EQ(dirty(), 40 * kMiB);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u);
  for (int tick = 0; tick < 3; ++tick) {
    pass_tick();
    for (int call = 0; call < 100; ++call) purge_after(kMiB);
  }
  EXPECT_EQ(dirty(), 0u);
}

// Holes that serve no request: the process does not grow by them beyond the limit. Who grows gives them back.
FRESH_TEST(PurgeAfter, NewMemoryTakesThePlaceOfHoles) {
  test::changeable_options().huge = config::HugePolicy::never;  // of those, slots that nobody used go first
  start();
  start_tick();
  for (u32 i = 0; i < 20 * kSlotsPerChunk; ++i) ASSERT_EQ(acquire_slots(1, 1, 0).slot, i);
  free_limit_option() = kMiB;
  for (u32 i = 0; i < 20 * kSlotsPerChunk; i += 2) release_slots(&first_arena(), i, 1, 1);
  EXPECT_EQ(dirty(), 20 * kMiB);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u) << "they may be wanted in this tick";
  usize most = 0;
  for (u32 i = 0; i < 40; ++i) {
    ASSERT_EQ(acquire_slots(32, 32, 0).dirty, 0u);
    EXPECT_LE(dirty(), free_bound()) << i;
    most = held_and_dirty() > most ? held_and_dirty() : most;
  }
  EXPECT_LE(most, 60 * kMiB * 9 / 8 + kMiB + kFreeBatch) << "where 80 MiB were touched";
  EXPECT_LT(dirty(), 10 * kMiB);
}

// --- The sweep. ---

FRESH_TEST(Sweep, GivesBackAFallAndOfAQuietProgramNearlyAll) {
  start();
  start_tick();
  free_limit_option() = 8 * kMiB;
  for (u32 i = 0; i < 80; ++i) acquire_slots(32, 32, 0);
  for (u32 i = 1; i < 80; ++i) release_slots(&first_arena(), i * 32, 32, low_mask(32));
  const auto sweep = [] {
    begin_sweep();
    return purge_what_waits();
  };
  EXPECT_TRUE(sweep()) << "it is over the option, and waits";
  EXPECT_EQ(dirty(), 79 * kMiB);
  release_slots(&first_arena(), 0, 1, 1);
  EXPECT_FALSE(sweep()) << "only the option is left";
  EXPECT_EQ(dirty(), 8 * kMiB + kSlotBytes) << "and what fell in this tick";
  sweep();
  EXPECT_EQ(dirty(), least_free_limit()) << "nothing was touched in this tick";
}

// Where the kernel refuses, nobody stays to wait; and what may be there is told all the same.
FRESH_TEST(Sweep, DoesNotWaitForAKernelThatRefuses) {
  start();
  start_tick();
  free_limit_option() = kMiB;
  for (u32 i = 0; i < 80; ++i) acquire_slots(32, 32, 0);
  for (u32 i = 1; i < 80; ++i) release_slots(&first_arena(), i * 32, 32, low_mask(32));
  refuse_purges();
  begin_sweep();
  EXPECT_TRUE(purge_what_waits());
  for (int tick = 0; tick < 3; ++tick) {
    begin_sweep();
    EXPECT_FALSE(purge_what_waits());
    EXPECT_LE(dirty(), free_bound());
  }
  EXPECT_EQ(dirty(), 79 * kMiB);
}

// A call looks at a bounded number of chunks; what hides the memory from it is passed in the end.
FRESH_TEST(PurgeAfter, LooksAtSixteenChunksAtMost) {
  start();
  for (u32 i = 0; i < 2 * 80; ++i) acquire_slots(32, 32, 0);
  free_without_purge(0, 1);
  // Bits of chunks that have nothing to give.
  first_arena().groups[0].dirty.store(~u64{0}, relaxed);
  first_arena().groups[1].dirty.store(0, relaxed);
  pass_two_ticks();
  free_limit_option() = 0;
  for (int call = 0; call < 3; ++call) {
    purge_after(0);
    EXPECT_EQ(dirty(), kSlotBytes) << "sixteen chunks had nothing";
  }
  purge_after(0);
  EXPECT_EQ(dirty(), 0u);
}

// Nor does a group whose pages the kernel keeps hide the others.
FRESH_TEST(PurgeAfter, GoesOnBelowWhatTheKernelKeeps) {
  start();
  for (u32 i = 0; i < 2 * 100; ++i) acquire_slots(32, 32, 0);
  for (u32 chunk = 0; chunk < 100; ++chunk) free_without_purge(chunk * kSlotsPerChunk, 1);
  pass_two_ticks();
  free_limit_option() = 0;
  refuse_purges();
  for (int call = 0; call < 3; ++call) purge_after(kSlotBytes);
  EXPECT_EQ(dirty(), 100 * kSlotBytes);
  fake::stop_faults();
  for (int call = 0; call < 20; ++call) purge_after(kSlotBytes);
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
  // Of all chunks: who loses a claim to another takes a chunk that nobody has.
  usize resident_slots = 0;
  for (u32 i = 0; i < first_arena().highest_chunk.load(relaxed); ++i) {
    resident_slots += count_bits(first_arena().chunks[i].dirty.load(relaxed));
  }
  EXPECT_EQ(dirty(), resident_slots * kSlotBytes);
  EXPECT_EQ(test::forgotten_room(first_arena()), 0u);
}

}  // namespace
}  // namespace coffer
