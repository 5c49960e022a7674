// SPDX-License-Identifier: MIT
#include "pool/breath.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "os/os.hpp"
#include "pool/reclaimer.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;
constexpr u64 kTick = 250'000'000;
constexpr usize kNear = kMiB / 4;  // small changes are not looked at

// The clock stands at the start of a tick, far from 0.
void at(u64 tick) { fake::set_clock(tick * kTick + 1000 * kTick); }

usize held() { return counters().held.load(relaxed); }

// Held goes to `bytes` in steps of at most 1 MiB, as spans come and go.
void go_to(usize bytes) {
  while (held() < bytes) held_rises(bytes - held() < kMiB ? bytes - held() : kMiB);
  while (held() > bytes) held_falls(held() - bytes < kMiB ? held() - bytes : kMiB);
}

void start() {
  test::changeable_options().free_limit = 0;
  at(0);
  free_limit();
}

FRESH_TEST(Breath, AFirstGrowthIsNone) {
  start();
  go_to(500 * kMiB);
  EXPECT_EQ(free_limit(), 0u);
  go_to(100 * kMiB);
  EXPECT_EQ(free_limit(), 0u) << "nor is a first fall";
}

FRESH_TEST(Breath, ARiseAfterAFallIsOne) {
  start();
  go_to(100 * kMiB);
  go_to(30 * kMiB);
  go_to(60 * kMiB);
  EXPECT_NEAR(free_limit(), 30 * kMiB, kNear);
  go_to(20 * kMiB);
  EXPECT_NEAR(free_limit(), 30 * kMiB, kNear) << "a fall teaches nothing yet";
  go_to(90 * kMiB);
  go_to(0);
  EXPECT_NEAR(free_limit(), 70 * kMiB, kNear);
}

FRESH_TEST(Breath, CountsUpToThePeakOnly) {
  start();
  go_to(100 * kMiB);
  go_to(80 * kMiB);
  go_to(400 * kMiB);
  go_to(0);
  EXPECT_NEAR(free_limit(), 20 * kMiB, kNear) << "what rose above the peak was growth";
}

FRESH_TEST(Breath, HeldAndFreeStayUnderTheRecentPeak) {
  start();
  go_to(100 * kMiB);
  go_to(0);
  go_to(100 * kMiB);
  go_to(90 * kMiB);
  EXPECT_NEAR(free_limit(), 10 * kMiB, kNear);
  test::changeable_options().free_limit = 8 * kMiB;
  EXPECT_NEAR(free_limit(), 18 * kMiB, kNear);
}

// What is resident behind a large block is free with it.
FRESH_TEST(Breath, TailsOfLargeBlocksAreInUse) {
  start();
  for (int i = 0; i < 2; ++i) {
    go_to(60 * kMiB);
    tail_changes(0, 40 * kMiB);
    held_rises(0);
    tail_changes(40 * kMiB, 0);
    go_to(0);
  }
  EXPECT_NEAR(free_limit(), 100 * kMiB, kNear);
  tail_changes(0, 30 * kMiB);
  EXPECT_NEAR(free_limit(), 70 * kMiB, kNear);
}

FRESH_TEST(Breath, IsForgottenAfterASecond) {
  start();
  go_to(100 * kMiB);
  go_to(0);
  go_to(100 * kMiB);
  go_to(0);
  for (u64 tick = 0; tick <= 4; ++tick) {
    at(tick);
    EXPECT_NEAR(free_limit(), 100 * kMiB, kNear) << tick;
  }
  at(5);
  EXPECT_EQ(free_limit(), 0u);
}

