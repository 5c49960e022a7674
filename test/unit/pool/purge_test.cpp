// SPDX-License-Identifier: MIT
#include <vector>

#include "os/probe.hpp"
#include "pool/hints.hpp"
#include "pool/purging.hpp"
#include "support/random.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using namespace test;

usize resident(u32 slice) { return test::resident_pages(slice_at(slice), kSliceBytes) * os::page_size(); }

// --- purge_free. ---

FRESH_TEST(PurgeFree, GivesThePagesOfFreeSlicesBack) {
  start();
  take_and_touch(8);
  release_slices(&first_arena(), 2, 3, 0b111);
  release_slices(&first_arena(), 6, 1, 1);
  EXPECT_EQ(dirty(), 4 * kSliceBytes);
  EXPECT_EQ(resident(2), kSliceBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), 4 * kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
  for (const u32 slice : {2u, 3u, 4u, 6u}) EXPECT_EQ(resident(slice), 0u) << slice;
  for (const u32 slice : {0u, 1u, 5u, 7u}) EXPECT_TRUE(test::all_bytes(slice_at(slice), kSliceBytes, 7)) << slice;
  EXPECT_EQ(first_arena().chunks[0].free.load(relaxed) & 0xff, 0b0101'1100u) << "they are free as before";
  EXPECT_EQ(test::forgotten_room(first_arena()), 0u);
  const SliceRun again = acquire_slices(1, 1, 0);
  EXPECT_EQ(again.dirty, 0u);
  EXPECT_TRUE(test::all_bytes(slice_at(again.slice), kSliceBytes, 0));
  EXPECT_EQ(purge_free(~usize{0} / 2), 0u) << "nothing is left";
}

// A page of side tables goes with the slices of which it has all tables, and with no other.
FRESH_TEST(PurgeFree, GivesTheSideTablesOfFreeSlicesBack) {
  start();
  const usize page = os::page_size();
  const u32 all = static_cast<u32>(divide_up(4 * page, kUnitMapBytes));
  // The slices of which a part of the table lies in the second page or the third.
  const u32 first = static_cast<u32>(page / kUnitMapBytes);
  const u32 count = static_cast<u32>(divide_up(3 * page, kUnitMapBytes)) - first;
  take_and_touch(all);
  ASSERT_TRUE(commit_unit_maps(&first_arena(), all));
  char* maps = reinterpret_cast<char*>(first_arena().unit_maps);
  std::memset(maps, 5, 4 * os::page_size());
  release_slices(&first_arena(), first, count, low_mask(count));
  EXPECT_EQ(purge_free(~usize{0} / 2), count * kSliceBytes);
  EXPECT_EQ(test::resident_pages(maps + os::page_size(), 2 * os::page_size()), 0u);
  EXPECT_TRUE(test::all_bytes(maps, os::page_size(), 5)) << "a slice before is used";
  EXPECT_TRUE(test::all_bytes(maps + 3 * os::page_size(), os::page_size(), 5)) << "the slices behind are used";
}

FRESH_TEST(PurgeFree, StopsWhereItIsTold) {
  start();
  take_and_touch(8);
  release_slices(&first_arena(), 0, 8, 0xff);
  EXPECT_EQ(purge_free(kSliceBytes), kSliceBytes);
  EXPECT_EQ(dirty(), 7 * kSliceBytes);
  EXPECT_EQ(purge_free(kSliceBytes + 1), 2 * kSliceBytes) << "by whole slices";
  EXPECT_EQ(purge_free(0), 0u);
  EXPECT_EQ(dirty(), 5 * kSliceBytes);
}

// The lowest addresses are used again first, so the highest go first.
FRESH_TEST(PurgeFree, BeginsAtTheHighestAddress) {
  start();
  for (u32 i = 0; i < 6; ++i) acquire_slices(32, 32, 0);
  for (u32 chunk = 0; chunk < 3; ++chunk) release_slices(&first_arena(), chunk * kSlicesPerChunk, 2, 0b11);
  const auto left = [](u32 chunk) { return first_arena().chunks[chunk].dirty.load(relaxed); };
  EXPECT_EQ(purge_free(3 * kSliceBytes), 3 * kSliceBytes);
  EXPECT_EQ(left(0), 0b11u);
  EXPECT_EQ(left(1), 0b01u);
  EXPECT_EQ(left(2), 0u);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0b011u);
  release_slices(&first_arena(), 2 * kSlicesPerChunk + 9, 1, 1);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0b111u);
  EXPECT_EQ(purge_free(2 * kSliceBytes), 2 * kSliceBytes);
  EXPECT_EQ(left(0), 0b11u);
  EXPECT_EQ(left(1) | left(2), 0u);
  EXPECT_EQ(purge_free(8 * kSliceBytes), 2 * kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(first_arena().groups[0].dirty.load(relaxed), 0u);
}

