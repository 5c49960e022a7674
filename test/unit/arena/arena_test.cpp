// SPDX-License-Identifier: MIT
// Reservation, numbering, and what the hand-out of chunks promises. Which chunks are handed out: hand_out_test.cpp.
#include "arena/arena.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;

Arena& first_arena() { return g_arenas.arenas[0]; }
u32 arena_count() { return g_arenas.count.load(relaxed); }

void fail_nth(u64 nth, u32 kinds, fake::Duration duration = fake::Duration::once) {
  fake::Faults faults;
  faults.nth = nth;
  faults.kinds = kinds;
  faults.duration = duration;
  fake::set_faults(faults);
}

// --- The first reservation. ---

FRESH_TEST(Reservation, IsAsLargeAsWanted) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  EXPECT_EQ(arena_count(), 1u);
  EXPECT_EQ(first_arena().bytes, 256 * kMiB);
  EXPECT_EQ(first_arena().chunk_count, 128u);
  EXPECT_EQ(first_arena().first_slice_number, 0u);
  EXPECT_EQ(first_arena().base % kChunkBytes, 0u);
  EXPECT_EQ(first_arena().frontier.load(relaxed), 0u);
  EXPECT_GT(first_arena().reserved, first_arena().bytes);
  EXPECT_EQ(fake::reserved_bytes(), first_arena().reserved);
  EXPECT_EQ(counters().reserved.load(relaxed), first_arena().reserved);
}

FRESH_TEST(Reservation, IsCutToWholeChunks) {
  ASSERT_TRUE(arenas_start(9 * kMiB + 5));
  EXPECT_EQ(first_arena().bytes, 8 * kMiB);
}

// The kernel has room for the arena, but not for arena and metadata.
FRESH_TEST(Reservation, HalvesUntilItsMetadataFitsToo) {
  fake::set_address_space(64 * kMiB);
  ASSERT_TRUE(arenas_start(usize{16} << 40));
  EXPECT_EQ(first_arena().bytes, 32 * kMiB);
  EXPECT_LE(fake::reserved_bytes(), 64 * kMiB);
}

FRESH_TEST(Reservation, HalvesWhenTheKernelRefuses) {
  fail_nth(1, fake::kReserve);
  ASSERT_TRUE(arenas_start(256 * kMiB));
  EXPECT_EQ(fake::failed_calls(), 1u);
  EXPECT_EQ(first_arena().bytes, 128 * kMiB);
  EXPECT_EQ(fake::reserved_bytes(), first_arena().reserved);
}

FRESH_TEST(Reservation, GivesUpBelowTheSmallest) {
  fail_nth(1, fake::kReserve, fake::Duration::from_then_on);
  EXPECT_FALSE(arenas_start(256 * kMiB));
  // 256, 128 ... 4 MiB
  EXPECT_EQ(fake::failed_calls(), 7u);
  EXPECT_EQ(arena_count(), 0u);
  EXPECT_EQ(fake::reserved_bytes(), 0u);
  EXPECT_EQ(arena_of(0x1000), nullptr);
}

FRESH_TEST(Reservation, MayBeTriedAgain) {
  fake::set_address_space(4 * kMiB);
  EXPECT_FALSE(arenas_start(256 * kMiB));
  fake::set_address_space(0);
  EXPECT_TRUE(arenas_start(256 * kMiB));
  EXPECT_EQ(first_arena().bytes, 256 * kMiB);
}

FRESH_TEST(Reservation, IsGivenBackWhenItsSummaryHasNoMemory) {
  fail_nth(1, fake::kCommit);
  EXPECT_FALSE(arenas_start(256 * kMiB));
  EXPECT_EQ(arena_count(), 0u);
  EXPECT_EQ(fake::reserved_bytes(), 0u);
  EXPECT_EQ(counters().reserved.load(relaxed), 0u);
  EXPECT_TRUE(arenas_start(256 * kMiB));
}

FRESH_TEST(Reservation, IsInaccessibleUntilTaken) {
  ASSERT_TRUE(arenas_start(64 * kMiB));
  EXPECT_TRUE(test::has_access(reinterpret_cast<void*>(first_arena().base), 64 * kMiB, "---p"));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_TRUE(test::has_access(reinterpret_cast<void*>(first_arena().base), kChunkBytes, "rw-p"));
  EXPECT_TRUE(test::has_access(reinterpret_cast<void*>(first_arena().base + kChunkBytes), kChunkBytes, "---p"));
}

// --- Further arenas. ---

FRESH_TEST(FurtherArena, IsMadeOnlyWhenTheCallerAllows) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(4, 1, false, &run));
  EXPECT_FALSE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(arena_count(), 1u);
  ASSERT_TRUE(take_chunks(1, 1, true, &run));
  EXPECT_EQ(arena_count(), 2u);
  EXPECT_EQ(run.arena, &g_arenas.arenas[1]);
  EXPECT_EQ(run.arena->bytes, first_arena().bytes) << "as large as the first";
  EXPECT_EQ(run.arena->first_slice_number, 4 * kSlicesPerChunk);
}