// Free memory goes back by bounded steps: until it has, the limit that allowed it bounds it.
FRESH_TEST(FreeBound, IsTheHighestLimitUntilFreeMemoryIsWithinALaterOne) {
  start();
  EXPECT_EQ(free_bound(), kFreeBatch);
  go_to(100 * kMiB);
  go_to(0);
  go_to(100 * kMiB);
  go_to(0);
  counters().dirty.store(90 * kMiB, relaxed);
  EXPECT_NEAR(free_bound(), 100 * kMiB + kFreeBatch, kNear);
  at(5);
  EXPECT_EQ(free_limit(), 0u);
  counters().dirty.store(kMiB, relaxed);
  EXPECT_NEAR(free_bound(), 100 * kMiB + kFreeBatch, kNear) << "some of it is there yet";
  counters().dirty.store(kFreeBatch, relaxed);
  EXPECT_EQ(free_bound(), kFreeBatch);
  counters().dirty.store(90 * kMiB, relaxed);
  EXPECT_EQ(free_bound(), kFreeBatch) << "it does not follow what is free";
}

// Within the option nobody judges.
FRESH_TEST(FreeBound, IsAtLeastTheOption) {
  start();
  test::changeable_options().free_limit = 8 * kMiB;
  note_limit(kMiB, 0);
  EXPECT_EQ(free_bound(), 8 * kMiB + kFreeBatch);
}

// Holes that move: held stays, but what is purged is brought in again. It stays, up to an eighth of the peak.
FRESH_TEST(Returns, StayForASecondUpToAnEighthOfThePeak) {
  start();
  go_to(80 * kMiB);
  note_clean(kMiB);
  EXPECT_EQ(free_limit(), 0u) << "nothing was purged: that is growth";
  note_purged(3 * kMiB);
  EXPECT_EQ(free_limit(), 0u) << "nor has it come back yet";
  note_clean(kMiB);
  EXPECT_EQ(free_limit(), kMiB);
  at(1);
  note_clean(50 * kMiB);
  EXPECT_EQ(free_limit(), 3 * kMiB) << "no more comes back than went";
  note_purged(100 * kMiB);
  note_clean(100 * kMiB);
  EXPECT_EQ(free_limit(), 10 * kMiB) << "holes are not more";
  at(4);
  EXPECT_EQ(free_limit(), 10 * kMiB);
  at(6);
  EXPECT_EQ(free_limit(), 0u) << "a second later it is forgotten";
}

// What was purged long ago and is wanted now is growth.
FRESH_TEST(Returns, ForgetWhatWentLongAgo) {
  start();
  go_to(80 * kMiB);
  note_purged(4 * kMiB);
  at(5);
  EXPECT_EQ(free_limit(), 0u);
  note_clean(4 * kMiB);
  EXPECT_EQ(free_limit(), 0u);
}

// Slots that turn from free and resident to held change both figures, and are seen by the breath as all others.
FRESH_TEST(Breath, SeesSlotsThatTurn) {
  start();
  g_turn_cells.set(4);
  counters().dirty.store(100 * kMiB, relaxed);
  for (u32 i = 0; i < 800; ++i) slots_rise(i, kMiB / 8, kMiB / 8);
  EXPECT_EQ(held(), 100 * kMiB);
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  for (u32 i = 0; i < 480; ++i) slots_fall(i, kMiB / 8, kMiB / 8);
  for (u32 i = 0; i < 240; ++i) slots_rise(i, kMiB / 8, i % 2 == 0 ? 0 : kMiB / 8);
  EXPECT_EQ(held(), 70 * kMiB);
  EXPECT_EQ(counters().dirty.load(relaxed), 45 * kMiB) << "every second one was clean";
  EXPECT_NEAR(free_limit(), 30 * kMiB, 2 * kNear);
}

FRESH_TEST(Breath, GoesOnWhileItIsSeen) {
  start();
  for (u64 tick = 0; tick < 40; ++tick) {
    at(tick);
    go_to(100 * kMiB);
    free_limit();
    go_to(0);
    if (tick > 0) {
      ASSERT_NEAR(free_limit(), 100 * kMiB, kNear) << tick;
    }
  }
}

// A program that grows again long after it shrank does not breathe.
FRESH_TEST(Breath, ASlowRiseIsGrowth) {
  start();
  go_to(400 * kMiB);
  go_to(0);
  free_limit();
  at(20);
  free_limit();
  go_to(200 * kMiB);
  go_to(0);
  EXPECT_EQ(free_limit(), 0u);
}

