// SPDX-License-Identifier: MIT
// Theorem 1 (section 4.1) by random histories: what is held is bounded by what was live.
//
// The paper's bound is A <= U/(1 - f) + P K S, for one size class and blocks that fill a superblock. With u, a and K
// for each heap and class, 2P heaps, and max(K, 1) since malloc may take one superblock where K = 0 (threshold.hpp):
//
//   superblocks <= sum over classes c of  U_c / ((1 - f) n_c)  +  heaps * max(K, 1)
//
// where U_c is the most blocks of class c that were ever in use at once, and n_c the blocks of a superblock. It holds
// class by class, although heap 0 keeps partly used superblocks and empty ones change their class: the superblocks of a
// class get more, from the system or from another class, only when heap 0 has none of the class with room. Then all of
// them with room are in other heaps, whose inequalities bound them, and the heap that takes one is full.
//
// With threads it is the same bound, if a block is in use from when its malloc is called until its free returns. What
// is in the middle of a call is then within it: a malloc that has its superblock and not yet its block, a free that has
// put its block back and not yet given up a superblock. A heap that found nothing in heap 0 and is about to ask the
// system is full until it has asked, for its lock is held: max(K, 1) of its own allows the superblock that is to come.
// The blocks that the program holds are fewer, by one for each call under way. So by the program's own count
// concurrency adds a superblock for each thread that is in a call, 2P with a thread for each heap.
#include <algorithm>
#include <barrier>
#include <mutex>
#include <random>
#include <thread>

#include "heaps.hpp"

namespace coffer::test {
namespace {

struct History {
  std::mt19937_64 random;
  std::vector<std::vector<void*>> blocks;  // by class
  std::vector<u64> most;                   // U_c

  explicit History(u64 seed) : random(seed), blocks(g_hoard.classes.count()), most(g_hoard.classes.count()) {
    most[0] = 1;  // start_hoard's
  }

  u64 below(u64 end) { return random() % end; }

  void allocate(u32 c) {
    void* block = coffer_malloc(g_hoard.classes.usable(c));
    ASSERT_NE(block, nullptr);
    blocks[c].push_back(block);
    if (blocks[c].size() > most[c]) most[c] = blocks[c].size();
  }
  void release(u32 c) {
    std::vector<void*>& all = blocks[c];
    if (all.empty()) return;
    std::swap(all[below(all.size())], all.back());
    coffer_free(all.back());
    all.pop_back();
  }
};

u64 superblocks_made() {
  u64 made = 0;
  for (u32 i = 0; i < heap_count(); ++i) made += heap_at(i)->counts.created;
  return made;
}

double bound(const History& history, u64 slack) {
  double sum = 0;
  const double kept = 1.0 - g_hoard.threshold.f / static_cast<double>(kParts);
  for (u32 c = 0; c < g_hoard.classes.count(); ++c) {
    if (history.most[c] == 0) continue;
    sum += static_cast<double>(history.most[c]) / (kept * g_hoard.capacity[c]);
    sum += static_cast<double>(g_hoard.heaps * slack);
  }
  return sum;
}

struct Setting {
  config::EmptyFraction f;
  u32 k;
  usize superblock;
  u32 heaps;
};

// Phases with a few classes each, growing and shrinking, from heap to heap. Gives the most of the bound that was used.
double run_history(const Setting& setting, u64 seed, u64 assumed_slack) {
  changeable_options().f = setting.f;
  changeable_options().k = setting.k;
  changeable_options().superblock = setting.superblock;
  changeable_options().heaps = setting.heaps;
  start_hoard();
  History history(seed);
  double worst = 0;
  for (int phase = 0; phase < 30; ++phase) {
    const u32 first = static_cast<u32>(history.below(g_hoard.classes.count()));
    const u32 count = static_cast<u32>(1 + history.below(4));
    const u64 grow = 3 + history.below(5);  // of 10 operations
    for (int step = 0; step < 1000; ++step) {
      use_heap(static_cast<u32>(1 + history.below(setting.heaps)));
      const u32 c = (first + static_cast<u32>(history.below(count))) % g_hoard.classes.count();
      if (history.below(10) < grow) {
        history.allocate(c);
      } else {
        history.release(c);
      }
      const double used = static_cast<double>(superblocks_made()) / bound(history, assumed_slack);
      worst = used > worst ? used : worst;
    }
    EXPECT_EQ(coffer_check(), 0u) << "seed " << seed << ", phase " << phase;
  }
  return worst;
}

FRESH_TEST(HoardTheorem1, HeldIsBoundedByWhatWasLive) {
  constexpr Setting kSettings[] = {
      {config::EmptyFraction::quarter, 4, 8192, 4},   {config::EmptyFraction::quarter, 0, 8192, 4},
      {config::EmptyFraction::half, 1, 4096, 2},      {config::EmptyFraction::eighth, 2, 16384, 6},
      {config::EmptyFraction::sixteenth, 1, 8192, 3}, {config::EmptyFraction::three_quarters, 0, 4096, 4},
  };
  const u64 seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const Setting& setting : kSettings) {
    run_fresh([&] {
      const double worst = run_history(setting, seed, setting.k > 1 ? setting.k : 1);
      EXPECT_LE(worst, 1.0) << "seed " << seed << ", K " << setting.k << ", S " << setting.superblock;
    });
  }
}

// Blocks of all threads, by class: each frees what any has allocated. A block is live from before its malloc until
// after its free.
struct Shared {
  std::mutex mutex;
  std::vector<std::vector<void*>> blocks;
  std::vector<u64> live, most;

