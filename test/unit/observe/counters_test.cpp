// SPDX-License-Identifier: MIT
#include "observe/counters.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

FRESH_TEST(Counters, StartAtZero) {
  const Counters& all = counters();
  for (const Atomic<usize>* one : {&all.reserved, &all.metadata, &all.committed, &all.chunks, &all.peak}) {
    EXPECT_EQ(one->load(relaxed), 0u);
  }
  EXPECT_EQ(all.held.load(relaxed), 0u);
  EXPECT_EQ(all.dirty.load(relaxed), 0u);
  EXPECT_EQ(&counters(), &all) << "one set for the process";
}

FRESH_TEST(Counters, PeakIsTheHighestOfHeldAndDirtyTogether) {
  counters().held.store(100, relaxed);
  counters().dirty.store(30, relaxed);
  note_peak();
  EXPECT_EQ(counters().peak.load(relaxed), 130u);
  counters().held.store(99, relaxed);
  note_peak();
  EXPECT_EQ(counters().peak.load(relaxed), 130u);
  counters().dirty.store(32, relaxed);
  note_peak();
  EXPECT_EQ(counters().peak.load(relaxed), 131u);
}

// What turns counts in both figures at once, whichever cell it is in; the sum of the two stays.
FRESH_TEST(Counters, WhatTurnsIsHeldOrFree) {
  for (const u32 cells : {1u, 4u, kTurnCells}) {
    g_turn_cells.set(cells);
    counters().held.store(1000, relaxed);
    counters().dirty.store(500, relaxed);
    for (u32 chunk = 0; chunk < 40; ++chunk) turn_cell(chunk).turned.fetch_add(10, relaxed);
    EXPECT_EQ(counters().held.load(relaxed), 1400u);
    EXPECT_EQ(counters().dirty.load(relaxed), 100u);
    EXPECT_EQ(held_and_dirty(), 1500u);
    EXPECT_EQ(counters().held.fetch_sub(400, relaxed), 1400u);
    EXPECT_EQ(counters().dirty.fetch_add(7, relaxed), 100u);
    for (u32 chunk = 0; chunk < 40; ++chunk) turn_cell(chunk).turned.fetch_sub(20, relaxed);
    EXPECT_EQ(counters().held.load(relaxed), 200u);
    EXPECT_EQ(counters().dirty.load(relaxed), 907u);
    counters().held.store(1, relaxed);
    counters().dirty.store(2, relaxed);
    EXPECT_EQ(counters().held.load(relaxed), 1u) << "a fork child counts anew";
    EXPECT_EQ(counters().dirty.load(relaxed), 2u);
  }
}

// A block may be freed in another cell's name than it was counted in, if a fork child counted anew between.
FRESH_TEST(Counters, ACellMayBeBelowNothing) {
  g_turn_cells.set(2);
  turn_cell(0).turned.fetch_sub(100, relaxed);
  turn_cell(1).turned.fetch_add(400, relaxed);
  EXPECT_EQ(counters().held.load(relaxed), 300u);
  counters().held.fetch_sub(301, relaxed);
  EXPECT_EQ(counters().held.load(relaxed), 0u) << "a look at cells that change may find less than nothing";
  EXPECT_EQ(counters().held.exact(), ~usize{0}) << "who checks is told";
  counters().held.store(5, relaxed);
  EXPECT_EQ(counters().held.load(relaxed), 5u);
}

// Between the looks at the two, another thread may have taken slices, freed and purged them: found is what was purged,
// and not what was taken. Kept as the peak, a sum below nothing would be the highest for ever.
FRESH_TEST(Counters, PeakIsNeverBelowNothing) {
  counters().held.store(100, relaxed);
  note_peak();
  turn_cell(0).turned.fetch_sub(1000, relaxed);
  counters().dirty.fetch_sub(1000, relaxed);
  EXPECT_EQ(held_and_dirty(), 0u);
  note_peak();
  EXPECT_EQ(counters().peak.load(relaxed), 100u);
}

FRESH_TEST(Counters, PeakIsNotLostAmongThreads) {
  constexpr usize kThreads = 4, kRounds = 20'000;
  test::run_together(kThreads, [](u32) {
    for (usize round = 0; round < kRounds; ++round) {
      counters().held.fetch_add(1, relaxed);
      note_peak();
    }
  });
  EXPECT_EQ(counters().peak.load(relaxed), kThreads * kRounds);
}

}  // namespace
}  // namespace coffer