FRESH_TEST(FurtherArena, IsLargeEnoughForWhatIsWanted) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(100, 8, true, &run));
  EXPECT_EQ(run.arena, &g_arenas.arenas[1]);
  EXPECT_GE(run.arena->chunk_count, 108u);
  EXPECT_EQ(chunk_address(run.arena, run.index) % (8 * kChunkBytes), 0u);
}

FRESH_TEST(FurtherArena, TakesHalfOfWhatIsLeftRatherThanNothing) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(128, 1, false, &run));
  fake::set_address_space(fake::reserved_bytes() + 48 * kMiB);
  ASSERT_TRUE(take_chunks(1, 1, true, &run));
  EXPECT_GE(run.arena->bytes, 24 * kMiB - kChunkBytes);
  EXPECT_LE(run.arena->bytes, 48 * kMiB);
}

FRESH_TEST(FurtherArena, IsRefusedWhenItWouldBeTooSmall) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  fake::set_address_space(fake::reserved_bytes() + 48 * kMiB);
  ChunkRun run;
  EXPECT_FALSE(take_chunks(64, 1, true, &run));
  EXPECT_EQ(arena_count(), 1u);
  EXPECT_TRUE(take_chunks(5, 1, true, &run));
  EXPECT_EQ(arena_count(), 2u);
}

FRESH_TEST(FurtherArena, ImpossibleSizesFailAtOnce) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  ChunkRun run;
  EXPECT_FALSE(take_chunks(1u << 31, 1, true, &run));
  EXPECT_FALSE(take_chunks(1, 1u << 31, true, &run));
  EXPECT_FALSE(take_chunks(~u32{0}, 1u << 31, true, &run));
  EXPECT_EQ(arena_count(), 1u);
  ASSERT_TRUE(take_chunks(4, 1, false, &run)) << "nothing of the first arena is lost";
}

FRESH_TEST(FurtherArena, TheTableHasAnEnd) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  ChunkRun run;
  for (u32 i = 0; i < kMaxArenas * 4; ++i) ASSERT_TRUE(take_chunk(0, 1, &run)) << i;
  EXPECT_EQ(arena_count(), kMaxArenas);
  EXPECT_FALSE(take_chunk(0, 1, &run));
  EXPECT_FALSE(take_chunks(1, 1, true, &run));
  return_chunks(&g_arenas.arenas[40], 2, 1, false);
  ASSERT_TRUE(take_chunk(0, 1, &run));
  EXPECT_EQ(run.arena, &g_arenas.arenas[40]);
  EXPECT_EQ(run.index, 2u);
}

// --- Addresses and numbers. ---

FRESH_TEST(Numbering, GoesThroughAllArenasAndBack) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(4, 1, false, &run));
  ASSERT_TRUE(take_chunks(70, 1, true, &run));
  ASSERT_TRUE(take_chunks(90, 1, true, &run));
  ASSERT_EQ(arena_count(), 3u);
  SpanNumber expected = 1;
  for (u32 a = 0; a < 3; ++a) {
    Arena* arena = &g_arenas.arenas[a];
    EXPECT_EQ(arena->first_slice_number + 1, expected);
    for (u32 slice = 0; slice < arena->chunk_count * kSlicesPerChunk; ++slice, ++expected) {
      Span* span = arena->spans + slice;
      ASSERT_EQ(span_number(span), expected);
      ASSERT_EQ(span_at(expected), span);
      ASSERT_EQ(arena_of_span(span), arena);
    }
  }
}

FRESH_TEST(Numbering, OfNothingIsAnError) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  EXPECT_EXIT(span_at(4 * kSlicesPerChunk + 1), testing::KilledBySignal(SIGABRT), "coffer: assertion failed");
  EXPECT_EXIT(span_at(0), testing::KilledBySignal(SIGABRT), "coffer: assertion failed");
  alignas(Span) char stranger[sizeof(Span)] = {};
  EXPECT_EXIT(span_number(reinterpret_cast<Span*>(stranger)), testing::KilledBySignal(SIGABRT),
              "coffer: assertion failed");
}

