// SPDX-License-Identifier: MIT
// Blocks that are freed by other threads than those that allocated them.
#include <sched.h>

#include <deque>
#include <thread>
#include <vector>

#include "stress/stress.hpp"
#include "support/held_block.hpp"
#include "support/mailbox.hpp"

namespace coffer::test {

namespace {

template <class T>
void put(Channel<T>& channel, const T& value) {
  while (!channel.try_put(value)) sched_yield();
}

template <class T>
T get(Channel<T>& channel) {
  T value;
  while (!channel.try_get(value)) sched_yield();
  return value;
}

// Blocks under way in a channel are few: what the allocator holds must stay within a small multiple of them, however
// many went through.
void check_no_growth(std::size_t most_live) {
  const std::size_t limit = 4 * most_live + 64 * kMiB;
  const std::size_t held = held_bytes();
  REQUIRE(held <= limit, "held %zu, with never more than %zu live", held, most_live);
}

}  // namespace

void producer_consumer(const Load& load) {
  constexpr std::size_t kPairs = 2, kLength = 1024;
  const std::uint64_t count = load.scaled(4'000'000);
  std::deque<Channel<HeldBlock>> channels;
  std::vector<std::thread> threads;
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    Channel<HeldBlock>& channel = channels.emplace_back(kLength);
    threads.emplace_back([&channel, count, seed = load.seed + pair] {
      Random random(seed);
      for (std::uint64_t i = 0; i < count; ++i) {
        put(channel, allocate(random, i % 4096 == 0 ? slice_run_size(random) : random.by_magnitude(1, 2 * kKiB)));
      }
    });
    threads.emplace_back([&channel, count] {
      for (std::uint64_t i = 0; i < count; ++i) {
        HeldBlock block = get(channel);
        release(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  check_no_growth(kPairs * kLength * 2 * kKiB);
  check_all_free();
}

// Sixteen threads in a ring. Each gets bundles from the left, frees a part, replaces it by blocks of its own, resizes
// some, and passes the bundle on: most blocks are freed by a thread that did not allocate them, in runs of the same
// span and mixed.
void ring(const Load& load) {
  constexpr std::size_t kThreads = 16, kBundle = 32;
  struct Bundle {
    HeldBlock blocks[kBundle];
  };
  const std::uint64_t rounds = load.scaled(12'000);
  std::deque<Channel<Bundle>> channels;
  for (std::size_t i = 0; i < kThreads; ++i) channels.emplace_back(4);
  const auto work = [&](std::size_t number) {
    Random random(load.seed + number);
    Channel<Bundle>& left = channels[number];
    Channel<Bundle>& right = channels[(number + 1) % kThreads];
    for (int i = 0; i < 2; ++i) put(right, Bundle{});
    for (std::uint64_t round = 0; round < rounds; ++round) {
      Bundle bundle = get(left);
      // One size a bundle in half of the rounds: then a whole bundle often comes from one span.
      const std::size_t same = random.one_in(2) ? border_size(random) % kKiB : 0;
      for (HeldBlock& block : bundle.blocks) {
        if (block && random.one_in(8)) {
          resize(block, 1 + random.below(2 * block.size + 1));
        } else if (block && !random.one_in(4)) {
          release(block);
        }
        if (!block) block = allocate(random, same != 0 ? same : random.by_magnitude(1, 4 * kKiB));
      }
      put(right, bundle);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  for (Channel<Bundle>& channel : channels) {
    for (Bundle bundle; channel.try_get(bundle);) {
      for (HeldBlock& block : bundle.blocks) {
        if (block) release(block);
      }
    }
  }
  check_no_growth(kThreads * 2 * kBundle * 8 * kKiB);
  check_all_free();
}

// All threads free blocks of the same few spans at the same moment, while their owner allocates and frees there too.
void same_span(const Load& load) {
  constexpr unsigned kThreads = 4;
  const std::uint64_t rounds = load.scaled(8'000);
  std::vector<HeldBlock> blocks;
  Meeting filled(kThreads + 1), emptied(kThreads + 1);
  bool ended = false;
  const auto free_share = [&](unsigned number) {
    for (;;) {
      filled.wait();
      if (ended) return;
      for (std::size_t i = number; i < blocks.size(); i += kThreads + 1) release(blocks[i]);
      emptied.wait();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(free_share, i + 1);
  Random random(load.seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t size = random.one_in(20) ? random.between(5000, 32000) : random.by_magnitude(16, 4 * kKiB);
    const std::size_t count = 64 * kKiB / size + random.between(1, 100);
    blocks.clear();
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocate(random, size));
    filled.wait();
    for (std::size_t i = 0; i < blocks.size(); i += kThreads + 1) {
      release(blocks[i]);
      HeldBlock mine = allocate(random, size);
      release(mine);
    }
    emptied.wait();
  }
  ended = true;
  filled.wait();
  for (std::thread& thread : threads) thread.join();
  check_all_free();
}

// One thread allocates, others free: memory must come back to the one that allocates.
void asymmetric(const Load& load) {
  constexpr unsigned kFreers = 3;
  constexpr std::size_t kBlocks = 20'000;
  const std::uint64_t rounds = load.scaled(250);
  Random random(load.seed);
  std::size_t most_live = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<HeldBlock> blocks;
    std::size_t live = 0;
    for (std::size_t i = 0; i < kBlocks / (kThreadSanitizer ? 10 : 1); ++i) {
      blocks.push_back(allocate(random, random.by_magnitude(8, 4 * kKiB)));
      live += blocks.back().size;
    }
    most_live = live > most_live ? live : most_live;
    const auto free_share = [&](unsigned number) {
      // Some free what lies side by side, others every third block.
      const std::size_t share = blocks.size() / kFreers;
      for (std::size_t i = 0; i < share; ++i)
        release(blocks[round % 2 == 0 ? number * share + i : i * kFreers + number]);
    };
    std::vector<std::thread> freers;
    for (unsigned i = 0; i < kFreers; ++i) freers.emplace_back(free_share, i);
    for (std::thread& freer : freers) freer.join();
    for (HeldBlock& block : blocks) {
      if (block) release(block);
    }
    check_no_growth(most_live);
  }
  check_all_free();
}

}  // namespace coffer::test