// Of a free chunk, too, no more goes than was asked for.
FRESH_TEST(PurgeFree, TakesPartOfAFreeChunk) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  std::memset(slice_at(0), 7, kChunkBytes);
  return_chunks(run.arena, 0, 1, true);
  EXPECT_EQ(purge_free(3 * kSliceBytes), 3 * kSliceBytes);
  EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), low_mask(61));
  EXPECT_EQ(dirty(), 61 * kSliceBytes);
  EXPECT_EQ(resident(61) + resident(63), 0u);
  EXPECT_EQ(resident(60), kSliceBytes);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(run.dirty, 61 * kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(PurgeFree, ChunksReturnedInPartAreDirtyInPart) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  return_chunks_partly(run.arena, 0, 3, kChunkBytes + kSliceBytes + 1);
  EXPECT_EQ(dirty(), kChunkBytes + 2 * kSliceBytes);
  EXPECT_EQ(first_arena().chunks[1].dirty.load(relaxed), 0b11u);
  EXPECT_EQ(first_arena().chunks[2].dirty.load(relaxed), 0u);
  EXPECT_EQ(purge_free(~usize{0} / 2), kChunkBytes + 2 * kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(PurgeFree, TakesFreeChunksToo) {
  start();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  std::memset(slice_at(0), 7, 3 * kChunkBytes);
  return_chunks(run.arena, 0, 1, true);
  return_chunks(run.arena, 2, 1, true);
  EXPECT_EQ(dirty(), 2 * kChunkBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), 2 * kChunkBytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(resident(0), 0u);
  EXPECT_TRUE(test::all_bytes(slice_at(kSlicesPerChunk), kChunkBytes, 7)) << "chunk 1 is in use";
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0b010u);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_TRUE(run.fresh);
}

FRESH_TEST(PurgeFree, WalksAllArenas) {
  free_limit_option() = u64{1} << 40;
  ASSERT_TRUE(arenas_start(8 * kMiB));
  slice_pool_start(1);
  for (u32 i = 0; i < 10; ++i) ASSERT_EQ(acquire_slices(32, 32, 0).count, 32u);
  ASSERT_EQ(g_arenas.count.load(relaxed), 2u);
  release_slices(&g_arenas.arenas[1], 5, 2, 0b11);
  release_slices(&first_arena(), 70, 1, 1);
  EXPECT_EQ(purge_free(~usize{0} / 2), 3 * kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
}

// The kernel refuses: what it did not give back still counts, whole or torn.
FRESH_TEST(PurgeFree, WhatIsRefusedStaysDirty) {
  start();
  take_and_touch(8);
  release_slices(&first_arena(), 0, 4, 0b1111);
  for (const fake::Damage damage : {fake::Damage::none, fake::Damage::torn}) {
    refuse_purges(damage);
    EXPECT_EQ(purge_free(~usize{0} / 2), 0u);
    EXPECT_EQ(fake::failed_calls(), 1u) << "one call for four neighbours";
    EXPECT_EQ(dirty(), 4 * kSliceBytes);
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
  EXPECT_EQ(dirty(), kChunkBytes + 4 * kSliceBytes);
  EXPECT_EQ(purge_free(~usize{0} / 2), kChunkBytes + 4 * kSliceBytes);
}

FRESH_TEST(PurgeFree, RefusalOfOneRunSparesTheOthers) {
  start();
  take_and_touch(8);
  for (const u32 slice : {1u, 3u, 5u}) release_slices(&first_arena(), slice, 1, 1);
  fake::Faults faults;
  faults.nth = 2;
  faults.kinds = fake::kPurge;
  fake::set_faults(faults);
  EXPECT_EQ(purge_free(3 * kSliceBytes), 2 * kSliceBytes);
  EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), 0b1000u);
}

// The kernel fills a huge page whole: slices that nobody used are resident, too.
FRESH_TEST(PurgeFree, AHugePageIsGivenUpWhole) {
  test::changeable_options().huge = config::HugePolicy::always;
  start();
  take_and_touch(4);
  release_slices(&first_arena(), 0, 1, 1);
  ASSERT_EQ(first_arena().chunks[0].huge.get(), 1u);
  EXPECT_EQ(purge_free(~usize{0} / 2), kSliceBytes) << "only what counted as free memory is work done";
  EXPECT_EQ(first_arena().chunks[0].huge.get(), 0u);
  EXPECT_EQ(dirty(), 0u);
  for (u32 slice = 4; slice < kSlicesPerChunk; ++slice) EXPECT_EQ(resident(slice), 0u) << slice;
  EXPECT_TRUE(test::all_bytes(slice_at(1), 3 * kSliceBytes, 7));
}

// What a huge page brought in and nobody used goes with it, and takes no place of what has to go.
FRESH_TEST(PurgeFree, OfAHugePageAsMuchAsWasAskedForWasUsed) {
  test::changeable_options().huge = config::HugePolicy::always;
  start();
  take_and_touch(8);
  release_slices(&first_arena(), 0, 4, 0b1111);
  EXPECT_EQ(purge_free(kSliceBytes), kSliceBytes);
  EXPECT_EQ(dirty(), 3 * kSliceBytes);
  EXPECT_EQ(first_arena().chunks[0].dirty.load(relaxed), 0b0111u) << "the highest of them";
  for (u32 slice = 8; slice < kSlicesPerChunk; ++slice) EXPECT_EQ(resident(slice), 0u) << slice;
  EXPECT_EQ(fake::calls_of(fake::kPurge), 2u) << "one run of used slices, and one of those that nobody used";
  // A free chunk as well.
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  run.arena->chunks[run.index].huge.set(1);
  return_chunks_partly(run.arena, run.index, 1, 4 * kSliceBytes);
  EXPECT_EQ(purge_free(kSliceBytes), kSliceBytes);
  EXPECT_EQ(run.arena->chunks[run.index].dirty.load(relaxed), 0b0111u);
  EXPECT_EQ(run.arena->chunks[run.index].huge.get(), 0u);
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
        purge_free((1 + random.below(8)) * kSliceBytes);
        continue;
      }
      const u32 count = 1u << random.below(4);
      const SliceRun run = acquire_slices(count, count, 0);
      ASSERT_EQ(run.count, count);
      for (u32 i = 0; i < count; ++i) {
        u64* word = reinterpret_cast<u64*>(slice_at(run.slice + i) + kSliceBytes - sizeof(u64));
        if (((run.dirty >> i) & 1) == 0) {
          ASSERT_EQ(*word, 0u);
        }
        *word = round + 1;
      }
      std::this_thread::yield();
      for (u32 i = 0; i < count; ++i) {
        const u64 word = *reinterpret_cast<u64*>(slice_at(run.slice + i) + kSliceBytes - sizeof(u64));
        ASSERT_EQ(word, round + 1) << "purged in use";
      }
      release_slices(run.arena, run.slice, count, low_mask(count));
    }
  });
  EXPECT_EQ(counters().held.load(relaxed), 0u);
  // Of all chunks: who loses a claim to another takes a chunk that nobody has.
  usize resident_slices = 0;
  for (u32 i = 0; i < first_arena().highest_chunk.load(relaxed); ++i) {
    resident_slices += count_bits(first_arena().chunks[i].dirty.load(relaxed));
  }
  EXPECT_EQ(dirty(), resident_slices * kSliceBytes);
  EXPECT_EQ(test::forgotten_room(first_arena()), 0u);
}

}  // namespace
}  // namespace coffer
