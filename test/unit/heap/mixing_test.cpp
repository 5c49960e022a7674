// SPDX-License-Identifier: MIT
// Mixed spans in a whole process: forks while their pages are on their way to the kernel, and whose pages really go.
#include "heap/mixing.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <random>
#include <semaphore>
#include <set>
#include <thread>

#include "forks.hpp"
#include "mixed/idle.hpp"
#include "mixed/mixed.hpp"
#include "os/probe.hpp"
#include "policy/mixing.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kPage = 4096;

// --- A fork in the middle of a purge. ---

std::binary_semaphore g_inside{0}, g_go_on{0};

void stop_in_purge() {
  g_inside.release();
  g_go_on.acquire();
}

// What is used and freed again: of the machine's pages at least one lies in it whole. None does in a span where a page
// has two slices.
usize idle_bytes() { return os::page_size() == kPage ? 3 * kPage : kSliceBytes - kPage; }
bool has_idle_pages() { return os::page_size() < kSliceBytes; }
usize whole_pages() { return round_down(idle_bytes(), os::page_size()); }

// A mixed span with one small block, and idle pages that were used.
struct Idle {
  char* block;
  Span* span;
  Idle() : block(reinterpret_cast<char*>(g_mixed_pool.make(64, 1))), span(span_of(block)) {
    std::memset(block, 7, 64);
    Block* large = g_mixed_pool.take(idle_bytes(), 1);
    EXPECT_EQ(span_of(large), span);
    std::memset(reinterpret_cast<void*>(large), 8, idle_bytes());
    EXPECT_TRUE(g_mixed_pool.release(span, large));
  }
};

// Has another thread purge, and stops it where it holds no lock and the kernel has not begun. If it asks nothing of the
// kernel, the test goes on and fails.
class Purger {
 public:
  explicit Purger(Span* span) {
    os::fake::set_at_purge(&stop_in_purge);
    thread_ = std::thread([this, span] {
      bytes_ = g_mixed_pool.purge(span, ~usize{0});
      g_inside.release();
    });
    g_inside.acquire();
    os::fake::set_at_purge(nullptr);
  }
  usize end() {
    g_go_on.release();
    thread_.join();
    return bytes_;
  }

 private:
  std::thread thread_;
  usize bytes_ = 0;
};

bool holds_only(const char* block, usize bytes, char value) {
  for (usize i = 0; i < bytes; ++i) {
    if (block[i] != value) return false;
  }
  return true;
}

