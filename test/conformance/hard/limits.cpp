// SPDX-License-Identifier: MIT
// Memory that runs out: by ulimit -v, by the arena's size, by the number of mappings, by the kernel's own accounting.
// Whatever the limit, malloc gives NULL and ENOMEM, and works again once blocks were freed.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "coffer/coffer.h"
#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kMega = 1 << 20;

struct Node {
  Node* next;
  std::size_t size;
};

// Allocates blocks of one size into a list until memory is gone; returns the bytes got.
std::size_t take_all(Node*& list, std::size_t size, bool touch) {
  std::size_t bytes = 0;
  while (true) {
    errno = 0;
    auto* node = static_cast<Node*>(malloc(hide(size)));
    if (node == nullptr) {
      CHECK(errno == ENOMEM, "errno %d after %zu bytes in blocks of %zu", errno, bytes, size);
      return bytes;
    }
    if (touch) memset(node, 1, size);
    node->next = list;
    node->size = size;
    list = node;
    bytes += size;
  }
}

void free_all(Node*& list) {
  while (list != nullptr) {
    Node* next = list->next;
    free(list);
    list = next;
  }
}

// Every way to fail, while little is left: a little of it may still serve other sizes than the one that took all.
void expect_nothing_left(std::size_t size) {
  errno = 0;
  CHECK(calloc(1, hide(size)) == nullptr && errno == ENOMEM, "calloc: errno %d", errno);
  errno = 0;
  CHECK(aligned_alloc(4096, hide(size)) == nullptr && errno == ENOMEM, "aligned_alloc: errno %d", errno);
  void* result = &result;
  CHECK(posix_memalign(&result, 64, hide(size)) == ENOMEM && result == &result);
}

