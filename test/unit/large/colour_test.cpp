// SPDX-License-Identifier: MIT
// Where large blocks start: at all cache indices, at the alignment that was asked for, and as the record says.
#include "large/colour.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/tails.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

uptr address(const void* block) { return reinterpret_cast<uptr>(block); }
usize offset_of(const void* block) { return address(block) % kSliceBytes; }
usize index_of(const void* block) { return address(block) / kCacheLine % kCacheSets; }

void* allocate_aligned(usize size, usize alignment) {
  bool zero = false;
  void* block = allocate_large(size, alignment, &zero);
  EXPECT_NE(block, nullptr) << size;
  return block;
}

// A block of the size that does not start where its run does.
char* coloured_block(usize size) {
  void* block = allocate(size);
  while (offset_of(block) == 0) block = allocate(size);
  return static_cast<char*>(block);
}

// Distinct indices of `count` blocks that live at the same time.
usize indices(usize size, u32 count) {
  std::set<usize> seen;
  Blocks blocks;
  for (u32 i = 0; i < count; ++i) blocks.push_back(allocate(size));
  for (void* block : blocks) {
    seen.insert(index_of(block));
    EXPECT_TRUE(free_block(block));
  }
  return seen.size();
}

constexpr usize kEnough = kCacheSets * 9 / 10;

usize slices_of(usize size) {
  return size <= kLargestSmall ? 0 : divide_up(size + slice_run_extra(size, kQuantum), kSliceBytes);
}

FRESH_TEST(LargeColour, AreAsManyAsTheLastSliceHasRoomFor) {
  start_ground();
  set_large_colours(true);
  for (usize size = 92 * 1024; size <= 96 * 1024; size += 256) {
    const usize room = (96 * 1024 - size) / kCacheLine + 1;
    EXPECT_EQ(indices(size, 256), room < kCacheSets ? room : kCacheSets) << size;
  }
}

FRESH_TEST(LargeColour, MultiplesOfAChunkHaveThemFrom16MiBOn) {
  start_ground(usize{4} << 30);
  set_large_colours(true);
  EXPECT_EQ(indices(14 * kMiB, 16), 1u);
  EXPECT_EQ(indices(16 * kMiB, 64), kCacheSets);
  EXPECT_GE(indices(18 * kMiB - 64, 64), kEnough);
}

FRESH_TEST(LargeColour, BlocksFrom512KiBOnReachAllIndices) {
  start_ground(usize{2} << 30);
  set_large_colours(true);
  for (const usize size : {usize{512} << 10, usize{700} << 10, kMiB - 4096, kMiB - 4032, kMiB - 4031, kMiB - 1, kMiB,
                           kMiB + 1, 3 * kMiB, 9'000'000ul}) {
    EXPECT_GE(indices(size, 64), kEnough) << size;
  }
}