FRESH_TEST(MixedFork, PagesOnTheirWayToTheKernelArePutBack) {
  if (!has_idle_pages()) return;
  Two two;
  Idle idle;
  Purger purger(idle.span);
  EXPECT_EQ(g_mixed_pool.size_of(idle.span, idle.block + kPage), 0u) << "they are nobody's block";
  EXPECT_EQ(g_mixed_pool.release(idle.span, idle.block + kPage), 0u);
  in_fork_child([&] {
    EXPECT_EQ(g_mixed_pool.check(idle.span), MixedPool::Fault::none);
    EXPECT_EQ(MixedPool::live_bytes(idle.span), 64u);
    EXPECT_TRUE(holds_only(idle.block, 64, 7));
    Block* again = g_mixed_pool.take(idle_bytes(), 1);
    EXPECT_EQ(span_of(again), idle.span);
    EXPECT_TRUE(g_mixed_pool.release(idle.span, again));
    // The child can purge, and the last free ends the span.
    EXPECT_GE(g_mixed_pool.purge(idle.span, ~usize{0}), whole_pages());
    const usize held = held_bytes();
    give(idle.block);
    EXPECT_EQ(counters().mixed.load(relaxed), 0u);
    EXPECT_EQ(held_bytes(), held - kSliceBytes);
  });
  EXPECT_GE(purger.end(), whole_pages());
  EXPECT_EQ(g_mixed_pool.check(idle.span), MixedPool::Fault::none);
  give(idle.block);
  EXPECT_EQ(counters().mixed.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// The last block is freed meanwhile, so whoever puts the pages back ends the span: once in each process.
FRESH_TEST(MixedFork, NothingIsLiveWhenThePagesArePutBack) {
  if (!has_idle_pages()) return;
  Two two;
  const usize held = held_bytes();
  Idle idle;
  Purger purger(idle.span);
  give(idle.block);
  EXPECT_EQ(held_bytes(), held + kSliceBytes) << "the pages that are in use keep it";
  in_fork_child([&] {
    EXPECT_EQ(counters().mixed.load(relaxed), 0u);
    EXPECT_EQ(held_bytes(), held);
    EXPECT_EQ(idle.span->use.load(relaxed), SliceUse::none);
  });
  purger.end();
  EXPECT_EQ(counters().mixed.load(relaxed), 0u);
  EXPECT_EQ(held_bytes(), held);
  EXPECT_EQ(check_everything(), 0u);
}

// A signal handler of the purger forks, and its child goes on with the purge after it has put the pages back.
pid_t g_child = -1;
Span* g_span;
void fork_in_purge() {
  os::fake::set_at_purge(nullptr);
  std::fflush(nullptr);
  g_child = fork();
  if (g_child != 0) return;
  alarm(kChildSeconds);
  settle_fork();
  EXPECT_EQ(g_mixed_pool.check(g_span), MixedPool::Fault::none);
}

FRESH_TEST(MixedFork, ThePurgersSignalHandlerForks) {
  if (!has_idle_pages()) return;
  Two two;
  Idle idle;
  g_span = idle.span;
  os::fake::set_at_purge(&fork_in_purge);
  EXPECT_GE(g_mixed_pool.purge(idle.span, ~usize{0}), whole_pages());
  EXPECT_EQ(g_mixed_pool.check(idle.span), MixedPool::Fault::none);
  EXPECT_TRUE(holds_only(idle.block, 64, 7));
  give(idle.block);
  EXPECT_EQ(counters().mixed.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
  if (g_child == 0) end_child();
  int status = -1;
  EXPECT_EQ(waitpid(g_child, &status, 0), g_child);
  EXPECT_EQ(status, 0);
}

// --- Pages that really go. ---

// Blocks of a small process, by malloc's own way: all in mixed spans. Of each five one stays, two or more in a span.
struct Survivors {
  Blocks live;
  std::vector<Span*> spans;
  Survivors() {
    start_heaps();
    changeable_options().mixed = config::MixedPolicy::automatic;
    Blocks all;
    for (usize size = 1024; size <= 4096; size += 16) all.push_back(take(size));
    for (void* block : all) {
      EXPECT_TRUE(is_mixed(span_of(block)));
      std::memset(block, 9, 1024);
      if (spans.empty() || spans.back() != span_of(block)) spans.push_back(span_of(block));
    }
    for (usize i = 0; i < all.size(); ++i) {
      if (i % 5 == 0) {
        live.push_back(all[i]);
      } else {
        give(all[i]);
      }
    }
  }
  usize resident() const {
    usize pages = 0;
    for (const Span* span : spans) {
      if (!is_mixed(span)) continue;
      pages += resident_pages(reinterpret_cast<void*>(span_start(span)), span_bytes(span));
    }
    return pages;
  }
  // Each of them keeps two pages at most.
  bool are_alone() const { return resident() <= 2 * live.size(); }
  void expect_whole() {
    EXPECT_EQ(check_everything(), 0u);
    for (void* block : live) EXPECT_TRUE(holds_only(static_cast<char*>(block), 1024, 9));
    give_many(live);
    EXPECT_EQ(counters().mixed.load(relaxed), 0u);
  }
};

FRESH_TEST(MixedPages, TrimGivesIdleOnesBack) {
  Survivors survivors;
  EXPECT_FALSE(survivors.are_alone()) << "nothing goes by itself";
  EXPECT_TRUE(Allocator::trim(0));
  EXPECT_TRUE(survivors.are_alone()) << survivors.resident();
  EXPECT_FALSE(Allocator::trim(0));
  survivors.expect_whole();
}

FRESH_TEST(MixedPages, TheReclaimersChoreGivesThemBackOnceNothingHappens) {
  Survivors survivors;
  set_free_limit(4 * kPage);
  EXPECT_TRUE(purge_mixed_that_wait()) << "there is something to stay for";
  EXPECT_FALSE(survivors.are_alone());
  EXPECT_FALSE(purge_mixed_that_wait());
  EXPECT_TRUE(survivors.are_alone()) << survivors.resident();
  survivors.expect_whole();
}

// Before a new span where the process grows, so much at a time as is worth work.
FRESH_TEST(MixedPages, AThreadThatGrowsGivesThemBack) {
  Survivors survivors;
  usize size = 256;
  const auto make_span = [&](usize peak) {
    counters().peak.store(peak, relaxed);
    size += 256;
    t_heap->churn[class_of(size)].set(kChurn);
    survivors.live.push_back(take(size));
    ASSERT_FALSE(is_mixed(span_of(survivors.live.back())));
  };
  const usize before = survivors.resident();
  make_span(usize{1} << 40);
  EXPECT_EQ(survivors.resident(), before) << "the process does not grow";
  make_span(0);
  EXPECT_LT(survivors.resident(), before);
  EXPECT_LE((before - survivors.resident()) * kPage, kNegligible);
  for (u32 i = 0; i < 2; ++i) make_span(0);
  EXPECT_TRUE(survivors.are_alone());
  for (u32 i = 0; i < 4; ++i, survivors.live.pop_back()) give(survivors.live.back());
  survivors.expect_whole();
}

// The same by the reclaimer itself, which a free calls.
FRESH_TEST(MixedPages, TheReclaimerGivesThemBack) {
  if (kSanitizer) GTEST_SKIP();  // it starts no thread then
  Survivors survivors;
  set_free_limit(kPage);
  // One that is not alone in its span.
  const usize last = survivors.live.size() - 1;
  const bool alone = span_of(survivors.live[last]) != span_of(survivors.live[last - 1]);
  void* block = survivors.live[alone ? last - 1 : last];
  ASSERT_EQ(span_of(block), span_of(survivors.live[alone ? last - 2 : last - 1]));
  survivors.live.erase(survivors.live.end() - (alone ? 2 : 1));
  give(block);  // more than the option is free in its shard, and this free finds a page's worth of a hole
  for (int i = 0; i < 1000 && !survivors.are_alone(); ++i) usleep(10'000);
  EXPECT_TRUE(survivors.are_alone()) << survivors.resident();
  survivors.expect_whole();
}

// --- Lines. ---

// Actively induced false sharing (Hoard, section 2.3): what several threads get from the holes of one span.
FRESH_TEST(MixedLines, TwoThreadsGetNoBlocksOfOneLine) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::always;
  Span* span = span_of(g_mixed_pool.make(64, 8));
  std::set<uptr> ours, theirs;
  // All of the list that is carved for a thread is its own.
  const auto get = [&](std::set<uptr>& lines, usize size) {
    const ClassIndex size_class = compute_class(size);
    const auto own = [&](const Block* block) {
      ASSERT_EQ(span_of(block), span) << size;
      const uptr start = reinterpret_cast<uptr>(block);
      for (uptr line = start / kCacheLine; line <= (start + size - 1) / kCacheLine; ++line) lines.insert(line);
    };
    if (t_heap->blocks[size_class].get() == nullptr) {
      const Block* block = take_hole(t_heap, size_class, size, false);
      ASSERT_NE(block, nullptr) << size;
      own(block);
    }
    for (const Block* block = t_heap->blocks[size_class].get(); block != nullptr; block = next_of(block)) own(block);
    ASSERT_EQ(span_of(take(size)), span);
  };
  for (usize size = 1; size <= 1000; size += 37) {
    for (int i = 0; i < 3; ++i) {
      get(ours, size);
      two.other.run([&] { get(theirs, size); });
    }
  }
  for (const uptr line : ours) EXPECT_EQ(theirs.count(line), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// What an idle heap keeps on a list keeps whole mixed spans: who seizes it gives them back.
FRESH_TEST(MixedLines, ListsOfHolesOfAnIdleHeapGoBack) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  own_heap();
  Blocks keep;
  two.other.run([&] {
    for (u32 i = 0; i < 10; ++i) keep.push_back(g_mixed_pool.make(64, 8));
    for (usize size = 16; size <= 1024; size += 16) {
      const ClassIndex c = compute_class(size);
      if (t_heap->blocks[c].get() != nullptr) continue;
      t_heap->churn[c].set(0);
      keep.push_back(take_hole(t_heap, c, size, false));
      ASSERT_NE(keep.back(), nullptr) << size;
    }
  });
  give_many(keep);
  ASSERT_GT(g_mixed_pool.counted_live(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  ASSERT_EQ(seize(&two.theirs, 1, empty_heap), 1u);
  for (ClassIndex c = 0; c < kClasses; ++c) EXPECT_EQ(two.theirs->blocks[c].get(), nullptr);
  EXPECT_EQ(g_mixed_pool.counted_live(), 0u);
  EXPECT_EQ(counters().mixed.load(relaxed), 0u);
  EXPECT_EQ(check_everything(), 0u);
  two.other.run([] { take_and_give(100, 64); });
  EXPECT_EQ(check_everything(), 0u);
}

// --- What holes cost. ---

// Threads in phases of drifting sizes: time is bounded by counts (issue 16: 17 tables were read for each take, under a
// lock that all threads wanted). A refill carves a list.
FRESH_TEST(MixedSteps, DriftingPhasesOfFourThreadsEnd) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  constexpr u32 kThreads = 4, kPhases = 10;
  constexpr usize kBytes = 2'000'000;
  u64 blocks[kThreads] = {};
  std::barrier filled(kThreads);
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      Blocks survivors;
      for (u32 phase = 0; phase < kPhases; ++phase) {
        const usize low = 64 + phase * 96;
        Blocks live;
        for (usize bytes = 0; bytes < kBytes; ++blocks[t]) {
          const usize size = low + random() % (low / 2);
          live.push_back(take(size));
          bytes += size;
        }
        filled.arrive_and_wait();
        for (void* block : live) {
          if (random() % 20 == 0) {
            survivors.push_back(block);
          } else {
            give(block);
          }
        }
      }
      give_many(survivors);
    });
  }
  for (std::thread& thread : threads) thread.join();
  u64 all = 0;
  for (const u64 count : blocks) all += count;
  const TakeSteps steps = g_mixed_pool.steps();
  EXPECT_GT(steps.takes, all / 100) << "they come here at all";
  EXPECT_LE(steps.takes, all);
  EXPECT_LE(steps.looks, 9 * steps.takes);
  EXPECT_LE(steps.looks + steps.scans, 3 * all);
  EXPECT_EQ(check_everything(), 0u);
}

// --- When a class gets a span of its own. ---

u32 mixed_in_a_loop(usize size, u32 pairs) {
  keep_churn();
  u32 mixed = 0;
  for (u32 i = 0; i < pairs; ++i) {
    void* const block = take(size);
    mixed += is_mixed(span_of(block)) ? 1 : 0;
    give(block);
  }
  return mixed;
}

// A malloc and a free are counted each, for the class of what was carved. Small blocks come by lists, which are used up
// first.
FRESH_TEST(OwnSpan, ALoopGetsOne) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::automatic;
  EXPECT_EQ(mixed_in_a_loop(kCountedBytes, 200), kChurn / 2);
  const u32 small = mixed_in_a_loop(8, 200);
  EXPECT_GE(small, 1u);
  EXPECT_LE(small, kListBytes / 16);
  EXPECT_EQ(check_everything(), 0u);
}

// Small blocks of a small process count when they are handed out, too: these are never freed.
FRESH_TEST(OwnSpan, ManySmallBlocksGetOneBeforeAnyIsFreed) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::automatic;
  keep_churn();
  constexpr u32 kMost = kChurn + kListBytes / 64;
  for (u32 i = 0; i < kMost; ++i) EXPECT_TRUE(is_mixed(span_of(take(64))) || i != 0);
  EXPECT_FALSE(is_mixed(span_of(take(64))));
  EXPECT_EQ(check_everything(), 0u);
}

