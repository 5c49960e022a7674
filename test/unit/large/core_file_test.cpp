// SPDX-License-Identifier: MIT
// What core files hold of Coffer's memory: all that can be touched, and nothing that is only reserved. (A real one:
// conformance/hard/core_file.py.)
#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/probe.hpp"

namespace coffer {
namespace {

using namespace test;

// Of all arenas, with their metadata. Returns the number of mappings.
usize expect_only_usable_memory_dumped() {
  usize count = 0;
  for (u32 i = 0; i < g_arenas.count.load(relaxed); ++i) {
    const Arena& arena = g_arenas.arenas[i];
    const auto mappings = dump_flags_of(reinterpret_cast<void*>(arena.base), arena.reserved);
    EXPECT_FALSE(mappings.empty());
    for (const DumpFlags& mapping : mappings) {
      EXPECT_EQ(mapping.left_out, !mapping.accessible) << std::hex << mapping.start;
    }
    count += mappings.size();
  }
  return count;
}

FRESH_TEST(CoreFile, HasWhatIsUsable) {
  start_ground();
  expect_only_usable_memory_dumped();
  void* const small = allocate(100'000);
  void* const block = allocate(5 * kMiB);
  const usize mappings = expect_only_usable_memory_dumped();
  EXPECT_TRUE(free_block(block));
  EXPECT_TRUE(free_block(small));
  EXPECT_EQ(expect_only_usable_memory_dumped(), mappings) << "freed chunks stay as they are";
}

FRESH_TEST(CoreFile, HasMovedPagesAndTheirOldPlace) {
  start_ground();
  char* block = static_cast<char*>(allocate(3'000'000));
  std::memset(block, 7, 3'000'000);
  allocate(3'000'000);
  char* const moved = static_cast<char*>(resize(block, 9'000'000));
  ASSERT_NE(moved, block);
  expect_only_usable_memory_dumped();
  EXPECT_TRUE(free_block(moved));
  expect_only_usable_memory_dumped();
}

FRESH_TEST(CoreFile, HasWhatIsUsableOfFurtherArenasAndInForkChildren) {
  start_ground(64 * kMiB);
  allocate(100 * kMiB);
  ASSERT_EQ(g_arenas.count.load(relaxed), 2u);
  expect_only_usable_memory_dumped();
  EXPECT_TRUE(outcome_of([] {
                allocate(30 * kMiB);
                expect_only_usable_memory_dumped();
              }).succeeded());
}

// A program that leaves its secrets out of core files, in a block next to which chunks are committed later.
FRESH_TEST(CoreFile, LeavesWhatTheProgramLeavesOut) {
  start_ground(usize{1} << 30);
  for (u32 i = 0; i < 20; ++i) allocate(kChunkBytes);
  void* const secret = allocate(kChunkBytes);
  ASSERT_EQ(madvise(secret, kChunkBytes, MADV_DONTDUMP), 0);
  for (u32 i = 0; i < 200; ++i) allocate((1 + i % 3) * kChunkBytes);
  for (const DumpFlags& mapping : dump_flags_of(secret, kChunkBytes)) EXPECT_TRUE(mapping.left_out);
}

}  // namespace
}  // namespace coffer