// A shard has every second chunk, or fourth.
FRESH_TEST(LargeColour, BlocksOfOneShardReachAllIndices) {
  start_ground(usize{2} << 30, 4);
  set_large_colours(true);
  for (const usize size : {usize{40'000}, usize{70'000}, usize{700'000}})
    EXPECT_GE(indices(size, 256), kEnough) << size;
}

// The sets of a TLB are chosen by the low bits of the page's number.
FRESH_TEST(LargeColour, RunsStartOnDifferentPages) {
  start_ground();
  set_large_colours(true);
  for (const usize size : {usize{34} << 10, usize{65} << 10, kMiB}) {
    std::set<usize> pages;
    for (u32 i = 0; i < 32; ++i) pages.insert(offset_of(allocate(size)) / kCarvePage);
    EXPECT_EQ(pages.size(), kSliceBytes / kCarvePage) << size;
  }
}

// What comes to one place one after the other stays on the pages that the longest of them needs, and one.
FRESH_TEST(LargeColour, SizesThatTakeTurnsTouchNoFurtherPages) {
  start_ground();
  set_large_colours(true);
  for (const usize longest : {usize{41'000}, usize{60'000}, usize{64'000}, usize{120'000}}) {
    std::vector<char*> blocks;
    for (u32 i = 0; i < 8; ++i) blocks.push_back(static_cast<char*>(allocate(longest)));
    for (char* block : blocks) {
      char* run = block - offset_of(block);
      const usize slices = record(block)->slices.get();
      for (usize size = longest; slices_of(size) == slices; size -= 1000) {
        free_block(block);
        block = static_cast<char*>(allocate(size));
        ASSERT_EQ(block - offset_of(block), run) << size;
        std::memset(block, 7, size);
      }
      EXPECT_LE(resident_pages(run, slices * kSliceBytes), divide_up(longest, kCarvePage) + 1) << longest;
    }
  }
}

FRESH_TEST(LargeColour, OffByItsOptions) {
  start_ground();
  for (const bool flat : {false, true}) {
    for (const bool colour : {false, true}) {
      changeable_options().placement = flat ? config::PlacementPolicy::flat : config::PlacementPolicy::index;
      changeable_options().colour = colour;
      span_choices_start();
      const usize expected = flat || !colour ? 1 : kCacheSets;
      EXPECT_EQ(indices(40'000, 256), expected);
      EXPECT_EQ(indices(3'000'000, 64), expected);
    }
  }
}

// A block that comes where another one was touches no further pages.
FRESH_TEST(LargeColour, APlaceKeepsItsColour) {
  start_ground();
  set_large_colours(true);
  for (const usize size : {usize{40'000}, usize{900'000}, kMiB, usize{5'000'000}}) {
    void* block = coloured_block(size);
    for (u32 i = 0; i < 3; ++i) {
      EXPECT_TRUE(free_block(block));
      EXPECT_EQ(allocate(size), block) << size;
    }
  }
}

FRESH_TEST(LargeColour, TouchesAtMostOnePageMore) {
  start_ground();
  set_large_colours(true);
  for (const usize size : {usize{33} << 10, usize{36} << 10, usize{600} << 10, kMiB, 3 * kMiB}) {
    char* block = coloured_block(size);
    std::memset(block, 7, size);
    char* start = block - offset_of(block);
    EXPECT_LE(resident_pages(start, round_up(size + offset_of(block), kCarvePage)), divide_up(size, kCarvePage) + 1);
  }
}

// --- All sizes around the borders. ---

std::vector<usize> border_sizes() {
  std::vector<usize> sizes;
  for (const usize border : {kLargestSmall, 2 * kSliceBytes, 15 * kSliceBytes, 16 * kSliceBytes, 31 * kSliceBytes,
                             kLargestSliceRun, kChunkBytes, 2 * kChunkBytes, 3 * kChunkBytes}) {
    for (const usize off : {0, 1, 15, 16, 63, 64, 65, 4031, 4032, 4033, 4095, 4096, 4097, 28'672, 32'704}) {
      sizes.push_back(border + off);
      if (border > 2 * kSliceBytes) sizes.push_back(border - off);
    }
  }
  return sizes;
}

void check_every_size(bool coloured) {
  start_ground();
  set_large_colours(coloured);
  for (const usize size : border_sizes()) {
    for (usize alignment = kQuantum; alignment <= 2 * kChunkBytes; alignment *= 2) {
      char* block = static_cast<char*>(allocate_aligned(size, alignment));
      Span* span = record(block);
      EXPECT_EQ(address(block) % alignment, 0u) << size << " aligned to " << alignment;
      EXPECT_EQ(large_offset(span), offset_of(block));
      EXPECT_GE(large_usable(span), size);
      EXPECT_EQ(address(block) + large_usable(span), slice_address(&first_arena(), span) + coffer::large_bytes(span));
      EXPECT_EQ(held(), coffer::large_bytes(span)) << size << " aligned to " << alignment;
      EXPECT_EQ(large_bytes(), coffer::large_bytes(span));
      if (!coloured) {
        EXPECT_EQ(offset_of(block), 0u);
      }
      // Its first bytes and its last ones are its own.
      block[0] = 1;
      block[large_usable(span) - 1] = 1;
      const uptr end = address(block) + large_usable(span) - 1;
      if (span->large_chunks.get() == 0) {
        EXPECT_LT(slice_record(&first_arena(), end), span + span->slices.get());
      } else {
        EXPECT_LT(chunk_index(reinterpret_cast<void*>(end)), chunk_index(block) + span->large_chunks.get());
      }
      EXPECT_FALSE(free_large(block + 16, span));
      EXPECT_FALSE(free_large(block - 64, span));
      if (offset_of(block) != 0) {
        EXPECT_FALSE(free_large(block - offset_of(block), span)) << "its run's start";
      }
      EXPECT_TRUE(is_large(span));
      EXPECT_TRUE(free_block(block));
      EXPECT_EQ(held(), 0u);
      EXPECT_EQ(large_bytes(), 0u);
    }
  }
}

FRESH_TEST(LargeColour, EverySizeAndAlignmentWithColours) { check_every_size(true); }
FRESH_TEST(LargeColour, EverySizeAndAlignmentWithout) { check_every_size(false); }

FRESH_TEST(LargeColour, CallocKnowsWhatIsZero) {
  start_ground();
  set_large_colours(true);
  for (const usize size : {usize{40'000}, usize{600'000}, kMiB, usize{5'000'000}}) {
    char* block = coloured_block(size);
    std::memset(block, 7, large_usable(record(block)));
    EXPECT_TRUE(free_block(block));
    bool zero = true;
    EXPECT_EQ(allocate_large(size, kQuantum, &zero), block);
    EXPECT_FALSE(zero);
    zero_large(block, size);
    EXPECT_TRUE(all_bytes(block, size, 0));
    EXPECT_TRUE(free_block(block));
    purge_free(~usize{0} / 2);
    EXPECT_EQ(allocate_large(size, kQuantum, &zero), block);
    EXPECT_TRUE(zero);
    EXPECT_TRUE(all_bytes(block, large_usable(record(block)), 0));
  }
}

// --- Through resizes. ---

FRESH_TEST(LargeColour, SlicesGrowAndShrinkInPlace) {
  start_ground();
  set_large_colours(true);
  char* block = coloured_block(40'000);
  const usize offset = offset_of(block);
  std::memset(block, 7, large_usable(record(block)));
  EXPECT_EQ(resize(block, 2 * kSliceBytes - offset), block);
  EXPECT_EQ(record(block)->slices.get(), 2u);
  EXPECT_EQ(resize(block, 2 * kSliceBytes), block) << "a third slice, for the colour";
  EXPECT_EQ(record(block)->slices.get(), 3u);
  EXPECT_EQ(large_usable(record(block)), 3 * kSliceBytes - offset);
  EXPECT_TRUE(all_bytes(block, 2 * kSliceBytes - offset, 7));
  EXPECT_EQ(resize(block, 40'000), block);
  EXPECT_EQ(record(block)->slices.get(), 2u);
  EXPECT_EQ(resize(block, kLargestSliceRun), nullptr) << "with its offset it would be too long";
  EXPECT_EQ(record(block)->slices.get(), 2u);
  EXPECT_TRUE(free_block(block));
}

FRESH_TEST(LargeColour, ChunksGrowShrinkAndMoveWithIt) {
  start_ground();
  set_large_colours(true);
  char* block = coloured_block(3'000'000);
  const usize offset = offset_of(block);
  std::memset(block, 7, 3'000'000);
  EXPECT_EQ(resize(block, 9'000'000), block);
  EXPECT_EQ(coffer::large_bytes(record(block)), round_up(9'000'000 + offset, kCarvePage));
  EXPECT_EQ(resize(block, 3'000'000), block);
  EXPECT_TRUE(all_bytes(block, 3'000'000, 7));
  const usize end = coffer::large_bytes(record(block)) - offset;
  EXPECT_EQ(resident_pages(block + end, kMiB), 0u) << "what it grew by went back";
  // A wall behind it; its pages move, then are copied.
  for (u32 i = 0; i < 2; ++i) {
    const u32 behind = chunk_index(block) + record(block)->large_chunks.get();
    ChunkRun wall;
    take_chunks_at(&first_arena(), behind, 1, &wall);
    if (i == 1) {
      fake::Faults faults;
      faults.nth = 1;
      faults.kinds = fake::kMovePages;
      fake::set_faults(faults);
    }
    char* moved = static_cast<char*>(resize(block, 12'000'000 + i * 8'000'000));
    ASSERT_NE(moved, nullptr);
    EXPECT_NE(moved, block);
    EXPECT_EQ(offset_of(moved), offset);
    EXPECT_TRUE(is_large(record(moved)));
    EXPECT_TRUE(all_bytes(moved, 3'000'000, 7));
    EXPECT_EQ(large_bytes(), held());
    block = moved;
  }
  EXPECT_EQ(fake::failed_calls(), 1u);
  EXPECT_EQ(fake::calls_of(fake::kMovePages), 2u);
}

// Sizes of 1 MiB and a little less are chunk runs with colours and slice runs without.
FRESH_TEST(LargeColour, AMebibyteStaysWhereItIs) {
  start_ground();
  set_large_colours(true);
  void* block = allocate(kMiB);
  EXPECT_EQ(record(block)->large_chunks.get(), 1u);
  EXPECT_EQ(resize(block, kMiB), block);
  EXPECT_EQ(resize(block, kLargestSliceRun - kMostLineColour + 1), block);
  EXPECT_EQ(resize(block, kLargestSliceRun - kMostLineColour), nullptr) << "copying gives more back";
}

// Of a single chunk it is known which slices hold old data: the tail counts only as far as they go.
FRESH_TEST(LargeColour, AMebibyteIsChargedOnce) {
  start_ground();
  set_large_colours(true);
  void* block = allocate(kMiB);
  std::memset(block, 7, kMiB);
  for (u32 i = 0; i < 5; ++i) {
    EXPECT_TRUE(free_block(block));
    EXPECT_LE(dirty(), kMiB + kSliceBytes);
    ASSERT_EQ(allocate(kMiB), block);
    EXPECT_LE(coffer::large_bytes(record(block)) + tail_bytes(chunk_of(block)), kMiB + kSliceBytes);
    EXPECT_EQ(dirty(), 0u);
  }
}

}  // namespace
}  // namespace coffer
