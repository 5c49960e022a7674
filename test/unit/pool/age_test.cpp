// SPDX-License-Identifier: MIT
#include "pool/age.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

constexpr usize kMiB = usize{1} << 20;
constexpr usize kNear = kMiB / 4;  // small changes are not looked at

u64 g_now = 1000 * kTickNs;

usize held() { return counters().held.load(relaxed); }

// Held goes to `bytes` in steps of at most 1 MiB, as spans come and go.
void go_to(usize bytes) {
  while (held() < bytes) held_rises(bytes - held() < kMiB ? bytes - held() : kMiB);
  while (held() > bytes) held_falls(held() - bytes < kMiB ? held() - bytes : kMiB);
}

void start() {
  test::changeable_options().free_limit = 0;
  fake::set_clock(g_now);
  end_tick(tick_began());
}

// The running tick passes, and is ended.
void pass_tick() {
  g_now += kTickNs;
  fake::set_clock(g_now);
  EXPECT_TRUE(tick_is_over(tick_began()));
  end_tick(tick_began());
  EXPECT_FALSE(tick_is_over(tick_began()));
}

FRESH_TEST(Age, WhatWasHeldAtMostInTwoTicksAndAnEighthMayBeThere) {
  start();
  go_to(80 * kMiB);
  EXPECT_NEAR(free_limit(), 10 * kMiB, kNear) << "holes that move";
  go_to(30 * kMiB);
  EXPECT_NEAR(free_limit(), 60 * kMiB, kNear);
  go_to(50 * kMiB);
  EXPECT_NEAR(free_limit(), 40 * kMiB, kNear) << "held and free stay under the highest";
  pass_tick();
  go_to(40 * kMiB);
  EXPECT_NEAR(free_limit(), 50 * kMiB, kNear) << "of the tick before";
  pass_tick();
  EXPECT_NEAR(free_limit(), (50 * 9 / 8 - 40) * kMiB, kNear) << "80 MiB were held two ticks ago";
  pass_tick();
  EXPECT_NEAR(free_limit(), 5 * kMiB, kNear);
}

FRESH_TEST(Age, TheOptionComesOnTop) {
  start();
  go_to(80 * kMiB);
  go_to(16 * kMiB);
  const usize without = free_limit(), next = next_free_limit(held_now());
  test::changeable_options().free_limit = 8 * kMiB;
  EXPECT_EQ(free_limit(), without + 8 * kMiB);
  EXPECT_EQ(next_free_limit(held_now()), next + 8 * kMiB);
  EXPECT_EQ(free_bound(), free_limit() + kFreeBatch);
}

// What the sweep goes by: a fall is above what was held at most in the tick after it.
FRESH_TEST(Age, AFallMayStayForOneWholeTick) {
  start();
  go_to(100 * kMiB);
  pass_tick();
  go_to(20 * kMiB);
  EXPECT_NEAR(next_free_limit(held_now()), 80 * kMiB, kNear) << "somebody needed it in this tick";
  pass_tick();
  EXPECT_EQ(next_free_limit(held_now()), 0u);
}

FRESH_TEST(Age, ABreathStaysWhileItReturnsInEachTick) {
  start();
  counters().dirty.store(100 * kMiB, relaxed);
  pass_tick();
  for (u32 tick = 0; tick < 20; ++tick) {
    go_to(100 * kMiB);
    go_to(0);
    ASSERT_NEAR(next_free_limit(held_now()), 100 * kMiB, kNear) << tick;
    pass_tick();
  }
  EXPECT_EQ(next_free_limit(held_now()), 0u);
}

// What idle heaps gave to the sweep was idle already.
FRESH_TEST(Age, WhatTheSweepMakesFreeGoesAtOnce) {
  start();
  go_to(100 * kMiB);
  pass_tick();
  const usize began = held_now();
  go_to(60 * kMiB);
  EXPECT_EQ(next_free_limit(began), 0u);
  EXPECT_TRUE(is_quiet(began)) << "it was not the program";
  EXPECT_FALSE(is_quiet(held_now()));
}

FRESH_TEST(Age, IsQuietAfterATickWithoutChange) {
  start();
  EXPECT_TRUE(is_quiet(held_now()));
  go_to(50 * kMiB);
  EXPECT_FALSE(is_quiet(held_now()));
  pass_tick();
  EXPECT_TRUE(is_quiet(held_now()));
  go_to(49 * kMiB);
  EXPECT_FALSE(is_quiet(held_now()));
  go_to(50 * kMiB);
  EXPECT_TRUE(is_quiet(held_now())) << "what is free at its highest it does not need";
  // The highest is noted in advance: held must not come to it by growing.
  for (u32 slice = 0; slice < 64; ++slice) {
    held_rises(kSliceBytes);
    ASSERT_FALSE(is_quiet(held_now())) << slice;
  }
}

