// SPDX-License-Identifier: MIT
// Threads that start and end, and leave blocks behind.
#include <sched.h>

#include <mutex>
#include <thread>
#include <vector>

#include "stress/stress.hpp"
#include "support/held_block.hpp"

namespace coffer::test {

// Thousands of short threads, a few at a time. Each frees and resizes blocks of threads long gone, and leaves some of
// its own.
void thread_churn(const Load& load) {
  constexpr std::size_t kLanes = 4, kAllocated = 60, kLeft = 30;
  const std::uint64_t lives = load.scaled(20'000) / kLanes + 1;
  std::mutex lock;
  std::vector<HeldBlock> estate;  // of all threads that ended
  const auto live = [&](std::uint64_t seed) {
    Random random(seed);
    std::vector<HeldBlock> mine;
    {
      const std::lock_guard guard(lock);
      for (std::size_t i = 0; i < kLeft && !estate.empty(); ++i) {
        std::swap(estate[random.below(estate.size())], estate.back());
        mine.push_back(estate.back());
        estate.pop_back();
      }
    }
    for (HeldBlock& block : mine) {
      if (random.one_in(4)) resize(block, 1 + random.below(2 * block.size + 1));
    }
    for (std::size_t i = 0; i < kAllocated; ++i) {
      mine.push_back(allocate(random, random.one_in(200) ? slice_run_size(random) : random.by_magnitude(1, 8 * kKiB)));
    }
    while (mine.size() > kLeft) {
      std::swap(mine[random.below(mine.size())], mine.back());
      release(mine.back());
      mine.pop_back();
    }
    const std::lock_guard guard(lock);
    estate.insert(estate.end(), mine.begin(), mine.end());
  };
  std::vector<std::thread> lanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&, lane] {
      for (std::uint64_t i = 0; i < lives; ++i) std::thread(live, load.seed + lane * lives + i).join();
    });
  }
  for (std::thread& lane : lanes) lane.join();
  check_allocator("after the last thread ended");
  const std::size_t held = held_bytes();
  REQUIRE(held <= 256 * kMiB, "held %zu after %zu threads, for %zu blocks", held, lives * kLanes, estate.size());
  for (HeldBlock& block : estate) release(block);
  check_all_free();
}

// A thread ends at the very moment at which others free its blocks, and a new thread allocates the same sizes: exit,
// remote frees, eager return and adoption of the same spans at once.
void thread_exit(const Load& load) {
  constexpr std::size_t kFreers = 2;
  const std::uint64_t rounds = load.scaled(15'000);
  Random random(load.seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t size = random.one_in(20) ? random.between(5000, 32000) : random.by_magnitude(16, 2 * kKiB);
    const std::size_t count = random.between(1, 96 * kKiB / size + 2);
    std::vector<HeldBlock> blocks(count), late;
    const std::uint64_t kept_one_in = random.between(2, 40);
    Meeting ready(kFreers + 2);
    std::thread owner([&, seed = random.next()] {
      Random own(seed);
      for (HeldBlock& block : blocks) block = allocate(own, size);
      // A few local frees: the free list is then not empty when the thread ends.
      for (std::size_t i = 0; i < count; i += 7) release(blocks[i]);
      ready.wait();
    });
    std::vector<std::thread> freers;
    for (std::size_t number = 0; number < kFreers; ++number) {
      freers.emplace_back([&, number] {
        ready.wait();
        for (std::size_t i = number; i < count; i += kFreers) {
          if (blocks[i] && i % kept_one_in != 0) release(blocks[i]);
        }
      });
    }
    std::thread successor([&, seed = random.next()] {
      Random own(seed);
      ready.wait();
      for (std::size_t i = 0; i < count; ++i) late.push_back(allocate(own, size));
    });
    owner.join();
    successor.join();
    for (std::thread& freer : freers) freer.join();
    for (std::vector<HeldBlock>* rest : {&blocks, &late}) {
      for (HeldBlock& block : *rest) {
        if (block) release(block);
      }
    }
    if (round % 100 == 0) check_allocator("between rounds");
  }
  check_all_free();
}

}  // namespace coffer::test
