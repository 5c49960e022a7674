// SPDX-License-Identifier: MIT
#include "pool/limit.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <cstring>

#include "fresh.hpp"
#include "ground.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/slice_pool.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;
using test::first_arena;
using test::start_ground;

constexpr usize kMiB = usize{1} << 20;

usize charged() { return budget().charged.load(relaxed); }
usize dirty() { return counters().dirty.load(relaxed); }
usize metadata() { return counters().metadata.load(relaxed); }

void refuse_purges() {
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
}

// Slices [0, slices) as blocks that were used.
void take(u32 slices) {
  for (u32 i = 0; i < slices; ++i) ASSERT_EQ(acquire_slices(1, 1, 0).slice, i);
}

// --- The value. ---

FRESH_TEST(Limit, ComesFromTheOptionUnlessTheProgramWasFirst) {
  test::changeable_options().limit = 5 * kMiB;
  EXPECT_EQ(get_limit(), 5 * kMiB) << "before the start, too";
  limit_start();
  EXPECT_EQ(get_limit(), 5 * kMiB);
  set_limit(7 * kMiB);
  limit_start();
  EXPECT_EQ(get_limit(), 7 * kMiB);
  set_limit(0);
  limit_start();
  EXPECT_EQ(get_limit(), 0u);
  set_limit(~usize{0});
  EXPECT_TRUE(charge(usize{1} << 60));
}

FRESH_TEST(Limit, NoneByDefault) {
  limit_start();
  EXPECT_EQ(get_limit(), 0u);
  EXPECT_FALSE(make_room()) << "without a limit there is nothing to make room for";
}

// --- Slices. ---

FRESH_TEST(LimitedSlices, CountMetadataSlicesAndFreeResidentOnes) {
  start_ground();
  const usize at_start = charged();
  EXPECT_EQ(at_start, metadata());
  take(4);
  EXPECT_EQ(charged(), metadata() + 4 * kSliceBytes);
  release_slices(&first_arena(), 1, 2, 0b01);
  EXPECT_EQ(charged(), metadata() + 3 * kSliceBytes) << "the clean one counts no longer";
  const SliceRun again = acquire_slices(1, 1, 0);
  EXPECT_EQ(again.slice, 1u);
  EXPECT_EQ(charged(), metadata() + 3 * kSliceBytes) << "it counted while it was free";
  release_slices(&first_arena(), 1, 1, 1);
  EXPECT_EQ(purge_free(kMiB), kSliceBytes);
  EXPECT_EQ(charged(), metadata() + 2 * kSliceBytes);
}

FRESH_TEST(LimitedSlices, FailAtTheLimitAndComeBackBelowIt) {
  start_ground();
  take(1);
  set_limit(charged() + 2 * kSliceBytes);
  EXPECT_EQ(acquire_slices(4, 4, 0).count, 0u);
  EXPECT_EQ(acquire_slices(2, 2, 0).count, 2u);
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 0u);
  release_slices(&first_arena(), 2, 1, 0);
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 1u);
  set_limit(0);
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 1u);
}

FRESH_TEST(LimitedSlices, ResidentOnesAreTakenBeforeAnythingIsPurged) {
  start_ground();
  take(70);  // the second chunk, too
  release_slices(&first_arena(), 3, 1, 0);
  release_slices(&first_arena(), 66, 1, 1);
  set_limit(charged());
  const u64 purges = fake::calls_of(fake::kPurge);
  const SliceRun run = acquire_slices(1, 1, 0);
  EXPECT_EQ(run.slice, 66u) << "slice 3 would have to be paid for";
  EXPECT_EQ(run.dirty, 1u);
  EXPECT_EQ(fake::calls_of(fake::kPurge), purges);
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 0u);
  EXPECT_EQ(first_arena().chunks[0].free.load(relaxed) >> 3 & 1, 1u) << "it was put back";
}

FRESH_TEST(LimitedSlices, FreeMemoryIsPurgedForARunThatNeedsIt) {
  start_ground();
  take(64);
  for (u32 slice = 0; slice < 64; slice += 2) release_slices(&first_arena(), slice, 1, 1);
  set_limit(charged());
  EXPECT_EQ(dirty(), 32 * kSliceBytes);
  const SliceRun run = acquire_slices(8, 8, 0);
  EXPECT_EQ(run.count, 8u) << "no resident run of eight, but room for one";
  EXPECT_EQ(dirty(), 0u);
  EXPECT_LE(charged(), get_limit());
}

FRESH_TEST(LimitedSlices, MetadataThatDoesNotFitIsNoMemory) {
  start_ground(usize{1} << 30);
  take(1);
  set_limit(charged() + 64 * kMiB);
  ChunkRun run;
  // The records of the next group are more than is left.
  set_limit(charged() + 1000);
  EXPECT_FALSE(take_chunks(100, 1, false, &run));
  const usize before = charged();
  set_limit(0);
  ASSERT_TRUE(take_chunks(100, 1, false, &run));
  EXPECT_GT(charged(), before) << "metadata counts";
  EXPECT_EQ(charged(), metadata() + kSliceBytes);
}

