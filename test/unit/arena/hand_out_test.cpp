// SPDX-License-Identifier: MIT
// Which chunks are handed out, against a model that knows nothing of words and bits; and what they hold.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "arena/arena.hpp"
#include "fresh.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "support/random.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;

Arena& first_arena() { return g_arenas.arenas[0]; }

// What the arena should do, chunk by chunk.
class Model {
 public:
  explicit Model(const Arena& arena) : arena_(arena), chunks_(arena.chunk_count) {}

  u32 first_fit(u32 count, u32 alignment) const {
    for (u32 i = 0; u64{i} + count <= chunks_.size(); ++i) {
      if ((arena_.base / kChunkBytes + i) % alignment == 0 && all_free(i, count)) return i;
    }
    return none();
  }
  // A run goes where most is resident.
  u32 run(u32 count, u32 alignment) const {
    u32 best = first_fit(count, alignment);
    if (alignment != 1) return best;
    u32 most = 0;
    for (u32 i = 0; u64{i} + count <= chunks_.size(); ++i) {
      if (!all_free(i, count) || dirty_chunks(i, count) * kSlicesPerChunk <= most * kSlicesPerChunk + count) continue;
      most = dirty_chunks(i, count);
      best = i;
    }
    return best;
  }
  u32 one(u32 residue, u32 modulus) const {
    u32 any = none();
    for (u32 i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].taken) continue;
      if (i % modulus == residue) return i;
      if (any == none()) any = i;
    }
    return any;
  }
  bool all_free(u32 index, u32 count) const {
    if (u64{index} + count > chunks_.size()) return false;
    for (u32 i = index; i < index + count; ++i) {
      if (chunks_[i].taken) return false;
    }
    return true;
  }
  // Returns whether all of the range is zero.
  bool take(u32 index, u32 count) {
    bool fresh = true;
    for (u32 i = index; i < index + count; ++i) {
      fresh = fresh && !chunks_[i].dirty;
      chunks_[i] = {true, false};
    }
    return fresh;
  }
  void give_back(u32 index, u32 count, bool resident) {
    for (u32 i = index; i < index + count; ++i) chunks_[i] = {false, resident};
  }
  u32 none() const { return static_cast<u32>(chunks_.size()); }
  usize dirty_bytes() const {
    usize bytes = 0;
    for (const State& chunk : chunks_) bytes += chunk.dirty ? kChunkBytes : 0;
    return bytes;
  }

 private:
  struct State {
    bool taken = false;
    bool dirty = false;
  };
  u32 dirty_chunks(u32 index, u32 count) const {
    u32 dirty = 0;
    for (u32 i = index; i < index + count; ++i) dirty += chunks_[i].dirty ? 1 : 0;
    return dirty;
  }

  const Arena& arena_;
  std::vector<State> chunks_;
};

struct Held {
  u32 index, count;
};

class HandOut {
 public:
  explicit HandOut(u64 seed) : model_(first_arena()), random_(seed) {}

  void step() {
    switch (random_.below(8)) {
      case 0:
      case 1:
        return take_one();
      case 2:
      case 3:
        return take_run();
      case 4:
        return grow();
      default:
        return give_back();
    }
  }
  void check() {
    ASSERT_EQ(counters().dirty.load(relaxed), model_.dirty_bytes());
    for (u32 i = 0; i < first_arena().frontier.load(relaxed) / kChunkBytes; ++i) {
      const bool taken = (first_arena().groups[i / kChunksPerGroup].taken.get() >> (i % kChunksPerGroup)) & 1;
      ASSERT_EQ(taken, !model_.all_free(i, 1)) << i;
    }
  }

