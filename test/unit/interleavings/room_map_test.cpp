// SPDX-License-Identifier: MIT
// room_map's argument (src/pool/room_map.hpp), in every order of the single steps: room is never forgotten.
#include "pool/room_map.hpp"

#include <gtest/gtest.h>

#include "arena/arena.hpp"
#include "fresh.hpp"
#include "interleavings/explorer.hpp"
#include "pool/hints.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u32 kGroups = 3;

Arena* start_arena() {
  EXPECT_TRUE(arenas_start(usize{kGroups} * kChunksPerGroup * kChunkBytes));
  ChunkRun run;
  EXPECT_TRUE(take_chunks(kGroups * kChunksPerGroup, 1, false, &run));
  return run.arena;
}

void clear(Arena* arena) {
  for (u32 chunk = 0; chunk < arena->chunk_count; ++chunk) arena->chunks[chunk].free.store(0, relaxed);
  for (u32 group = 0; group < kGroups; ++group) {
    for (u32 order = 0; order < kOrders; ++order) arena->groups[group].room[order].store(0, relaxed);
  }
  for (u32 order = 0; order < kOrders; ++order) arena->summary[order].store(0, relaxed);
}

// As the pool's put_back.
void free_slices(Arena* arena, u32 chunk, u64 mask) {
  note_room(arena, chunk, arena->chunks[chunk].free.fetch_or(mask, seq_cst) | mask);
}
// As its search of a chunk that the map names: takes a single slice, or says that there is none.
void take_slice(Arena* arena, u32 chunk) {
  Atomic<u64>& word = arena->chunks[chunk].free;
  u64 free = word.load(relaxed);
  while (free != 0) {
    if (word.compare_exchange(free, free & (free - 1), acquire, relaxed)) return;
  }
  note_no_room(arena, chunk, 0);
}

struct Step {
  bool frees;
  u32 chunk;
};

void expect_nothing_forgotten(std::vector<u32> free_at_first, std::vector<std::vector<Step>> actors, u32 switches) {
  Arena* arena = start_arena();
  Scenario scenario;
  scenario.before = [&] {
    clear(arena);
    for (const u32 chunk : free_at_first) free_slices(arena, chunk, 1);
  };
  for (const auto& steps : actors) {
    scenario.actors.push_back({nullptr, [&, arena] {
                                 for (const Step& step : steps) {
                                   if (step.frees) {
                                     free_slices(arena, step.chunk, 2);
                                   } else {
                                     take_slice(arena, step.chunk);
                                   }
                                 }
                               }});
  }
  scenario.after = [&] { EXPECT_EQ(forgotten_room(*arena), 0u); };
  const u32 tried = explore(scenario, switches, 60'000);
  EXPECT_GT(tried, 10u);
}

constexpr u32 kNeighbour = 7, kFar = 70;

FRESH_TEST(RoomMapOrders, OneFreesWhileAnotherFindsNoRoom) {
  expect_nothing_forgotten({}, {{{true, 3}}, {{false, 3}}}, kUnlimited);
}

FRESH_TEST(RoomMapOrders, OneFreesWhileAnotherTakesTheLastAndFindsNoMore) {
  expect_nothing_forgotten({3}, {{{true, 3}}, {{false, 3}, {false, 3}, {false, 3}}}, 3);
}

FRESH_TEST(RoomMapOrders, InANeighbouringChunkOfTheGroup) {
  expect_nothing_forgotten({3}, {{{true, kNeighbour}}, {{false, 3}, {false, 3}}}, kUnlimited);
}

FRESH_TEST(RoomMapOrders, InAnotherGroupOfTheSummary) {
  expect_nothing_forgotten({3}, {{{true, kFar}}, {{false, 3}, {false, 3}}}, kUnlimited);
}

FRESH_TEST(RoomMapOrders, TwoFreeWhileAThirdFindsNoRoom) {
  expect_nothing_forgotten({}, {{{true, 3}}, {{true, kNeighbour}}, {{false, 3}}}, 3);
}

FRESH_TEST(RoomMapOrders, OneFreesWhileTwoFindNoRoom) {
  expect_nothing_forgotten({}, {{{true, 3}}, {{false, 3}}, {{false, 3}}}, 3);
  // ... and where both clear the summary.
}

FRESH_TEST(RoomMapOrders, TwoTakeTheLastSlicesOfAGroup) {
  expect_nothing_forgotten({3, kNeighbour},
                           {{{false, 3}, {false, 3}}, {{false, kNeighbour}, {false, kNeighbour}}, {{true, 3}}}, 2);
}

}  // namespace
}  // namespace coffer
