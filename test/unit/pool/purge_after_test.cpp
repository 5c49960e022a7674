// SPDX-License-Identifier: MIT
// When free memory goes back by itself: after calls, and at the end of a tick.
#include "pool/purging.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {
namespace {

using namespace test;

// --- purge_after: there is no reclaimer here, so calls end ticks. ---

u64 g_now = 1000 * kTickNs;

// The running tick began now.
void start_tick() {
  fake::set_clock(g_now);
  end_tick(tick_began());
}

// A tick passes; the next call finds it.
void pass_tick() {
  g_now += kTickNs;
  fake::set_clock(g_now);
}

// From now on what was freed before was free for a whole tick.
void pass_two_ticks() {
  for (int tick = 0; tick < 2; ++tick) {
    pass_tick();
    end_tick(tick_began());
  }
  pass_tick();
}

// Frees `slices` slices, that nothing is purged meanwhile.
void free_without_purge(u32 slice, u32 slices) {
  free_limit_option() = u64{1} << 40;
  release_slices(&first_arena(), slice, slices, low_mask(slices));
}

FRESH_TEST(PurgeAfter, KeepsWhatTheOptionAllows) {
  start();
  take_and_touch(64);
  free_without_purge(0, 32);
  pass_two_ticks();
  free_limit_option() = 32 * kSliceBytes;
  purge_after(0);
  EXPECT_EQ(dirty(), 32 * kSliceBytes);
  pass_tick();
  free_limit_option() = 30 * kSliceBytes;
  purge_after(0);
  EXPECT_EQ(dirty(), 30 * kSliceBytes) << "only what is over the limit";
}

// A little may be over, so that small purges share a system call.
FRESH_TEST(PurgeAfter, WaitsUntilACallIsWorthIt) {
  start();
  for (u32 i = 0; i < 20; ++i) acquire_slices(32, 32, 0);
  for (u32 i = 0; i < 16; ++i) free_without_purge(i * 32, 32);
  pass_two_ticks();
  free_limit_option() = 512 * kSliceBytes - kPages;
  purge_after(0);
  EXPECT_EQ(dirty(), 512 * kSliceBytes);
  pass_tick();
  free_limit_option() -= 1;
  purge_after(0);
  EXPECT_EQ(dirty(), 512 * kSliceBytes - kPages);
}

FRESH_TEST(PurgeAfter, PurgesAtMostTwiceAsMuchAndSixtyFourPages) {
  start();
  take_and_touch(64);
  free_without_purge(0, 32);
  free_without_purge(32, 32);
  pass_two_ticks();
  free_limit_option() = 0;
  usize before = dirty();
  purge_after(0);
  EXPECT_EQ(before - dirty(), kPages);
  before = dirty();
  purge_after(3 * kSliceBytes);
  EXPECT_EQ(before - dirty(), 6 * kSliceBytes + kPages);
}

// A fall goes when it was free for a whole tick, by the steps of calls that come then; no free before purges any of it.
FRESH_TEST(PurgeAfter, AFallWaitsForAWholeTick) {
  start();
  free_limit_option() = 8 * kSliceBytes;
  take_and_touch(64);
  pass_tick();
  for (u32 i = 1; i < 64; ++i) release_slices(&first_arena(), i, 1, 1);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u);
  pass_tick();
  purge_after(0);
  EXPECT_EQ(dirty(), 63 * kSliceBytes) << "the tick in which it fell";
  pass_tick();
  for (int call = 0; call < 20; ++call) purge_after(kSliceBytes);
  EXPECT_EQ(dirty(), 8 * kSliceBytes);
}

// What comes back in each tick is kept; when it stops coming back it goes.
FRESH_TEST(PurgeAfter, ABreathIsKept) {
  start();
  start_tick();
  free_limit_option() = 0;
  const auto breathe = [] {
    for (u32 i = 0; i < 40; ++i) acquire_slices(32, 32, 0);
    for (u32 i = 0; i < 40; ++i) release_slices(&first_arena(), i * 32, 32, low_mask(32));
  };
  for (int breath = 0; breath < 30; ++breath) {
    breathe();
    g_now += kTickNs / 3;
    fake::set_clock(g_now);
  }
  EXPECT_EQ(dirty(), 40 * kMiB);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u);
  for (int tick = 0; tick < 3; ++tick) {
    pass_tick();
    for (int call = 0; call < 100; ++call) purge_after(kMiB);
  }
  EXPECT_EQ(dirty(), 0u);
}

