// SPDX-License-Identifier: MIT
#include "pool/huge_pages.hpp"

#include <gtest/gtest.h>

#include "budget/budget.hpp"
#include "fresh.hpp"
#include "large/chunk_run.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "policy/taken.hpp"
#include "pool/limit.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {
namespace {

constexpr usize kMiB = usize{1} << 20;
constexpr u64 kNoLimit = u64{1} << 40;

usize charged() { return budget().charged.load(relaxed) - counters().metadata.load(relaxed); }  // relaxed: one thread
Chunk& chunk(u32 index) { return g_arenas.arenas[0].chunks[index]; }
bool is_huge(u32 index) { return chunk(index).huge.get() != 0; }
Span* record(u32 index, u32 slice) { return g_arenas.arenas[0].spans + usize{index} * kSlicesPerChunk + slice; }

// Nothing is purged unless the test asks for it.
void start(u32 shards) {
  test::changeable_options().free_limit = kNoLimit;
  ASSERT_TRUE(arenas_start(256 * kMiB));
  slice_pool_start(shards);
}

constexpr u32 kChunkPages = kChunkBytes / kCarvePage;

void touch(uptr start, usize bytes) {
  for (usize i = 0; i < bytes; i += kCarvePage) *reinterpret_cast<volatile char*>(start + i) = 1;
}

// Chunks of slices in use, of which the first `pages` pages are touched.
void fill_chunks(u32 count, u32 shard = 0, u32 pages = kChunkPages) {
  for (u32 i = 0; i < 2 * count; ++i) {
    const SliceRun run = acquire_slices(32, 32, shard);
    const uptr chunk = round_down(g_arenas.arenas[0].base + usize{run.slice} * kSliceBytes, kChunkBytes);
    if (i % 2 == 1) touch(chunk, pages * kCarvePage);
  }
}

FRESH_TEST(HugeSlices, AreAskedForAsTheOptionSays) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  acquire_slices(1, 1, 0);
  EXPECT_TRUE(is_huge(0));
}

FRESH_TEST(HugeSlices, AreNotAskedForWhereTheOptionForbidsThem) {
  test::changeable_options().huge = config::HugePolicy::never;
  start(1);
  fill_chunks(8);
  for (u32 i = 0; i < 8; ++i) EXPECT_FALSE(is_huge(i)) << i;
}

FRESH_TEST(HugeSlices, NeedFourTimesAsMuchHeldAsTheyMayWaste) {
  start(1);
  fill_chunks(5);
  EXPECT_FALSE(is_huge(3)) << "6 MiB are held";
  EXPECT_TRUE(is_huge(4)) << "8 MiB are held";
}

FRESH_TEST(HugeSlices, WasteAChunkForEachShard) {
  start(2);
  fill_chunks(9);
  EXPECT_FALSE(is_huge(7)) << "14 MiB are held";
}

FRESH_TEST(HugeSlices, DoNotDependOnTheNumberOfHeaps) {
  start(1);
  counters().heaps.store(100, relaxed);  // relaxed: there is one thread
  fill_chunks(5);
  EXPECT_TRUE(is_huge(4));
}

FRESH_TEST(HugeSlices, AreNotForAProcessUnderALimit) {
  start(1);
  set_limit(200 * kMiB);
  fill_chunks(8);
  for (u32 i = 0; i < 8; ++i) EXPECT_FALSE(is_huge(i)) << i;
}

// A huge page is resident whole, so that nothing could be told any more if all had them.
FRESH_TEST(HugeSlices, LeaveOneChunkOfFour) {
  start(1);
  fill_chunks(13);
  for (u32 i = 4; i < 13; ++i) EXPECT_EQ(is_huge(i), i % 4 != 3) << i;
}

// Records tell of small blocks, also where there are huge pages.
FRESH_TEST(HugeSlices, AreForAllChunksOfSmallBlocks) {
  start(1);
  for (u32 i = 0; i < 13; ++i) {
    fill_chunks(1, 0, 0);
    for (u32 slice = 0; slice < kSlicesPerChunk; ++slice) {
      record(i, slice)->slices.set(1);
      record(i, slice)->block_bytes.set(64);
      record(i, slice)->absent.set(slice < 8 && i == 11 ? low_mask(kPagesPerSlice) : 0);
      record(i, slice)->use.store(SliceUse::span, relaxed);  // relaxed: there is one thread
    }
  }
  for (u32 i = 4; i < 13; ++i) EXPECT_TRUE(is_huge(i)) << i;
  record(12, 0)->absent.set(low_mask(kPagesPerSlice));
  fill_chunks(1);
  EXPECT_TRUE(is_huge(13)) << "an eighth may be absent";
  record(12, 8)->absent.set(1);
  for (u32 slice = 0; slice < 8; ++slice) record(12, slice)->absent.set(low_mask(kPagesPerSlice));
  fill_chunks(1);
  EXPECT_FALSE(is_huge(14));
}

// 2,000 stacks of 256 KiB of which the upper 8 KiB were written took 502 MB, and 33 without huge pages.
FRESH_TEST(HugeSlices, FollowTwoChunksThatAreTouchedButForAnEighth) {
  start(1);
  fill_chunks(2);
  fill_chunks(2, 0, kChunkPages * 7 / 8);
  fill_chunks(3);
  EXPECT_TRUE(is_huge(4));
  fill_chunks(1, 0, kChunkPages * 7 / 8 - 1);
  fill_chunks(1);
  EXPECT_FALSE(is_huge(8)) << "the last one that can be looked at is the one before";
}

