// SPDX-License-Identifier: MIT
// fork while other threads are inside the allocator. The child has only the thread that forked: it must be able to
// allocate, to free what the parent held, to start threads, to fork again, and to end.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "stress/stress.hpp"
#include "support/held_block.hpp"

namespace coffer::test {

namespace {

constexpr unsigned kSecondsOfChild = 30;

void work(Random& random, std::vector<HeldBlock>& blocks, int steps) {
  for (int i = 0; i < steps; ++i) {
    HeldBlock& block = blocks[random.below(blocks.size())];
    if (!block) {
      block = allocate(random, random.one_in(300) ? slice_run_size(random) : random.by_magnitude(1, 8 * kKiB));
    } else if (random.one_in(5)) {
      resize(block, 1 + random.by_magnitude(1, 8 * kKiB));
    } else {
      release(block);
    }
  }
}

void free_all(std::vector<HeldBlock>& blocks) {
  for (HeldBlock& block : blocks) {
    if (block) release(block);
  }
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
  return status;
}

// `blocks` are the forking thread's own. Those of the other threads are lost with them, in whatever state they were.
void live_as_child(Random& random, std::vector<HeldBlock>& blocks, bool fork_again) {
  alarm(kSecondsOfChild);
  check_allocator("in a fresh child");
  work(random, blocks, 500);
  std::thread helper([seed = random.next()] {
    Random own(seed);
    std::vector<HeldBlock> mine(50);
    work(own, mine, 300);
    free_all(mine);
  });
  work(random, blocks, 200);
  helper.join();
  if (fork_again) {
    const pid_t grandchild = fork();
    REQUIRE(grandchild >= 0, "fork in a child failed");
    if (grandchild == 0) {
      alarm(kSecondsOfChild);
      work(random, blocks, 200);
      _exit(0);
    }
    REQUIRE(wait_for(grandchild) == 0, "a grandchild failed");
  }
  free_all(blocks);
  coffer_malloc_trim(0);
  check_allocator("in a child at its end");
}

}  // namespace

void fork_under_load(const Load& load) {
  constexpr unsigned kThreads = 3;
  const std::uint64_t forks = load.scaled(500);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, seed = load.seed + 1 + i] {
      Random random(seed);
      // Also threads that start and end: a fork may find a heap being bound or given up.
      while (!stop.load(std::memory_order_relaxed)) {
        std::thread([&random] {
          std::vector<HeldBlock> mine(200);
          work(random, mine, 3000);
          free_all(mine);
        }).join();
      }
    });
  }
  Random random(load.seed);
  std::vector<HeldBlock> blocks(300);
  for (std::uint64_t i = 0; i < forks; ++i) {
    work(random, blocks, 300);
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork failed");
    if (child == 0) {
      live_as_child(random, blocks, i % 10 == 0);
      // Both ways to end: destructors and handlers run in the first.
      if (i % 4 == 0) std::exit(0);
      _exit(0);
    }
    const int status = wait_for(child);
    REQUIRE(status == 0, "child %zu ended with status %#x", static_cast<std::size_t>(i), static_cast<unsigned>(status));
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  free_all(blocks);
  check_all_free();
}

}  // namespace coffer::test
