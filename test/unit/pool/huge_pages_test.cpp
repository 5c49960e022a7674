// SPDX-License-Identifier: MIT
#include "pool/huge_pages.hpp"

#include <gtest/gtest.h>

#include "budget/budget.hpp"
#include "fresh.hpp"
#include "large/chunk_run.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "pool/limit.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {
namespace {

constexpr usize kMiB = usize{1} << 20;
constexpr u64 kNoLimit = u64{1} << 40;

usize charged() { return budget().charged.load(relaxed) - counters().metadata.load(relaxed); }  // relaxed: one thread
Chunk& chunk(u32 index) { return g_arenas.arenas[0].chunks[index]; }
bool is_huge(u32 index) { return chunk(index).huge.get() != 0; }
Span* record(u32 index, u32 slot) { return g_arenas.arenas[0].spans + usize{index} * kSlotsPerChunk + slot; }

// Nothing is purged unless the test asks for it.
void start(u32 shards) {
  test::changeable_options().free_limit = kNoLimit;
  ASSERT_TRUE(arenas_start(256 * kMiB));
  slot_pool_start(shards);
}

// Slots in use without a record count as dense: nothing says that their pages are absent.
void fill_chunks(u32 count, u32 shard = 0) {
  for (u32 i = 0; i < 2 * count; ++i) acquire_slots(32, 32, shard);
}

// Large blocks of two slots each.
void describe_pairs(u32 index, u32 blocks) {
  for (u32 i = 0; i < blocks; ++i) {
    Span* span = record(index, 2 * i);
    span->slots.set(2);
    span->use.store(SlotUse::large, relaxed);  // relaxed: there is one thread
  }
}

FRESH_TEST(HugeSlots, AreAskedForAsTheOptionSays) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  acquire_slots(1, 1, 0);
  EXPECT_TRUE(is_huge(0));
}

FRESH_TEST(HugeSlots, AreNotAskedForWhereTheOptionForbidsThem) {
  test::changeable_options().huge = config::HugePolicy::never;
  start(1);
  fill_chunks(8);
  for (u32 i = 0; i < 8; ++i) EXPECT_FALSE(is_huge(i)) << i;
}

FRESH_TEST(HugeSlots, NeedFourTimesAsMuchHeldAsTheyMayWaste) {
  start(1);
  fill_chunks(5);
  EXPECT_FALSE(is_huge(3)) << "6 MiB are held";
  EXPECT_TRUE(is_huge(4)) << "8 MiB are held";
}

FRESH_TEST(HugeSlots, WasteAChunkForEachShard) {
  start(2);
  fill_chunks(9);
  EXPECT_FALSE(is_huge(7)) << "14 MiB are held";
}

FRESH_TEST(HugeSlots, DoNotDependOnTheNumberOfHeaps) {
  start(1);
  counters().heaps.store(100, relaxed);  // relaxed: there is one thread
  fill_chunks(5);
  EXPECT_TRUE(is_huge(4));
}

FRESH_TEST(HugeSlots, AreNotForAProcessUnderALimit) {
  start(1);
  set_limit(200 * kMiB);
  fill_chunks(8);
  for (u32 i = 0; i < 8; ++i) EXPECT_FALSE(is_huge(i)) << i;
}

FRESH_TEST(HugeSlots, FollowTwoDenseChunks) {
  start(1);
  fill_chunks(5);
  ASSERT_TRUE(is_huge(4));
  release_slots(&g_arenas.arenas[0], 3 * kSlotsPerChunk, 15, 0);
  fill_chunks(1);
  EXPECT_TRUE(is_huge(5)) << "less than a quarter of a chunk may be free";
  release_slots(&g_arenas.arenas[0], 4 * kSlotsPerChunk, 16, 0);
  fill_chunks(1);
  EXPECT_FALSE(is_huge(6)) << "a quarter of one of the last two is free";
}

