// SPDX-License-Identifier: MIT
#include "pool/slice_pool.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "pool/hints.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;
constexpr u64 kNoLimit = u64{1} << 40;

usize held() { return counters().held.load(relaxed); }
usize dirty() { return counters().dirty.load(relaxed); }
Arena& first_arena() { return g_arenas.arenas[0]; }

// Nothing is purged unless the test asks for it.
void start(u32 shards, usize bytes = 256 * kMiB) {
  test::changeable_options().free_limit = kNoLimit;
  ASSERT_TRUE(arenas_start(bytes));
  slice_pool_start(shards);
}

// --- Shards. ---

FRESH_TEST(Shards, ArePowersOfTwo) {
  const struct {
    u32 wanted, got;
  } cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 4}, {5, 8}, {16, 16}, {17, 16}, {~u32{0}, 16}};
  for (const auto& one : cases) {
    slice_pool_start(one.wanted);
    EXPECT_EQ(shard_count(), one.got) << one.wanted;
  }
}

FRESH_TEST(Shards, FollowTheProcessor) {
  slice_pool_start(4);
  for (u32 processor = 0; processor < 10; ++processor) {
    fake::set_current_processor(processor);
    EXPECT_EQ(current_shard(), processor % 4);
  }
  slice_pool_start(1);
  EXPECT_EQ(current_shard(), 0u);
}

FRESH_TEST(Shards, TakeTheirOwnRoomFirstThenThatOfOthersThenANewChunk) {
  start(2);
  const SliceRun zero = acquire_slices(32, 32, 0);
  EXPECT_EQ(zero.slice, 0u);
  const SliceRun borrowed = acquire_slices(32, 32, 1);
  EXPECT_EQ(borrowed.slice, 32u) << "from the other's chunk";
  const SliceRun own = acquire_slices(32, 32, 1);
  EXPECT_EQ(own.slice, kSlicesPerChunk) << "a new chunk, of the shard's residue";
  const SliceRun zero_again = acquire_slices(1, 1, 0);
  EXPECT_EQ(zero_again.slice, kSlicesPerChunk + 32);
  release_slices(zero.arena, 0, 32, 0);
  EXPECT_EQ(acquire_slices(1, 1, 1).slice, kSlicesPerChunk + 33) << "its own first, though a lower chunk has room";
  EXPECT_EQ(acquire_slices(1, 1, 0).slice, 0u);
}

// --- Claims. ---

FRESH_TEST(Claim, IsTheLowestAlignedRun) {
  start(1);
  const SliceRun first = acquire_slices(1, 1, 0);
  EXPECT_EQ(first.slice, 0u);
  EXPECT_EQ(acquire_slices(2, 2, 0).slice, 2u);
  EXPECT_EQ(acquire_slices(8, 8, 0).slice, 8u);
  EXPECT_EQ(acquire_slices(1, 1, 0).slice, 1u);
  EXPECT_EQ(acquire_slices(4, 4, 0).slice, 4u);
  EXPECT_EQ(acquire_slices(5, 1, 0).slice, 16u);
  EXPECT_EQ(acquire_slices(5, 1, 0).slice, 21u) << "a run that asks for no alignment gets none";
  EXPECT_EQ(acquire_slices(32, 1, 0).slice, 26u);
  EXPECT_EQ(acquire_slices(3, 32, 0).slice, kSlicesPerChunk) << "no aligned place is left";
  EXPECT_EQ(held(), (1 + 2 + 8 + 1 + 4 + 5 + 5 + 32 + 3) * kSliceBytes);
}

FRESH_TEST(Claim, EveryCountAtEveryAlignmentStaysInItsChunk) {
  start(1);
  for (u32 alignment = 1; alignment <= 32; alignment *= 2) {
    std::vector<SliceRun> runs;
    for (u32 count = 1; count <= 32; ++count) {
      const SliceRun run = acquire_slices(count, alignment, 0);
      ASSERT_EQ(run.count, count);
      EXPECT_EQ(run.slice % alignment, 0u);
      EXPECT_EQ(run.slice / kSlicesPerChunk, (run.slice + count - 1) / kSlicesPerChunk);
      EXPECT_EQ(run.dirty, 0u);
      runs.push_back(run);
    }
    for (const SliceRun& run : runs) release_slices(run.arena, run.slice, run.count, 0);
    EXPECT_EQ(held(), 0u);
  }
}

