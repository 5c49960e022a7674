#include "observe/counters.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

FRESH_TEST(Counters, StartAtZero) {
  const Counters& all = counters();
  for (const Atomic<usize>* one : {&all.reserved, &all.metadata, &all.committed, &all.chunks, &all.held, &all.dirty,
                                   &all.large, &all.large_blocks, &all.peak}) {
    EXPECT_EQ(one->load(relaxed), 0u);
  }
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
