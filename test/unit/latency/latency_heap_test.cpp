// SPDX-License-Identifier: MIT
// Heaps for threads that must not wait: the calls, their errors, threads, forks. (programs/trap.cpp: no system call,
// no page fault.)
#include <coffer/coffer.h>
#include <coffer/coffer_rt.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "os/fake/fake.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

constexpr usize kBytes = usize{1} << 20;

// Tests run where locking may be forbidden.
constexpr struct coffer_heap_options kAnywhere = {0, 0, 0, 1, 0};

struct coffer_heap* create(usize bytes = kBytes) {
  struct coffer_heap* const heap = coffer_heap_create(bytes, &kAnywhere);
  EXPECT_NE(heap, nullptr);
  return heap;
}

struct coffer_heap_info info_of(struct coffer_heap* heap) {
  struct coffer_heap_info info;
  EXPECT_EQ(coffer_heap_info(heap, &info, sizeof info), 0);
  return info;
}

// What `body` returns in a child process.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

TEST(LatencyHeap, ServesTillItIsFullAndAllComesBack) {
  struct coffer_heap* const heap = create();
  const struct coffer_heap_info fresh = info_of(heap);
  EXPECT_GE(fresh.resident, kBytes);
  EXPECT_GE(fresh.bytes, kBytes / 100 * 96);
  EXPECT_EQ(fresh.live, 0u);
  std::vector<void*> blocks;
  errno = 0;
  while (void* const block = coffer_heap_malloc(heap, 1000)) {
    std::memset(block, 0xa5, 1000);
    EXPECT_EQ(coffer_heap_usable_size(heap, block), 1024u);
    blocks.push_back(block);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(blocks.size(), fresh.bytes / 1024);
  EXPECT_EQ(info_of(heap).live_blocks, blocks.size());
  EXPECT_EQ(coffer_heap_check(heap), 0u);
  for (void* block : blocks) EXPECT_EQ(coffer_heap_free(heap, block), 0);
  EXPECT_EQ(coffer_heap_largest_free(heap), fresh.largest_free);
  coffer_heap_destroy(heap);
}

TEST(LatencyHeap, ClearsAlignsAndGrows) {
  struct coffer_heap* const heap = create();
  auto* const dirty = static_cast<unsigned char*>(coffer_heap_malloc(heap, 4096));
  std::memset(dirty, 0xff, 4096);
  EXPECT_EQ(coffer_heap_free(heap, dirty), 0);
  auto* const clean = static_cast<unsigned char*>(coffer_heap_calloc(heap, 64, 64));
  for (usize i = 0; i < 4096; ++i) ASSERT_EQ(clean[i], 0) << i;
  for (usize alignment = 1; alignment <= info_of(heap).alignment; alignment *= 2) {
    void* const block = coffer_heap_aligned_alloc(heap, alignment, 10);
    EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u) << alignment;
  }
  std::memset(clean, 0x5a, 4096);
  auto* const grown = static_cast<unsigned char*>(coffer_heap_realloc(heap, clean, 100'000));
  ASSERT_NE(grown, nullptr);
  for (usize i = 0; i < 4096; ++i) ASSERT_EQ(grown[i], 0x5a) << i;
  EXPECT_NE(coffer_heap_realloc(heap, nullptr, 10), nullptr);
  coffer_heap_destroy(heap);
}

TEST(LatencyHeap, TellsWrongCallsAndChangesNothing) {
  struct coffer_heap* const heap = create();
  auto* const block = static_cast<char*>(coffer_heap_malloc(heap, 100));
  char elsewhere[64];
  EXPECT_EQ(coffer_heap_free(heap, elsewhere), EINVAL);
  EXPECT_EQ(coffer_heap_free(heap, block + 16), EINVAL);
  EXPECT_EQ(coffer_heap_free(heap, nullptr), 0);
  EXPECT_EQ(coffer_heap_usable_size(heap, block + 16), 0u);
  errno = 0;
  EXPECT_EQ(coffer_heap_realloc(heap, block + 16, 200), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(coffer_heap_aligned_alloc(heap, 24, 200), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(coffer_heap_aligned_alloc(heap, usize{1} << 40, 200), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(coffer_heap_calloc(heap, usize{1} << 33, usize{1} << 33), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(coffer_heap_malloc(heap, ~usize{0}), nullptr);
  EXPECT_EQ(info_of(heap).live_blocks, 1u);
  EXPECT_EQ(coffer_heap_free(heap, block), 0);
  EXPECT_EQ(coffer_heap_free(heap, block), EINVAL);
  struct coffer_heap_info info;
  EXPECT_EQ(coffer_heap_info(nullptr, &info, sizeof info), EINVAL);
  EXPECT_EQ(coffer_heap_info(heap, nullptr, sizeof info), EINVAL);
  EXPECT_EQ(coffer_heap_info(heap, &info, 0), EINVAL);
  coffer_heap_destroy(heap);
  coffer_heap_destroy(nullptr);
}

TEST(LatencyHeap, RefusesWhatCannotBe) {
  const auto refused = [](usize bytes, const struct coffer_heap_options& options) {
    errno = 0;
    EXPECT_EQ(coffer_heap_create(bytes, &options), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(0, kAnywhere), EINVAL);
  EXPECT_EQ(refused(~usize{0}, kAnywhere), ENOMEM);
  EXPECT_EQ(refused(usize{1} << 62, kAnywhere), ENOMEM);
  EXPECT_EQ(refused(kBytes, {24, 0, 0, 1, 0}), EINVAL);
  EXPECT_EQ(refused(kBytes, {0, 24, 0, 1, 0}), EINVAL);
  EXPECT_EQ(refused(kBytes, {0, usize{1} << 40, 0, 1, 0}), EINVAL);
}

// The computed size holds what was said of the load, in the worst order: every other block freed.
TEST(LatencyHeap, TheComputedSizeIsEnough) {
  struct coffer_rt_load load = {};
  load.live_bytes = 100'000;
  load.smallest = 16;
  load.largest = 4096;
  const usize bytes = coffer_rt_region_bytes(&load);
  ASSERT_GT(bytes, 100'000u);
  struct coffer_heap* const heap = create(bytes);
  std::vector<void*> small;
  for (usize live = 0; live + 16 <= 100'000; live += 16) {
    small.push_back(coffer_heap_malloc(heap, 16));
    ASSERT_NE(small.back(), nullptr);
  }
  usize live = small.size() * 16;
  for (usize i = 0; i < small.size(); ++i) {
    if (i % 256 != 0) {
      coffer_heap_free(heap, small[i]);
      live -= 16;
    }
  }
  for (; live + 4096 <= 100'000; live += 4096) ASSERT_NE(coffer_heap_malloc(heap, 4096), nullptr) << live;
  coffer_heap_destroy(heap);
}

TEST(LatencyHeap, SaysWhyMemoryCannotBeLocked) {
  if (test::kSanitizer) GTEST_SKIP() << "sanitizers turn mlock into nothing";
  const auto with_limit = [](rlim_t limit, const struct coffer_heap_options* options) {
    return in_child([=] {
      struct {
        u32 version;
        int pid;
      } header = {_LINUX_CAPABILITY_VERSION_3, 0};
      struct {
        u32 effective, permitted, inheritable;
      } none[2] = {};
      const struct rlimit low = {limit, limit};
      if (setrlimit(RLIMIT_MEMLOCK, &low) != 0 || syscall(SYS_capset, &header, none) != 0) return 255;
      struct coffer_heap* const heap = coffer_heap_create(kBytes, options);
      if (heap == nullptr) return errno;
      return coffer_heap_malloc(heap, 100) != nullptr ? 0 : 254;
    });
  };
  EXPECT_EQ(with_limit(0, nullptr), EPERM);
  EXPECT_EQ(with_limit(64 << 10, nullptr), ENOMEM);
  EXPECT_EQ(with_limit(64 << 10, &kAnywhere), 0);
  EXPECT_EQ(with_limit(8 << 20, nullptr), 0);
}

TEST(LatencyHeap, LosesNothingWhenTheSystemRefuses) {
  const usize reserved = os::fake::reserved_bytes();
  for (const auto kind : {os::fake::kReserve, os::fake::kCommit}) {
    for (u64 nth = 1;; ++nth) {
      os::fake::Faults faults;
      faults.nth = nth;
      faults.kinds = kind;
      os::fake::set_faults(faults);
      struct coffer_heap* const heap = coffer_heap_create(kBytes, nullptr);
      const int reason = errno;
      const bool was_refused = os::fake::failed_calls() > 0;
      os::fake::stop_faults();
      if (!was_refused) {
        EXPECT_GE(nth, 2u);
        coffer_heap_destroy(heap);
        break;
      }
      EXPECT_EQ(heap, nullptr);
      EXPECT_TRUE(reason == ENOMEM || reason == EAGAIN) << reason;
      EXPECT_EQ(os::fake::reserved_bytes(), reserved);
    }
  }
  EXPECT_EQ(os::fake::reserved_bytes(), reserved);
}

// What fills its blocks and looks at them again, as often as told, in whichever heap.
bool churn(struct coffer_heap* heap, unsigned char mark, int rounds) {
  constexpr int kBlocks = 40;
  unsigned char* blocks[kBlocks] = {};
  usize sizes[kBlocks] = {};
  u64 random = mark * 0x9e3779b97f4a7c15u + 1;
  for (int round = 0; round < rounds; ++round) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const usize i = (random >> 33) % kBlocks;
    if (blocks[i] != nullptr) {
      for (usize at = 0; at < sizes[i]; ++at) {
        if (blocks[i][at] != mark) return false;
      }
      if (coffer_heap_free(heap, blocks[i]) != 0) return false;
    }
    sizes[i] = 1 + (random >> 40) % 700;
    blocks[i] = static_cast<unsigned char*>(coffer_heap_malloc(heap, sizes[i]));
    if (blocks[i] == nullptr) return false;
    std::memset(blocks[i], mark, sizes[i]);
  }
  for (unsigned char* block : blocks) coffer_heap_free(heap, block);
  return true;
}

TEST(LatencyHeap, ServesSeveralThreads) {
  struct coffer_heap* const heap = create();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (unsigned char mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&good, heap, mark] { good += churn(heap, mark, 20'000); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  EXPECT_EQ(coffer_heap_check(heap), 0u);
  EXPECT_EQ(info_of(heap).live, 0u);
  coffer_heap_destroy(heap);
}

TEST(LatencyHeap, IsWholeInAForkChild) {
  struct coffer_heap* const first = create();
  struct coffer_heap* const second = create();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) churn(second, 9, 100);
  });
  for (int i = 0; i < 50; ++i) {
    const int answer = in_child([&] {
      if (coffer_heap_check(first) != 0 || coffer_heap_check(second) != 0) return 1;
      if (!churn(first, 1, 1000) || !churn(second, 2, 1000)) return 2;
      coffer_heap_destroy(first);
      struct coffer_heap* const third = coffer_heap_create(kBytes, &kAnywhere);
      return third != nullptr && churn(third, 3, 1000) ? 0 : 3;
    });
    EXPECT_EQ(answer, 0);
  }
  stop = true;
  other.join();
  EXPECT_TRUE(churn(first, 4, 1000));
  coffer_heap_destroy(second);
  coffer_heap_destroy(first);
}

long page_faults() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// While the child lives: each page that fork shared would be copied at its first write.
TEST(LatencyHeap, StaysInMemoryWhenTheProcessForks) {
  if (test::kSanitizer) GTEST_SKIP() << "sanitizers' own memory faults, too";
  constexpr struct coffer_heap_options kAlone = {0, 0, 1, 1, 0};
  for (const struct coffer_heap_options& options : {kAnywhere, kAlone}) {
    struct coffer_heap* const heap = coffer_heap_create(kBytes, &options);
    ASSERT_NE(heap, nullptr);
    auto* const marked = static_cast<char*>(coffer_heap_malloc(heap, kBytes / 4));
    std::memset(marked, 7, kBytes / 4);
    ASSERT_TRUE(churn(heap, 1, 1000));  // the program's own pages
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    ASSERT_GT(child, 0);
    churn(heap, 1, 1);  // the stack's
    const long before = page_faults();
    EXPECT_TRUE(churn(heap, 2, 1000));
    std::memset(marked, 8, kBytes / 8);
    // The program's other pages are shared, too: some of them this loop writes.
    EXPECT_LT(page_faults() - before, 16);
    EXPECT_EQ(marked[kBytes / 4 - 1], 7);
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    coffer_heap_destroy(heap);
  }
}

// An overrun of the whole region meets a page that cannot be written, on either side.
TEST(LatencyHeapDeath, HasGuardPages) {
  if (test::kSanitizer) GTEST_SKIP() << "sanitizers catch the signal";
  struct coffer_heap* const heap = create();
  const usize page = static_cast<usize>(sysconf(_SC_PAGESIZE));
  auto* const start = reinterpret_cast<volatile char*>(heap);
  EXPECT_EXIT(start[-1] = 1, testing::KilledBySignal(SIGSEGV), "");
  const usize resident = info_of(heap).resident;
  EXPECT_EQ(resident % page, 0u);
  start[resident - 1] = 1;
  EXPECT_EXIT(start[resident] = 1, testing::KilledBySignal(SIGSEGV), "");
  coffer_heap_destroy(heap);
}

}  // namespace
}  // namespace coffer
