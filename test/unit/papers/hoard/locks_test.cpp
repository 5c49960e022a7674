// SPDX-License-Identifier: MIT
// What paper 1 says of locks: how often they are taken (sections 4.2 and 6.1), and figure 2's race.
#include <pthread.h>

#include <chrono>
#include <thread>

#include "heaps.hpp"
#include "papers/hoard/assign.hpp"
#include "papers/hoard/small.hpp"

namespace coffer::test {
namespace {

u64 heap_locks() {
  u64 sum = 0;
  for (u32 i = 1; i < heap_count(); ++i) sum += heap_at(i)->lock.taken();
  return sum;
}
u64 global_locks() { return global_heap()->lock.taken(); }
u64 superblock_locks() {
  u64 sum = 0;
  for (u32 i = 0; i < heap_count(); ++i) sum += heap_at(i)->counts.superblock_locks;
  return sum;
}

void start_with_two_heaps() {
  changeable_options().heaps = 2;
  start_hoard();
  use_heap(1);
}

// "Hoard requires only one lock for each malloc and two for each free" (section 6.1).
FRESH_TEST(HoardLocks, OneForMallocTwoForFree) {
  start_with_two_heaps();
  std::vector<void*> blocks = allocate_many(1000, 100);
  for (usize i = 0; i < 100; ++i) coffer_free(blocks[i]);
  const u64 heap = heap_locks(), global = global_locks(), superblock = superblock_locks();
  for (usize i = 0; i < 100; ++i) blocks[i] = coffer_malloc(100);
  EXPECT_EQ(heap_locks() - heap, 100u);
  EXPECT_EQ(superblock_locks() - superblock, 0u);
  for (usize i = 0; i < 100; ++i) coffer_free(blocks[i]);
  EXPECT_EQ(heap_locks() - heap, 200u);
  EXPECT_EQ(superblock_locks() - superblock, 100u);
  EXPECT_EQ(global_locks() - global, 0u);
}

// A heap that grows takes the global lock at most k/(f S/s) times for k operations (section 4.2), whether new
// superblocks come from the system or, f empty, from the global heap.
FRESH_TEST(HoardLocks, GrowingTakesTheGlobalLockSeldom) {
  changeable_options().k = 0;
  start_with_two_heaps();
  constexpr usize kCount = 20000;
  const usize size = 100;
  const u32 capacity = g_hoard.capacity[g_hoard.classes.of(size)];
  const u64 before = global_locks();
  std::vector<void*> blocks = allocate_many(kCount, size);
  EXPECT_LE(global_locks() - before, kCount / capacity + 1);
  // Every superblock 1/4 empty or a little more, in the global heap.
  for (usize i = 0; i < kCount; ++i) {
    if (i % capacity < capacity / 4 + 1) coffer_free(blocks[i]);
  }
  const usize given = superblocks_in(0, g_hoard.classes.of(size));
  ASSERT_GT(given, kCount / capacity / 2);
  use_heap(2);
  const u64 again = global_locks();
  const usize more = given * (capacity / 4);
  allocate_many(more, size);
  EXPECT_GT(global_locks() - again, more / capacity);          // more often than with empty ones ...
  EXPECT_LE(global_locks() - again, more * 4 / capacity + 2);  // ... but not more than the bound
  EXPECT_EQ(coffer_check(), 0u);
}

// "The pathological case": every superblock exactly f empty, then each freed block by block (section 4.2).
FRESH_TEST(HoardLocks, PathologicalShrinkTakesTheGlobalLockAtEachFree) {
  changeable_options().k = 0;
  start_with_two_heaps();
  const usize size = request_with_capacity(8);
  std::vector<void*> blocks = allocate_many(800, size);
  for (usize i = 0; i < 800; i += 8) {
    coffer_free(blocks[i]);
    coffer_free(blocks[i + 1]);
  }
  const u64 before = global_locks();
  EXPECT_EQ(superblocks_in(0, g_hoard.classes.of(size)), 0u);
  for (usize i = 0; i < 800; ++i) {
    if (i % 8 >= 2) coffer_free(blocks[i]);
  }
  EXPECT_EQ(global_locks() - before, 600u);
  EXPECT_EQ(coffer_check(), 0u);
}

// In a steady state within the empty fraction, no global lock at all (section 4.2, "the common case").
FRESH_TEST(HoardLocks, SteadyStateTakesNoGlobalLock) {
  start_with_two_heaps();
  std::vector<void*> blocks = allocate_many(5000, 64);
  const u64 before = global_locks();
  for (int round = 0; round < 20; ++round) {
    for (usize i = 0; i < 1000; ++i) coffer_free(blocks[(i * 7) % 5000]);
    for (usize i = 0; i < 1000; ++i) blocks[(i * 7) % 5000] = coffer_malloc(64);
  }
  EXPECT_EQ(global_locks(), before);
}

// "Each malloc and each free will be serialized ... at most a two-fold slowdown" (section 4.2): a pair of producer and
// consumer takes the locks of one heap, each operation one of them, and none besides.
FRESH_TEST(HoardLocks, ProducerAndConsumerMeetAtOneHeapOnly) {
  changeable_options().k = 16;
  start_with_two_heaps();
  constexpr usize kRounds = 200, kBlocks = 100;
  std::vector<void*> blocks = allocate_many(kBlocks, 100);
  for (void* block : blocks) coffer_free(block);
  const u64 first = heap_at(1)->lock.taken(), second = heap_at(2)->lock.taken(), global = global_locks();
  for (usize round = 0; round < kRounds; ++round) {
    use_heap(1);
    for (void*& block : blocks) block = coffer_malloc(100);
    use_heap(2);
    for (void* block : blocks) coffer_free(block);
  }
  EXPECT_EQ(heap_at(1)->lock.taken() - first, 2 * kRounds * kBlocks);
  EXPECT_EQ(heap_at(2)->lock.taken() - second, 0u);
  EXPECT_EQ(global_locks() - global, 0u);
}

// --- figure 2's race: the owner changes between the two locks of free. ---

// Waits until another thread, which is about to free a block of the superblock, holds its lock and has had the time to
// read the owner and to come to the owner's lock.
void wait_for_holder(Superblock* superblock) {
  while (superblock->lock.try_lock()) {
    superblock->lock.unlock();
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void move_superblock(Heap* from, Heap* to, Superblock* superblock) {
  detach(from, superblock);
  attach(to, superblock);
}

FRESH_TEST(HoardRace, TheOwnerIsReadAgainUnderItsLock) {
  changeable_options().k = 1000;
  start_with_two_heaps();
  for (int round = 0; heap_at(1)->counts.retries == 0; ++round) {
    ASSERT_LT(round, 100);
    use_heap(1);
    void* kept = coffer_malloc(100);
    void* block = coffer_malloc(100);
    Superblock* superblock = superblock_at(block);
    ASSERT_EQ(superblock->owner.load(relaxed), heap_at(1));
    heap_at(1)->lock.lock();
    std::thread freer([block] { coffer_free(block); });
    wait_for_holder(superblock);
    // As malloc and free of others would, through the global heap to heap 2.
    global_heap()->lock.lock();
    move_superblock(heap_at(1), global_heap(), superblock);
    global_heap()->lock.unlock();
    heap_at(1)->lock.unlock();
    freer.join();
    EXPECT_EQ(superblock->owner.load(relaxed), global_heap());
    EXPECT_EQ(coffer_check(), 0u);
    coffer_free(kept);
  }
}

// A thread that waits for a heap with a superblock's lock held is no obstacle to fork, nor to the child.
FRESH_TEST(HoardRace, ForkWhileAFreeWaitsForTheOwner) {
  start_with_two_heaps();
  void* kept = coffer_malloc(100);
  void* block = coffer_malloc(100);
  ASSERT_EQ(superblock_at(kept), superblock_at(block));
  heap_at(1)->lock.lock();  // as if the fork came from a signal handler inside malloc
  std::thread freer([block] { coffer_free(block); });
  wait_for_holder(superblock_at(block));
  run_fresh([&] {
    heap_at(1)->lock.unlock();
    coffer_free(kept);
    EXPECT_EQ(coffer_check(), 0u);
  });
  heap_at(1)->lock.unlock();
  freer.join();
  EXPECT_EQ(coffer_check(), 0u);
}

// A handler of another library runs while this thread holds every heap, and frees a block of a superblock whose lock is
// held by a thread that waits for one of them.
void* g_handlers_block;
FRESH_TEST(HoardRace, ForkHandlersMayFreeWhatOthersWaitFor) {
  // Registered before Hoard's own, so it runs after them.
  ASSERT_EQ(pthread_atfork([] { coffer_free(g_handlers_block); }, nullptr, nullptr), 0);
  start_with_two_heaps();
  g_handlers_block = coffer_malloc(100);
  void* block = coffer_malloc(100);
  heap_at(1)->lock.lock();
  std::thread freer([block] { coffer_free(block); });
  wait_for_holder(superblock_at(block));
  run_fresh([] {});
  heap_at(1)->lock.unlock();
  freer.join();
  EXPECT_EQ(coffer_check(), 0u);
}

}  // namespace
}  // namespace coffer::test