  Shared() : blocks(g_hoard.classes.count()), live(g_hoard.classes.count()), most(g_hoard.classes.count()) {
    live[0] = most[0] = 1;  // start_hoard's
  }

  void allocate(u32 c) {
    {
      const std::lock_guard guard(mutex);
      most[c] = std::max(most[c], ++live[c]);
    }
    void* block = coffer_malloc(g_hoard.classes.usable(c));
    const std::lock_guard guard(mutex);
    blocks[c].push_back(block);
  }
  void release(u32 c, u64 random) {
    std::unique_lock lock(mutex);
    std::vector<void*>& all = blocks[c];
    if (all.empty()) return;
    std::swap(all[random % all.size()], all.back());
    void* block = all.back();
    all.pop_back();
    lock.unlock();
    coffer_free(block);
    lock.lock();
    --live[c];
  }
};

// Phases as above, by more threads than heaps; after each, all stand still. Gives the most of the bound that was used.
double run_threads(const Setting& setting, u64 seed) {
  constexpr u32 kThreads = 6, kPhases = 100, kSteps = 100;
  changeable_options().f = setting.f;
  changeable_options().k = setting.k;
  changeable_options().superblock = setting.superblock;
  changeable_options().heaps = setting.heaps;
  start_hoard();
  Shared shared;
  double worst = 0;
  std::barrier together(kThreads, [&]() noexcept {
    History history(seed);
    history.most = shared.most;
    const double used = static_cast<double>(superblocks_made()) / bound(history, setting.k > 1 ? setting.k : 1);
    worst = used > worst ? used : worst;
    EXPECT_EQ(coffer_check(), 0u) << "seed " << seed;
  });
  std::vector<std::thread> threads;
  for (u32 number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 own(seed + number);
      for (u32 phase = 0; phase < kPhases; ++phase) {
        std::mt19937_64 common(seed * kPhases + phase);  // all are in the same classes, growing or shrinking
        const u64 first = common(), count = 1 + common() % 4, grow = 3 + common() % 5;
        for (u32 step = 0; step < kSteps; ++step) {
          if (step % 10 == 0) use_heap(static_cast<u32>(1 + own() % setting.heaps));
          const u32 c = static_cast<u32>((first + own() % count) % g_hoard.classes.count());
          if (own() % 10 < grow) {
            shared.allocate(c);
          } else {
            shared.release(c, own());
          }
        }
        together.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worst;
}

FRESH_TEST(HoardTheorem1, ThreadsStayWithinTheSameBound) {
  constexpr Setting kSettings[] = {
      {config::EmptyFraction::quarter, 4, 8192, 4},
      {config::EmptyFraction::half, 0, 4096, 2},
      {config::EmptyFraction::sixteenth, 1, 8192, 3},
  };
  const u64 seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const Setting& setting : kSettings) {
    run_fresh([&] {
      const double worst = run_threads(setting, seed);
      EXPECT_LE(worst, 1.0) << "seed " << seed << ", K " << setting.k << ", S " << setting.superblock;
      EXPECT_GT(worst, 0.1);
    });
  }
}

// The bound is worth something: histories come near enough to it that one that is too small is found out.
FRESH_TEST(HoardTheorem1, ASmallerBoundIsPassed) {
  const Setting setting = {config::EmptyFraction::quarter, 4, 8192, 4};
  EXPECT_GT(run_history(setting, 1, 0), 1.0);
}

// One thread fills what it keeps empty of one class with blocks of another, and leaves one of them in each superblock,
// again and again: these come to heap 0, and must serve the class before anything else does.
FRESH_TEST(HoardTheorem1, EmptySuperblocksOfOtherClassesDoNotGoBeforeHeapZero) {
  changeable_options().heaps = 2;
  start_hoard();
  use_heap(1);
  History history(1);
  constexpr u32 kSparse = 0, kOther = 5;
  std::vector<void*> left;
  for (int round = 0; round < 200; ++round) {
    for (u64 i = 0; i < g_hoard.threshold.k * u64{g_hoard.capacity[kOther]}; ++i) history.allocate(kOther);
    while (!history.blocks[kOther].empty()) history.release(kOther);
    std::vector<void*> all =
        allocate_many(2 * g_hoard.threshold.k * u64{g_hoard.capacity[kSparse]}, g_hoard.classes.usable(kSparse));
    const u64 live = left.size() + all.size();
    if (live > history.most[kSparse]) history.most[kSparse] = live;
    std::vector<Superblock*> seen;
    for (void* block : all) {
      if (std::find(seen.begin(), seen.end(), superblock_at(block)) == seen.end()) {
        seen.push_back(superblock_at(block));
        left.push_back(block);
      } else {
        coffer_free(block);
      }
    }
    ASSERT_LE(static_cast<double>(superblocks_made()), bound(history, g_hoard.threshold.k)) << "round " << round;
  }
}

// The blowup of section 2.2 that other allocators have: producer and consumer, round after round, the consumer always
// another heap's thread. Memory stays where it was after the first round.
FRESH_TEST(HoardTheorem1, ProducersAndConsumersDoNotBlowUp) {
  changeable_options().heaps = 8;
  start_hoard();
  constexpr usize kBlocks = 2000;
  u64 after_first = 0;
  for (u32 round = 0; round < 80; ++round) {
    use_heap(1 + round % 8);
    std::vector<void*> blocks = allocate_many(kBlocks, 100);
    use_heap(1 + (round + 1) % 8);
    for (void* block : blocks) coffer_free(block);
    if (round == 0) after_first = superblocks_made();
  }
  // Each heap may keep K superblocks; nothing grows with the rounds.
  EXPECT_LE(superblocks_made(), after_first + 8 * 4);
}

}  // namespace
}  // namespace coffer::test