// 2,000 stacks of 256 KiB of which the upper 8 KiB were written took 502 MB, and 33 without huge pages: of a block over
// a slot nothing says what is touched.
FRESH_TEST(HugeSlots, AreNotForBlocksOverASlot) {
  start(1);
  fill_chunks(5);
  ASSERT_TRUE(is_huge(4));
  describe_pairs(4, 7);
  fill_chunks(1);
  EXPECT_TRUE(is_huge(5)) << "less than a quarter";
  describe_pairs(5, 8);
  fill_chunks(1);
  EXPECT_FALSE(is_huge(6));
}

FRESH_TEST(HugeSlots, AreNotForSpansOfBlocksOverASlot) {
  start(1);
  fill_chunks(5);
  ASSERT_TRUE(is_huge(4));
  for (const u32 slot : {0, 8}) {
    Span* span = record(4, slot);
    span->slots.set(8);
    span->block_bytes.set(2 * kSlotBytes);
    span->use.store(SlotUse::span, relaxed);  // relaxed: there is one thread
  }
  fill_chunks(1);
  EXPECT_FALSE(is_huge(5)) << "a quarter";
}

void* allocate(usize size) {
  bool zero = false;
  return allocate_chunk_run(size, kQuantum, &zero);
}

// What is held besides, in the chunks below the block. Returns the chunk behind it.
u32 hold(usize bytes) {
  const u32 count = static_cast<u32>(bytes / kChunkBytes);
  fill_chunks(count);
  return count;
}

// 500 blocks of 4 MiB of which the last 8 KiB were written took 1 GB, and 6 MB without huge pages.
FRESH_TEST(HugeLarge, AreOnlyWhereTheOptionAsksForThem) {
  start(1);
  const u32 first = hold(16 * kMiB);
  ASSERT_NE(allocate(6 * kMiB), nullptr);
  for (u32 i = 0; i < 3; ++i) EXPECT_FALSE(is_huge(first + i)) << i;
}

FRESH_TEST(HugeLarge, AreForAllOfABlockOrNothing) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  u32 first = hold(10 * kMiB);
  ASSERT_NE(allocate(9 * kMiB), nullptr) << "an eighth may be behind it";
  for (u32 i = 0; i < 5; ++i) EXPECT_TRUE(is_huge(first + i)) << i;
  first += 5;
  ASSERT_NE(allocate(8 * kMiB + kMiB / 2), nullptr) << "and here it is more";
  for (u32 i = 0; i < 5; ++i) EXPECT_FALSE(is_huge(first + i)) << i;
}

FRESH_TEST(HugeLarge, CountWhatLiesBehindTheBlock) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  hold(10 * kMiB);
  const usize before = charged();
  ASSERT_NE(allocate(9 * kMiB), nullptr);
  EXPECT_EQ(charged(), before + 10 * kMiB) << "the last chunk is resident as a whole";
}

FRESH_TEST(HugeLarge, EndWhereABlockIsCutShort) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  const u32 first = hold(10 * kMiB);
  char* block = static_cast<char*>(allocate(10 * kMiB - kSlotBytes));
  ASSERT_TRUE(is_huge(first + 2));
  Span* span = record(first, 0);
  ASSERT_NE(resize_chunk_run(reinterpret_cast<uptr>(block) - large_offset(span), span, 5 * kMiB), 0u);
  EXPECT_TRUE(is_huge(first + 1));
  EXPECT_FALSE(is_huge(first + 2)) << "half of it went back";
}

FRESH_TEST(HugeLarge, AreNotForVastBlocks) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  counters().held.store(usize{1} << 40, relaxed);  // relaxed: there is one thread
  constexpr u32 kMost = 16 * 1024;                 // chunks
  EXPECT_FALSE(advise_large(&g_arenas.arenas[0], 0, kMost + 1, usize{kMost + 1} * kChunkBytes));
  EXPECT_FALSE(advise_large(&g_arenas.arenas[0], kMost, 1, kChunkBytes));
}

}  // namespace
}  // namespace coffer
