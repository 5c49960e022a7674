// SPDX-License-Identifier: MIT
// What every paper's allocator must do, by the prefix API. Each test runs in a process of its own.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "coffer/coffer.h"
#include "fresh.hpp"
#include "os/fake/fake.hpp"
#include "papers/common/gauge.hpp"
#include "papers/common/process.hpp"

namespace coffer::test {
namespace {

struct coffer_stats stats_now() {
  struct coffer_stats stats = {};
  EXPECT_EQ(coffer_stats(&stats, sizeof stats), 0);
  return stats;
}

FRESH_TEST(Papers, BlocksOfAllSizesAreAlignedApartAndCounted) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  std::size_t total = 0;
  for (std::size_t size = 0; size < 300'000; size += size / 3 + 1) {
    auto* block = static_cast<unsigned char*>(coffer_malloc(size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
    EXPECT_GE(coffer_malloc_usable_size(block), size);
    std::memset(block, static_cast<int>(blocks.size()), coffer_malloc_usable_size(block));
    blocks.emplace_back(block, coffer_malloc_usable_size(block));
    total += size;
  }
  EXPECT_GE(stats_now().live, total);
  EXPECT_GE(stats_now().held, total);
  EXPECT_EQ(coffer_check(), 0u);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t b = 0; b < blocks[i].second; ++b) ASSERT_EQ(blocks[i].first[b], static_cast<unsigned char>(i));
    coffer_free(blocks[i].first);
  }
  EXPECT_EQ(stats_now().live, 0u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, CallocIsZeroInUsedMemoryToo) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t size = 1; size < 100'000; size = size * 2 + 7) {
      auto* block = static_cast<unsigned char*>(coffer_calloc(1, size));
      ASSERT_NE(block, nullptr);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], 0);
      std::memset(block, 0xa5, coffer_malloc_usable_size(block));
      coffer_free(block);
    }
  }
}

// The second of each pair lies in the same class where a block of no bytes costs its alignment only.
FRESH_TEST(Papers, AlignedBlocksOfNoBytesAreApart) {
  for (std::size_t alignment = 32; alignment <= 4096; alignment *= 2) {
    std::set<void*> blocks;
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(blocks.insert(coffer_aligned_alloc(alignment, 0)).second) << alignment;
      EXPECT_TRUE(blocks.insert(coffer_malloc(alignment - 16)).second) << alignment;
    }
    for (void* block : blocks) coffer_free(block);
  }
  EXPECT_EQ(coffer_check(), 0u);
  EXPECT_EQ(stats_now().live, 0u);
}

