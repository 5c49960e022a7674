// SPDX-License-Identifier: MIT
// A sandbox that closes behind the program, after its first malloc, and kills whoever makes a system call that is not
// on its list (issue 16). The lists are those of docs/guide/using.md, "Sandboxes"; what the test itself needs comes on
// top.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

using namespace conformance;

namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

constexpr std::initializer_list<long> kAlways = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise};
constexpr std::initializer_list<long> kGrowth = {SYS_mremap};                        // realloc of blocks over 1 MiB
constexpr std::initializer_list<long> kThreads = {SYS_membarrier, SYS_sched_yield};  // with several threads
// What the test needs: its messages and its end; and the C library for threads.
constexpr std::initializer_list<long> kEnd = {SYS_write, SYS_exit_group};
constexpr std::initializer_list<long> kStarting = {
    SYS_exit, SYS_futex, SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rt_sigprocmask, SYS_rseq, SYS_clock_nanosleep};

// The two questions and answers of prctl that Coffer has: whether there is a filter, and names of mappings.
constexpr unsigned kPrctl[] = {PR_GET_SECCOMP, PR_SET_VMA};

// Kills the process at any other call than these, in all threads. prctl: with the arguments above.
void close_sandbox(std::initializer_list<std::initializer_list<long>> lists, bool with_prctl) {
  if (!is_coffer()) skip("the lists are Coffer's");
  constexpr std::size_t kMost = 100;
  static struct sock_filter filter[kMost];
  std::size_t length = 0;
  const auto add = [&](struct sock_filter step) { filter[length++] = step; };
  const auto allow = [&] { add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)); };
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (const auto& list : lists) {
    for (const long number : list) {
      add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
      allow();
    }
  }
  if (with_prctl) {
    // Past all that follows if it is another call.
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5));
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)));
    for (const unsigned argument : kPrctl) {
      add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument, 0, 1));
      allow();
    }
  }
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const struct sock_fprog program = {static_cast<unsigned short>(length), filter};
  CHECK(length < kMost && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    skip("seccomp filters are not to be had: errno %d", errno);
  }
}

// Twice what stays resident, and twelve times: chunks come, more is free than stays, and the cgroup's limits are due.
void breathe(std::size_t size) {
  constexpr std::size_t kMost = 100'000;
  static void* blocks[kMost];
  for (const std::size_t bytes : {16 * kMega, 100 * kMega, 16 * kMega, 100 * kMega}) {
    const std::size_t count = bytes / size < kMost ? bytes / size : kMost;
    for (std::size_t i = 0; i < count; ++i) {
      blocks[i] = malloc(size);
      CHECK(blocks[i] != nullptr);
      memset(blocks[i], 1, size);
    }
    for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
  }
}

void breathe_in_all_sizes() {
  for (const std::size_t size : {1000, 20'000, 100'000, 900'000, 5'000'000}) breathe(size);
}

void grow_by_realloc() {
  for (int round = 0; round < 3; ++round) {
    char* blocks[2] = {};
    for (std::size_t size = 100'000; size < 60 * kMega; size = size * 3 / 2) {
      for (char*& block : blocks) {
        block = static_cast<char*>(realloc(block, size));
        CHECK(block != nullptr);
        memset(block + size / 2, 1, size - size / 2);
      }
    }
    for (char* block : blocks) free(block);
    breathe(3'000'000);  // the places that were left are used again
  }
}

// Up to a limit, and beyond it.
void reach_a_limit() {
  auto* set_limit = function<int(std::size_t)>("coffer_set_limit");
  if (set_limit == nullptr) return;
  CHECK(set_limit(64 * kMega) == 0);
  static void* blocks[1000];
  for (const std::size_t size : {1'000'000, 300'000}) {
    std::size_t count = 0;
    while (count < 1000 && (blocks[count] = malloc(size)) != nullptr) memset(blocks[count++], 1, size);
    CHECK(count < 1000, "the limit holds nobody");
    while (count > 0) free(blocks[--count]);
  }
  CHECK(set_limit(0) == 0);
}

void all_that_memory_needs() {
  breathe_in_all_sizes();
  reach_a_limit();
  malloc_trim(0);
  breathe_in_all_sizes();
  malloc_trim(0);
  check_metadata();
}

}  // namespace

// The list that holds whatever happens in one thread. Options: what asks for more is off.
CASE(four_calls) {
  free(malloc(100));
  close_sandbox({kAlways, kEnd}, false);
  all_that_memory_needs();
}

// With the defaults, one question more: whether a filter came. It did, so no file is read and no thread is made.
CASE(four_calls_and_prctl) {
  free(malloc(100));
  close_sandbox({kAlways, kGrowth, kEnd}, true);
  all_that_memory_needs();
  grow_by_realloc();
  all_that_memory_needs();
  CHECK(mallinfo2().hblks < 10);
  malloc_stats();
  if (auto* stats = function<int(void*, std::size_t)>("coffer_stats")) {
    static std::size_t figures[64];
    CHECK(stats(figures, sizeof figures) == 0);
  }
}

// As the last; but the cgroup's limits were read before, and the reclaimer lives, when the filter comes.
CASE(late_filter) {
  breathe(10'000);
  close_sandbox({kAlways, kGrowth, kEnd, kStarting, {SYS_nanosleep}}, true);
  all_that_memory_needs();
  grow_by_realloc();
}

namespace {

constexpr std::size_t kSlots = 4096;
std::atomic<void*> g_slots[kSlots];
std::atomic<bool> g_closed;

// Blocks go from thread to thread; threads sleep meanwhile.
void* exchange_blocks(void* seed) {
  free(malloc(100));
  while (!g_closed) usleep(100);
  Random random(reinterpret_cast<std::size_t>(seed));
  for (int i = 0; i < 400'000; ++i) {
    void* block = malloc(random.below(3000));
    CHECK(block != nullptr);
    free(g_slots[random.below(kSlots)].exchange(block));
    if (i % 50'000 == 0) usleep(1000);
  }
  return nullptr;
}

}  // namespace

CASE(threads) {
  pthread_t early[3], late[3];
  std::size_t seed = 1;
  for (pthread_t& thread : early) thread = start_thread(exchange_blocks, reinterpret_cast<void*>(seed++));
  close_sandbox({kAlways, kGrowth, kThreads, kEnd, kStarting}, true);
  g_closed = true;
  for (int round = 0; round < 3; ++round) {
    for (pthread_t& thread : late) thread = start_thread(exchange_blocks, reinterpret_cast<void*>(seed++));
    breathe(1000);
    for (pthread_t thread : late) pthread_join(thread, nullptr);
  }
  for (pthread_t thread : early) pthread_join(thread, nullptr);
  all_that_memory_needs();
  grow_by_realloc();
  for (auto& slot : g_slots) free(slot.exchange(nullptr));
  malloc_trim(0);
  check_metadata();
}
