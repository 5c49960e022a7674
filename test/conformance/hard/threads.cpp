// SPDX-License-Identifier: MIT
// Threads that come and go: their heaps and their blocks must not stay behind.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr int kBlocks = 200;

struct Batch {
  void* blocks[kBlocks];
  unsigned long seed;
};

void* make_batch(void* argument) {
  auto* batch = static_cast<Batch*>(argument);
  Random random(batch->seed);
  for (void*& block : batch->blocks) {
    std::size_t size = random.size();
    if (size > 100'000) size = 100'000;
    block = malloc(size + 8);
    CHECK(block != nullptr);
    memset(block, 1, size + 8);
  }
  return nullptr;
}

void free_batch(Batch& batch) {
  for (void* block : batch.blocks) free(block);
}

// Compares what is resident at the end with what was after a fifth of the rounds. Some five heaps serve the threads one
// after the other. When they meet is chance, and each fills up to its budget: two threads that race hold 8 to 14 MB
// after 2,000 rounds, at most 14.5 MB after 20,000.
class Flatness {
 public:
  static constexpr std::size_t kSlackKib = 8000;

  explicit Flatness(int rounds) : warm_(rounds / 5) {}
  void round(int number) {
    if (number == warm_) settled_ = resident_kib();
  }
  void check() const {
    const std::size_t end = resident_kib();
    note("resident settled %zu KiB, at the end %zu KiB", settled_, end);
    CHECK(end <= settled_ + kSlackKib, "from %zu to %zu KiB", settled_, end);
  }

 private:
  int warm_;
  std::size_t settled_ = 0;
};

}  // namespace

CASE(threads_die_and_others_free) {
  constexpr int kRounds = 10'000;
  Flatness flatness(kRounds);
  static Batch batch;
  for (int round = 0; round < kRounds; ++round) {
    batch.seed = static_cast<unsigned long>(round % 50);
    pthread_join(start_thread(make_batch, &batch), nullptr);
    free_batch(batch);
    flatness.round(round);
  }
  flatness.check();
  check_metadata();
}

// The blocks of dead threads are freed by threads that die too, some of the blocks only much later.
CASE(dead_threads_blocks_freed_by_dying_threads) {
  constexpr int kRounds = 3000;
  Flatness flatness(kRounds);
  static Batch ring[16];
  for (Batch& batch : ring) make_batch(&batch);
  for (int round = 0; round < kRounds; ++round) {
    Batch& batch = ring[round % 16];
    batch.seed = static_cast<unsigned long>(round % 64);
    pthread_join(start_thread(
                     [](void* argument) -> void* {
                       free_batch(*static_cast<Batch*>(argument));
                       return make_batch(argument);
                     },
                     &batch),
                 nullptr);
    flatness.round(round);
  }
  for (Batch& batch : ring) free_batch(batch);
  flatness.check();
  check_metadata();
}

// Blocks are freed while their owner is on its way out: the span must belong to one or the other, never to nobody.
CASE(blocks_freed_while_their_owner_dies) {
  constexpr int kRounds = 8000;
  Flatness flatness(kRounds);
  static std::atomic<Batch*> ready{nullptr};
  static std::atomic<bool> stopping{false};
  // Who waits looks at once, so that both meet at the owner's end; but it must not keep the processor from whom it
  // waits for, where there are more threads than processors.
  static const auto wait = [](int& looks) {
    if (++looks % 64 == 0) sched_yield();
  };
  const pthread_t freer = start_thread(
      [](void*) -> void* {
        for (int looks = 0; !stopping.load(std::memory_order_relaxed);) {
          Batch* batch = ready.exchange(nullptr, std::memory_order_acquire);
          if (batch == nullptr) {
            wait(looks);
            continue;
          }
          free_batch(*batch);
          free(batch);
        }
        return nullptr;
      },
      nullptr);
  for (int round = 0; round < kRounds; ++round) {
    auto* batch = static_cast<Batch*>(malloc(sizeof(Batch)));
    batch->seed = static_cast<unsigned long>(round % 50);
    pthread_join(start_thread(
                     [](void* argument) -> void* {
                       make_batch(argument);
                       Batch* none = nullptr;
                       for (int looks = 0; !ready.compare_exchange_weak(none, static_cast<Batch*>(argument));) {
                         none = nullptr;
                         wait(looks);
                       }
                       return nullptr;
                     },
                     batch),
                 nullptr);
    flatness.round(round);
  }
  while (ready.load() != nullptr) usleep(100);
  stopping = true;
  pthread_join(freer, nullptr);
  flatness.check();
  check_metadata();
}

CASE(ten_thousand_threads_come_and_go) {
  constexpr int kRounds = 2500;
  Flatness flatness(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    pthread_t threads[4];
    for (pthread_t& thread : threads) {
      thread = start_thread(
          [](void* seed) -> void* {
            exercise(100, reinterpret_cast<unsigned long>(seed), 20'000);
            return nullptr;
          },
          reinterpret_cast<void*>(static_cast<unsigned long>(round)));
    }
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    flatness.round(round);
  }
  flatness.check();
  check_metadata();
}

CASE(two_thousand_threads_alive) {
  constexpr int kThreads = 2000;
  static pthread_t threads[kThreads];
  static std::atomic<int> working{0};
  static std::atomic<bool> go_on{false};
  const std::size_t before = resident_kib();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 * 1024);
  for (int i = 0; i < kThreads; ++i) {
    const int status = pthread_create(
        &threads[i], &attributes,
        [](void*) -> void* {
          void* blocks[20];
          for (std::size_t k = 0; k < 20; ++k) {
            blocks[k] = malloc(16 + 40 * k);
            CHECK(blocks[k] != nullptr);
            fill(blocks[k], 16 + 40 * k, k);
          }
          working.fetch_add(1);
          while (!go_on.load(std::memory_order_relaxed)) usleep(20'000);
          for (std::size_t k = 0; k < 20; ++k) {
            CHECK(holds_pattern(blocks[k], 16 + 40 * k, k));
            free(blocks[k]);
          }
          exercise(30, 5, 10'000);
          return nullptr;
        },
        nullptr);
    if (status == EAGAIN) skip("this machine allows no %d threads", kThreads);
    CHECK(status == 0, "thread %d: %s", i, strerror(status));
  }
  while (working.load() < kThreads) usleep(1000);
  const std::size_t alive = resident_kib();
  go_on = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  malloc_trim(0);
  const std::size_t after = resident_kib();
  note("resident before %zu KiB, with %d threads %zu KiB (%zu a thread), after them %zu KiB", before, kThreads, alive,
       (alive - before) / kThreads, after);
  // Stacks count here too: about 8 KiB a thread. 16 KiB is what the budget grants an idle heap; 20 size classes are in
  // use.
  CHECK(alive < before + std::size_t{kThreads} * 200, "%zu KiB", alive);
  CHECK(after < before + 40'000, "from %zu to %zu KiB", before, after);
  check_metadata();
}