void exhaust_and_recover(std::size_t least) {
  for (const std::size_t size :
       {std::size_t{1} << 20, std::size_t{5000}, std::size_t{3'000'000}, std::size_t{50'000}}) {
    Node* list = nullptr;
    void* kept = malloc(size);
    CHECK(kept != nullptr);
    fill(kept, size, size);
    const std::size_t bytes = take_all(list, size, true);
    note("blocks of %zu: %zu MiB", size, bytes / kMega);
    CHECK(bytes >= least, "%zu bytes in blocks of %zu", bytes, size);
    expect_nothing_left(least * 16);
    errno = 0;
    void* grown = realloc(kept, least * 16);
    CHECK(grown == nullptr && errno == ENOMEM && holds_pattern(kept, size, size));
    // A little is freed, a little can be had.
    Node* second = list->next;
    list->next = second->next;
    free(second);
    void* again = malloc(size);
    CHECK(again != nullptr, "size %zu", size);
    free(again);
    free_all(list);
    free(kept);
    // All is freed: as much can be had again.
    const std::size_t later = take_all(list, size, false);
    CHECK(later >= bytes - bytes / 8, "first %zu, then %zu bytes in blocks of %zu", bytes, later, size);
    free_all(list);
    exercise(2000, size, 20'000);
    check_metadata();
  }
}

std::atomic<std::size_t> total{0};

}  // namespace

// Run with ulimit -v 256 MiB: each thread must get its part, and later, all together at the limit, an orderly NULL. The
// argument: MiB that they must get together.
CASE(sixty_four_threads_in_256_mib) {
  static pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 64);
  pthread_t threads[64];
  for (std::size_t i = 0; i < 64; ++i) {
    threads[i] = start_thread(
        [](void* seed) -> void* {
          Node* list = nullptr;
          Random random(reinterpret_cast<unsigned long>(seed));
          for (std::size_t bytes = 0; bytes < 600'000;) {
            const std::size_t size = 16 + random.below(4000);
            auto* node = static_cast<Node*>(malloc(size));
            CHECK(node != nullptr, "size %zu after %zu bytes", size, bytes);
            memset(node, 1, size);
            node->next = list;
            list = node;
            bytes += size;
          }
          pthread_barrier_wait(&barrier);
          free_all(list);
          pthread_barrier_wait(&barrier);
          total.fetch_add(take_all(list, 30'000, true));
          pthread_barrier_wait(&barrier);
          free_all(list);
          pthread_barrier_wait(&barrier);
          void* block = malloc(100'000);
          CHECK(block != nullptr);
          free(block);
          exercise(200, reinterpret_cast<unsigned long>(seed), 10'000);
          return nullptr;
        },
        reinterpret_cast<void*>(i), 128 * 1024);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  note("64 threads got %zu MiB before the limit", total.load() / kMega);
  // 256 MiB less 8 MiB of thread stacks, the program and its libraries, and what 64 heaps keep for the size classes
  // they used before: up to one span a class.
  CHECK(total.load() >= static_cast<std::size_t>(argument_number(0)) * kMega, "%zu MiB", total.load() / kMega);
  check_metadata();
}

// Run with a small limit on the address space, and with a small arena.
CASE(exhausted_and_recovered) { exhaust_and_recover(static_cast<std::size_t>(argument_number(0)) * kMega); }

// Run with COFFER_CONF=limit:64M. What the kernel says is resident keeps to it, while threads take all they can get; a
// child has the same limit; and the program may raise and lower it.
CASE(resident_limit) {
  auto* set_limit = function<int(std::size_t)>("coffer_set_limit");
  auto* get_limit = function<std::size_t()>("coffer_get_limit");
  if (set_limit == nullptr || get_limit == nullptr) skip("a limit on resident memory is Coffer's alone");
  CHECK(get_limit() == 64 * kMega);
  const std::size_t before = resident_kib();
  static std::atomic<bool> done{false};
  pthread_t threads[4];
  for (std::size_t i = 0; i < 4; ++i) {
    threads[i] = start_thread(
        [](void* seed) -> void* {
          Random random(reinterpret_cast<unsigned long>(seed));
          for (int round = 0; round < 60; ++round) {
            Node* list = nullptr;
            const std::size_t size = round % 3 == 0 ? 2'500'000 : 16 + random.below(60'000);
            total.fetch_add(take_all(list, size, true));
            free_all(list);
          }
          return nullptr;
        },
        reinterpret_cast<void*>(i + 1), 128 * 1024);
  }
  const pthread_t watcher = start_thread(
      [](void* start) -> void* {
        while (!done.load()) {
          // 64 MiB, 2 for page tables' rounding, thread stacks and what the C library touches, and 4 because the kernel
          // adds up what each thread faulted in only now and then. What moves while the kernel walks over the mappings
          // may count twice; not so in three walks.
          const std::size_t most = reinterpret_cast<std::size_t>(start) + 70 * 1024;
          std::size_t now = resident_kib();
          for (int i = 0; i < 2 && now > most; ++i) now = resident_kib();
          CHECK(now <= most, "%zu KiB are resident", now);
          usleep(1000);
        }
        return nullptr;
      },
      reinterpret_cast<void*>(before), 128 * 1024);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  done.store(true);
  pthread_join(watcher, nullptr);
  note("%zu MiB in all", total.load() / kMega);
  CHECK(total.load() > 1000 * kMega);
  // Freed memory counts again, and what this thread's heap keeps: all but records and live blocks can be had, to the
  // rest of these blocks' spans. Records stay a small part; how large, the addresses decide at which four threads met.
  struct coffer_stats had{};
  CHECK(function<int(struct coffer_stats*, std::size_t)>("coffer_stats")(&had, sizeof had) == 0);
  CHECK(had.metadata <= 6 * kMega, "%zu bytes of metadata", had.metadata);
  const std::size_t rest = 64 * kMega - had.metadata - had.live - 256 * 1024;
  CHECK(malloc(hide(rest)) != nullptr, "%zu bytes", rest);
  const pid_t child = fork();
  if (child == 0) _exit(malloc(hide(10 * kMega)) == nullptr && get_limit() == 64 * kMega ? 0 : 1);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
  CHECK(set_limit(100 * kMega) == 0 && malloc(hide(30 * kMega)) != nullptr);
  CHECK(set_limit(kMega) == 0);
  errno = 0;
  CHECK(malloc(hide(kMega)) == nullptr && errno == ENOMEM);
  CHECK(set_limit(0) == 0 && malloc(hide(300 * kMega)) != nullptr);
  check_metadata();
}

// The limit comes while the program runs, to just above what it has.
CASE(limit_lowered_at_run_time) {
  exercise(5000, 1, 3'000'000);
  const std::size_t now = status_kib("VmSize") * 1024;
  const struct rlimit limit = {now + 8 * kMega, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (int round = 0; round < 20; ++round) {
    for (const std::size_t size : {100, 1000, 20'000, 100'000, 3'000'000, 40'000'000}) {
      void* blocks[16];
      for (void*& block : blocks) {
        errno = 0;
        block = malloc(size);
        if (block == nullptr) {
          CHECK(errno == ENOMEM);
        } else {
          memset(block, 1, size < 100'000 ? size : 100'000);
        }
      }
      for (void* block : blocks) free(block);
    }
  }
  check_metadata();
}

// Run under overcommit mode 2: start-up works, ordinary work works, and a block beyond the commit limit is refused. It
// asks for one block far too large rather than for all there is, so that other programs do not suffer.
CASE(overcommit_refused) {
  Hammer hammer(4);
  exercise(20'000, 1, 3'000'000);
  void* block = malloc(500 * kMega);
  CHECK(block != nullptr);
  memset(block, 1, kMega);
  block = realloc(block, 700 * kMega);
  CHECK(block != nullptr);
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t size : {2 * memory, 4 * memory, 64 * memory}) {
    errno = 0;
    CHECK(malloc(hide(size)) == nullptr && errno == ENOMEM, "%zu bytes: errno %d", size, errno);
    errno = 0;
    CHECK(calloc(1, hide(size)) == nullptr && errno == ENOMEM, "%zu bytes: errno %d", size, errno);
    errno = 0;
    CHECK(realloc(block, hide(size)) == nullptr && errno == ENOMEM, "%zu bytes: errno %d", size, errno);
  }
  free(block);
  for (int i = 0; i < 50; ++i) {
    block = malloc(300 * kMega);
    CHECK(block != nullptr, "round %d", i);
    free(block);
  }
  hammer.stop();
  check_metadata();
}

// A machine may refuse the reservation at start and have little memory besides: the program takes all mappings first.
CASE(mapping_table_full) {
  exercise(2000, 1, 3'000'000);
  void* early[100];
  for (void*& block : early) block = malloc(3'000'000);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Alternating protections keep neighbours from merging: every page is a mapping.
  std::size_t mappings = 0;
  int protection = PROT_NONE;
  while (mmap(nullptr, page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    protection ^= PROT_READ;
    if (++mappings > 1'000'000) skip("this machine has no limit on mappings");
  }
  CHECK(errno == ENOMEM);
  note("%zu mappings", mappings);
  for (int round = 0; round < 3; ++round) {
    for (void*& block : early) {
      free(block);
      block = malloc(2'500'000);
      if (block == nullptr) {
        CHECK(errno == ENOMEM);
      } else {
        memset(block, 1, 2'500'000);
      }
    }
    for (const std::size_t size : {16, 500, 5000, 30'000, 90'000, 700'000, 1'500'000, 10'000'000}) {
      void* blocks[50];
      for (void*& block : blocks) {
        errno = 0;
        block = malloc(size);
        if (block == nullptr) CHECK(errno == ENOMEM, "size %zu: errno %d", size, errno);
        void* grown = block == nullptr ? nullptr : realloc(block, size * 3);
        if (grown != nullptr) block = grown;
        if (block != nullptr) memset(block, 1, size);
      }
      for (void* block : blocks) free(block);
    }
    malloc_trim(0);
  }
  for (void* block : early) free(block);
  check_metadata();
}
