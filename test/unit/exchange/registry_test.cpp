// SPDX-License-Identifier: MIT
// Start of the process, heaps of threads, the fallback heap. (What a thread leaves behind: thread_end_test.cpp.)
#include "exchange/registry.hpp"

#include <gtest/gtest.h>

#include <pthread.h>

#include <bit>
#include <optional>

#include "heap/refill.hpp"
#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr usize kKiB = 1024;

// --- Start. ---

FRESH_TEST(Start, NeedsNoOrder) {
  EXPECT_TRUE(start_process());
  EXPECT_TRUE(start_process());
  EXPECT_EQ(g_arenas.count.load(relaxed), 1u);
  EXPECT_EQ(heaps_ever(), 1u) << "the fallback heap has a number, but no memory yet";
  EXPECT_FALSE(fallback_heap_used());
  EXPECT_EQ(attached_heaps(), 0u);
  EXPECT_EQ(t_heap, &g_null_heap);
}

FRESH_TEST(Start, HappensOnceAmongThreads) {
  fake::set_jitter(true);
  run_together(4, [](u32) { EXPECT_TRUE(start_process()); });
  EXPECT_EQ(g_arenas.count.load(relaxed), 1u);
}

FRESH_TEST(Start, FailsWithoutAddressSpaceAndMayBeTriedAgain) {
  fake::set_address_space(32 * kKiB);
  EXPECT_FALSE(start_process());
  EXPECT_EQ(allocate_any(16), nullptr);
  EXPECT_EQ(allocate_any(100'000), nullptr);
  EXPECT_EQ(Allocator::allocate_zeroed(100'000), nullptr);
  EXPECT_EQ(Allocator::allocate_aligned(100'000, 4096), nullptr);
  EXPECT_FALSE(Allocator::trim(0));
  EXPECT_EQ(Allocator::check(), 0u);
  Statistics statistics;
  Allocator::statistics(statistics);
  EXPECT_EQ(statistics.held, 0u);
  EXPECT_EQ(fake::reserved_bytes(), 0u);
  fake::set_address_space(0);
  void* block = allocate_any(16);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// The heaps' table stands, but not the arena: it is not made again.
FRESH_TEST(Start, KeepsTheTableOfAnEarlierAttempt) {
  fake::set_address_space(7 << 20);
  EXPECT_FALSE(start_process());
  const usize table = fake::reserved_bytes();
  EXPECT_GT(table, 0u);
  fake::set_address_space(0);
  EXPECT_TRUE(start_process());
  EXPECT_EQ(fake::reserved_bytes(), table + g_arenas.arenas[0].reserved);
}

// A limit on locked memory refuses the table and is no limit that can be asked for: most of what is left is for blocks.
FRESH_TEST(Start, LeavesScarceSpaceToBlocks) {
  constexpr usize kAllHeaps = 1 << 20;
  fake::set_faults({.nth = 1, .kinds = fake::kReserve});
  ASSERT_TRUE(start_process());
  EXPECT_EQ(fake::failed_calls(), 1u);
  const usize table = fake::reserved_bytes() - g_arenas.arenas[0].reserved;
  const usize share = kAllHeaps / 2 / 8 * sizeof(Heap);
  EXPECT_GE(table, share) << "of the half that is granted an eighth";
  EXPECT_LE(table, share + 128 * kKiB);
  EXPECT_NE(take(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Start, UsesTheOptions) {
  changeable_options().shards = 3;
  changeable_options().arena = 64 << 20;
  ASSERT_TRUE(start_process());
  EXPECT_EQ(shard_count(), 4u);
  EXPECT_EQ(g_arenas.arenas[0].bytes, 64u << 20);
}

FRESH_TEST(Start, HasAsManyShardsAsProcessors) {
  fake::set_processors(7);
  ASSERT_TRUE(start_process());
  EXPECT_EQ(shard_count(), 8u);
}

// --- Heaps of threads. ---

FRESH_TEST(Attach, AtTheFirstAllocation) {
  start_heaps();
  EXPECT_EQ(t_heap, &g_null_heap);
  void* block = take();
  Heap* heap = t_heap;
  EXPECT_NE(heap, &g_null_heap);
  EXPECT_EQ(heap->index.get(), 1u);
  EXPECT_EQ(heap_by_index(1), heap);
  EXPECT_EQ(own_heap(), heap);
  EXPECT_EQ(heap->attached.load(relaxed), 1u);
  EXPECT_EQ(heap->mailbox.load(relaxed), 0u);
  EXPECT_EQ(attached_heaps(), 1u);
  EXPECT_EQ(owner_of(span_of(block)), heap);
}

FRESH_TEST(Attach, NewThreadsGetTheHeapsOfEndedOnes) {
  start_heaps();
  take();
  Heap* first = nullptr;
  Heap* second = nullptr;
  {
    Worker one, two;
    one.run([&] { first = own_heap(); });
    two.run([&] { second = own_heap(); });
    EXPECT_NE(first, second);
    EXPECT_EQ(attached_heaps(), 3u);
    one.end();
    EXPECT_EQ(attached_heaps(), 2u);
    EXPECT_EQ(first->attached.load(relaxed), 0u);
    EXPECT_EQ(first->self.load(relaxed), first);
    EXPECT_EQ(first->inside.load(relaxed), kOutside);
    Worker three;
    three.run([&] { EXPECT_EQ(own_heap(), first); });
  }
  EXPECT_EQ(attached_heaps(), 1u);
  EXPECT_EQ(heaps_ever(), 4u);
  for (u32 i = 0; i < 50; ++i) {
    Worker thread;
    thread.run([] { take(); });
  }
  EXPECT_EQ(heaps_ever(), 4u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Attach, ManyThreadsHaveAHeapEach) {
  constexpr u32 kThreads = 40;
  start_heaps();
  std::vector<std::unique_ptr<Worker>> threads;
  std::vector<Heap*> heaps(kThreads);
  for (u32 i = 0; i < kThreads; ++i) {
    threads.push_back(std::make_unique<Worker>());
    threads[i]->run([&, i] { heaps[i] = own_heap(); });
  }
  for (u32 i = 0; i < kThreads; ++i) EXPECT_EQ(heaps[i], heap_by_index(i + 1));
  EXPECT_EQ(attached_heaps(), kThreads);
}

FRESH_TEST(Attach, TheFirstThreadsRecordTouchesOnePage) {
  start_heaps();
  Heap* first = nullptr;
  Worker thread;
  thread.run([&] { first = own_heap(); });
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first, heap_by_index(1));
  EXPECT_EQ(reinterpret_cast<uptr>(first) % os::page_size(), 0u);
  EXPECT_LE(sizeof(Heap), os::page_size());
}

FRESH_TEST(Attach, EarlierRecordsLieHigher) {
  start_heaps();
  Heap* heaps[3] = {};
  Worker threads[3];
  for (u32 i = 0; i < 3; ++i) threads[i].run([&, i] { heaps[i] = own_heap(); });
  EXPECT_EQ(heaps[1] + 1, heaps[0]);
  EXPECT_EQ(heaps[2] + 1, heaps[1]);
  EXPECT_EQ(heap_by_index(0), heaps[0] + 1) << "the fallback heap's, above all";
}

// --- Threads without a heap. ---

FRESH_TEST(Fallback, ServesWhenNoRecordIsLeft) {
  // A table of the fewest records that will do, then room for the arena.
  fake::set_address_space(64 * kKiB);
  EXPECT_FALSE(start_process());
  fake::set_address_space(0);
  start_heaps();
  std::vector<std::unique_ptr<Worker>> threads;
  bool got = true;
  while (got && threads.size() < 100) {
    threads.push_back(std::make_unique<Worker>());
    threads.back()->run([&] { got = own_heap() != nullptr; });
  }
  EXPECT_FALSE(got);
  EXPECT_EQ(threads.size(), std::bit_floor(64 * kKiB / sizeof(Heap)))
      << "all but the fallback heap, and the one without";
  threads.back()->run([] {
    void* block = take();
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(t_heap, &g_null_heap);
    EXPECT_EQ(owner_of(span_of(block)), heap_by_index(0));
    EXPECT_NE(Allocator::allocate_zeroed(100), nullptr);
    EXPECT_NE(Allocator::allocate_aligned(100, 64), nullptr);
    give(block);
  });
  EXPECT_TRUE(fallback_heap_used());
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Fallback, ServesWhenTheKernelHasNoMemoryForARecord) {
  start_heaps();
  take();
  {
    const FallbackHeap made;
  }
  exhaust_kernel();
  const auto threads = fill_heap_records();
  threads.back()->run([] {
    EXPECT_EQ(own_heap(), nullptr);
    const void* block = take();
    ASSERT_NE(block, nullptr) << "there are free slices";
    EXPECT_EQ(owner_of(span_of(block)), heap_by_index(0));
  });
}

FRESH_TEST(Fallback, HasNoMemoryEither) {
  changeable_options().arena = 64 << 20;
  ASSERT_TRUE(start_process());
  exhaust_kernel();
  {
    const FallbackHeap fallback;
    EXPECT_EQ(fallback.get(), nullptr);
  }
  EXPECT_EQ(take(), nullptr);
  fake::stop_faults();
  const FallbackHeap fallback;
  EXPECT_NE(fallback.get(), nullptr) << "the lock was given back";
}

// A destructor of thread-specific data that allocates after the heap is gone.
void allocate_at_the_end(void* rounds);
pthread_key_t g_late_key;
std::optional<Heap*> g_late_owner;
void allocate_at_the_end(void* value) {
  const uptr round = reinterpret_cast<uptr>(value);
  void* block = take();
  if (t_heap == &g_null_heap) g_late_owner = owner_of(span_of(block));
  give(block);
  if (round > 1) pthread_setspecific(g_late_key, reinterpret_cast<void*>(round - 1));
}

FRESH_TEST(Fallback, ServesThreadsPastTheirEnd) {
  start_heaps();
  take();
  pthread_key_create(&g_late_key, &allocate_at_the_end);
  const u32 before = heaps_ever();
  Worker thread;
  thread.run([] {
    take();
    pthread_setspecific(g_late_key, reinterpret_cast<void*>(uptr{3}));
  });
  thread.end();
  ASSERT_TRUE(g_late_owner.has_value());
  EXPECT_EQ(*g_late_owner, heap_by_index(0));
  EXPECT_EQ(heaps_ever(), before + 1) << "no heap is attached that nobody would give back";
  EXPECT_EQ(attached_heaps(), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Fallback, IsUsedByOneThreadAtATime) {
  constexpr u32 kThreads = 4, kRounds = 3000;
  start_heaps();
  u64 plain = 0;
  run_together(kThreads, [&](u32 self) {
    Blocks blocks;
    for (u32 round = 0; round < kRounds; ++round) {
      const FallbackHeap fallback;
      plain += 1;  // ThreadSanitizer tells if the lock is none
      bool zero = false;
      Block* block = allocate_block(fallback.get(), static_cast<ClassIndex>(self), true, &zero);
      ASSERT_NE(block, nullptr);
      blocks.push_back(block);
      if (round % 2 == 0) continue;
      for (void* freed : blocks) push_remote(span_of(freed), static_cast<Block*>(freed), static_cast<Block*>(freed), 1);
      blocks.clear();
    }
  });
  EXPECT_EQ(plain, u64{kThreads} * kRounds);
}

// The process starts between its construction, which failed, and its end: it must not give back a lock that it never
// took.
FRESH_TEST(Fallback, GivesBackOnlyTheLockItTook) {
  fake::set_address_space(64 * kKiB);
  std::optional<FallbackHeap> failed(std::in_place);
  EXPECT_EQ(failed->get(), nullptr);
  fake::set_address_space(0);
  start_heaps();
  std::optional<FallbackHeap> holder;
  Worker other;
  other.run([&] { holder.emplace(); });
  failed.reset();
  Atomic<u32> entered;
  std::thread third([&] {
    const FallbackHeap fallback;
    entered.store(1, relaxed);
  });
  for (u32 i = 0; i < 2000 && entered.load(relaxed) == 0; ++i) std::this_thread::yield();
  EXPECT_EQ(entered.load(relaxed), 0u) << "two threads use the fallback heap";
  other.run([&] { holder.reset(); });
  third.join();
}

}  // namespace
}  // namespace coffer