// Mixed spans have locks: where there are several heaps, the first small blocks come from spans of the class.
FRESH_TEST(OwnSpan, BesideOtherHeapsSmallBlocksHaveOneAtOnce) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  const auto get = [] {
    for (usize size = 8; size < 1024; size += 40) {
      void* const block = take(size);
      EXPECT_FALSE(is_mixed(span_of(block))) << size;
      EXPECT_EQ(owner_of(span_of(block)), t_heap);
    }
    EXPECT_EQ(mixed_in_a_loop(2 * kCountedBytes, 200), kChurn / 2);
    EXPECT_EQ(mixed_in_a_loop(kLargestSmall, 200), kChurn / 2);
  };
  get();
  two.other.run(get);
  EXPECT_EQ(check_everything(), 0u);
}

// Fills a span of the class, and takes one block more: whether that is mixed.
bool is_mixed_after(usize size, usize peak) {
  const ClassIndex c = compute_class(size);
  t_heap->churn[c].set(kChurn);
  for (u32 i = 0; i < shape_of(c).capacity; ++i) EXPECT_FALSE(is_mixed(span_of(take(size)))) << i;
  EXPECT_EQ(t_heap->churn[c].get(), 0u);
  counters().peak.store(peak, relaxed);
  return is_mixed(span_of(take(size)));
}

