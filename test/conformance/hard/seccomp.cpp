// SPDX-License-Identifier: MIT
// Calls to the kernel that fail from some moment on, every one of them, as in a sandbox that closes behind the program.
// malloc may go on with what it has or give NULL and ENOMEM; it may not crash, hang or lose content.
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

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

struct NamedCall {
  const char* name;
  long number;
};
constexpr NamedCall kCalls[] = {
    {"mmap", SYS_mmap},           {"mprotect", SYS_mprotect},       {"madvise", SYS_madvise},
    {"mremap", SYS_mremap},       {"munmap", SYS_munmap},           {"membarrier", SYS_membarrier},
    {"getrandom", SYS_getrandom}, {"sched_yield", SYS_sched_yield}, {"prctl", SYS_prctl}};

// Makes the call fail with `error` in all threads. brk, where glibc's own heap grows, goes with mmap; it reports
// failure by returning what it is given, so that 0 stands for it.
void forbid(long number, int error) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    skip("seccomp filters are not to be had: errno %d", errno);
  }
}

constexpr std::size_t kSizes[] = {0,      16,     100,     1000,      5000,      20'000,
                                  40'000, 90'000, 900'000, 2'000'000, 5'000'000, 20'000'000};

// Blocks got before the calls began to fail: these must stay whole, and be free to go.
struct Early {
  static constexpr std::size_t kCount = 120;
  void* blocks[kCount];
  std::size_t sizes[kCount];
  void allocate() {
    for (std::size_t i = 0; i < kCount; ++i) {
      sizes[i] = kSizes[i % 11];
      blocks[i] = malloc(sizes[i]);
      CHECK(blocks[i] != nullptr);
      fill(blocks[i], sizes[i], i);
    }
  }
  void grow_and_free() {
    for (std::size_t i = 0; i < kCount; ++i) {
      errno = 0;
      void* moved = realloc(blocks[i], sizes[i] * 3 + 10);
      if (moved == nullptr) {
        CHECK(errno == ENOMEM, "size %zu: errno %d", sizes[i], errno);
      } else {
        blocks[i] = moved;
      }
      CHECK(holds_pattern(blocks[i], sizes[i], i), "block of %zu bytes, moved to %p", sizes[i], moved);
      errno = 4242;
      free(blocks[i]);
      CHECK(errno == 4242, "free of %zu bytes", sizes[i]);
    }
  }
};
Early early;

void* check_block(void* block, std::size_t size) {
  if (block == nullptr) {
    CHECK(errno == ENOMEM, "size %zu: errno %d", size, errno);
  } else {
    // The large ones at both ends only, or the case would be a measurement of page faults.
    const std::size_t part = size < 50'000 ? size : 50'000;
    memset(block, 1, part);
    memset(static_cast<char*>(block) + size - part, 1, part);
  }
  errno = 0;
  return block;
}

void allocate_in_all_ways() {
  constexpr int kEach = 4;
  static thread_local void* blocks[sizeof kSizes / sizeof kSizes[0] * 4 * kEach];
  std::size_t count = 0;
  errno = 0;
  for (const std::size_t size : kSizes) {
    for (int i = 0; i < kEach; ++i) {
      blocks[count++] = check_block(malloc(size), size);
      blocks[count++] = check_block(calloc(1, size), size);
      if (blocks[count - 1] != nullptr && size != 0) *static_cast<char*>(blocks[count - 1]) = 1;
      blocks[count++] = check_block(aligned_alloc(8192, size), size);
      blocks[count] = check_block(malloc(size), size);
      void* moved = check_block(realloc(blocks[count], size * 2 + 100), size);
      if (moved != nullptr) blocks[count] = moved;
      ++count;
    }
  }
  for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
}

}  // namespace

// Arguments: names of calls, then the errno they give.
CASE(calls_fail) {
  early.allocate();
  exercise(2000, 1, 3'000'000);
  static std::atomic<bool> go_on{false};
  static std::atomic<int> ready{0};
  pthread_t threads[4];
  for (pthread_t& thread : threads) {
    thread = start_thread(
        [](void*) -> void* {
          free(malloc(100));
          ready.fetch_add(1);
          while (!go_on) usleep(100);
          for (int round = 0; round < 10; ++round) allocate_in_all_ways();
          return nullptr;
        },
        nullptr);
  }
  while (ready < 4) usleep(100);
  int error = ENOMEM;
  for (int i = 0; argument(i) != nullptr; ++i) {
    if (strcmp(argument(i), "EINVAL") == 0) error = EINVAL;
    if (strcmp(argument(i), "EPERM") == 0) error = EPERM;
    if (strcmp(argument(i), "EAGAIN") == 0) error = EAGAIN;
  }
  int forbidden = 0;
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  for (const NamedCall& call : kCalls) {
    for (int i = 0; argument(i) != nullptr; ++i) {
      if (strcmp(argument(i), call.name) != 0) continue;
      forbid(call.number, error);
      if (call.number == SYS_mmap) forbid(SYS_brk, 0);
      ++forbidden;
    }
  }
  CHECK(forbidden > 0, "name at least one call");
  go_on = true;
  for (int round = 0; round < 10; ++round) allocate_in_all_ways();
  early.grow_and_free();
  malloc_trim(0);
  for (int round = 0; round < 5; ++round) allocate_in_all_ways();
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  check_metadata();
}