FRESH_TEST(Claim, NeighboursJoinInWhateverOrderTheyCameBack) {
  start(1);
  test::Random random(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<u32> slices;
    for (u32 i = 0; i < kSlicesPerChunk; ++i) slices.push_back(acquire_slices(1, 1, 0).slice);
    while (!slices.empty()) {
      std::swap(slices[random.below(slices.size())], slices.back());
      release_slices(&first_arena(), slices.back(), 1, 0);
      slices.pop_back();
    }
    EXPECT_EQ(acquire_slices(32, 32, 0).slice, 0u);
    EXPECT_EQ(acquire_slices(32, 32, 0).slice, 32u);
    release_slices(&first_arena(), 0, 32, 0);
    release_slices(&first_arena(), 32, 32, 0);
  }
  EXPECT_EQ(counters().chunks.load(relaxed), 1u);
}

FRESH_TEST(Claim, PrefersWhatIsResident) {
  start(1);
  const SliceRun all = acquire_slices(16, 16, 0);
  release_slices(all.arena, 0, 4, 0);
  release_slices(all.arena, 8, 2, 0b10);
  EXPECT_EQ(dirty(), kSliceBytes);
  const SliceRun one = acquire_slices(1, 1, 0);
  EXPECT_EQ(one.slice, 9u);
  EXPECT_EQ(one.dirty, 1u);
  EXPECT_EQ(dirty(), 0u) << "it is free memory no longer";
  EXPECT_EQ(acquire_slices(1, 1, 0).slice, 0u);
}