FRESH_TEST(OwnSpan, AUsedUpOneIsFollowedByAnotherWhereTheProcessDoesNotGrow) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  own_heap();
  EXPECT_TRUE(is_mixed_after(kCountedBytes, 0));
  EXPECT_FALSE(is_mixed_after(2 * kCountedBytes, usize{1} << 40));
  EXPECT_EQ(check_everything(), 0u);
}

// A class that grows comes to spans of its own without a free, and follows them up where the heap holds much.
FRESH_TEST(OwnSpan, LargeBlocksThatOnlyGrowGetThem) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  keep_churn();
  u32 mixed = 0;
  for (u32 i = 0; i < 5000; ++i) mixed += is_mixed(span_of(take(2 * kCountedBytes))) ? 1 : 0;
  EXPECT_GE(mixed, kChurn);
  EXPECT_LE(mixed, 1000u);
  EXPECT_EQ(check_everything(), 0u);
}

// The emptiest that there is: a span of few blocks with one live.
FRESH_TEST(OwnSpan, OfFewBlocksIsConvertedForOneSurvivor) {
  Two two;
  changeable_options().mixed = config::MixedPolicy::automatic;
  own_heap();
  const usize size = 40'000;
  const ClassIndex c = compute_class(size);
  const u32 capacity = shape_of(c).capacity;
  ASSERT_LT(capacity, 8u);
  Blocks survivors, others;
  for (u32 i = 0; i < 8 * capacity; ++i) {
    t_heap->churn[c].set(kChurn);
    (i % capacity == 0 ? survivors : others).push_back(take(size));
  }
  give_many(others);
  counters().peak.store(0, relaxed);
  t_heap->churn[compute_class(50'000)].set(0);
  ASSERT_FALSE(is_mixed(span_of(survivors[0])));
  take(50'000);
  u32 converted = 0;
  for (void* block : survivors) converted += is_mixed(span_of(block)) ? 1 : 0;
  EXPECT_EQ(converted, 1u);
  EXPECT_EQ(check_everything(), 0u);
}

// Found by a trial: its blocks are longer than any request, and a table was read behind its end, and a byte of the next
// heap written.
FRESH_TEST(Churn, OfTheLargestClassIsItsOwn) {
  constexpr ClassIndex kLargest = kSizeClasses - 1;
  static_assert(kLayout[kLargest].block_bytes > kLargestSmall);
  ASSERT_TRUE(start_process());
  Heap* const heap = own_heap();
  heap->churn[kLargest].set(kChurn);
  EXPECT_EQ(make_hole(heap, kLargest, 0, false), nullptr) << "it earned a span of its own";
  EXPECT_EQ(heap->churn[kLargest].get(), 0);
}

}  // namespace
}  // namespace coffer
