// SPDX-License-Identifier: MIT
#include "pool/room_map.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "fresh.hpp"
#include "pool/hints.hpp"
#include "support/random.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using test::forgotten_room;
using test::has_aligned_run;
using test::room_bit;
using test::summary_bit;

Arena* arena_of_chunks(u32 chunks) {
  EXPECT_TRUE(arenas_start(usize{chunks} * kChunkBytes));
  ChunkRun run;
  EXPECT_TRUE(take_chunks(1, 1, false, &run));
  ChunkRun more;
  EXPECT_TRUE(take_chunks_at(run.arena, chunks - 1, 1, &more));
  return run.arena;
}

void set_free(Arena* arena, u32 chunk, u64 free) { arena->chunks[chunk].free.store(free, relaxed); }

// A word with runs of all lengths, not only scattered bits.
u64 random_word(test::Random& random) {
  u64 word = random.next();
  for (u64 i = random.below(4); i > 0; --i) word &= random.next();
  for (u64 i = random.below(4); i > 0; --i) word |= low_mask(1u << random.below(6)) << random.below(64);
  return word;
}

TEST(Order, ServesAtLeastTheRun) {
  for (u32 slices = 1; slices <= 32; ++slices) {
    EXPECT_GE(1u << order_of(slices), slices);
    if (slices > 1) {
      EXPECT_LT(1u << (order_of(slices) - 1), slices);
    }
    EXPECT_LT(order_of(slices), kOrders);
  }
}

TEST(Order, InsideIsTheLargestThatEveryRunHolds) {
  for (u32 slices = 1; slices <= 32; ++slices) {
    u32 least = kOrders;  // of the largest orders that the run holds, over all places
    for (u32 start = 0; start + slices <= kSlicesPerChunk; ++start) {
      u32 order = 0;
      const u64 run = low_mask(slices) << start;
      while (order + 1 < kOrders && (run_starts(run, 2u << order) & aligned_positions(2u << order)) != 0) ++order;
      if (order < least) least = order;
    }
    EXPECT_EQ(order_inside(slices), least) << slices;
  }
}

FRESH_TEST(RoomMap, NotesExactlyTheOrdersThatHaveAnAlignedRun) {
  Arena* arena = arena_of_chunks(64);
  test::Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const u64 free = i == 0 ? 0 : i == 1 ? ~u64{0} : random_word(random);
    for (u32 order = 0; order < kOrders; ++order) {
      arena->groups[0].room[order].store(0, relaxed);
      arena->summary[order].store(0, relaxed);
    }
    set_free(arena, 5, free);
    note_room(arena, 5, free);
    for (u32 order = 0; order < kOrders; ++order) {
      const bool has_run = has_aligned_run(free, order);
      ASSERT_EQ(arena->groups[0].room[order].load(relaxed), has_run ? u64{1} << 5 : 0) << std::hex << free;
      ASSERT_EQ(arena->summary[order].load(relaxed), has_run ? 1u : 0u) << std::hex << free;
    }
  }
}

FRESH_TEST(RoomMap, KeepsTheBitsOfOtherChunks) {
  Arena* arena = arena_of_chunks(64);
  note_room(arena, 3, ~u64{0});
  note_room(arena, 60, 1);
  EXPECT_EQ(arena->groups[0].room[0].load(relaxed), (u64{1} << 3) | (u64{1} << 60));
  EXPECT_EQ(arena->groups[0].room[5].load(relaxed), u64{1} << 3);
  note_no_room(arena, 3, 0);
  EXPECT_EQ(arena->groups[0].room[0].load(relaxed), u64{1} << 60);
  EXPECT_TRUE(summary_bit(*arena, 0, 0));
  EXPECT_EQ(arena->groups[0].room[5].load(relaxed), u64{1} << 3) << "one order at a time";
  note_no_room(arena, 60, 0);
  EXPECT_FALSE(summary_bit(*arena, 0, 0)) << "the group's last chunk takes the summary with it";
  EXPECT_TRUE(summary_bit(*arena, 0, 5));
}

