// SPDX-License-Identifier: MIT
#include "pool/slot_pool.hpp"

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
  slot_pool_start(shards);
}

// --- Shards. ---

FRESH_TEST(Shards, ArePowersOfTwo) {
  const struct {
    u32 wanted, got;
  } cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 4}, {5, 8}, {16, 16}, {17, 16}, {~u32{0}, 16}};
  for (const auto& one : cases) {
    slot_pool_start(one.wanted);
    EXPECT_EQ(shard_count(), one.got) << one.wanted;
  }
}

FRESH_TEST(Shards, FollowTheProcessor) {
  slot_pool_start(4);
  for (u32 processor = 0; processor < 10; ++processor) {
    fake::set_current_processor(processor);
    EXPECT_EQ(current_shard(), processor % 4);
  }
  slot_pool_start(1);
  EXPECT_EQ(current_shard(), 0u);
}

FRESH_TEST(Shards, TakeTheirOwnRoomFirstThenThatOfOthersThenANewChunk) {
  start(2);
  const SlotRun zero = acquire_slots(32, 32, 0);
  EXPECT_EQ(zero.slot, 0u);
  const SlotRun borrowed = acquire_slots(32, 32, 1);
  EXPECT_EQ(borrowed.slot, 32u) << "from the other's chunk";
  const SlotRun own = acquire_slots(32, 32, 1);
  EXPECT_EQ(own.slot, kSlotsPerChunk) << "a new chunk, of the shard's residue";
  const SlotRun zero_again = acquire_slots(1, 1, 0);
  EXPECT_EQ(zero_again.slot, kSlotsPerChunk + 32);
  release_slots(zero.arena, 0, 32, 0);
  EXPECT_EQ(acquire_slots(1, 1, 1).slot, kSlotsPerChunk + 33) << "its own first, though a lower chunk has room";
  EXPECT_EQ(acquire_slots(1, 1, 0).slot, 0u);
}

// --- Claims. ---

FRESH_TEST(Claim, IsTheLowestAlignedRun) {
  start(1);
  const SlotRun first = acquire_slots(1, 1, 0);
  EXPECT_EQ(first.slot, 0u);
  EXPECT_EQ(acquire_slots(2, 2, 0).slot, 2u);
  EXPECT_EQ(acquire_slots(8, 8, 0).slot, 8u);
  EXPECT_EQ(acquire_slots(1, 1, 0).slot, 1u);
  EXPECT_EQ(acquire_slots(4, 4, 0).slot, 4u);
  EXPECT_EQ(acquire_slots(5, 1, 0).slot, 16u);
  EXPECT_EQ(acquire_slots(5, 1, 0).slot, 21u) << "a run that asks for no alignment gets none";
  EXPECT_EQ(acquire_slots(32, 1, 0).slot, 26u);
  EXPECT_EQ(acquire_slots(3, 32, 0).slot, kSlotsPerChunk) << "no aligned place is left";
  EXPECT_EQ(held(), (1 + 2 + 8 + 1 + 4 + 5 + 5 + 32 + 3) * kSlotBytes);
}

FRESH_TEST(Claim, EveryCountAtEveryAlignmentStaysInItsChunk) {
  start(1);
  for (u32 alignment = 1; alignment <= 32; alignment *= 2) {
    std::vector<SlotRun> runs;
    for (u32 count = 1; count <= 32; ++count) {
      const SlotRun run = acquire_slots(count, alignment, 0);
      ASSERT_EQ(run.count, count);
      EXPECT_EQ(run.slot % alignment, 0u);
      EXPECT_EQ(run.slot / kSlotsPerChunk, (run.slot + count - 1) / kSlotsPerChunk);
      EXPECT_EQ(run.dirty, 0u);
      runs.push_back(run);
    }
    for (const SlotRun& run : runs) release_slots(run.arena, run.slot, run.count, 0);
    EXPECT_EQ(held(), 0u);
  }
}

FRESH_TEST(Claim, NeighboursJoinInWhateverOrderTheyCameBack) {
  start(1);
  test::Random random(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<u32> slots;
    for (u32 i = 0; i < kSlotsPerChunk; ++i) slots.push_back(acquire_slots(1, 1, 0).slot);
    while (!slots.empty()) {
      std::swap(slots[random.below(slots.size())], slots.back());
      release_slots(&first_arena(), slots.back(), 1, 0);
      slots.pop_back();
    }
    EXPECT_EQ(acquire_slots(32, 32, 0).slot, 0u);
    EXPECT_EQ(acquire_slots(32, 32, 0).slot, 32u);
    release_slots(&first_arena(), 0, 32, 0);
    release_slots(&first_arena(), 32, 32, 0);
  }
  EXPECT_EQ(counters().chunks.load(relaxed), 1u);
}