// Holes that serve no request: the process does not grow by them beyond the limit. Who grows gives them back.
FRESH_TEST(PurgeAfter, NewMemoryTakesThePlaceOfHoles) {
  start();
  start_tick();
  for (u32 i = 0; i < 20 * kSlicesPerChunk; ++i) ASSERT_EQ(acquire_slices(1, 1, 0).slice, i);
  free_limit_option() = kMiB;
  for (u32 i = 0; i < 20 * kSlicesPerChunk; i += 2) release_slices(&first_arena(), i, 1, 1);
  EXPECT_EQ(dirty(), 20 * kMiB);
  EXPECT_EQ(fake::calls_of(fake::kPurge), 0u) << "they may be wanted in this tick";
  usize most = 0;
  for (u32 i = 0; i < 40; ++i) {
    ASSERT_EQ(acquire_slices(32, 32, 0).dirty, 0u);
    EXPECT_LE(dirty(), free_bound()) << i;
    most = held_and_dirty() > most ? held_and_dirty() : most;
  }
  EXPECT_LE(most, 60 * kMiB * 9 / 8 + kMiB + kFreeBatch) << "where 80 MiB were touched";
  EXPECT_LT(dirty(), 10 * kMiB);
}

// --- The sweep. ---

FRESH_TEST(Sweep, GivesBackAFallAndOfAQuietProgramNearlyAll) {
  start();
  start_tick();
  free_limit_option() = 8 * kMiB;
  for (u32 i = 0; i < 80; ++i) acquire_slices(32, 32, 0);
  for (u32 i = 1; i < 80; ++i) release_slices(&first_arena(), i * 32, 32, low_mask(32));
  const auto sweep = [] {
    begin_sweep();
    return purge_what_waits();
  };
  EXPECT_TRUE(sweep()) << "it is over the option, and waits";
  EXPECT_EQ(dirty(), 79 * kMiB);
  release_slices(&first_arena(), 0, 1, 1);
  EXPECT_FALSE(sweep()) << "only the option is left";
  EXPECT_EQ(dirty(), 8 * kMiB + kSliceBytes) << "and what fell in this tick";
  sweep();
  EXPECT_EQ(dirty(), least_free_limit()) << "nothing was touched in this tick";
}

// Where the kernel refuses, nobody stays to wait; and what may be there is told all the same.
FRESH_TEST(Sweep, DoesNotWaitForAKernelThatRefuses) {
  start();
  start_tick();
  free_limit_option() = kMiB;
  for (u32 i = 0; i < 80; ++i) acquire_slices(32, 32, 0);
  for (u32 i = 1; i < 80; ++i) release_slices(&first_arena(), i * 32, 32, low_mask(32));
  refuse_purges();
  begin_sweep();
  EXPECT_TRUE(purge_what_waits());
  for (int tick = 0; tick < 3; ++tick) {
    begin_sweep();
    EXPECT_FALSE(purge_what_waits());
    EXPECT_LE(dirty(), free_bound());
  }
  EXPECT_EQ(dirty(), 79 * kMiB);
}

// A call looks at a bounded number of chunks; what hides the memory from it is passed in the end.
FRESH_TEST(PurgeAfter, LooksAtSixteenChunksAtMost) {
  start();
  for (u32 i = 0; i < 2 * 80; ++i) acquire_slices(32, 32, 0);
  free_without_purge(0, 1);
  // Bits of chunks that have nothing to give.
  first_arena().groups[0].dirty.store(~u64{0}, relaxed);
  first_arena().groups[1].dirty.store(0, relaxed);
  pass_two_ticks();
  free_limit_option() = 0;
  for (int call = 0; call < 4; ++call) {
    purge_after(0);
    EXPECT_EQ(dirty(), kSliceBytes) << "sixteen chunks had nothing, or fifteen and a group";
  }
  purge_after(0);
  EXPECT_EQ(dirty(), 0u);
}

// Nor do chunks that are emptied again and again hide those of their group that lie below them.
FRESH_TEST(PurgeAfter, GoesOnBelowWhatIsUsedAgain) {
  start();
  for (u32 i = 0; i < 2 * 64; ++i) acquire_slices(32, 32, 0);
  free_without_purge(0, 32);
  first_arena().groups[0].dirty.store(~u64{0}, relaxed);
  pass_two_ticks();
  free_limit_option() = 0;
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(dirty(), kMiB) << call;
    first_arena().groups[0].dirty.fetch_or(~u64{0} << 48, relaxed);
    purge_after(kMiB);
  }
  EXPECT_EQ(dirty(), 0u);
}

// Nor does a group whose pages the kernel keeps hide the others.
FRESH_TEST(PurgeAfter, GoesOnBelowWhatTheKernelKeeps) {
  start();
  for (u32 i = 0; i < 2 * 100; ++i) acquire_slices(32, 32, 0);
  for (u32 chunk = 0; chunk < 100; ++chunk) free_without_purge(chunk * kSlicesPerChunk, 1);
  pass_two_ticks();
  free_limit_option() = 0;
  refuse_purges();
  for (int call = 0; call < 3; ++call) purge_after(kSliceBytes);
  EXPECT_EQ(dirty(), 100 * kSliceBytes);
  fake::stop_faults();
  for (int call = 0; call < 20; ++call) purge_after(kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
}

}  // namespace
}  // namespace coffer
