// SPDX-License-Identifier: MIT
// Theorem 1 (section 4.1) by random histories: what is held is bounded by what was live.
//
// The paper's bound is A <= U/(1 - f) + P K S, for one size class and blocks that fill a superblock. With u, a and K
// for each heap and class, 2P heaps, and max(K, 1) since malloc may take one superblock where K = 0 (threshold.hpp):
//
//   superblocks <= sum over classes c of  U_c / ((1 - f) n_c)  +  heaps * max(K, 1)
//
// where U_c is the most blocks of class c that were ever in use at once, and n_c the blocks of a superblock. It holds
// although heap 0 keeps partly used superblocks and empty ones change their class: a heap takes a superblock from the
// system only when heap 0 has none of its class with room (so all of the class are then in other heaps, whose
// inequalities bound them) and none that is empty (so each superblock belongs to some class).
#include <random>

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

// The bound is worth something: histories come near enough to it that one that is too small is found out.
FRESH_TEST(HoardTheorem1, ASmallerBoundIsPassed) {
  const Setting setting = {config::EmptyFraction::quarter, 4, 8192, 4};
  EXPECT_GT(run_history(setting, 1, 0), 1.0);
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