 private:
  void take_one() {
    const u32 modulus = 1u << random_.below(7);
    const u32 residue = static_cast<u32>(random_.below(modulus));
    const u32 expected = model_.one(residue, modulus);
    if (expected == model_.none()) return;  // take_chunk would make a further arena
    ChunkRun run;
    ASSERT_TRUE(take_chunk(residue, modulus, &run));
    note(run, expected, 1);
  }
  void take_run() {
    const u32 count = 1 + static_cast<u32>(random_.below(random_.below(4) == 0 ? 150 : 6));
    const u32 alignment = 1u << random_.below(random_.below(4) == 0 ? 9 : 2);
    const u32 expected = model_.run(count, alignment);
    ChunkRun run;
    ASSERT_EQ(take_chunks(count, alignment, false, &run), expected != model_.none());
    if (expected != model_.none()) note(run, expected, count);
  }
  void grow() {
    if (held_.empty()) return;
    Held& held = held_[random_.below(held_.size())];
    const u32 more = 1 + static_cast<u32>(random_.below(4));
    const u32 at = held.index + held.count;
    ChunkRun run;
    const bool possible = model_.all_free(at, more);
    ASSERT_EQ(take_chunks_at(&first_arena(), at, more, &run), possible);
    if (!possible) return;
    ASSERT_EQ(run.fresh, model_.take(at, more));
    held.count += more;
  }
  void give_back() {
    if (held_.empty()) return;
    const usize which = random_.below(held_.size());
    const Held held = held_[which];
    const bool resident = random_.below(2) == 0;
    return_chunks(&first_arena(), held.index, held.count, resident);
    model_.give_back(held.index, held.count, resident);
    held_[which] = held_.back();
    held_.pop_back();
  }
  void note(const ChunkRun& run, u32 expected, u32 count) {
    ASSERT_EQ(run.arena, &first_arena());
    ASSERT_EQ(run.index, expected);
    ASSERT_EQ(run.count, count);
    ASSERT_EQ(run.fresh, model_.take(expected, count));
    held_.push_back({expected, count});
  }

  Model model_;
  test::Random random_;
  std::vector<Held> held_;
};

void run_model(u32 chunks, u64 seed, u32 steps) {
  ASSERT_TRUE(arenas_start(usize{chunks} * kChunkBytes));
  HandOut hand_out(seed);
  for (u32 i = 0; i < steps; ++i) {
    hand_out.step();
    if (i % 16 == 0) hand_out.check();
    ASSERT_FALSE(testing::Test::HasFailure()) << "at step " << i;
  }
}

FRESH_TEST(HandOut, FollowsTheModelInASmallArena) { run_model(7, 1, 3000); }
FRESH_TEST(HandOut, FollowsTheModelInOneGroup) { run_model(64, 2, 3000); }
FRESH_TEST(HandOut, FollowsTheModelOverManyGroups) { run_model(500, 3, 3000); }

FRESH_TEST(HandOut, PrefersTheResidueOfTheShard) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  for (const u32 expected : {2u, 6u, 10u}) {
    ASSERT_TRUE(take_chunk(2, 4, &run));
    EXPECT_EQ(run.index, expected);
  }
  ASSERT_TRUE(take_chunk(0, 1, &run));
  EXPECT_EQ(run.index, 0u);
}

FRESH_TEST(HandOut, ReturnedChunksAreFreshOnlyIfTheyWerePurged) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(4, 1, false, &run));
  EXPECT_TRUE(run.fresh);
  const usize committed = counters().committed.load(relaxed);
  return_chunks(run.arena, 0, 2, false);
  return_chunks(run.arena, 2, 2, true);
  EXPECT_EQ(counters().dirty.load(relaxed), 2 * kChunkBytes);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 2u);
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 0u);
  EXPECT_TRUE(run.fresh);
  // One dirty chunk among clean ones.
  return_chunks(run.arena, 0, 3, false);
  return_chunks(run.arena, 3, 1, true);
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  EXPECT_EQ(run.index, 1u);
  EXPECT_FALSE(run.fresh);
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  EXPECT_EQ(counters().committed.load(relaxed), committed) << "they stayed committed";
}

FRESH_TEST(HandOut, ARunGoesWhereMostOfItIsResident) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(12, 1, false, &run));
  Arena* arena = run.arena;
  return_chunks(arena, 0, 4, false);
  return_chunks_partly(arena, 5, 3, kChunkBytes);
  return_chunks_partly(arena, 9, 3, 2 * kChunkBytes + kSliceBytes);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 9u);
  EXPECT_EQ(run.dirty, 2 * kChunkBytes);
  // What is left: one slice of chunk 11, behind which nothing was ever used, and all of chunk 5.
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 5u);
  EXPECT_EQ(run.dirty, kChunkBytes);
  EXPECT_EQ(counters().dirty.load(relaxed), kSliceBytes);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 0u) << "a slice is not worth a look";
  EXPECT_TRUE(run.fresh);
}