FRESH_TEST(Papers, AlignedBlocksCanBeUsedResizedAndFreed) {
  for (std::size_t alignment = 32; alignment <= (std::size_t{8} << 20); alignment *= 2) {
    for (std::size_t size :
         {std::size_t{1}, std::size_t{40}, std::size_t{1000}, std::size_t{5000}, std::size_t{70'000}}) {
      auto* block = static_cast<unsigned char*>(coffer_aligned_alloc(alignment, size));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      const std::size_t usable = coffer_malloc_usable_size(block);
      ASSERT_GE(usable, size);
      std::memset(block, 0x5a, usable);
      auto* resized = static_cast<unsigned char*>(coffer_realloc(block, 2 * usable));
      ASSERT_NE(resized, nullptr);
      for (std::size_t i = 0; i < usable; ++i) ASSERT_EQ(resized[i], 0x5a);
      std::memset(resized, 0x5b, 2 * usable);
      coffer_free(resized);
    }
  }
  EXPECT_EQ(stats_now().live, 0u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, ReallocKeepsContent) {
  std::size_t size = 1;
  auto* block = static_cast<unsigned char*>(coffer_malloc(size));
  block[0] = 0;
  while (size < (std::size_t{4} << 20)) {
    const std::size_t next = size + size / 2 + 1;
    block = static_cast<unsigned char*>(coffer_realloc(block, next));
    ASSERT_NE(block, nullptr);
    for (std::size_t i = 0; i < size; i += 61) ASSERT_EQ(block[i], static_cast<unsigned char>(i % 251));
    for (std::size_t i = 0; i < next; ++i) block[i] = static_cast<unsigned char>(i % 251);
    size = next;
  }
  while (size > 1) {
    size /= 3;
    block = static_cast<unsigned char*>(coffer_realloc(block, size + 1));
    ASSERT_NE(block, nullptr);
    for (std::size_t i = 0; i < size; i += 61) ASSERT_EQ(block[i], static_cast<unsigned char>(i % 251));
  }
  coffer_free(block);
  EXPECT_EQ(stats_now().live, 0u);
}

FRESH_TEST(Papers, NoMemoryIsEnomem) {
  void* kept = coffer_malloc(100);
  ASSERT_NE(kept, nullptr);
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on});
  bool failed = false;
  for (int i = 0; i < 100'000 && !failed; ++i) {
    errno = 0;
    failed = coffer_malloc(2000) == nullptr;
    if (failed) {
      EXPECT_EQ(errno, ENOMEM);
    }
  }
  EXPECT_TRUE(failed);
  errno = 0;
  EXPECT_EQ(coffer_malloc(10 << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(coffer_aligned_alloc(1 << 16, 1 << 20), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  coffer_free(kept);
  os::fake::stop_faults();
  void* again = coffer_malloc(10 << 20);
  EXPECT_NE(again, nullptr);
  coffer_free(again);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, StartThatFailsIsTriedAgain) {
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on});
  void* block = coffer_malloc(100);  // a paper may start without memory, but give none
  EXPECT_EQ(block, nullptr);
  os::fake::stop_faults();
  block = coffer_malloc(100);
  EXPECT_NE(block, nullptr);
  coffer_free(block);
}

// A destructor that runs before and after the allocator's own, in round after round.
pthread_key_t g_late_key;
int g_rounds;
void late_destructor(void* block) {
  coffer_free(block);
  void* more = coffer_malloc(48);
  if (more != nullptr) std::memset(more, 1, 48);
  if (++g_rounds < 3) {
    pthread_setspecific(g_late_key, more);
  } else {
    coffer_free(more);
  }
}

FRESH_TEST(Papers, DestructorsOfThreadsMayAllocateAndFree) {
  ASSERT_EQ(pthread_key_create(&g_late_key, &late_destructor), 0);
  for (int i = 0; i < 20; ++i) {
    g_rounds = 0;
    std::thread([] { pthread_setspecific(g_late_key, coffer_malloc(100)); }).join();
    EXPECT_EQ(g_rounds, 3);
  }
  EXPECT_EQ(stats_now().live, 0u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, BlocksOutliveTheThreadThatMadeThem) {
  std::vector<void*> blocks(1000);
  std::thread([&] {
    for (void*& block : blocks) block = coffer_malloc(64);
  }).join();
  for (void* block : blocks) coffer_free(block);
  EXPECT_EQ(stats_now().live, 0u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, AForkedChildGoesOn) {
  std::vector<void*> blocks(1000);
  for (void*& block : blocks) block = coffer_malloc(200);
  run_fresh([&] {
    for (void* block : blocks) coffer_free(block);
    std::thread([] { coffer_free(coffer_malloc(3000)); }).join();
    EXPECT_EQ(stats_now().live, 0u);
    EXPECT_EQ(coffer_check(), 0u);
  });
  for (void* block : blocks) coffer_free(block);
  EXPECT_EQ(coffer_check(), 0u);
}

// What a signal handler does that forks while the thread it interrupted is in fork itself: here a handler of fork that
// was registered before the allocator's, and so runs when that has its locks.
bool g_forked_inside;
void fork_inside() {
  if (std::exchange(g_forked_inside, true)) return;
  const pid_t child = fork();
  if (child == 0) {
    coffer_free(coffer_malloc(200));
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  coffer_free(coffer_malloc(200));  // the outer fork still has the locks
}

FRESH_TEST(Papers, AForkInsideAFork) {
  ASSERT_EQ(pthread_atfork(&fork_inside, nullptr, nullptr), 0);
  void* block = coffer_malloc(200);
  const auto others_can_allocate = [] { std::thread([] { coffer_free(coffer_malloc(3000)); }).join(); };
  run_fresh([&] {
    coffer_free(block);
    others_can_allocate();
    EXPECT_EQ(coffer_check(), 0u);
  });
  EXPECT_TRUE(g_forked_inside);
  others_can_allocate();
  coffer_free(block);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Papers, HeldIsCountedWithItsPeak) {
  void* block = coffer_malloc(std::size_t{20} << 20);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(stats_now().held, std::size_t{20} << 20);
  EXPECT_GE(stats_now().large, std::size_t{20} << 20);
  coffer_free(block);
  EXPECT_LT(stats_now().held, std::size_t{20} << 20);
  EXPECT_EQ(stats_now().large, 0u);
  EXPECT_GE(papers::totals().held.peak(), std::size_t{20} << 20);
}

}  // namespace
}  // namespace coffer::test
