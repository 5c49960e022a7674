// SPDX-License-Identifier: MIT
// Large blocks that grow and shrink: in place, by moving their pages, or not at all.
#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

void fail(u32 kinds, fake::Duration duration) {
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = kinds;
  faults.duration = duration;
  fake::set_faults(faults);
}
void fail_once(u32 kinds) { fail(kinds, fake::Duration::once); }
void fail_always(u32 kinds) { fail(kinds, fake::Duration::from_then_on); }

// --- Runs of slices. ---

FRESH_TEST(ResizeSlices, GrowsIntoTheFreeSlicesBehind) {
  start_ground();
  void* block = allocate(40'000);
  std::memset(block, 7, 2 * kSliceBytes);
  EXPECT_EQ(resize(block, 2 * kSliceBytes), block) << "it has them already";
  EXPECT_EQ(large_bytes(), 2 * kSliceBytes);
  EXPECT_EQ(resize(block, 300'000), block);
  Span* span = record(block);
  EXPECT_EQ(coffer::large_bytes(span), 10 * kSliceBytes);
  EXPECT_EQ(span->slices.get(), 10u);
  EXPECT_EQ(large_bytes(), 10 * kSliceBytes);
  EXPECT_EQ(large_blocks(), 1u);
  EXPECT_EQ(held(), 10 * kSliceBytes);
  EXPECT_TRUE(all_bytes(block, 2 * kSliceBytes, 7));
  std::memset(block, 8, 10 * kSliceBytes);
  EXPECT_TRUE(free_block(block));
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(dirty(), 10 * kSliceBytes);
}

FRESH_TEST(ResizeSlices, CannotGrowIntoAnother) {
  start_ground();
  void* block = allocate(40'000);
  void* next = allocate(40'000);
  ASSERT_EQ(record(next), record(block) + 2);
  EXPECT_EQ(resize(block, 70'000), nullptr);
  EXPECT_EQ(coffer::large_bytes(record(block)), 2 * kSliceBytes);
  EXPECT_EQ(held(), 4 * kSliceBytes);
  EXPECT_TRUE(is_large(record(next)));
  EXPECT_EQ(resize(block, kLargestSliceRun + 1), nullptr) << "that is for chunks";
  EXPECT_EQ(large_bytes(), 4 * kSliceBytes);
}

FRESH_TEST(ResizeSlices, ShrinksAndGivesTheTailBack) {
  start_ground();
  void* block = allocate(10 * kSliceBytes);
  std::memset(block, 7, 10 * kSliceBytes);
  EXPECT_EQ(resize(block, 3 * kSliceBytes - 5), block);
  Span* span = record(block);
  EXPECT_EQ(coffer::large_bytes(span), 3 * kSliceBytes);
  EXPECT_EQ(held(), 3 * kSliceBytes);
  EXPECT_EQ(large_bytes(), 3 * kSliceBytes);
  EXPECT_EQ(dirty(), 7 * kSliceBytes) << "they hold old data";
  EXPECT_TRUE(all_bytes(block, 3 * kSliceBytes, 7));
  bool zero = true;
  void* tail = allocate_large(7 * kSliceBytes, 16, &zero);
  EXPECT_EQ(record(tail), span + 3);
  EXPECT_FALSE(zero);
}

// --- Runs of chunks. ---

FRESH_TEST(ResizeChunks, GrowsWithinItsChunks) {
  start_ground();
  void* block = allocate(3'000'000);
  const u64 calls = fake::calls_of(fake::kCommit);
  EXPECT_EQ(resize(block, 4'000'000), block);
  EXPECT_EQ(fake::calls_of(fake::kCommit), calls) << "no call to the kernel";
  const usize bytes = round_up(4'000'000, kCarvePage);
  EXPECT_EQ(coffer::large_bytes(record(block)), bytes);
  EXPECT_EQ(held(), bytes);
  EXPECT_EQ(large_bytes(), bytes);
  std::memset(block, 7, bytes);
}

FRESH_TEST(ResizeChunks, GrowsIntoTheFreeChunksBehind) {
  start_ground();
  void* block = allocate(3'000'000);
  std::memset(block, 7, 3'000'000);
  EXPECT_EQ(resize(block, 9'000'000), block);
  EXPECT_EQ(record(block)->large_chunks.get(), 5u);
  EXPECT_EQ(chunk_of(block).large_chunks.get(), 5u);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0x1fu);
  EXPECT_EQ(large_blocks(), 1u);
  EXPECT_TRUE(all_bytes(block, 3'000'000, 7));
  std::memset(block, 8, 9'000'000);
  EXPECT_TRUE(free_block(block));
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0u);
  EXPECT_EQ(held(), 0u);
}

FRESH_TEST(ResizeChunks, MovesItsPagesWhenItCannotGrowInPlace) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  void* wall = allocate(3'000'000);
  ASSERT_EQ(chunk_index(wall), 2u);
  char* moved = static_cast<char*>(resize(block, 9'000'000));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(chunk_index(moved), 4u + 5u) << "with room to grow before it and behind";
  EXPECT_EQ(fake::calls_of(fake::kMovePages), 1u);
  EXPECT_TRUE(all_bytes(moved, 3'000'000, 7));
  std::memset(moved, 8, 9'000'000);
  EXPECT_EQ(coffer::large_bytes(record(moved)), round_up(9'000'000, kCarvePage));
  EXPECT_EQ(large_blocks(), 2u);
  EXPECT_EQ(held(), large_bytes());
  // The old place is free, and zero: its pages went away.
  EXPECT_EQ(first_record(record(block)), nullptr);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0b1'1111u << 9 | 0b1100u);
  EXPECT_EQ(dirty(), 0u);
  bool zero = false;
  EXPECT_EQ(allocate_large(3'000'000, 16, &zero), block);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(all_bytes(block, 2 * kChunkBytes, 0));
}

// Moved pages lie in a mapping that merges with no other. It is replaced when the block moves again, or when its pages
// go.
FRESH_TEST(ResizeChunks, AMovedBlockIsMappedAnewWhenItsPagesGo) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  allocate(3'000'000);
  char* moved = static_cast<char*>(resize(block, 5'000'000));
  std::memset(moved, 7, 5'000'000);
  const u32 place = chunk_index(moved);
  EXPECT_EQ(place, 4u + 3u);
  // A wall behind it.
  while (chunk_index(allocate(3'000'000)) < place) {
  }
  char* again = static_cast<char*>(resize(moved, 9'000'000));
  EXPECT_GT(chunk_index(again), place + 3);
  EXPECT_EQ(fake::calls_of(fake::kMovePages), 2u);
  EXPECT_EQ(fake::calls_of(fake::kRemap), 1u) << "the place it left";
  EXPECT_TRUE(all_bytes(again, 5'000'000, 7));
  EXPECT_GT(mappings_of(again, 5 * kChunkBytes).size(), 1u);
  EXPECT_TRUE(free_block(again));
  EXPECT_EQ(fake::calls_of(fake::kRemap), 1u) << "it may stay for the next one";
  EXPECT_GT(dirty(), 0u);
  purge_free(~usize{0} / 2);
  EXPECT_EQ(fake::calls_of(fake::kRemap), 1u + 3u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(mappings_of(again, 5 * kChunkBytes).size(), 1u) << "one mapping again";
}

FRESH_TEST(ResizeChunks, AMovedBlockThatCannotBeMappedAnewIsPurged) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  allocate(3'000'000);
  char* moved = static_cast<char*>(resize(block, 5'000'000));
  std::memset(moved, 7, 5'000'000);
  EXPECT_TRUE(free_block(moved));
  fail_always(fake::kRemap);
  purge_free(~usize{0} / 2);
  EXPECT_EQ(fake::failed_calls(), 2u);
  EXPECT_EQ(dirty(), 0u);
  fake::stop_faults();
  EXPECT_TRUE(all_bytes(moved, 5'000'000, 0));
}

// Where the new place is resident already, copying leaves the old pages for the next block.
FRESH_TEST(ResizeChunks, CopiesToWhereMemoryIs) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  allocate(3'000'000);
  void* wide = allocate(60'000'000);
  std::memset(wide, 1, 60'000'000);
  EXPECT_TRUE(free_block(wide));
  const usize before = dirty();
  char* moved = static_cast<char*>(resize(block, 9'000'000));
  EXPECT_EQ(fake::calls_of(fake::kMovePages), 0u);
  EXPECT_TRUE(all_bytes(moved, 3'000'000, 7));
  EXPECT_EQ(dirty(), before - 5 * kChunkBytes + round_up(3'000'000, kSliceBytes));
  EXPECT_EQ(held(), large_bytes());
}

FRESH_TEST(ResizeChunks, WhatTheKernelCannotMoveIsCopied) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  allocate(3'000'000);
  fail_always(fake::kMovePages);
  char* moved = static_cast<char*>(resize(block, 9'000'000));
  EXPECT_EQ(fake::failed_calls(), 1u);
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, block);
  EXPECT_TRUE(all_bytes(moved, 3'000'000, 7));
  EXPECT_EQ(held(), large_bytes());
  EXPECT_EQ(dirty(), round_up(3'000'000, kSliceBytes));
}