FRESH_TEST(Claim, PrefersWhatIsResident) {
  start(1);
  const SlotRun all = acquire_slots(16, 16, 0);
  release_slots(all.arena, 0, 4, 0);
  release_slots(all.arena, 8, 2, 0b10);
  EXPECT_EQ(dirty(), kSlotBytes);
  const SlotRun one = acquire_slots(1, 1, 0);
  EXPECT_EQ(one.slot, 9u);
  EXPECT_EQ(one.dirty, 1u);
  EXPECT_EQ(dirty(), 0u) << "it is free memory no longer";
  EXPECT_EQ(acquire_slots(1, 1, 0).slot, 0u);
}

FRESH_TEST(Claim, TellsWhichSlotsOfARunHoldOldData) {
  start(1);
  const SlotRun all = acquire_slots(8, 8, 0);
  release_slots(all.arena, 0, 8, 0b1010'0110);
  EXPECT_EQ(dirty(), 4 * kSlotBytes);
  // No resident run of four, so the lowest.
  const SlotRun four = acquire_slots(4, 4, 0);
  EXPECT_EQ(four.slot, 0u);
  EXPECT_EQ(four.dirty, 0b0110u);
  EXPECT_EQ(dirty(), 2 * kSlotBytes);
}

FRESH_TEST(Claim, LooksForAResidentRunInOtherChunks) {
  start(1);
  acquire_slots(32, 32, 0);
  const SlotRun second_half = acquire_slots(32, 32, 0);
  const SlotRun other = acquire_slots(32, 32, 0);
  ASSERT_EQ(other.slot, kSlotsPerChunk);
  release_slots(other.arena, other.slot, 32, low_mask(32));
  release_slots(second_half.arena, second_half.slot, 32, 0);
  const SlotRun again = acquire_slots(32, 32, 0);
  EXPECT_EQ(again.slot, other.slot) << "though a lower chunk has room that is not resident";
  EXPECT_EQ(again.dirty, low_mask(32));
}

// No aligned run of eight is free in the first chunk, so the map of room does not name it for five slots.
// Where the last run of its length was found is only where the search begins.
FRESH_TEST(Claim, GoesOnAtTheLowestChunkThatHasAResidentRun) {
  start(1);
  for (u32 i = 0; i < 8; ++i) acquire_slots(32, 32, 0);  // four chunks
  Arena* arena = &first_arena();
  const auto give_back = [&](u32 chunk, u32 slots) {
    release_slots(arena, chunk * kSlotsPerChunk, slots, low_mask(slots));
  };
  const auto chunk_of_next = [&](u32 slots) { return acquire_slots(slots, 1, 0).slot / kSlotsPerChunk; };
  give_back(2, 32);
  EXPECT_EQ(chunk_of_next(4), 2u);
  give_back(1, 16);
  EXPECT_EQ(chunk_of_next(4), 1u) << "given back below";
  EXPECT_EQ(chunk_of_next(8), 1u);
  EXPECT_EQ(chunk_of_next(8), 2u) << "used up there";
  EXPECT_EQ(chunk_of_next(4), 1u);
  EXPECT_EQ(chunk_of_next(4), 2u);
  // Two neighbours that join below are found when there is nothing above.
  release_slots(arena, 0, 2, low_mask(2));
  release_slots(arena, 2, 2, low_mask(2));
  while (chunk_of_next(4) != 0) ASSERT_NE(dirty(), 0u);
}

FRESH_TEST(Shards, TakeResidentRunsOfTheirOwnChunksFirst) {
  start(2);
  SlotRun runs[8];
  for (u32 i = 0; i < 8; ++i) runs[i] = acquire_slots(32, 32, i / 2 % 2);  // two to a chunk
  for (const SlotRun& run : runs) release_slots(run.arena, run.slot, 32, low_mask(32));
  for (u32 i = 0; i < 8; ++i) {
    const u32 shard = i % 2;
    EXPECT_EQ(acquire_slots(16, 1, shard).slot / kSlotsPerChunk % 2, shard) << i;
  }
}

FRESH_TEST(Claim, LooksForAResidentRunAcrossTheBordersOfAlignedOnes) {
  start(1);
  for (int i = 0; i < 3; ++i) acquire_slots(32, 32, 0);
  release_slots(&first_arena(), 5, 6, low_mask(6));
  release_slots(&first_arena(), kSlotsPerChunk, 32, 0);
  const SlotRun run = acquire_slots(5, 1, 0);
  EXPECT_EQ(run.slot, 5u);
  EXPECT_EQ(run.dirty, low_mask(5));
}

FRESH_TEST(Claim, OfManySlotsTakesARunThatIsMostlyResident) {
  start(1);
  for (int i = 0; i < 4; ++i) acquire_slots(32, 32, 0);
  release_slots(&first_arena(), 0, 16, low_mask(3));
  release_slots(&first_arena(), kSlotsPerChunk + 8, 16, low_mask(5) << 6);
  const SlotRun run = acquire_slots(8, 1, 0);
  EXPECT_EQ(run.slot, kSlotsPerChunk + 11) << "the lowest of those that have all five";
  EXPECT_EQ(count_bits(run.dirty), 5u);
  // What is left is less than half of eight: the lowest chunk, and there where most is resident.
  const SlotRun next = acquire_slots(8, 1, 0);
  EXPECT_EQ(next.slot, 0u);
  EXPECT_EQ(count_bits(next.dirty), 3u);
  EXPECT_EQ(dirty(), 0u);
}

FRESH_TEST(Claim, ASingleSlotIsAResidentOneOfAnyShardBeforeAFreshOneOfItsOwn) {
  start(2);
  const SlotRun zero = acquire_slots(32, 32, 0);
  const SlotRun rest = acquire_slots(32, 32, 0);
  const SlotRun own = acquire_slots(1, 1, 1);
  ASSERT_EQ(own.slot, kSlotsPerChunk);
  release_slots(zero.arena, zero.slot, zero.count, low_mask(2));
  release_slots(own.arena, own.slot, 1, 1);
  EXPECT_EQ(acquire_slots(1, 1, 1).slot, own.slot) << "a resident one of its own chunk before that";
  const SlotRun borrowed = acquire_slots(1, 1, 1);
  EXPECT_EQ(borrowed.slot, 0u) << "though its own chunk has 63 fresh ones";
  EXPECT_EQ(borrowed.dirty, 1u);
  EXPECT_EQ(acquire_slots(1, 1, 1).slot, 1u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(acquire_slots(1, 1, 1).slot, own.slot + 1) << "none is resident";
  release_slots(rest.arena, rest.slot, rest.count, 0);
}

FRESH_TEST(Claim, InPlaceTakesJustTheSlotsBehind) {
  start(1);
  const SlotRun low = acquire_slots(4, 4, 0);
  const SlotRun next = acquire_slots(4, 4, 0);
  ASSERT_EQ(next.slot, 4u);
  u64 old_data = 1;
  EXPECT_FALSE(acquire_slots_at(low.arena, 4, 1, &old_data)) << "taken";
  release_slots(next.arena, 6, 2, 0b01);
  EXPECT_FALSE(acquire_slots_at(low.arena, 4, 4, &old_data)) << "taken in part";
  EXPECT_EQ(low.arena->chunks[0].free.load(relaxed) & 0xff, 0xc0u) << "a claim that fails takes nothing";
  release_slots(next.arena, 4, 2, 0b10);
  EXPECT_EQ(dirty(), 2 * kSlotBytes);
  EXPECT_TRUE(acquire_slots_at(low.arena, 4, 4, &old_data));
  EXPECT_EQ(old_data, 0b0110u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(held(), 8 * kSlotBytes);
  EXPECT_TRUE(acquire_slots_at(low.arena, 8, 56, &old_data));
  EXPECT_FALSE(acquire_slots_at(low.arena, kSlotsPerChunk, 1, &old_data)) << "the next chunk";
}

FRESH_TEST(Claim, InPlaceEndsWithTheChunk) {
  start(1);
  acquire_slots(32, 32, 0);
  u64 old_data = 0;
  EXPECT_FALSE(acquire_slots_at(&first_arena(), 32, 33, &old_data));
  EXPECT_TRUE(acquire_slots_at(&first_arena(), 32, 32, &old_data));
}

// --- No memory. ---

FRESH_TEST(Exhaustion, EndsWithNothingAndTakesWhatComesBack) {
  start(2, 8 * kMiB);
  fake::set_address_space(1);
  for (u32 i = 0; i < 4 * kSlotsPerChunk; ++i) ASSERT_EQ(acquire_slots(1, 1, i % 2).count, 1u) << i;
  EXPECT_EQ(acquire_slots(1, 1, 0).count, 0u);
  EXPECT_EQ(held(), 8 * kMiB) << "a claim that fails counts nothing";
  release_slots(&first_arena(), 77, 1, 0);
  EXPECT_EQ(acquire_slots(2, 2, 0).count, 0u);
  EXPECT_EQ(acquire_slots(1, 1, 0).slot, 77u);
}

FRESH_TEST(Exhaustion, FindsRunsThatLieAcrossTheBordersOfAlignedOnes) {
  start(1, 4 * kMiB);
  fake::set_address_space(1);
  std::vector<SlotRun> singles;
  for (SlotRun run = acquire_slots(1, 1, 0); run.count != 0; run = acquire_slots(1, 1, 0)) singles.push_back(run);
  for (u32 count = 2; count <= 32; ++count) {
    const u32 first = kSlotsPerChunk - 1 - count;  // odd or not, and as far from the border of a large order as can be
    for (const u32 slot : {u32{1}, u32{3}, first}) {
      Arena* arena = singles.front().arena;
      release_slots(arena, slot, count, 0);
      EXPECT_EQ(acquire_slots(count + 1, 1, 0).count, 0u);
      const SlotRun run = acquire_slots(count, 1, 0);
      ASSERT_EQ(run.count, count) << "at " << slot;
      EXPECT_EQ(run.slot, slot);
    }
  }
}

FRESH_TEST(Exhaustion, OfPhysicalMemoryOnlyConcernsNewChunks) {
  start(1);
  const SlotRun first = acquire_slots(1, 1, 0);
  ASSERT_EQ(first.count, 1u);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  for (u32 i = 1; i < kSlotsPerChunk; ++i) ASSERT_EQ(acquire_slots(1, 1, 0).count, 1u);
  EXPECT_EQ(acquire_slots(1, 1, 0).count, 0u);
  fake::stop_faults();
  EXPECT_EQ(acquire_slots(1, 1, 0).slot, kSlotsPerChunk);
}

// --- Empty chunks. ---

FRESH_TEST(EmptyChunks, GoBackToTheArenaAndOthersStay) {
  start(1, 8 * kMiB);
  std::vector<SlotRun> halves;
  for (int i = 0; i < 6; ++i) halves.push_back(acquire_slots(32, 32, 0));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  // Chunk 0 clean, chunk 1 with a slot in use, chunk 2 with one that is resident.
  for (const SlotRun& half : halves) {
    if (half.slot != kSlotsPerChunk) release_slots(half.arena, half.slot, 32, half.slot == 2 * kSlotsPerChunk ? 2 : 0);
  }
  EXPECT_FALSE(take_chunks(1, 1, false, &run)) << "the pool keeps them until somebody asks";
  return_empty_chunks();
  EXPECT_EQ(dirty(), kSlotBytes);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0b1010u);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(run.index, 0u);
  EXPECT_TRUE(run.fresh);
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(run.index, 2u);
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(dirty(), 0u);
  // The map may still name the chunks that are gone: a search finds nothing in them.
  EXPECT_EQ(acquire_slots(32, 32, 0).slot, kSlotsPerChunk + 32);
  return_chunks(run.arena, 2, 1, false);
  EXPECT_EQ(acquire_slots(32, 32, 0).slot, 2 * kSlotsPerChunk);
  EXPECT_EQ(acquire_slots(32, 32, 0).slot, 2 * kSlotsPerChunk + 32);
}

FRESH_TEST(EmptyChunks, ReturnOldDataToTheNextPool) {
  start(1, 8 * kMiB);
  const SlotRun all = acquire_slots(32, 32, 0);
  release_slots(all.arena, all.slot, 32, 1);
  return_empty_chunks();
  const SlotRun again = acquire_slots(2, 2, 0);
  EXPECT_EQ(again.slot, 0u);
  EXPECT_EQ(again.dirty, 1u);
  EXPECT_EQ(dirty(), 0u);
}

}  // namespace
}  // namespace coffer