FRESH_TEST(Addresses, BelongToTheArenaUpToItsFrontier) {
  ASSERT_TRUE(arenas_start(8 * kMiB));
  EXPECT_EQ(arena_of(first_arena().base), nullptr) << "its record cannot be read yet";
  ChunkRun run;
  ASSERT_TRUE(take_chunks(4, 1, false, &run));
  ASSERT_TRUE(take_chunks(100, 1, true, &run));
  ASSERT_EQ(arena_count(), 2u);
  for (u32 a = 0; a < 2; ++a) {
    Arena* arena = &g_arenas.arenas[a];
    const uptr end = arena->base + arena->frontier.load(relaxed);
    for (const uptr address : {arena->base, arena->base + 1, end - 1}) {
      EXPECT_EQ(arena_of(address), arena);
      EXPECT_EQ(arena_of_slow(address), arena);
    }
    EXPECT_NE(arena_of(arena->base - 1), arena);
    EXPECT_NE(arena_of(end), arena);
    for (const u32 slice : {0u, 1u, 63u, 64u, 255u}) {
      const uptr start = arena->base + uptr{slice} * kSliceBytes;
      EXPECT_EQ(slice_record(arena, start), arena->spans + slice);
      EXPECT_EQ(slice_record(arena, start + kSliceBytes - 1), arena->spans + slice);
      EXPECT_EQ(slice_address(arena, arena->spans + slice), start);
    }
    EXPECT_EQ(chunk_address(arena, 3), arena->base + 3 * kChunkBytes);
  }
  int local = 0;
  for (const uptr stranger : {uptr{0}, uptr{1}, ~uptr{0}, reinterpret_cast<uptr>(&local)}) {
    EXPECT_EQ(arena_of(stranger), nullptr);
  }
}

FRESH_TEST(Frontier, MovesByGroupsAndNeverBack) {
  ASSERT_TRUE(arenas_start(usize{200} * kChunkBytes));
  Arena& arena = first_arena();
  ChunkRun run;
  ASSERT_TRUE(take_chunks(1, 1, false, &run));
  EXPECT_EQ(arena.frontier.load(relaxed), kChunksPerGroup * kChunkBytes);
  const usize metadata = counters().metadata.load(relaxed);
  ASSERT_TRUE(take_chunks(63, 1, false, &run));
  EXPECT_EQ(arena.frontier.load(relaxed), kChunksPerGroup * kChunkBytes);
  EXPECT_EQ(counters().metadata.load(relaxed), metadata);
  ASSERT_TRUE(take_chunks(65, 1, false, &run));
  EXPECT_EQ(arena.frontier.load(relaxed), 3 * kChunksPerGroup * kChunkBytes);
  EXPECT_GT(counters().metadata.load(relaxed), metadata);
  ChunkRun more;
  ASSERT_TRUE(take_chunks_at(&arena, 199, 1, &more));
  EXPECT_EQ(arena.frontier.load(relaxed), 200 * kChunkBytes) << "at most the arena";
  // Every record behind it can be written.
  std::memset(static_cast<void*>(arena.spans), 0, usize{200} * kSlicesPerChunk * sizeof(Span));
  return_chunks(&arena, 199, 1, false);
  EXPECT_EQ(arena.frontier.load(relaxed), 200 * kChunkBytes);
  EXPECT_EQ(arena.highest_chunk.load(relaxed), 200u);
}

// --- No memory. ---

// Whatever call fails: nothing is taken, and the next attempt gets the same chunks.
FRESH_TEST(NoMemory, LeavesTheArenaAsItWas) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  Arena& arena = first_arena();
  ChunkRun run;
  for (u32 taken = 0; taken < 100; taken += 50) {
    u64 nth = 1;
    for (;; ++nth) {
      ASSERT_LT(nth, 20u);
      fail_nth(nth, fake::kCommit);
      const bool got = take_chunks(50, 1, true, &run);
      fake::stop_faults();
      if (got) break;
      EXPECT_EQ(fake::failed_calls(), 1u);
      EXPECT_EQ(arena_count(), 1u) << "another arena would not help";
      EXPECT_EQ(counters().committed.load(relaxed), taken * kChunkBytes);
      EXPECT_EQ(counters().dirty.load(relaxed), 0u);
      u64 all_taken = 0;
      for (u32 group = 0; group < arena.frontier.load(relaxed) / kChunkBytes / kChunksPerGroup; ++group) {
        all_taken += count_bits(arena.groups[group].taken.get());
      }
      EXPECT_EQ(all_taken, taken);
    }
    EXPECT_EQ(nth, 5u) << "spans, chunks, groups, and the chunks themselves; then it succeeds";
    EXPECT_EQ(run.index, taken);
    EXPECT_TRUE(run.fresh);
    std::memset(reinterpret_cast<void*>(chunk_address(&arena, run.index)), 1, kChunkBytes);
  }
}

FRESH_TEST(NoMemory, InGrowthInPlaceTakesNothing) {
  ASSERT_TRUE(arenas_start(256 * kMiB));
  ChunkRun run;
  ASSERT_TRUE(take_chunks(2, 1, false, &run));
  ChunkRun more;
  fail_nth(1, fake::kCommit);
  EXPECT_FALSE(take_chunks_at(run.arena, 2, 3, &more));
  fake::stop_faults();
  EXPECT_EQ(run.arena->groups[0].taken.get(), 3u);
  EXPECT_TRUE(take_chunks_at(run.arena, 2, 3, &more));
}

}  // namespace
}  // namespace coffer
