// SPDX-License-Identifier: MIT
// The slice pool against a model of it, and under threads. (Single claims: slice_pool_test.cpp.)
#include "pool/slice_pool.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "pool/hints.hpp"
#include "support/random.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;

usize held() { return counters().held.load(relaxed); }
usize dirty() { return counters().dirty.load(relaxed); }
Arena& first_arena() { return g_arenas.arenas[0]; }

// Nothing is purged unless the test asks for it.
void start(u32 shards, usize bytes) {
  test::changeable_options().free_limit = u64{1} << 40;
  ASSERT_TRUE(arenas_start(bytes));
  slice_pool_start(shards);
}

char* address_of(const SliceRun& run) {
  return reinterpret_cast<char*>(run.arena->base + uptr{run.slice} * kSliceBytes);
}

class Pool {
 public:
  explicit Pool(u64 seed) : random_(seed) {}

  void acquire() {
    const u32 count = 1 + static_cast<u32>(random_.below(random_.below(4) == 0 ? 32 : 8));
    const u32 alignment = 1u << random_.below(random_.below(3) == 0 ? 6 : 1);
    const SliceRun run = acquire_slices(count, alignment, static_cast<u32>(random_.below(shard_count())));
    ASSERT_EQ(run.count, count);
    ASSERT_EQ(run.slice % alignment, 0u);
    add(run);
  }
  void grow() {
    if (runs_.empty()) return;
    SliceRun& run = runs_[random_.below(runs_.size())];
    const u32 more = 1 + static_cast<u32>(random_.below(3));
    u64 old_data = 0;
    if (run.count + more > 32 || !acquire_slices_at(run.arena, run.slice + run.count, more, &old_data)) return;
    check_content({run.arena, run.slice + run.count, more, old_data});
    run.count += more;
    held_ += more * kSliceBytes;
    touch(run);
  }
  void release() {
    if (runs_.empty()) return;
    SliceRun& run = runs_[random_.below(runs_.size())];
    if (run.count > 1 && random_.below(3) == 0) {  // the tail only
      const u32 keep = 1 + static_cast<u32>(random_.below(run.count - 1));
      release_slices(run.arena, run.slice + keep, run.count - keep, low_mask(run.count - keep));
      held_ -= (run.count - keep) * kSliceBytes;
      run.count = keep;
      return;
    }
    release_slices(run.arena, run.slice, run.count, low_mask(run.count));
    held_ -= run.count * kSliceBytes;
    run = runs_.back();
    runs_.pop_back();
  }
  void step() {
    const u64 what = random_.below(8);
    if (what < 3) return acquire();
    if (what == 3) return grow();
    if (what == 4 && random_.below(20) == 0) return return_empty_chunks();
    if (what == 4 && random_.below(4) == 0) return static_cast<void>(purge_free(random_.below(8) * kSliceBytes));
    release();
  }
  void check() {
    ASSERT_EQ(held(), held_);
    ASSERT_EQ(test::forgotten_room(first_arena()), 0u);
    usize dirty_bytes = 0;
    for (u32 i = 0; i < first_arena().highest_chunk.load(relaxed); ++i) {
      const Chunk& chunk = first_arena().chunks[i];
      const bool taken = (first_arena().groups[0].taken.get() >> i) & 1;
      const u64 free = chunk.free.load(relaxed), resident = chunk.dirty.load(relaxed);
      ASSERT_EQ(free & resident, taken ? resident : 0) << "a slice in use counts as free memory";
      dirty_bytes += count_bits(resident) * kSliceBytes;
    }
    ASSERT_EQ(dirty(), dirty_bytes);
    for (const SliceRun& run : runs_) {
      for (u32 i = 0; i < run.count; ++i) ASSERT_EQ(mark_of(run, i), run.slice + i + 1) << "somebody wrote to a slice";
    }
  }