// What is resident behind a large block is free with it.
FRESH_TEST(Age, TailsOfLargeBlocksAreInUse) {
  start();
  go_to(60 * kMiB);
  tail_changes(0, 40 * kMiB);
  held_rises(0);
  EXPECT_EQ(held_now(), 100 * kMiB);
  pass_tick();
  tail_changes(40 * kMiB, 0);
  go_to(0);
  EXPECT_NEAR(next_free_limit(held_now()), 100 * kMiB, kNear);
  tail_changes(0, 30 * kMiB);
  EXPECT_NEAR(next_free_limit(held_now()), 70 * kMiB, kNear);
}

// Slices that turn from free and resident to held change both figures, and are seen as all others.
FRESH_TEST(Age, SeesSlicesThatTurn) {
  start();
  g_turn_cells.set(4);
  counters().dirty.store(100 * kMiB, relaxed);
  pass_tick();
  for (u32 i = 0; i < 800; ++i) slices_rise(i, kMiB / 8, kMiB / 8);
  EXPECT_EQ(held(), 100 * kMiB);
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  for (u32 i = 0; i < 480; ++i) slices_fall(i, kMiB / 8, kMiB / 8);
  EXPECT_EQ(held(), 40 * kMiB);
  for (u32 i = 0; i < 240; ++i) slices_rise(i, kMiB / 8, i % 2 == 0 ? 0 : kMiB / 8);
  EXPECT_EQ(held(), 70 * kMiB);
  EXPECT_EQ(counters().dirty.load(relaxed), 45 * kMiB) << "every second one was clean";
  EXPECT_NEAR(next_free_limit(held_now()), 30 * kMiB + 100 * kMiB / 8, 2 * kNear) << "the clean ones are new";
}

// Only what was there when the tick began can have been free in all of it.
FRESH_TEST(Age, WhatCameInTheTickMayStayUpToAnEighth) {
  start();
  go_to(80 * kMiB);
  counters().dirty.store(20 * kMiB, relaxed);
  pass_tick();
  EXPECT_EQ(next_free_limit(held_now()), 0u);
  counters().dirty.store(24 * kMiB, relaxed);
  EXPECT_EQ(next_free_limit(held_now()), 4 * kMiB);
  counters().dirty.store(60 * kMiB, relaxed);
  EXPECT_EQ(next_free_limit(held_now()), 10 * kMiB);
  pass_tick();
  EXPECT_EQ(next_free_limit(held_now()), 0u);
}

FRESH_TEST(Age, ATickIsEndedOnce) {
  start();
  go_to(100 * kMiB);
  go_to(0);
  const u64 began = tick_began();
  fake::set_clock(g_now + kTickNs - 1);
  EXPECT_FALSE(tick_is_over(began));
  fake::set_clock(g_now + kTickNs);
  EXPECT_TRUE(tick_is_over(began));
  end_tick(began);
  end_tick(began);  // another thread saw that it was over, too
  EXPECT_NEAR(free_limit(), 100 * kMiB * 9 / 8, 2 * kNear) << "else the highest was forgotten";
  fake::set_clock(g_now);
  EXPECT_FALSE(tick_is_over(tick_began())) << "the clock of another thread is behind";
}

// The limit falls when a tick ends. What is over it then, be it that the kernel refused, is bounded all the same.
FRESH_TEST(Age, TheBoundHoldsForWhatDidNotGo) {
  start();
  go_to(80 * kMiB);
  go_to(0);
  counters().dirty.store(80 * kMiB, relaxed);
  for (int tick = 0; tick < 3; ++tick) {
    pass_tick();
    EXPECT_NEAR(free_bound(), 90 * kMiB + kFreeBatch, kNear) << tick;
  }
  counters().dirty.store(kFreeBatch, relaxed);
  pass_tick();
  EXPECT_EQ(free_bound(), kFreeBatch);
  counters().dirty.store(80 * kMiB, relaxed);
  EXPECT_EQ(free_bound(), kFreeBatch) << "it does not follow what is free";
}

}  // namespace
}  // namespace coffer
