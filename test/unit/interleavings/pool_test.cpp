// SPDX-License-Identifier: MIT
// Slices between threads that claim, release and purge, and one that gives empty chunks back: in every order with a few
// switches no slice has two holders, none is forgotten, and what is said to be zero is zero.
#include <gtest/gtest.h>

#include "fresh.hpp"
#include "ground.hpp"
#include "interleavings/explorer.hpp"
#include "observe/counters.hpp"
#include "pool/hints.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u32 kMostOrders = 30'000;

// The protocol: the chunks' words and the arena's lock. (The map has orders of its own: room_map_test.cpp.)
void watch_pool() {
  watch(first_arena().chunks, 4 * sizeof(Chunk));
  watch(&first_arena().lock, sizeof first_arena().lock);
}

u64* first_word(const SliceRun& run, u32 i) {
  return reinterpret_cast<u64*>(run.arena->base + (uptr{run.slice} + i) * kSliceBytes);
}

// Claims, writes, sees that nobody else writes, and releases.
void use_slices(u32 count, u64 mark) {
  const SliceRun run = acquire_slices(count, count, 0);
  ASSERT_EQ(run.count, count);
  for (u32 i = 0; i < count; ++i) {
    if (((run.dirty >> i) & 1) == 0) {
      ASSERT_EQ(*first_word(run, i), 0u);
    }
    *first_word(run, i) = mark;
  }
  schedule::step(nullptr);
  for (u32 i = 0; i < count; ++i) ASSERT_EQ(*first_word(run, i), mark) << "two have one slice, or it was purged in use";
  release_slices(run.arena, run.slice, count, low_mask(count));
}

void explore_pool(std::vector<std::function<void()>> threads, u32 switches = 2) {
  start_ground(usize{64} << 20);
  watch_pool();
  Scenario scenario;
  for (auto& thread : threads) scenario.actors.push_back({nullptr, thread});
  scenario.before = [] {
    // A chunk with all slices free, of which one is dirty.
    const SliceRun all = acquire_slices(4, 4, 0);
    release_slices(all.arena, all.slice, 4, 0b10);
  };
  scenario.after = [] {
    ASSERT_EQ(counters().held.load(relaxed), 0u);
    ASSERT_EQ(forgotten_room(first_arena()), 0u);
    usize dirty = 0;
    for (u32 i = 0; i < first_arena().highest_chunk.load(relaxed); ++i) {
      const Chunk& chunk = first_arena().chunks[i];
      const bool taken = (first_arena().groups[0].taken.get() >> i) & 1;
      ASSERT_EQ(chunk.free.load(relaxed), taken ? ~u64{0} : 0) << "a slice is lost";
      const u64 bits = chunk.dirty.load(relaxed);
      dirty += count_bits(bits) * kSliceBytes;
      ASSERT_TRUE(bits == 0 || ((first_arena().groups[0].dirty.load(relaxed) >> i) & 1) != 0) << "no purge finds it";
    }
    ASSERT_EQ(counters().dirty.load(relaxed), dirty);
    // Every order begins alike.
    return_empty_chunks();
    purge_free(~usize{0} / 2);
  };
  EXPECT_GT(explore(scenario, switches, kMostOrders), 20u);
}

FRESH_TEST(PoolOrders, TwoClaimAndRelease) {
  explore_pool({[] { use_slices(1, 11); }, [] { use_slices(2, 22); }}, 3);
}

FRESH_TEST(PoolOrders, ThreeClaimAndRelease) {
  explore_pool({[] { use_slices(1, 11); }, [] { use_slices(32, 22); }, [] { use_slices(1, 33); }});
}

FRESH_TEST(PoolOrders, OnePurges) {
  explore_pool({[] { use_slices(2, 11); }, [] { purge_free(4 * kSliceBytes); }, [] { use_slices(1, 33); }});
}

FRESH_TEST(PoolOrders, TwoPurge) {
  explore_pool({[] { use_slices(2, 11); }, [] { purge_free(4 * kSliceBytes); }, [] { purge_free(kSliceBytes); }});
}

FRESH_TEST(PoolOrders, OneGivesEmptyChunksBack) {
  explore_pool({[] { use_slices(2, 11); }, [] { return_empty_chunks(); }, [] { use_slices(1, 33); }});
}

FRESH_TEST(PoolOrders, EmptyChunksArePurgedAndTakenAsTheyGoBack) {
  explore_pool({[] { return_empty_chunks(); }, [] { purge_free(kChunkBytes); },
                [] {
                  ChunkRun run;
                  ASSERT_TRUE(take_chunks(1, 1, false, &run));
                  u64* word = reinterpret_cast<u64*>(chunk_address(run.arena, run.index));
                  if (run.fresh) {
                    ASSERT_EQ(*word, 0u);
                  }
                  *word = 44;
                  schedule::step(nullptr);
                  ASSERT_EQ(*word, 44u);
                  return_chunks(run.arena, run.index, 1, true);
                }});
}

FRESH_TEST(PoolOrders, OneGrowsInPlace) {
  explore_pool({[] {
                  const SliceRun run = acquire_slices(2, 2, 0);
                  ASSERT_EQ(run.count, 2u);
                  u64 dirty = 0;
                  const u32 count = acquire_slices_at(run.arena, run.slice + 2, 1, &dirty) ? 3 : 2;
                  release_slices(run.arena, run.slice, count, low_mask(count));
                },
                [] { use_slices(1, 22); }, [] { purge_free(2 * kSliceBytes); }});
}

}  // namespace
}  // namespace coffer
