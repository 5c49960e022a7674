// SPDX-License-Identifier: MIT
// Large blocks come and go: their place, what is known of their content, their counts. (Their growth: resize_test.cpp.)
#include "large/large.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/slice_pool.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr usize kSliceRunSizes[] = {kLargestSmall + 1,      2 * kSliceBytes,      2 * kSliceBytes + 1, 100'000,
                                    kLargestSliceRun - 100, kLargestSliceRun - 1, kLargestSliceRun};
constexpr usize kChunkRunSizes[] = {kLargestSliceRun + 1, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 9'999'999};

FRESH_TEST(SliceRun, IsDescribedByItsFirstSlice) {
  start_ground();
  usize large = 0;
  for (const usize size : kSliceRunSizes) {
    void* block = allocate(size);
    Span* span = record(block);
    const usize bytes = round_up(size, kSliceBytes);
    EXPECT_EQ(reinterpret_cast<uptr>(block) % kSliceBytes, 0u);
    EXPECT_TRUE(is_large(span));
    EXPECT_EQ(coffer::large_bytes(span), bytes);
    EXPECT_EQ(span->large_chunks.get(), 0u);
    EXPECT_EQ(span->owner.load(relaxed), nullptr);
    EXPECT_EQ(first_record(span), span);
    for (usize i = 1; i < bytes / kSliceBytes; ++i)
      EXPECT_EQ(first_record(span + i), nullptr) << "in use, and not described";
    EXPECT_FALSE(is_block_start(span, reinterpret_cast<uptr>(block))) << "it is no block of a span";
    std::memset(block, 7, bytes);
    large += bytes;
  }
  EXPECT_EQ(large_bytes(), large);
  EXPECT_EQ(large_blocks(), std::size(kSliceRunSizes));
  EXPECT_EQ(held(), large);
}

FRESH_TEST(SliceRun, GoesBackWhole) {
  start_ground();
  for (const usize size : kSliceRunSizes) {
    void* block = allocate(size);
    Span* span = record(block);
    const usize slices = round_up(size, kSliceBytes) / kSliceBytes;
    EXPECT_TRUE(free_large(block, span));
    for (usize i = 0; i < slices; ++i) EXPECT_EQ(first_record(span + i), nullptr);
    EXPECT_EQ(first_arena().chunks[0].free.load(relaxed), ~u64{0});
    EXPECT_EQ(held(), 0u);
    EXPECT_EQ(large_bytes(), 0u);
    EXPECT_EQ(large_blocks(), 0u);
  }
}

FRESH_TEST(ChunkRun, IsDescribedByItsFirstChunk) {
  start_ground();
  usize large = 0;
  for (const usize size : kChunkRunSizes) {
    void* block = allocate(size);
    Span* span = record(block);
    const usize bytes = round_up(size, kCarvePage);
    const u32 chunks = static_cast<u32>(divide_up(size, kChunkBytes));
    EXPECT_EQ(reinterpret_cast<uptr>(block) % kChunkBytes, 0u);
    EXPECT_TRUE(is_large(span));
    EXPECT_EQ(coffer::large_bytes(span), bytes);
    EXPECT_EQ(span->large_chunks.get(), chunks);
    EXPECT_EQ(chunk_of(block).use.load(relaxed), ChunkUse::large);
    EXPECT_EQ(chunk_of(block).large_chunks.get(), chunks);
    std::memset(block, 7, bytes);
    large += bytes;
  }
  EXPECT_EQ(large_bytes(), large);
  EXPECT_EQ(held(), large) << "only what the program may use counts, not the chunks' rest";
  EXPECT_EQ(large_blocks(), std::size(kChunkRunSizes));
}

FRESH_TEST(ChunkRun, GoesBackWhole) {
  start_ground();
  for (const usize size : kChunkRunSizes) {
    void* block = allocate(size);
    Span* span = record(block);
    EXPECT_TRUE(free_large(block, span));
    EXPECT_EQ(first_record(span), nullptr);
    EXPECT_EQ(chunk_of(block).use.load(relaxed), ChunkUse::none);
    EXPECT_EQ(first_arena().groups[0].taken.get(), 0u);
    EXPECT_EQ(held(), 0u);
    EXPECT_EQ(large_bytes(), 0u);
    EXPECT_EQ(large_blocks(), 0u);
  }
}