FRESH_TEST(LimitedSlices, GrowthInPlaceIsCharged) {
  start_ground();
  take(2);
  const usize before = charged();
  set_limit(before + kSliceBytes);
  u64 old = 0;
  EXPECT_FALSE(acquire_slices_at(&first_arena(), 2, 2, &old));
  EXPECT_EQ(charged(), before);
  EXPECT_EQ(first_arena().chunks[0].free.load(relaxed), ~u64{0} << 2) << "put back";
  EXPECT_TRUE(acquire_slices_at(&first_arena(), 2, 1, &old));
  EXPECT_EQ(charged(), before + kSliceBytes);
}

FRESH_TEST(LimitedSlices, ChunksThatJoinTheArenaStayWithinIt) {
  start_ground();
  take(64);
  for (u32 slice = 0; slice < 64; ++slice) release_slices(&first_arena(), slice, 1, slice == 5);
  EXPECT_EQ(charged(), metadata() + kSliceBytes);
  set_limit(charged());
  return_empty_chunks();
  EXPECT_EQ(dirty(), kSliceBytes) << "a free chunk counts by slices";
  EXPECT_EQ(charged(), metadata() + kSliceBytes);
  EXPECT_TRUE(make_room());
  EXPECT_EQ(charged(), metadata());
}

FRESH_TEST(LimitedSlices, WhatTheKernelKeepsIsCountedAllTheSame) {
  start_ground();
  take(64);
  for (u32 slice = 0; slice < 64; ++slice) release_slices(&first_arena(), slice, 1, slice == 5);
  set_limit(charged());
  refuse_purges();
  return_empty_chunks();
  EXPECT_EQ(dirty(), kSliceBytes);
  EXPECT_EQ(charged(), metadata() + kSliceBytes);
  EXPECT_FALSE(make_room());
  EXPECT_FALSE(make_room()) << "and it is not waited for a second time";
  fake::stop_faults();
  EXPECT_TRUE(make_room());
  EXPECT_EQ(charged(), metadata());
}

FRESH_TEST(SetLimit, GivesFreeMemoryBackAtOnceIfItIsOver) {
  start_ground();
  take(8);
  release_slices(&first_arena(), 2, 4, 0xf);
  set_limit(charged());
  EXPECT_EQ(dirty(), 4 * kSliceBytes) << "not over it";
  set_limit(kSliceBytes);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(charged(), metadata() + 4 * kSliceBytes) << "what is in use stays";
  EXPECT_EQ(acquire_slices(1, 1, 0).count, 0u);
}

FRESH_TEST(LimitedSlices, ThreadsNeverPassTheLimitTogether) {
  start_ground();
  constexpr u32 kSlices = 200;
  set_limit(charged() + kSlices * kSliceBytes);
  std::atomic<usize> highest{0};
  test::run_together(4, [&](unsigned number) {
    SliceRun runs[80];
    u32 count = 0;
    for (u32 i = 0; i < 4000; ++i) {
      const u32 want = 1u << (i * number % 3);
      if (i % 7 < 4 && count < 80) {
        runs[count] = acquire_slices(want, want, number);
        if (runs[count].count != 0) ++count;
      } else if (count != 0) {
        const SliceRun& run = runs[--count];
        release_slices(run.arena, run.slice, run.count, i % 2 != 0 ? low_mask(run.count) : 0);
      }
      const usize now = charged();
      usize before = highest.load();
      while (now > before && !highest.compare_exchange_weak(before, now)) {
      }
    }
    while (count != 0) {
      const SliceRun& run = runs[--count];
      release_slices(run.arena, run.slice, run.count, 1);
    }
  });
  EXPECT_LE(highest.load(), get_limit());
  EXPECT_EQ(charged(), metadata() + dirty());
  u32 got = 0;
  while (acquire_slices(1, 1, 0).count != 0) ++got;
  // Records of a second group may have been needed meanwhile.
  EXPECT_GE(got, kSlices - (metadata() + kSliceBytes) / kSliceBytes);
  EXPECT_LE(got, kSlices);
}

// --- The cgroup's limits. ---

// What of a claimed run is dirty counts as free until the run is paid for. Its claimer does not wait for that: nobody
// else can give it back.
FRESH_TEST(Limit, NobodyWaitsForHisOwnDirtySlices) {
  start_ground();
  take(63);
  release_slices(&first_arena(), 62, 1, 1);
  set_limit(charged());
  const auto cpu_ns = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
  };
  const u64 start = cpu_ns();
  EXPECT_EQ(acquire_slices(2, 2, 0).count, 0u) << "one slice of the two is charged, the other does not fit";
  u64 more = 0;
  EXPECT_FALSE(acquire_slices_at(&first_arena(), 62, 2, &more));
  EXPECT_LT(cpu_ns() - start, 10'000'000u) << "it waited";
}

