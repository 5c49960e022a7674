// SPDX-License-Identifier: MIT
// A thread vanishes with a lock: fork waits for none, and the child makes whole what was half changed under it.
// vanish_anywhere_test.cpp has the places where a thread may stop; here is what it does not step through.
#include <pthread.h>

#include "forks.hpp"
#include "inspect/profiling.hpp"
#include "mixed/mixed.hpp"
#include "observe/samples.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;

SpinLock& lock_of_samples() { return const_cast<Samples&>(profile_samples()).lock; }

FRESH_TEST(Fork, WaitsForNoLock) {
  Two two;
  Blocks blocks;
  two.other.run([&] {
    blocks = take_many(3);
    registry_lock().lock();
    g_arenas.growth.lock();
    g_arenas.arenas[0].lock.lock();
    lock_of_samples().lock();
  });
  in_fork_child([&] {
    give_now(blocks);
    take(3 * kChunkBytes);
    take_many(100, 32 * 1024);
  });
  two.other.run([] {
    lock_of_samples().unlock();
    g_arenas.arenas[0].lock.unlock();
    g_arenas.growth.unlock();
    registry_lock().unlock();
  });
  give_now(blocks);
  EXPECT_EQ(check_everything(), 0u) << "the parent's locks are as they were";
}

// issue 16: who forks may come to wait for a lock of others, whose holder is inside Coffer: that one waits for nobody.
FRESH_TEST(Fork, NobodyWaitsForAThreadThatForks) {
  Two two;
  Blocks blocks;
  two.other.run([&] { blocks = take_many(200, 4000); });
  fork_prepare();
  two.other.run([&] {
    give_now(blocks);
    give_many(take_many(200, 10'000));
    give(take(3 * kChunkBytes));
    const FallbackHeap fallback;
    Allocator::trim(0);
  });
  Worker third;
  third.run([] { give(take()); });
  third.end();
  fork_parent();
  EXPECT_EQ(g_pending.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// Whoever uses the fallback heap vanished with it.
FRESH_TEST(Fork, TheFallbackHeapOfAVanishedThread) {
  Two two;
  Blocks blocks;
  two.other.run([&] {
    static FallbackHeap fallback;  // never destroyed in a child
    Heap* const own = t_heap;
    t_heap = fallback.get();
    blocks = take_many(kCapacity + 3);
    give(blocks[0]);
    blocks.erase(blocks.begin());
    t_heap = own;
  });
  Span* const span = span_of(blocks[0]);
  ASSERT_EQ(owner_of(span), heap_by_index(0));
  in_fork_child([&] {
    EXPECT_EQ(owner_of(span), nullptr);
    EXPECT_EQ(heap_by_index(0)->attached.load(relaxed), 0u);
    give_now(blocks);
    EXPECT_EQ(held_bytes(), 0u);
    const FallbackHeap fallback;
    ASSERT_NE(fallback.get(), nullptr) << "it is opened again";
    Heap* const own = t_heap;
    t_heap = fallback.get();
    give(take());
    t_heap = own;
  });
}

// The list of records that wait for a thread is made of what the records say.
FRESH_TEST(Fork, TheListOfUnusedHeapsIsMadeAnew) {
  Two two;
  {
    Worker third, fourth;
    third.run([] { give(take()); });
    fourth.run([] { give(take()); });
  }
  ASSERT_EQ(heaps_ever(), 5u);
  const u32 first = heap_by_index(3)->next_waiting.get(), second = heap_by_index(4)->next_waiting.get();
  two.other.run([] {
    registry_lock().lock();
    heap_by_index(3)->next_waiting.set(3);
    heap_by_index(4)->next_waiting.set(4);
  });
  in_fork_child([] {
    EXPECT_EQ(attached_heaps(), 1u);
    if constexpr (!kSanitizer) {
      Worker threads[4];
      std::vector<Heap*> heaps = {t_heap};
      for (Worker& thread : threads) {
        thread.run([&] { heaps.push_back(own_heap()); });
        for (usize i = 0; i + 1 < heaps.size(); ++i) EXPECT_NE(heaps[i], heaps.back());
      }
      EXPECT_EQ(heaps_ever(), 6u) << "three waited";
    }
  });
  two.other.run([&] {
    heap_by_index(3)->next_waiting.set(first);
    heap_by_index(4)->next_waiting.set(second);
    registry_lock().unlock();
  });
}

FRESH_TEST(Fork, SamplesThatSomebodyWasChangingAreForgotten) {
  Two two;
  profile_start(1);
  const Blocks mine = take_many(3);
  two.other.run([] {
    take_many(5);
    lock_of_samples().lock();
  });
  in_fork_child([&] {
    EXPECT_EQ(profile_samples().live(), 0u);
    give_many(mine);
    const Blocks more = take_many(7);
    EXPECT_EQ(profile_samples().live(), 7u) << "it goes on with its own";
    give_many(more);
    EXPECT_EQ(profile_samples().live(), 0u);
  });
  two.other.run([] { lock_of_samples().unlock(); });
  EXPECT_EQ(profile_samples().live(), 8u);
}

// Handlers that were registered before Coffer's run before it in the child.
void* g_early = nullptr;
FRESH_TEST(Fork, HandlersOfOthersAllocateBeforeTheChildHasBegun) {
  ASSERT_EQ(pthread_atfork(nullptr, nullptr, [] { g_early = take(3 * kChunkBytes); }), 0);
  Two two;
  two.other.run([] {
    take();
    registry_lock().lock();
    g_arenas.arenas[0].lock.lock();
  });
  const u32 generation = t_heap->generation.get();
  run_fresh([&] {
    ASSERT_NE(g_early, nullptr);
    EXPECT_EQ(t_heap->generation.get(), generation + 1) << "it has begun once";
    EXPECT_EQ(g_pending.load(relaxed), 0u) << "and is not forking any more";
    EXPECT_EQ(two.theirs->attached.load(relaxed), 0u);
    give(g_early);
    EXPECT_EQ(check_everything(), 0u);
    run_fresh([&] {
      EXPECT_EQ(t_heap->generation.get(), generation + 2);
      give(g_early);
      EXPECT_EQ(check_everything(), 0u);
    });
  });
  EXPECT_EQ(g_early, nullptr);
  two.other.run([] {
    g_arenas.arenas[0].lock.unlock();
    registry_lock().unlock();
  });
}

// Nobody vanishes while it makes whole what an earlier fork left.
FRESH_TEST(Fork, BeginsWithWhatAnEarlierOneLeft) {
  Two two;
  two.other.run([] { take(); });
  run_fresh([] {
    EXPECT_NE(g_pending.load(relaxed), 0u);
    fork_prepare();
    EXPECT_EQ(g_pending.load(relaxed) & kVanished, 0u);
    fork_parent();
    EXPECT_EQ(g_pending.load(relaxed), 0u);
    EXPECT_EQ(check_everything(), 0u);
  });
}

}  // namespace
}  // namespace coffer