FRESH_TEST(HugeSlices, AreNotWhereAnEighthOfTheSlicesIsFree) {
  start(1);
  fill_chunks(4);
  release_slices(&g_arenas.arenas[0], 3 * kSlicesPerChunk, 9, low_mask(9));
  slice_pool_start(1);
  counters().held.store(100 * kMiB, relaxed);  // relaxed: there is one thread
  advise_slices(&g_arenas.arenas[0], 4);
  EXPECT_FALSE(is_huge(4));
}

FRESH_TEST(HugeSlices, AreNotWhereAnEighthIsHolesOfMixedSpans) {
  start(1);
  fill_chunks(4);
  for (const u32 live : {56u, 55u}) {
    Span* span = record(3, 0);
    span->slices.set(64);
    span->live_units.set(live * static_cast<u32>(kSliceBytes / kQuantum));
    span->use.store(SliceUse::mixed, relaxed);  // relaxed: there is one thread
    advise_slices(&g_arenas.arenas[0], live == 56 ? 4 : 5);
  }
  EXPECT_TRUE(is_huge(4));
  EXPECT_FALSE(is_huge(5));
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

// As many bytes as are given on trust.
void use_trust() { ASSERT_NE(allocate(kHugeTrust), nullptr); }

FRESH_TEST(HugeLarge, AreForTheChunksThatABlockFills) {
  start(1);
  const u32 first = hold(10 * kMiB);
  for (const auto policy : {config::HugePolicy::automatic, config::HugePolicy::always}) {
    test::changeable_options().huge = policy;
    const u32 at = first + (policy == config::HugePolicy::always ? 5 : 0);
    const usize before = charged();
    ASSERT_NE(allocate(9 * kMiB), nullptr);
    for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(is_huge(at + i)) << i;
    EXPECT_FALSE(is_huge(at + 4)) << "half of it lies behind the block";
    EXPECT_EQ(charged(), before + 9 * kMiB);
  }
}

FRESH_TEST(HugeLarge, AreNotWhereTheOptionForbidsThem) {
  test::changeable_options().huge = config::HugePolicy::never;
  start(1);
  ASSERT_NE(allocate(6 * kMiB), nullptr);
  EXPECT_FALSE(is_huge(0));
}

FRESH_TEST(HugeLarge, AreNotForAProcessUnderALimit) {
  start(1);
  set_limit(200 * kMiB);
  ASSERT_NE(allocate(6 * kMiB), nullptr);
  EXPECT_FALSE(is_huge(0));
}

// 500 blocks of 4 MiB of which the last 8 KiB were written took 1 GB, and 6 MB without huge pages.
FRESH_TEST(HugeLarge, AreGivenOnTrustUntilThatIsUsed) {
  start(1);
  u32 huge = 0;
  for (u32 i = 0; i < 40; ++i) {
    const uptr block = reinterpret_cast<uptr>(allocate(4 * kMiB));
    ASSERT_NE(block, 0u);
    touch(block + 4 * kMiB - 8192, 8192);
    if (is_huge(static_cast<u32>((block - g_arenas.arenas[0].base) / kChunkBytes))) ++huge;
  }
  EXPECT_EQ(huge, kHugeTrust / (4 * kMiB));
}

FRESH_TEST(HugeLarge, FollowABlockThatWasTouched) {
  start(1);
  use_trust();
  const uptr looked_at = reinterpret_cast<uptr>(allocate(4 * kMiB));
  const u32 first = static_cast<u32>((looked_at - g_arenas.arenas[0].base) / kChunkBytes);
  ASSERT_FALSE(is_huge(first));
  touch(looked_at, 4 * kMiB);
  for (u32 i = 0; i < 5; ++i) {
    const uptr block = reinterpret_cast<uptr>(allocate(4 * kMiB));
    EXPECT_EQ(is_huge(static_cast<u32>((block - g_arenas.arenas[0].base) / kChunkBytes)), i < 4) << i;
  }
}

FRESH_TEST(HugeLarge, FollowABlockThatWasTouchedAndFreed) {
  start(1);
  use_trust();
  const uptr block = reinterpret_cast<uptr>(allocate(4 * kMiB));
  const u32 first = static_cast<u32>((block - g_arenas.arenas[0].base) / kChunkBytes);
  touch(block, 4 * kMiB);
  free_chunk_run(&g_arenas.arenas[0], record(first, 0));
  purge_free(~usize{0} / 2);
  const uptr next = reinterpret_cast<uptr>(allocate(4 * kMiB));
  EXPECT_TRUE(is_huge(static_cast<u32>((next - g_arenas.arenas[0].base) / kChunkBytes)));
}

FRESH_TEST(HugeLarge, EndWhereABlockIsCutShort) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  const u32 first = hold(10 * kMiB);
  char* block = static_cast<char*>(allocate(10 * kMiB - kSliceBytes));
  ASSERT_TRUE(is_huge(first + 2) && !is_huge(first + 4));
  Span* span = record(first, 0);
  ASSERT_NE(resize_chunk_run(reinterpret_cast<uptr>(block) - large_offset(span), span, 5 * kMiB), 0u);
  EXPECT_TRUE(is_huge(first + 1));
  EXPECT_FALSE(is_huge(first + 2)) << "half of it went back";
}

FRESH_TEST(HugeLarge, AreNotForVastBlocks) {
  test::changeable_options().huge = config::HugePolicy::always;
  start(1);
  hold(2 * kMiB);
  counters().held.store(usize{1} << 40, relaxed);  // relaxed: there is one thread
  constexpr u32 kMost = 16 * 1024;                 // chunks
  advise_large(&g_arenas.arenas[0], 1, usize{kMost} * kChunkBytes, 0);
  EXPECT_FALSE(is_huge(1));
}

}  // namespace
}  // namespace coffer
