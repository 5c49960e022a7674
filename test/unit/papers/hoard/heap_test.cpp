// SPDX-License-Identifier: MIT
// Superblocks in a heap: fullness groups, order, free lists, recycling.
#include "heaps.hpp"
#include "os/fake/fake.hpp"
#include "papers/common/given_back.hpp"

namespace coffer::test {
namespace {

void start_with(u32 k) {
  changeable_options().k = k;
  changeable_options().heaps = 4;
  start_hoard();
  use_heap(1);
}

FRESH_TEST(HoardHeap, FreeListsAreLastInFirstOut) {
  start_with(4);
  std::vector<void*> blocks = allocate_many(20, 100);
  coffer_free(blocks[3]);
  coffer_free(blocks[11]);
  coffer_free(blocks[7]);
  EXPECT_EQ(coffer_malloc(100), blocks[7]);
  EXPECT_EQ(coffer_malloc(100), blocks[11]);
  EXPECT_EQ(coffer_malloc(100), blocks[3]);
}

FRESH_TEST(HoardHeap, AllocatesFromTheFullestWithRoom) {
  start_with(100);
  const usize size = request_with_capacity(18);
  std::vector<void*> blocks = allocate_many(72, size);
  // Four superblocks: the first keeps 10 blocks, the second 17, the third is full, the fourth keeps 14.
  for (usize i = 0; i < 8; ++i) coffer_free(blocks[i]);
  coffer_free(blocks[18]);
  for (usize i = 54; i < 58; ++i) coffer_free(blocks[i]);
  EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[19]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[71]));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[17]));
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(HoardHeap, FreeMovesToTheFrontOfTheGroup) {
  start_with(100);
  const usize size = request_with_capacity(50);
  std::vector<void*> blocks = allocate_many(200, size);
  // All in one group, 10 of 50 free; the one freed from last is the one allocated from.
  for (usize s = 0; s < 4; ++s) {
    for (usize i = 0; i < 10; ++i) coffer_free(blocks[s * 50 + i]);
  }
  coffer_free(blocks[50 + 10]);  // 39 and 40 of 50 in use are one group
  EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[50 + 20]));
  coffer_free(blocks[100 + 10]);
  EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[100 + 20]));
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(HoardHeap, FindsTheEmptiestThatIsFEmpty) {
  start_with(100);
  const usize size = request_with_capacity(8);
  const u32 c = g_hoard.classes.of(size);
  std::vector<void*> blocks = allocate_many(24, size);
  coffer_free(blocks[0]);
  EXPECT_EQ(half_of(heap_at(1), c), nullptr);  // 7 of 8 in use: less than 1/4 free
  coffer_free(blocks[1]);
  EXPECT_EQ(half_of(heap_at(1), c), superblock_at(blocks[2]));  // 1/4 free exactly
  for (usize i = 8; i < 12; ++i) coffer_free(blocks[i]);
  EXPECT_EQ(half_of(heap_at(1), c), superblock_at(blocks[12]));
}

FRESH_TEST(HoardHeap, EmptySuperblocksServeAnyClass) {
  start_with(4);
  std::vector<void*> blocks = allocate_many(200, 200);
  for (void* block : blocks) coffer_free(block);
  const u64 made = heap_at(1)->counts.created;
  for (usize size : {usize{16}, usize{100}, usize{1000}, usize{4000}}) coffer_free(coffer_malloc(size));
  EXPECT_EQ(heap_at(1)->counts.created, made);
  EXPECT_GE(heap_at(1)->counts.recycled, 4u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(HoardHeap, EmptySuperblocksStay) {
  start_with(4);
  std::vector<void*> blocks = allocate_many(10000, 200);
  const usize held = totals().held.now();
  for (void* block : blocks) coffer_free(block);
  coffer_malloc_trim(0);
  EXPECT_EQ(totals().held.now(), held);
  EXPECT_EQ(heap_at(1)->counts.created * g_hoard.superblock_bytes, held);
}

FRESH_TEST(HoardHeap, EmptySuperblocksGoWithReleaseOn) {
  changeable_options().release = true;
  start_with(4);
  std::vector<void*> blocks = allocate_many(10000, 200);
  for (void* block : blocks) coffer_free(block);
  EXPECT_LE(totals().held.now(), 4 * g_hoard.superblock_bytes);  // K superblocks stay in the heap
  EXPECT_EQ(coffer_check(), 0u);
  EXPECT_EQ(coffer_malloc_trim(0), 1);
  EXPECT_EQ(totals().held.now(), 0u);
  EXPECT_EQ(coffer_malloc_trim(0), 0);
  coffer_free(coffer_malloc(200));
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(HoardHeap, EmptySuperblocksGoWhereTheSystemRefuses) {
  start_with(4);
  for (void* block : allocate_many(1000, 200)) coffer_free(block);
  const usize held = totals().held.now();
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kReserve});
  void* large = coffer_malloc(100'000);
  EXPECT_EQ(os::fake::failed_calls(), 1u);
  EXPECT_NE(large, nullptr);
  EXPECT_LT(totals().held.now(), held);
  EXPECT_EQ(coffer_check(), 0u);
  coffer_free(large);
}

FRESH_TEST(HoardHeap, EmptySuperblocksOfAnotherHeapServeWhereTheSystemRefuses) {
  start_with(4);
  std::vector<void*> blocks = allocate_many(100, 1000);  // the rest of what was mapped at once is used, too
  while (totals().held.now() % (512 * 1024) != 0) blocks.push_back(coffer_malloc(1000));
  for (void* block : blocks) coffer_free(block);
  use_heap(2);
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kReserve});
  const usize superblocks = totals().held.now() / g_hoard.superblock_bytes;
  blocks.clear();
  for (usize i = 0; i < superblocks; ++i) blocks.push_back(coffer_malloc(4000));
  for (void* block : blocks) EXPECT_NE(block, nullptr);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(HoardHeap, ThereIsMemoryWhileAnotherThreadGivesItBack) {
  changeable_options().k = 0;
  expect_memory_while_another_gives_back();
}

FRESH_TEST(HoardHeap, LargeRequestsHaveMappingsOfTheirOwn) {
  start_with(4);
  void* small = coffer_malloc(g_hoard.classes.largest());
  EXPECT_EQ(totals().mapped_blocks.now(), 0u);
  void* large = coffer_malloc(g_hoard.classes.largest() + 1);
  EXPECT_EQ(totals().mapped_blocks.now(), 1u);
  coffer_free(large);
  EXPECT_EQ(totals().mapped.now(), 0u);
  coffer_free(small);
}

// The check sees what it is there to see.
FRESH_TEST(HoardHeap, CheckFindsWrongCounts) {
  start_with(4);
  std::vector<void*> blocks = allocate_many(100, 200);
  EXPECT_EQ(coffer_check(), 0u);
  ++heap_at(1)->bins[g_hoard.classes.of(200)].used;
  EXPECT_NE(coffer_check(), 0u);
  --heap_at(1)->bins[g_hoard.classes.of(200)].used;
  superblock_at(blocks[0])->owner.store(heap_at(2), relaxed);
  EXPECT_NE(coffer_check(), 0u);
}

}  // namespace
}  // namespace coffer::test
