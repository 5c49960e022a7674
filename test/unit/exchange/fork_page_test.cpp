// SPDX-License-Identifier: MIT
// How a fork child knows that it is one: by a page that forks wipe, and by handlers once two threads have heaps.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "exchange/registry_record.hpp"
#include "forks.hpp"
#include "support/build.hpp"

namespace coffer::test {
namespace {

// 1 and more: what a child found wrong; 0: nothing.
int end_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

FRESH_TEST(ForkPage, AProcessWithOneHeapHasNoHandlers) {
  start_heaps();
  give(take());
  EXPECT_EQ(g_registry.handlers.load(relaxed), 0u);
  Worker other;
  other.run([] { give(take()); });
  EXPECT_EQ(g_registry.handlers.load(relaxed), 1u);
}

FRESH_TEST(ForkPage, AChildOfOneHeapBegins) {
  start_heaps();
  const Blocks blocks = take_many(5);
  const u32 generation = t_heap->generation.get();
  run_fresh([&] {
    EXPECT_EQ(t_heap->generation.get(), generation);
    settle_fork();
    EXPECT_EQ(t_heap->generation.get(), generation + 1);
    EXPECT_EQ(g_pending.load(relaxed), 0u) << "nobody vanished";
    give_many(blocks);
    EXPECT_EQ(check_everything(), 0u);
    run_fresh([&] {
      settle_fork();
      EXPECT_EQ(t_heap->generation.get(), generation + 2);
    });
  });
  EXPECT_EQ(t_heap->generation.get(), generation);
}

// No handler runs, and the other thread vanishes with locks.
FRESH_TEST(ForkPage, AChildThatTheCLibraryDoesNotKnowOf) {
  Two two;
  two.other.run([] {
    take_many(3);
    registry_lock().lock();
    g_arenas.arenas[0].lock.lock();
  });
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    alarm(20);
    void* const block = take(3 * kChunkBytes);
    if (block == nullptr) _exit(1);
    if (two.theirs->attached.load(relaxed) != 0) _exit(2);
    give(block);
    _exit(check_everything() == 0 ? 0 : 3);
  }
  ASSERT_GT(child, 0);
  EXPECT_EQ(end_of(child), 0);
  two.other.run([] {
    g_arenas.arenas[0].lock.unlock();
    registry_lock().unlock();
  });
}

// The thread that forked is on fast paths all the while: its heap stays its own.
FRESH_TEST(ForkPage, AThreadOfTheChildComesFirst) {
  start_heaps();
  const Blocks blocks = take_many(kThreshold);
  run_fresh([&] {
    std::thread([] { give_many(take_many(100)); }).join();
    EXPECT_EQ(g_pending.load(relaxed), 0u);
    EXPECT_NE(t_heap->attached.load(relaxed), 0u);
    EXPECT_EQ(span_of(blocks[0])->owner.load(relaxed), t_heap);
    give_many(blocks);
    give_many(take_many(100));
    EXPECT_EQ(check_everything(), 0u);
  });
}

// The C library gives a new thread the place of one that vanished: that one was in the middle of the start.
FRESH_TEST(ForkPage, AThreadInPlaceOfTheOneThatWasStarting) {
  start_heaps();
  give(take());
  run_fresh([] {
    alarm(60);  // or it waits for ever
    std::thread([] {
      g_registry.start.store(this_thread(), relaxed);
      give_many(take_many(100));
    }).join();
    EXPECT_EQ(g_registry.start.load(relaxed), kStarted);
    EXPECT_EQ(check_everything(), 0u);
  });
}

// The child's first call settles no fork before it wants the process to have started.
FRESH_TEST(ForkPage, AnotherWasStartingAndTheChildTrims) {
  start_heaps();
  give(take());
  run_fresh([] {
    alarm(60);  // or it waits for ever
    g_registry.start.store(reinterpret_cast<uptr>(&g_registry), relaxed);
    PlainAllocator::trim(0);
    EXPECT_EQ(g_registry.start.load(relaxed), kStarted);
    EXPECT_EQ(check_everything(), 0u);
  });
}

// A signal handler interrupted a call and forks, and forks again in the child.
FRESH_TEST(ForkPage, AHandlerForksTwiceInACall) {
  Two two;
  {
    const FallbackHeap made;
  }
  two.other.run([] { g_registry.fallback.lock(); });
  run_fresh([] {
    ++t_slow_paths;  // which was under way before the first fork
    begin_child_once();
    EXPECT_TRUE(has_vanished(heap_by_index(0)));
    fork_prepare();
    EXPECT_NE(g_pending.load(relaxed) & kVanished, 0u) << "walked over what the call has in hand";
    const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
      begin_child_once();
      _exit(has_vanished(heap_by_index(0)) && g_pending.load(relaxed) == kVanished ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    EXPECT_EQ(end_of(child), 0);
    --t_slow_paths;
    fork_prepare();
    EXPECT_EQ(g_pending.load(relaxed), 0u);
  });
  two.other.run([] { g_registry.fallback.unlock(); });
}

// Another one was reading the options for the start, and the child's first call asks for one of them.
FRESH_TEST(ForkPage, AnotherWasReadingAndTheChildReads) {
  start_heaps();
  give(take());
  run_fresh([] {
    alarm(60);  // or it waits for ever
    g_registry.start.store(reinterpret_cast<uptr>(&g_registry), relaxed);
    config::g_phase.store(config::kReading, relaxed);
    PlainAllocator::read_options();
    EXPECT_TRUE(config::is_read());
    EXPECT_EQ(g_registry.start.load(relaxed), kStarted);
  });
}

// The child's first thread has no heap: the only one was that of a thread that vanished.
FRESH_TEST(ForkPage, TheOnlyHeapIsAnothers) {
  start_process();
  Worker other;
  Heap* theirs = nullptr;
  other.run([&] {
    take_many(kCapacity);
    theirs = t_heap;
  });
  run_fresh([&] {
    give(take());
    EXPECT_EQ(theirs->attached.load(relaxed), t_heap == theirs ? 1u : 0u);
    EXPECT_EQ(check_everything(), 0u);
  });
}

// The same, between the count of a span and the span; and the child makes a thread before it comes by.
FRESH_TEST(ForkPage, TheOnlyHeapCountsASpanThatNeverCame) {
  if (kThreadSanitizer) GTEST_SKIP() << "a child of a process with threads may start none";
  start_process();
  Worker other;
  other.run([] {
    take_many(kCapacity);
    t_heap->held.fetch_add(kSliceBytes, relaxed);
  });
  run_fresh([] {
    std::thread([] { give(take()); }).join();
    EXPECT_EQ(check_everything(), 0u);
  });
  other.run([] { t_heap->held.fetch_sub(kSliceBytes, relaxed); });
}

FRESH_TEST(ForkPage, AChildOfVforkHasNotBegunAnything) {
  start_heaps();
  give(take());
  const u32 generation = t_heap->generation.get();
  const pid_t child = vfork();
  if (child == 0) {
    settle_fork();
    _exit(0);
  }
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(t_heap->generation.get(), generation);
  EXPECT_EQ(g_registry.generation.load(relaxed), generation);
}

FRESH_TEST(ForkPage, WithoutItHandlersAreThereFromTheStart) {
  os::fake::set_wiped_pages(false);
  start_heaps();
  EXPECT_EQ(g_registry.handlers.load(relaxed), 1u);
  Two two;
  Blocks blocks;
  two.other.run([&] { blocks = take_many(3); });
  in_fork_child([&] { give_now(blocks); });
}

}  // namespace
}  // namespace coffer::test