FRESH_TEST(Claim, TellsWhichSlicesOfARunHoldOldData) {
  start(1);
  const SliceRun all = acquire_slices(8, 8, 0);
  release_slices(all.arena, 0, 8, 0b1010'0110);
  EXPECT_EQ(dirty(), 4 * kSliceBytes);
  // No resident run of four, so the lowest.
  const SliceRun four = acquire_slices(4, 4, 0);
  EXPECT_EQ(four.slice, 0u);
  EXPECT_EQ(four.dirty, 0b0110u);
  EXPECT_EQ(dirty(), 2 * kSliceBytes);
}

FRESH_TEST(Claim, LooksForAResidentRunInOtherChunks) {
  start(1);
  acquire_slices(32, 32, 0);
  const SliceRun second_half = acquire_slices(32, 32, 0);
  const SliceRun other = acquire_slices(32, 32, 0);
  ASSERT_EQ(other.slice, kSlicesPerChunk);
  release_slices(other.arena, other.slice, 32, low_mask(32));
  release_slices(second_half.arena, second_half.slice, 32, 0);
  const SliceRun again = acquire_slices(32, 32, 0);
  EXPECT_EQ(again.slice, other.slice) << "though a lower chunk has room that is not resident";
  EXPECT_EQ(again.dirty, low_mask(32));
}

// No aligned run of eight is free in the first chunk, so the map of room does not name it for five slices.
// Where the last run of its length was found is only where the search begins.
FRESH_TEST(Claim, GoesOnAtTheLowestChunkThatHasAResidentRun) {
  start(1);
  for (u32 i = 0; i < 8; ++i) acquire_slices(32, 32, 0);  // four chunks
  Arena* arena = &first_arena();
  const auto give_back = [&](u32 chunk, u32 slices) {
    release_slices(arena, chunk * kSlicesPerChunk, slices, low_mask(slices));
  };
  const auto chunk_of_next = [&](u32 slices) { return acquire_slices(slices, 1, 0).slice / kSlicesPerChunk; };
  give_back(2, 32);
  EXPECT_EQ(chunk_of_next(4), 2u);
  give_back(1, 16);
  EXPECT_EQ(chunk_of_next(4), 1u) << "given back below";
  EXPECT_EQ(chunk_of_next(8), 1u);
  EXPECT_EQ(chunk_of_next(8), 2u) << "used up there";
  EXPECT_EQ(chunk_of_next(4), 1u);
  EXPECT_EQ(chunk_of_next(4), 2u);
  // Two neighbours that join below are found when there is nothing above.
  release_slices(arena, 0, 2, low_mask(2));
  release_slices(arena, 2, 2, low_mask(2));
  while (chunk_of_next(4) != 0) ASSERT_NE(dirty(), 0u);
}

FRESH_TEST(Shards, TakeResidentRunsOfTheirOwnChunksFirst) {
  start(2);
  SliceRun runs[8];
  for (u32 i = 0; i < 8; ++i) runs[i] = acquire_slices(32, 32, i / 2 % 2);  // two to a chunk
  for (const SliceRun& run : runs) release_slices(run.arena, run.slice, 32, low_mask(32));
  for (u32 i = 0; i < 8; ++i) {
    const u32 shard = i % 2;
    EXPECT_EQ(acquire_slices(16, 1, shard).slice / kSlicesPerChunk % 2, shard) << i;
  }
}

FRESH_TEST(Claim, LooksForAResidentRunAcrossTheBordersOfAlignedOnes) {
  start(1);
  for (int i = 0; i < 3; ++i) acquire_slices(32, 32, 0);
  release_slices(&first_arena(), 5, 6, low_mask(6));
  release_slices(&first_arena(), kSlicesPerChunk, 32, 0);
  const SliceRun run = acquire_slices(5, 1, 0);
  EXPECT_EQ(run.slice, 5u);
  EXPECT_EQ(run.dirty, low_mask(5));
}

FRESH_TEST(Claim, OfManySlicesTakesARunThatIsMostlyResident) {
  start(1);
  for (int i = 0; i < 4; ++i) acquire_slices(32, 32, 0);
  release_slices(&first_arena(), 0, 16, low_mask(3));
  release_slices(&first_arena(), kSlicesPerChunk + 8, 16, low_mask(5) << 6);
  const SliceRun run = acquire_slices(8, 1, 0);
  EXPECT_EQ(run.slice, kSlicesPerChunk + 11) << "the lowest of those that have all five";
  EXPECT_EQ(count_bits(run.dirty), 5u);
  // What is left is less than half of eight: the lowest chunk, and there where most is resident.
  const SliceRun next = acquire_slices(8, 1, 0);
  EXPECT_EQ(next.slice, 0u);
  EXPECT_EQ(count_bits(next.dirty), 3u);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(Claim, ASingleSliceIsAResidentOneOfAnyShardBeforeAFreshOneOfItsOwn) {
  start(2);
  const SliceRun zero = acquire_slices(32, 32, 0);
  const SliceRun rest = acquire_slices(32, 32, 0);
  const SliceRun own = acquire_slices(1, 1, 1);
  ASSERT_EQ(own.slice, kSlicesPerChunk);
  release_slices(zero.arena, zero.slice, zero.count, low_mask(2));
  release_slices(own.arena, own.slice, 1, 1);
  EXPECT_EQ(acquire_slices(1, 1, 1).slice, own.slice) << "a resident one of its own chunk before that";
  const SliceRun borrowed = acquire_slices(1, 1, 1);
  EXPECT_EQ(borrowed.slice, 0u) << "though its own chunk has 63 fresh ones";
  EXPECT_EQ(borrowed.dirty, 1u);
  EXPECT_EQ(acquire_slices(1, 1, 1).slice, 1u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(acquire_slices(1, 1, 1).slice, own.slice + 1) << "none is resident";
  release_slices(rest.arena, rest.slice, rest.count, 0);
}

FRESH_TEST(Claim, InPlaceTakesJustTheSlicesBehind) {
  start(1);
  const SliceRun low = acquire_slices(4, 4, 0);
  const SliceRun next = acquire_slices(4, 4, 0);
  ASSERT_EQ(next.slice, 4u);
  u64 old_data = 1;
  EXPECT_FALSE(acquire_slices_at(low.arena, 4, 1, &old_data)) << "taken";
  release_slices(next.arena, 6, 2, 0b01);
  EXPECT_FALSE(acquire_slices_at(low.arena, 4, 4, &old_data)) << "taken in part";
  EXPECT_EQ(low.arena->chunks[0].free.load(relaxed) & 0xff, 0xc0u) << "a claim that fails takes nothing";
  release_slices(next.arena, 4, 2, 0b10);
  EXPECT_EQ(dirty(), 2 * kSliceBytes);
  EXPECT_TRUE(acquire_slices_at(low.arena, 4, 4, &old_data));
  EXPECT_EQ(old_data, 0b0110u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(held(), 8 * kSliceBytes);
  EXPECT_TRUE(acquire_slices_at(low.arena, 8, 56, &old_data));
  EXPECT_FALSE(acquire_slices_at(low.arena, kSlicesPerChunk, 1, &old_data)) << "the next chunk";
}

FRESH_TEST(Claim, InPlaceEndsWithTheChunk) {
  start(1);
  acquire_slices(32, 32, 0);
  u64 old_data = 0;
  EXPECT_FALSE(acquire_slices_at(&first_arena(), 32, 33, &old_data));
  EXPECT_TRUE(acquire_slices_at(&first_arena(), 32, 32, &old_data));
}

// --- No memory. ---

FRESH_TEST(Exhaustion, EndsWithNothingAndTakesWhatComesBack) {
  start(2, 8 * kMiB);
  fake::set_address_space(1);
  for (u32 i = 0; i < 4 * kSlicesPerChunk; ++i) ASSERT_EQ(acquire_slices(1, 1, i % 2).count, 1u) << i;
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 0u);
  EXPECT_EQ(held(), 8 * kMiB) << "a claim that fails counts nothing";
  release_slices(&first_arena(), 77, 1, 0);
  EXPECT_EQ(acquire_slices(2, 2, 0).count, 0u);
  EXPECT_EQ(acquire_slices(1, 1, 0).slice, 77u);
}

FRESH_TEST(Exhaustion, FindsRunsThatLieAcrossTheBordersOfAlignedOnes) {
  start(1, 4 * kMiB);
  fake::set_address_space(1);
  std::vector<SliceRun> singles;
  for (SliceRun run = acquire_slices(1, 1, 0); run.count != 0; run = acquire_slices(1, 1, 0)) singles.push_back(run);
  for (u32 count = 2; count <= 32; ++count) {
    const u32 first = kSlicesPerChunk - 1 - count;  // odd or not, and as far from the border of a large order as can be
    for (const u32 slice : {u32{1}, u32{3}, first}) {
      Arena* arena = singles.front().arena;
      release_slices(arena, slice, count, 0);
      EXPECT_EQ(acquire_slices(count + 1, 1, 0).count, 0u);
      const SliceRun run = acquire_slices(count, 1, 0);
      ASSERT_EQ(run.count, count) << "at " << slice;
      EXPECT_EQ(run.slice, slice);
    }
  }
}

FRESH_TEST(Exhaustion, OfPhysicalMemoryOnlyConcernsNewChunks) {
  start(1);
  const SliceRun first = acquire_slices(1, 1, 0);
  ASSERT_EQ(first.count, 1u);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  for (u32 i = 1; i < kSlicesPerChunk; ++i) ASSERT_EQ(acquire_slices(1, 1, 0).count, 1u);
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 0u);
  fake::stop_faults();
  EXPECT_EQ(acquire_slices(1, 1, 0).slice, kSlicesPerChunk);
}

// --- Empty chunks. ---

FRESH_TEST(EmptyChunks, GoBackToTheArenaAndOthersStay) {
  start(1, 8 * kMiB);
  std::vector<SliceRun> halves;
  for (int i = 0; i < 6; ++i) halves.push_back(acquire_slices(32, 32, 0));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  // Chunk 0 clean, chunk 1 with a slice in use, chunk 2 with one that is resident.
  for (const SliceRun& half : halves) {
    if (half.slice != kSlicesPerChunk)
      release_slices(half.arena, half.slice, 32, half.slice == 2 * kSlicesPerChunk ? 2 : 0);
  }
  EXPECT_FALSE(take_chunks(1, 1, false, &run)) << "the pool keeps them until somebody asks";
  return_empty_chunks();
  EXPECT_EQ(dirty(), kSliceBytes);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0b1010u);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(run.index, 0u);
  EXPECT_TRUE(run.fresh);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(run.index, 2u);
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(dirty(), 0u);
  // The map may still name the chunks that are gone: a search finds nothing in them.
  EXPECT_EQ(acquire_slices(32, 32, 0).slice, kSlicesPerChunk + 32);
  return_chunks(run.arena, 2, 1, false);
  EXPECT_EQ(acquire_slices(32, 32, 0).slice, 2 * kSlicesPerChunk);
  EXPECT_EQ(acquire_slices(32, 32, 0).slice, 2 * kSlicesPerChunk + 32);
}

FRESH_TEST(EmptyChunks, ReturnOldDataToTheNextPool) {
  start(1, 8 * kMiB);
  const SliceRun all = acquire_slices(32, 32, 0);
  release_slices(all.arena, all.slice, 32, 1);
  return_empty_chunks();
  const SliceRun again = acquire_slices(2, 2, 0);
  EXPECT_EQ(again.slice, 0u);
  EXPECT_EQ(again.dirty, 1u);
  EXPECT_EQ(dirty(), 0u);
}

}  // namespace
}  // namespace coffer