FRESH_TEST(ResizeChunks, ThatFindsNoPlaceChangesNothing) {
  start_ground(usize{64} << 20);
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  allocate(3'000'000);
  const u64 taken = first_arena().groups[0].taken.get();
  const usize before = held();
  // The kernel gives no memory to move them to; or there is no address space.
  fail_always(fake::kCommit);
  EXPECT_EQ(resize(block, 9'000'000), nullptr);
  EXPECT_GT(fake::failed_calls(), 0u);
  fake::stop_faults();
  fake::set_address_space(1);
  EXPECT_EQ(resize(block, 200'000'000), nullptr);
  EXPECT_EQ(first_arena().groups[0].taken.get(), taken);
  EXPECT_EQ(held(), before);
  EXPECT_EQ(large_blocks(), 2u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_TRUE(all_bytes(block, 3'000'000, 7));
  EXPECT_EQ(resize(block, 9'000'000) != nullptr, true);
}

FRESH_TEST(ResizeChunks, GrowthInPlaceThatGetsNoMemoryMovesOrFails) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  fail_always(fake::kCommit);
  EXPECT_EQ(resize(block, 9'000'000), nullptr);
  fake::stop_faults();
  EXPECT_EQ(first_arena().groups[0].taken.get(), 3u);
  EXPECT_TRUE(all_bytes(block, 3'000'000, 7));
  EXPECT_EQ(held(), round_up(3'000'000, kCarvePage));
}