FRESH_TEST(Breath, AnOldPeakAllowsNothing) {
  start();
  go_to(400 * kMiB);
  go_to(300 * kMiB);
  free_limit();
  for (u64 tick = 1; tick < 12; ++tick) {
    at(tick);
    free_limit();
    go_to(250 * kMiB);
    go_to(300 * kMiB);
  }
  // The swing of 50 MiB is seen still, the peak of 400 MiB is not.
  go_to(290 * kMiB);
  EXPECT_NEAR(free_limit(), 10 * kMiB, kNear);
}

// Nobody looked at the clock for long, so that nothing is known to be recent.
FRESH_TEST(Breath, WhatWasLearntLongAgoIsForgottenAtOnce) {
  start();
  go_to(100 * kMiB);
  go_to(0);
  go_to(100 * kMiB);
  at(50);
  free_limit();
  go_to(0);
  EXPECT_EQ(free_limit(), 0u);
}

// --- Fresh falls: only while there is a reclaimer. ---

bool do_nothing() { return true; }
constexpr Chore kChores[] = {&do_nothing};

bool start_with_reclaimer() {
  start();
  os::note_process();
  set_chores([] {}, kChores, 1);
  want_reclaimer();
  return reclaimer_lives();
}

FRESH_TEST(FreshFall, WaitsForItsRise) {
  if (test::kSanitizer) GTEST_SKIP() << "no reclaimer";
  ASSERT_TRUE(start_with_reclaimer());
  go_to(100 * kMiB);
  EXPECT_NEAR(free_limit(), 0, kNear);
  go_to(70 * kMiB);
  EXPECT_NEAR(free_limit(), 30 * kMiB, kNear);
  go_to(20 * kMiB);
  EXPECT_NEAR(free_limit(), 80 * kMiB, kNear);
  go_to(90 * kMiB);
  EXPECT_NEAR(free_limit(), 10 * kMiB, kNear) << "held and free stay under the peak";
}

FRESH_TEST(FreshFall, WaitsToTheEndOfTheNextTick) {
  if (test::kSanitizer) GTEST_SKIP() << "no reclaimer";
  ASSERT_TRUE(start_with_reclaimer());
  go_to(100 * kMiB);
  go_to(40 * kMiB);
  at(1);
  EXPECT_NEAR(free_limit(), 60 * kMiB, kNear);
  go_to(30 * kMiB);
  EXPECT_NEAR(free_limit(), 70 * kMiB, kNear);
  at(2);
  EXPECT_NEAR(free_limit(), 10 * kMiB, kNear) << "what fell in the tick before";
  at(3);
  EXPECT_EQ(free_limit(), 0u);
}

// The peak lasted until now, however long ago somebody last looked at the clock.
FRESH_TEST(FreshFall, AfterALongPlateauIsFreshToo) {
  if (test::kSanitizer) GTEST_SKIP() << "no reclaimer";
  ASSERT_TRUE(start_with_reclaimer());
  go_to(100 * kMiB);
  at(100);
  go_to(0);
  EXPECT_NEAR(free_limit(), 100 * kMiB, kNear);
  at(101);
  EXPECT_EQ(free_limit(), 0u);
}

FRESH_TEST(FreshFall, IsNoneWithoutAReclaimer) {
  start();
  EXPECT_FALSE(reclaimer_lives());
  go_to(100 * kMiB);
  go_to(40 * kMiB);
  EXPECT_EQ(free_limit(), 0u);
}

FRESH_TEST(FreshFall, IsPartOfWhatFreeMemoryIsBoundedBy) {
  if (test::kSanitizer) GTEST_SKIP() << "no reclaimer";
  ASSERT_TRUE(start_with_reclaimer());
  go_to(100 * kMiB);
  go_to(40 * kMiB);
  EXPECT_NEAR(free_bound(), 60 * kMiB + kFreeBatch, kNear);
}

}  // namespace
}  // namespace coffer