FRESH_TEST(FreeLarge, RefusesWhatIsNoBlocksStart) {
  start_ground();
  for (const usize size : {usize{100'000}, usize{5'000'000}}) {
    char* block = static_cast<char*>(allocate(size));
    Span* span = record(block);
    EXPECT_FALSE(free_large(block + 16, span));
    EXPECT_FALSE(free_large(block + kSliceBytes, span));
    EXPECT_TRUE(is_large(span)) << "nothing was done";
    EXPECT_TRUE(free_large(block, span));
    EXPECT_FALSE(free_large(block, span)) << "it is free";
    EXPECT_EQ(large_blocks(), 0u);
  }
}

FRESH_TEST(FreeLarge, OfTwoThreadsOneSucceeds) {
  start_ground();
  for (u32 round = 0; round < 300; ++round) {
    void* block = allocate(round % 2 == 0 ? 70'000 : 3'000'000);
    Span* span = record(block);
    Atomic<u32> freed;
    run_together(2, [&](u32) { freed.fetch_add(free_large(block, span) ? 1 : 0, relaxed); });
    ASSERT_EQ(freed.load(relaxed), 1u);
  }
  EXPECT_EQ(held(), 0u);
}

// --- Alignment. ---

FRESH_TEST(Large, EverySizeAtEveryAlignment) {
  start_ground(usize{4} << 30);
  for (usize alignment = 16; alignment <= (usize{64} << 20); alignment *= 2) {
    for (const usize size : {usize{1}, usize{20'000}, usize{40'000}, usize{1'000'000}, usize{3'000'000}}) {
      bool zero = false;
      void* block = allocate_large(size, alignment, &zero);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u) << size << " aligned to " << alignment;
      EXPECT_GE(coffer::large_bytes(record(block)), size);
      std::memset(block, 7, size);
    }
  }
}

FRESH_TEST(Large, ImpossibleSizesAndAlignmentsFail) {
  start_ground();
  bool zero = false;
  for (const usize size : {~usize{0}, ~usize{0} >> 1, u64{~u32{0}} * kChunkBytes + 1, u64{~u32{0}} * kChunkBytes}) {
    EXPECT_EQ(allocate_large(size, 16, &zero), nullptr) << size;
  }
  EXPECT_EQ(allocate_large(1, usize{1} << 63, &zero), nullptr);
  EXPECT_EQ(allocate_large(1, usize{1} << 52, &zero), nullptr);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(large_blocks(), 0u);
}

FRESH_TEST(Large, FailsWithoutMemoryAndChangesNothing) {
  start_ground(usize{64} << 20);
  void* first = allocate(5'000'000);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit | fake::kReserve;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  bool zero = false;
  EXPECT_EQ(allocate_large(5'000'000, 16, &zero), nullptr);
  EXPECT_EQ(allocate_large(200'000'000, 16, &zero), nullptr);
  fake::stop_faults();
  EXPECT_EQ(large_blocks(), 1u);
  EXPECT_EQ(held(), coffer::large_bytes(record(first)));
  EXPECT_NE(allocate(5'000'000), nullptr);
}

// Free slices are joined to chunks, and free chunks to runs, when a block wants one and finds none.
FRESH_TEST(Large, TakesChunksThatHoldOnlyFreeSlices) {
  start_ground(usize{16} << 20);
  fake::set_address_space(1);
  Blocks slices;
  for (u32 i = 0; i < 16; ++i) slices.push_back(allocate(kLargestSliceRun));
  bool zero = false;
  EXPECT_EQ(allocate_large(3 * kChunkBytes, 16, &zero), nullptr);
  for (u32 i = 4; i < 10; ++i) EXPECT_TRUE(free_large(slices[i], record(slices[i])));
  void* block = allocate_large(3 * kChunkBytes, 16, &zero);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<uptr>(block), first_arena().base + 2 * kChunkBytes);
  EXPECT_FALSE(zero);
}

// --- Content. ---

FRESH_TEST(Large, SlicesAreZeroUntilTheyWereUsed) {
  start_ground();
  bool zero = false;
  void* block = allocate_large(300'000, 16, &zero);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(all_bytes(block, 300'000, 0));
  std::memset(block, 7, 300'000);
  free_large(block, record(block));
  void* again = allocate_large(100'000, 16, &zero);
  EXPECT_EQ(again, block);
  EXPECT_FALSE(zero);
  purge_free(~usize{0} / 2);
  void* purged = allocate_large(100'000, 16, &zero);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(all_bytes(purged, 100'000, 0));
}

FRESH_TEST(Large, ChunksAreZeroIfTheyWerePurged) {
  start_ground();
  bool zero = false;
  void* block = allocate_large(5'000'000, 16, &zero);
  EXPECT_TRUE(zero);
  std::memset(block, 7, 5'000'000);
  EXPECT_TRUE(free_large(block, record(block)));
  EXPECT_EQ(dirty(), round_up(5'000'000, kSliceBytes)) << "it may stay: the limit is far";
  EXPECT_EQ(allocate_large(5'000'000, 16, &zero), block);
  EXPECT_FALSE(zero);
  zero_large(block, 5'000'000);
  EXPECT_TRUE(all_bytes(block, 5'000'000, 0));
  std::memset(block, 7, 5'000'000);
  EXPECT_TRUE(free_large(block, record(block)));
  purge_free(~usize{0} / 2);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(resident_pages(block, 5 * kMiB), 0u);
  EXPECT_EQ(allocate_large(5'000'000, 16, &zero), block);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(all_bytes(block, 5'000'000, 0));
}

FRESH_TEST(Large, WhatTheKernelWouldNotTakeIsNotZero) {
  start_ground();
  void* block = allocate(5'000'000);
  std::memset(block, 7, 5'000'000);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.damage = fake::Damage::torn;
  fake::set_faults(faults);
  EXPECT_TRUE(free_large(block, record(block)));
  purge_free(~usize{0} / 2);
  EXPECT_EQ(fake::failed_calls(), 1u);
  EXPECT_GT(dirty(), 0u);
  bool zero = true;
  EXPECT_EQ(allocate_large(5'000'000, 16, &zero), block);
  EXPECT_FALSE(zero);
}

FRESH_TEST(Large, OnlyTouchedPagesAreBacked) {
  start_ground(usize{8} << 30);
  char* block = static_cast<char*>(allocate(usize{4} << 30));
  EXPECT_EQ(resident_pages(block, 64 * kMiB), 0u);
  block[kMiB] = 1;
  EXPECT_EQ(resident_pages(block, 64 * kMiB), 1u);
}

}  // namespace
}  // namespace coffer