FRESH_TEST(Pressure, IsNearALimitOfTheCgroupOnly) {
  start_ground();
  const auto limit_pressure = [] {
    look_at_group_limit();
    return coffer::limit_pressure();
  };
  counters().held.store(70 * kMiB, relaxed);
  EXPECT_FALSE(coffer::limit_pressure());
  EXPECT_EQ(fake::limits_read(), 0u) << "it does not read them itself";
  EXPECT_FALSE(limit_pressure()) << "no limit";
  EXPECT_EQ(fake::limits_read(), 1u);
  fake::set_memory_limit(80 * kMiB);
  EXPECT_FALSE(limit_pressure()) << "not read again yet";
  counters().held.store(140 * kMiB, relaxed);
  EXPECT_TRUE(limit_pressure()) << "read again, since what is held has doubled";
  EXPECT_EQ(fake::limits_read(), 2u);
  counters().held.store(70 * kMiB, relaxed);
  EXPECT_FALSE(limit_pressure()) << "exactly 7/8";
  counters().held.store(70 * kMiB + 1, relaxed);
  EXPECT_TRUE(limit_pressure());
  test::changeable_options().cgroup = false;
  EXPECT_FALSE(limit_pressure());
}

// Reading them takes 40 us: none of the frees of a process that holds much does it, the next new chunk does.
FRESH_TEST(Pressure, LimitsAreNotReadByFrees) {
  start_ground();
  take(640);  // 20 MiB
  const u64 read = fake::limits_read();
  EXPECT_EQ(read, 2u) << "at 8 MiB and at 16";
  counters().held.fetch_add(100 * kMiB, relaxed);
  for (u32 slice = 0; slice < 640; slice += 32) release_slices(&first_arena(), slice, 32, low_mask(32));
  EXPECT_EQ(fake::limits_read(), read);
  for (u32 i = 0; i < 641; ++i) EXPECT_NE(acquire_slices(1, 1, 0).count, 0u);
  EXPECT_EQ(fake::limits_read(), read + 1);
}

FRESH_TEST(Pressure, IsNotLookedForInSmallProcesses) {
  start_ground();
  fake::set_memory_limit(kMiB);
  counters().held.store(8 * kMiB - 1, relaxed);
  look_at_group_limit();
  EXPECT_FALSE(limit_pressure());
  EXPECT_EQ(fake::limits_read(), 0u);
  counters().dirty.store(1, relaxed);
  look_at_group_limit();
  EXPECT_TRUE(limit_pressure());
}

FRESH_TEST(Pressure, ALimitOfZeroIsOne) {
  start_ground();
  fake::set_memory_limit(0);
  counters().held.store(8 * kMiB, relaxed);
  look_at_group_limit();
  EXPECT_TRUE(limit_pressure());
}

FRESH_TEST(Pressure, LeavesLittleFreeMemoryResident) {
  start_ground();
  test::changeable_options().free_limit = 8 * kMiB;
  take(640);  // 20 MiB
  release_slices(&first_arena(), 0, 32, low_mask(32));
  EXPECT_EQ(dirty(), kMiB) << "without pressure it stays";
  EXPECT_GE(free_limit(), 8 * kMiB);
  fake::set_memory_limit(20 * kMiB);
  counters().held.fetch_add(40 * kMiB, relaxed);
  look_at_group_limit();
  EXPECT_TRUE(limit_pressure());
  counters().held.fetch_sub(40 * kMiB, relaxed);
  EXPECT_TRUE(limit_pressure());
  EXPECT_EQ(free_limit(), kNegligible);
  release_slices(&first_arena(), 32, 32, low_mask(32));
  EXPECT_LE(dirty(), kNegligible);
  test::changeable_options().free_limit = 0;
  EXPECT_EQ(free_limit(), 0u) << "the option may be less";
}

FRESH_TEST(Pressure, IsRelievedWhenNewMemoryIsTaken) {
  start_ground();
  test::changeable_options().cgroup = false;
  take(640);
  release_slices(&first_arena(), 0, 32, low_mask(32));
  fake::set_memory_limit(22 * kMiB);
  relieve_pressure(kChunkBytes);
  EXPECT_EQ(dirty(), kMiB) << "switched off";
  test::changeable_options().cgroup = true;
  relieve_pressure(100);
  EXPECT_EQ(dirty(), kMiB - kSliceBytes) << "twice what was taken, by slices";
  relieve_pressure(kChunkBytes);
  EXPECT_EQ(dirty(), kNegligible);
  relieve_pressure(kChunkBytes);
  EXPECT_EQ(dirty(), kNegligible);
}

}  // namespace
}  // namespace coffer