FRESH_TEST(HandOut, ARunDoesNotCreepForASliceAChunk) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(8, 1, false, &run));
  return_chunks_partly(run.arena, 0, 2, kChunkBytes);
  return_chunks_partly(run.arena, 2, 3, kChunkBytes + 2 * kSliceBytes);
  return_chunks_partly(run.arena, 6, 2, kChunkBytes + 5 * kSliceBytes);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 6u) << "at 0 there are 64 slices, at 1 as many, at 2 two more, at 6 five";
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 0u);
}

FRESH_TEST(HandOut, ARunMayEndBehindWhatWasEverUsed) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(64, 1, false, &run));
  return_chunks(run.arena, 10, 4, false);
  return_chunks(run.arena, 63, 1, true);
  ASSERT_TRUE(take_chunks(4, 1, false, &run));
  EXPECT_EQ(run.index, 63u);
  EXPECT_EQ(run.dirty, kChunkBytes);
}

// Looks are bounded: what is resident behind them is not found.
FRESH_TEST(HandOut, ARunIsNotLookedForInAVastArena) {
  ASSERT_TRUE(arenas_start(usize{4000} * kChunkBytes));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(2000, 1, false, &run));
  return_chunks(run.arena, 1900, 2, true);
  return_chunks(run.arena, 3, 2, false);
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  EXPECT_EQ(run.index, 3u);
}

// --- Committing in windows. ---

u64 commits() { return fake::calls_of(fake::kCommit); }

FRESH_TEST(Windows, GrowWithWhatIsCommitted) {
  ASSERT_TRUE(arenas_start(usize{1} << 30));
  Arena& arena = first_arena();
  ChunkRun run;
  // Aligned windows of half of what is committed: of one chunk four times, of two twice, of four twice, of eight.
  const u32 ends[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
  u32 chunk = 0;
  for (const u32 end : ends) {
    const u64 before = commits() + (chunk == 0 ? 3 : 0);  // three are for the group's metadata
    for (; chunk < end; ++chunk) {
      ASSERT_TRUE(take_chunk(0, 1, &run));
      EXPECT_EQ(run.index, chunk);
      EXPECT_EQ(counters().committed.load(relaxed), end * kChunkBytes);
    }
    EXPECT_EQ(commits(), before + 1);
  }
  // A run longer than the window is committed as it is.
  ASSERT_TRUE(take_chunks(40, 1, false, &run));
  EXPECT_EQ(run.index, 24u);
  EXPECT_EQ(arena.groups[0].committed.get(), ~u64{0});
  // 64 / 2: the window is aligned, whichever chunk in it is wanted.
  ASSERT_TRUE(take_chunk(5, 8, &run));
  EXPECT_EQ(run.index, 69u);
  EXPECT_EQ(arena.groups[1].committed.get(), low_mask(32));
  EXPECT_EQ(counters().chunks.load(relaxed), 96u);
  EXPECT_EQ(counters().committed.load(relaxed), 96 * kChunkBytes);
  // A shorter run takes the windows that it lies in along.
  const u64 then = commits();
  ASSERT_TRUE(take_chunks(30, 1, false, &run));
  EXPECT_EQ(run.index, 70u);
  EXPECT_EQ(commits(), then + 1);
  EXPECT_EQ(arena.groups[1].committed.get(), ~u64{0});
  EXPECT_EQ(counters().committed.load(relaxed), 128 * kChunkBytes);
}

FRESH_TEST(Windows, EndWithTheArena) {
  ASSERT_TRUE(arenas_start(usize{67} * kChunkBytes));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(64, 1, false, &run));
  ASSERT_TRUE(take_chunk(0, 1, &run));
  EXPECT_EQ(counters().committed.load(relaxed), 67 * kChunkBytes);
  EXPECT_EQ(first_arena().groups[1].committed.get(), 7u);
}

FRESH_TEST(Windows, AreGivenUpForTheOneChunkThatIsNeeded) {
  ASSERT_TRUE(arenas_start(usize{1} << 30));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(62, 1, false, &run));
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit;
  fake::set_faults(faults);
  ASSERT_TRUE(take_chunk(0, 1, &run));
  EXPECT_EQ(fake::failed_calls(), 1u);
  EXPECT_EQ(counters().committed.load(relaxed), 63 * kChunkBytes);
}