 private:
  static u64& mark_of(const SliceRun& run, u32 i) {
    return *reinterpret_cast<u64*>(address_of(run) + usize{i + 1} * kSliceBytes - sizeof(u64));
  }
  static void check_content(const SliceRun& run) {
    for (u32 i = 0; i < run.count; ++i) {
      if (((run.dirty >> i) & 1) == 0) {
        ASSERT_EQ(mark_of(run, i), 0u) << "a slice said to be clean holds data";
      }
    }
  }
  static void touch(const SliceRun& run) {
    for (u32 i = 0; i < run.count; ++i) mark_of(run, i) = run.slice + i + 1;
  }
  void add(const SliceRun& run) {
    check_content(run);
    touch(run);
    held_ += run.count * kSliceBytes;
    runs_.push_back(run);
  }

  test::Random random_;
  std::vector<SliceRun> runs_;
  usize held_ = 0;
};

void run_pool_model(u32 shards, u64 seed) {
  start(shards, 128 * kMiB);
  Pool pool(seed);
  for (int i = 0; i < 6000; ++i) {
    pool.step();
    if (i % 32 == 0) pool.check();
    ASSERT_FALSE(testing::Test::HasFailure()) << "at step " << i;
  }
}

FRESH_TEST(SlicePool, FollowsTheModelWithOneShard) { run_pool_model(1, 11); }
FRESH_TEST(SlicePool, FollowsTheModelWithFourShards) { run_pool_model(4, 12); }

// --- Threads. ---

void contend(u32 shards, usize arena_bytes) {
  constexpr u32 kThreads = 3, kRounds = 20'000;
  start(shards, arena_bytes);
  fake::set_jitter(true);
  // It grows by further arenas where the first is too small: no claim may fail.
  const auto work = [&](u64 seed) {
    test::Random random(seed);
    std::vector<SliceRun> runs;
    for (u32 round = 0; round < kRounds; ++round) {
      if (runs.size() < 12 && random.below(5) < 3) {
        const u32 count = 1u << random.below(5);
        const SliceRun run = acquire_slices(count, count, static_cast<u32>(seed) % shard_count());
        ASSERT_EQ(run.count, count);
        for (u32 i = 0; i < count; ++i) {
          u64* word = reinterpret_cast<u64*>(address_of(run) + usize{i} * kSliceBytes);
          if (((run.dirty >> i) & 1) == 0) {
            ASSERT_EQ(*word, 0u);
          }
          *word = seed;
        }
        runs.push_back(run);
      } else if (!runs.empty()) {
        const SliceRun run = runs[random.below(runs.size())];
        for (SliceRun& other : runs) {
          if (other.slice == run.slice && other.arena == run.arena) {
            other = runs.back();
            runs.pop_back();
            break;
          }
        }
        for (u32 i = 0; i < run.count; ++i) {
          ASSERT_EQ(*reinterpret_cast<u64*>(address_of(run) + usize{i} * kSliceBytes), seed) << "two have one slice";
        }
        release_slices(run.arena, run.slice, run.count, low_mask(run.count));
      }
    }
    for (const SliceRun& run : runs) release_slices(run.arena, run.slice, run.count, low_mask(run.count));
  };
  test::run_together(kThreads + 1, [&](u32 self) {
    if (self <= kThreads) return work(self);
    for (u32 round = 0; round < 500; ++round) {
      purge_free(4 * kSliceBytes);
      if (round % 8 == 0) return_empty_chunks();
    }
  });
  EXPECT_EQ(held(), 0u);
  for (u32 i = 0; i < g_arenas.count.load(relaxed); ++i) EXPECT_EQ(test::forgotten_room(g_arenas.arenas[i]), 0u);
}

FRESH_TEST(SlicePool, ThreadsOfOneShardContend) { contend(1, 64 * kMiB); }
FRESH_TEST(SlicePool, ThreadsOfFourShardsContend) { contend(4, 64 * kMiB); }
FRESH_TEST(SlicePool, ThreadsContendOverSeveralArenas) { contend(4, 8 * kMiB); }

}  // namespace
}  // namespace coffer
