// SPDX-License-Identifier: MIT
// Options beside those of the other tests: which heap a thread uses, how superblocks are found, what is counted.
#include <thread>

#include "heaps.hpp"
#include "os/fake/fake.hpp"
#include "papers/hoard/assign.hpp"

namespace coffer::test {
namespace {

FRESH_TEST(HoardAssign, TwiceAsManyHeapsAsProcessors) {
  os::fake::set_processors(7);
  start_hoard();
  EXPECT_EQ(g_hoard.heaps, 14u);
}

FRESH_TEST(HoardAssign, ThreadsAreSpreadOverTheHeaps) {
  changeable_options().heaps = 4;
  start_hoard();
  u32 used[5] = {};
  for (int i = 0; i < 8; ++i) {
    std::thread([&] { ++used[owner_of(coffer_malloc(100))->number]; }).join();
  }
  EXPECT_EQ(used[0], 0u);
  for (u32 i = 1; i <= 4; ++i) EXPECT_EQ(used[i], 2u);
}

FRESH_TEST(HoardAssign, ByProcessorTheHeapChangesWithIt) {
  changeable_options().heaps = 4;
  changeable_options().assign = config::Assign::processor;
  start_hoard();
  for (u32 processor : {0u, 2u, 1u, 3u, 5u}) {
    os::fake::set_current_processor(processor);
    EXPECT_EQ(owner_of(coffer_malloc(100))->number, 1 + processor % 4);
  }
}

// Section 7: "an efficient method that can adapt to the situation when two concurrently-executing threads map to the
// same heap".
FRESH_TEST(HoardAssign, AdaptiveThreadsThatMeetPart) {
  changeable_options().heaps = 3;
  changeable_options().assign = config::Assign::adaptive;
  start_hoard();
  Heap* shared = static_cast<Heap*>(papers::t_local);
  ASSERT_NE(shared, nullptr);
  // Alone at its heap, a thread stays: the lock is held by frees of others.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(after_collision(shared), shared);
  shared->threads.fetch_add(1, relaxed);  // another thread comes
  Heap* now = shared;
  int collisions = 0;
  while (now == shared && ++collisions < 100) now = after_collision(shared);
  EXPECT_GT(collisions, 1);  // not at the first: threads meet now and then at every heap
  ASSERT_NE(now, shared);
  EXPECT_EQ(papers::t_local, now);
  EXPECT_EQ(shared->threads.load(relaxed), 1u);
  EXPECT_EQ(now->threads.load(relaxed), 1u);
}

FRESH_TEST(HoardAssign, AdaptiveThreadsThatEndLeaveTheirHeap) {
  changeable_options().heaps = 3;
  changeable_options().assign = config::Assign::adaptive;
  start_hoard();
  for (int i = 0; i < 30; ++i) std::thread([] { coffer_free(coffer_malloc(10)); }).join();
  u32 threads = 0;
  for (u32 i = 1; i <= 3; ++i) threads += heap_at(i)->threads.load(relaxed);
  EXPECT_EQ(threads, 1u);
}

FRESH_TEST(HoardLookup, ByMaskBlocksNeedNoWord) {
  changeable_options().lookup = config::Lookup::mask;
  start_hoard();
  void* block = coffer_malloc(64);
  EXPECT_EQ(coffer_malloc_usable_size(block), 64u);
  void* next = coffer_malloc(64);
  EXPECT_EQ(static_cast<char*>(next) - static_cast<char*>(block), 64);
  // Pointers inside, as aligned allocation gives them.
  for (usize alignment = 32; alignment <= 4096; alignment *= 2) {
    void* aligned = coffer_aligned_alloc(alignment, 50);
    EXPECT_EQ(reinterpret_cast<uptr>(aligned) % alignment, 0u);
    EXPECT_GE(coffer_malloc_usable_size(aligned), 50u);
    coffer_free(aligned);
  }
  // Mapped blocks are told by their alignment, which they keep when they shrink and grow.
  void* large = coffer_malloc(100'000);
  EXPECT_EQ(reinterpret_cast<uptr>(large) % g_hoard.superblock_bytes, 0u);
  large = coffer_realloc(large, 30'000);
  EXPECT_EQ(reinterpret_cast<uptr>(large) % g_hoard.superblock_bytes, 0u);
  large = coffer_realloc(large, 3'000'000);
  EXPECT_EQ(reinterpret_cast<uptr>(large) % g_hoard.superblock_bytes, 0u);
  coffer_free(large);
  coffer_free(next);
  coffer_free(block);
  EXPECT_EQ(coffer_check(), 0u);
}

// Table 4's columns, and table 3's.
FRESH_TEST(HoardCounts, PeaksOfUAndA) {
  changeable_options().peaks = true;
  start_hoard();
  use_heap(1);
  const usize before = live_gauge().now();
  std::vector<void*> blocks = allocate_many(1000, 100);
  const usize stride = superblock_at(blocks[0])->stride;
  EXPECT_EQ(live_gauge().now() - before, 1000 * stride);
  void* large = coffer_malloc(1'000'000);
  const usize most = live_gauge().peak();
  EXPECT_GE(most, 1000 * stride + 1'000'000);
  large = coffer_realloc(large, 500'000);
  for (void* block : blocks) coffer_free(block);
  coffer_free(large);
  EXPECT_EQ(live_gauge().now(), before);
  EXPECT_EQ(live_gauge().peak(), most);
  EXPECT_GE(totals().held.peak(), most);
}

FRESH_TEST(HoardCounts, BlocksThatMayBeFalselyShared) {
  changeable_options().heaps = 2;
  changeable_options().k = 0;
  start_hoard();
  use_heap(1);
  const usize size = request_with_capacity(8);
  std::vector<void*> blocks = allocate_many(8, size);
  for (usize i = 0; i < 3; ++i) coffer_free(blocks[i]);  // 3/8 empty: the superblock goes to the global heap
  ASSERT_EQ(owner_of(blocks[7]), global_heap());
  use_heap(2);
  EXPECT_EQ(superblock_at(coffer_malloc(size)), superblock_at(blocks[7]));
  EXPECT_EQ(heap_at(2)->counts.from_global, 1u);
  EXPECT_EQ(heap_at(2)->counts.shared_blocks, 5u);
  const Outcome outcome = outcome_of([] { coffer_malloc_stats(); });
  EXPECT_NE(outcome.errors.find("falsely shared"), std::string::npos);
  EXPECT_NE(outcome.errors.find("global heap locks"), std::string::npos);
}

}  // namespace
}  // namespace coffer::test
