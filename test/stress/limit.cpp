// SPDX-License-Identifier: MIT
// Threads at the limit: each takes what it can get, and frees when there is no more. The limit is never passed, no
// block is lost, and afterwards as much can be had as before.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>
#include <vector>

#include "budget/budget.hpp"
#include "stress/stress.hpp"
#include "support/held_block.hpp"

namespace coffer::test {

namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kLimit = 48 * kMiB;

// Resident memory of the whole process, from /proc: the kernel's own word for what the limit promises.
std::size_t resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr, "/proc/self/statm: errno %d", errno);
  std::size_t all = 0;
  std::size_t pages = 0;
  const int got = std::fscanf(file, "%zu %zu", &all, &pages);
  std::fclose(file);
  REQUIRE(got == 2, "/proc/self/statm has another form");
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t some_size(Random& random) {
  const std::uint64_t dice = random.below(100);
  if (dice < 90) return random.by_magnitude(1, 30 * kKiB);
  if (dice < 97) return random.by_magnitude(33 * kKiB, kMiB);
  return random.by_magnitude(kMiB, 6 * kMiB);
}

void work(std::uint64_t seed, std::uint64_t rounds, std::atomic<std::uint64_t>& refused) {
  Random random(seed);
  std::vector<HeldBlock> blocks;
  blocks.reserve(1 << 16);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t size = some_size(random);
    const bool resize = !blocks.empty() && random.below(8) == 0;
    HeldBlock* held = resize ? &blocks[random.below(blocks.size())] : nullptr;
    if (resize) verify(*held, "before realloc");
    errno = 0;
    void* at = resize ? coffer_realloc(held->at, size) : coffer_malloc(size);
    if (at == nullptr) {
      REQUIRE(errno == ENOMEM, "errno %d at %zu bytes", errno, size);
      refused.fetch_add(1);
      if (resize) verify(*held, "after a realloc that failed");
      // Frees down to something, so that the others get on.
      for (std::size_t keep = blocks.size() * random.below(10) / 10; blocks.size() > keep;) {
        std::swap(blocks[random.below(blocks.size())], blocks.back());
        release(blocks.back());
        blocks.pop_back();
      }
    } else if (resize) {
      const std::size_t kept = size < held->size ? size : held->size;
      REQUIRE(find_damage(at, held->size, kept, held->seed) == kPatternGood, "damaged by realloc to %zu bytes", size);
      *held = hold(at, size, held->seed);
    } else {
      blocks.push_back(hold(at, size, random.next()));
    }
    // relaxed: each value it ever has must be within the limit.
    const std::size_t charged = budget().charged.load(relaxed);
    REQUIRE(charged <= kLimit, "%zu bytes are charged, the limit is %zu", charged, kLimit);
  }
  for (HeldBlock& block : blocks) release(block);
}

std::size_t take_all() {
  std::vector<void*> blocks;
  while (void* block = coffer_malloc(128 * kKiB)) blocks.push_back(block);
  for (void* block : blocks) coffer_free(block);
  return blocks.size() * 128 * kKiB;
}

}  // namespace

void at_the_limit(const Load& load) {
  coffer_free(coffer_malloc(1));
  REQUIRE(coffer_set_limit(kLimit) == 0 && coffer_get_limit() == kLimit, "the limit is %zu", coffer_get_limit());
  std::atomic<std::uint64_t> refused{0};
  std::atomic<bool> done{false};
  // What is not Coffer's: the vectors of the threads, their stacks, the program.
  const std::size_t other = resident() + kThreads * (sizeof(HeldBlock) << 16) + 24 * kMiB * (kThreadSanitizer ? 20 : 1);
  std::thread watcher([&] {
    while (!done.load()) {
      const std::size_t now = resident();
      REQUIRE(now <= kLimit + other, "%zu bytes are resident, %zu of them not Coffer's", now, other);
      usleep(2000);
    }
  });
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { work(load.seed + i, load.scaled(100'000), refused); });
  }
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  watcher.join();
  REQUIRE(refused.load() > 0, "the limit was never reached");
  check_all_free();
  const std::size_t got = take_all();
  REQUIRE(got >= kLimit / 100 * 85 && got <= kLimit, "%zu bytes can be had at the end", got);
  check_all_free();
  coffer_set_limit(0);
}

}  // namespace coffer::test