FRESH_TEST(ResizeChunks, ShrinksAndGivesChunksAndPagesBack) {
  start_ground();
  char* block = static_cast<char*>(allocate(9'000'000));
  std::memset(block, 7, 9'000'000);
  EXPECT_EQ(resize(block, 3'000'000), block);
  const usize bytes = round_up(3'000'000, kCarvePage);
  EXPECT_EQ(coffer::large_bytes(record(block)), bytes);
  EXPECT_EQ(record(block)->large_chunks.get(), 2u);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 3u);
  EXPECT_EQ(held(), bytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_TRUE(all_bytes(block, 3'000'000, 7));
  EXPECT_EQ(resident_pages(block + bytes, 5 * kChunkBytes - bytes), 0u);
  bool zero = false;
  void* tail = allocate_large(6'000'000, 16, &zero);
  EXPECT_EQ(chunk_index(tail), 2u);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(all_bytes(tail, 6'000'000, 0));
}

FRESH_TEST(ResizeChunks, KeepsASmallTail) {
  start_ground();
  char* block = static_cast<char*>(allocate(4'000'000));
  std::memset(block, 7, 4'000'000);
  const u64 purges = fake::calls_of(fake::kPurge);
  EXPECT_EQ(resize(block, 3'990'000), block);
  EXPECT_EQ(fake::calls_of(fake::kPurge), purges) << "not worth a call";
  EXPECT_EQ(held(), round_up(3'990'000, kCarvePage));
  EXPECT_EQ(resize(block, 3'900'000), block);
  EXPECT_EQ(fake::calls_of(fake::kPurge), purges + 1);
  // To the end of the run: the first step left data there.
  const usize keep = round_up(3'900'000, os::page_size());
  EXPECT_EQ(resident_pages(block + keep, 2 * kChunkBytes - keep), 0u);
}

FRESH_TEST(ResizeChunks, WhatTheKernelWouldNotTakeStaysDirty) {
  start_ground();
  char* block = static_cast<char*>(allocate(9'000'000));
  std::memset(block, 7, 9'000'000);
  fail_once(fake::kPurge);
  EXPECT_EQ(resize(block, 3'000'000), block);
  EXPECT_EQ(dirty(), 3 * kChunkBytes);
  bool zero = true;
  EXPECT_EQ(chunk_index(allocate_large(6'000'000, 16, &zero)), 2u);
  EXPECT_FALSE(zero);
}

FRESH_TEST(ResizeChunks, IsNotForSizesOfSliceRuns) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  EXPECT_EQ(resize(block, kLargestSliceRun), nullptr) << "copying gives more back";
  EXPECT_EQ(resize(block, kLargestSliceRun + 1), block);
  EXPECT_EQ(record(block)->large_chunks.get(), 1u);
  EXPECT_EQ(resize(block, ~usize{0} >> 1), nullptr);
}

// Who is copied because the kernel cannot move it takes as much as any other, and gives as much back.
FRESH_TEST(Resize, OfACopiedBlockGivesBackAsMuchAsItTakes) {
  start_ground();
  for (u32 i = 0; i < 40; ++i) acquire_slices(32, 32, 0);
  fake::set_clock(1000 * kTickNs);
  end_tick(tick_began());
  for (u32 i = 0; i < 40; i += 2) release_slices(&first_arena(), i * 32, 32, low_mask(32));
  void* const block = allocate(2 * kChunkBytes);
  allocate(kChunkBytes);
  changeable_options().free_limit = kMiB;
  EXPECT_LE(dirty(), free_bound());
  fail_always(fake::kMovePages);
  EXPECT_NE(resize(block, 30 * kChunkBytes), block);
  EXPECT_GT(fake::failed_calls(), 0u);
  EXPECT_LE(dirty(), free_bound());
}

}  // namespace
}  // namespace coffer