// A search that found nothing clears the bit; if slices came back meanwhile, the bit must be there afterwards.
FRESH_TEST(RoomMap, ClearsNothingThatIsThere) {
  Arena* arena = arena_of_chunks(64);
  test::Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    const u64 free = random_word(random);
    const u32 order = static_cast<u32>(random.below(kOrders));
    set_free(arena, 7, free);
    note_room(arena, 7, ~u64{0});
    note_no_room(arena, 7, order);
    ASSERT_EQ(room_bit(*arena, 7, order), has_aligned_run(free, order)) << std::hex << free << " order " << order;
    ASSERT_EQ(summary_bit(*arena, 0, order), has_aligned_run(free, order)) << std::hex << free << " order " << order;
  }
}

// Over more than one word of the summary.
FRESH_TEST(RoomMap, FindsTheLowestChunkWithRoom) {
  constexpr u32 kChunks = 64 * 64 + 200;
  Arena* arena = arena_of_chunks(kChunks);
  test::Random random(3);
  for (int round = 0; round < 300; ++round) {
    const u32 order = static_cast<u32>(random.below(kOrders));
    std::vector<bool> room(kChunks);
    for (u64 i = random.below(6); i > 0; --i) {
      const u32 chunk = static_cast<u32>(random.below(2) == 0 ? random.below(kChunks) : 64 * random.below(66));
      room[chunk] = true;
      set_free(arena, chunk, low_mask(1u << order));
      note_room(arena, chunk, low_mask(1u << order));
    }
    for (int i = 0; i < 10; ++i) {
      const u64 residues = random.below(2) == 0 ? ~u64{0} : random.next();
      const u32 from = static_cast<u32>(random.below(2) == 0 ? 0 : random.below(kChunks + 1));
      u32 expected = from;
      while (expected < kChunks && !(room[expected] && ((residues >> (expected % 64)) & 1))) ++expected;
      ASSERT_EQ(next_with_room(arena, order, residues, from), expected) << "from " << from;
    }
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      if (!room[chunk]) continue;
      set_free(arena, chunk, 0);
      for (u32 lower = 0; lower <= order; ++lower) note_no_room(arena, chunk, lower);
    }
  }
}

FRESH_TEST(RoomMap, EndsAtTheHighestChunkEverTaken) {
  ASSERT_TRUE(arenas_start(usize{128} * kChunkBytes));
  Arena* arena = &g_arenas.arenas[0];
  EXPECT_EQ(next_with_room(arena, 0, ~u64{0}, 0), 128u) << "before anything is taken";
  ChunkRun run;
  ASSERT_TRUE(take_chunks(3, 1, false, &run));
  EXPECT_EQ(next_with_room(arena, 0, ~u64{0}, 0), 128u);
  set_free(arena, 2, 1);
  note_room(arena, 2, 1);
  EXPECT_EQ(next_with_room(arena, 0, ~u64{0}, 0), 2u);
  EXPECT_EQ(next_with_room(arena, 0, ~u64{0}, 3), 128u);
}

// Threads free slices and search for them as the pool does. In the end nothing that is free may be forgotten.
// (interleavings_test.cpp tries every order of the single steps.)
FRESH_TEST(RoomMap, ForgetsNothingAmongThreads) {
  constexpr u32 kThreads = 4, kRounds = 50'000, kChunks = 3;
  Arena* arena = arena_of_chunks(64);
  for (u32 chunk = 0; chunk < kChunks; ++chunk) {
    set_free(arena, chunk, ~u64{0});
    note_room(arena, chunk, ~u64{0});
  }
  const auto work = [&](u64 seed) {
    test::Random random(seed);
    for (u32 round = 0; round < kRounds; ++round) {
      const u32 order = static_cast<u32>(random.below(3)) + 3;
      const u64 mask = low_mask(1u << order);
      for (u32 chunk = next_with_room(arena, order, ~u64{0}, 0); chunk < kChunks;
           chunk = next_with_room(arena, order, ~u64{0}, chunk + 1)) {
        Atomic<u64>& word = arena->chunks[chunk].free;
        u64 free = word.load(relaxed);
        const u64 starts = run_starts(free, 1u << order) & aligned_positions(1u << order);
        if (starts == 0) {
          note_no_room(arena, chunk, order);
          continue;
        }
        const u64 claim = mask << lowest_bit(starts);
        if (!word.compare_exchange(free, free & ~claim, acquire, relaxed)) break;
        note_room(arena, chunk, word.fetch_or(claim, seq_cst) | claim);
        break;
      }
    }
  };
  test::run_together(kThreads, work);
  EXPECT_EQ(forgotten_room(*arena), 0u);
}

}  // namespace
}  // namespace coffer