// Found by trials: the lowest free chunk was never writable and the kernel refuses it now, another one is.
FRESH_TEST(HandOut, AChunkThatIsWritableServesWhereTheKernelRefusesTheLowest) {
  ASSERT_TRUE(arenas_start(usize{64} * kChunkBytes));
  ChunkRun run, high;
  ASSERT_TRUE(take_chunk(0, 1, &run));
  ASSERT_TRUE(take_chunks_at(&first_arena(), 9, 1, &high));
  return_chunks(high.arena, high.index, 1, false);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  for (const u32 residue : {0u, 3u}) {
    ASSERT_TRUE(take_chunk(residue, 4, &run));
    EXPECT_EQ(run.index, 9u);
    EXPECT_FALSE(take_chunk(residue, 4, &high)) << "there is no other";
    EXPECT_TRUE(high.refused);
    return_chunks(run.arena, run.index, 1, false);
  }
}

FRESH_TEST(HandOut, ARunThatIsWritableServesWhereTheKernelRefusesTheLowest) {
  ASSERT_TRUE(arenas_start(usize{200} * kChunkBytes));
  ChunkRun run, other;
  // Over the border of a group; between them what was never writable.
  for (const u32 index : {5u, 62u, 130u}) {
    ASSERT_TRUE(take_chunks_at(&first_arena(), index, index == 62 ? 5 : 1, &run));
    return_chunks(run.arena, run.index, run.count, false);
  }
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kCommit;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  EXPECT_FALSE(take_chunks(6, 1, false, &run));
  EXPECT_TRUE(run.refused);
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  EXPECT_EQ(run.index, 62u);
  EXPECT_FALSE(take_chunks(3, 1, false, &other));
  ASSERT_TRUE(take_chunks(2, 1, false, &other));
  EXPECT_EQ(other.index, 65u);
  ASSERT_TRUE(take_chunks(1, 2, false, &run));
  EXPECT_EQ((first_arena().base / kChunkBytes + run.index) % 2, 0u);
}

// --- Threads. ---

FRESH_TEST(HandOut, NoChunkIsGivenTwiceToThreads) {
  constexpr u32 kChunks = 40, kThreads = 4, kRounds = 5000;
  ASSERT_TRUE(arenas_start(usize{kChunks} * kChunkBytes));
  fake::set_jitter(true);
  std::vector<Atomic<u32>> owners(kChunks);
  const auto work = [&](u32 self) {
    test::Random random(self);
    for (u32 round = 0; round < kRounds; ++round) {
      const u32 count = 1 + static_cast<u32>(random.below(9));
      ChunkRun run;
      if (!take_chunks(count, 1u << random.below(3), false, &run)) continue;
      ChunkRun more;
      if (random.below(2) == 0 && take_chunks_at(run.arena, run.index + count, 2, &more)) run.count += 2;
      for (u32 i = run.index; i < run.index + run.count; ++i) EXPECT_EQ(owners[i].exchange(self, relaxed), 0u);
      for (u32 i = run.index; i < run.index + run.count; ++i) EXPECT_EQ(owners[i].exchange(0, relaxed), self);
      return_chunks(run.arena, run.index, run.count, random.below(2) == 0);
    }
  };
  test::run_together(kThreads, work);
  EXPECT_EQ(first_arena().groups[0].taken.get(), 0u);
  EXPECT_EQ(first_arena().lowest_free_group, 0u);
  ChunkRun run;
  ASSERT_TRUE(take_chunks(kChunks, 1, false, &run));
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
}

// One arena more is made, however many threads find that there is no room.
FRESH_TEST(HandOut, ThreadsThatGrowMakeOneArena) {
  constexpr u32 kThreads = 4;
  ASSERT_TRUE(arenas_start(8 * kMiB));
  fake::set_jitter(true);
  ChunkRun all;
  ASSERT_TRUE(take_chunks(4, 1, false, &all));
  std::vector<ChunkRun> runs(kThreads);
  test::run_together(kThreads, [&](u32 self) { EXPECT_TRUE(take_chunk(0, 1, &runs[self - 1])); });
  EXPECT_EQ(g_arenas.count.load(relaxed), 2u);
  u32 seen = 0;
  for (const ChunkRun& run : runs) {
    EXPECT_EQ(run.arena, &g_arenas.arenas[1]);
    seen |= 1u << run.index;
  }
  EXPECT_EQ(seen, 15u);
}

}  // namespace
}  // namespace coffer
