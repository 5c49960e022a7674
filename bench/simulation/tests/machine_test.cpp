// SPDX-License-Identifier: MIT
// Threads of the simulated machine: their order, their waiting, and that a run can be repeated.
#include "machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/atomic.hpp"
#include "os/spin_lock.hpp"

namespace coffer {
// The library's own is in the registry, which is not linked here.
__thread char t_lock_identity;
}  // namespace coffer

namespace simulation {
namespace {

using coffer::acq_rel;
using coffer::Atomic;
using coffer::relaxed;

Shape shape(u32 cores) {
  Shape result;
  result.cores = cores;
  return result;
}

// All begin at about the same time.
Costs costs() {
  Costs result;
  result.thread_start = 0;
  return result;
}

// Starts a thread a core; `body` outlives them.
void on_all(u32 cores, const std::function<void(u32)>& body) {
  for (u32 core = 1; core < cores; ++core) {
    g_machine->start_thread(core, [&body, core] { body(core); });
  }
  body(0);
}

// The cells that the tests share: static, for what is not is nobody else's.
struct alignas(64) Cells {
  Atomic<u64> counter;
  alignas(64) coffer::SpinLock lock;
  alignas(64) Atomic<u64> guarded;
  alignas(64) Atomic<u64> own[kMostCores * 8];
} g_cells;

struct Result {
  u64 time = 0, failed = 0, transfers = 0, waited = 0, counter = 0;
  auto operator<=>(const Result&) const = default;
};

Result count_by_compare_exchange(u32 cores, u64 seed) {
  g_cells.counter.store(0, relaxed);
  Machine machine(shape(cores), costs(), seed);
  Result result;
  const std::function<void(u32)> body = [&](u32) {
    for (int i = 0; i < 100; ++i) {
      u64 seen = g_cells.counter.load(relaxed);
      while (!g_cells.counter.compare_exchange(seen, seen + 1, acq_rel, relaxed)) {
      }
    }
    if (machine.now() > result.time) result.time = machine.now();
  };
  machine.run([&] { on_all(cores, body); });
  const CallCounts& counts = machine.counts().calls[kProgram];
  result.failed = counts.failed;
  result.transfers = counts.transfers;
  result.waited = counts.waited;
  result.counter = g_cells.counter.load(relaxed);
  return result;
}

TEST(Machine, OneCoreNeverFails) {
  const Result alone = count_by_compare_exchange(1, 1);
  EXPECT_EQ(alone.counter, 100u);
  EXPECT_EQ(alone.failed, 0u);
  EXPECT_EQ(alone.transfers, 0u);
}

TEST(Machine, SeveralCoresFailAndLoseNothing) {
  const Result crowd = count_by_compare_exchange(8, 1);
  EXPECT_EQ(crowd.counter, 800u);
  EXPECT_GT(crowd.failed, 100u);
  EXPECT_GT(crowd.transfers, 800u);
  EXPECT_GT(crowd.waited, 0u);
}

TEST(Machine, TheSameSeedIsTheSameRun) {
  const Result first = count_by_compare_exchange(8, 7);
  EXPECT_EQ(count_by_compare_exchange(8, 7), first);
  EXPECT_NE(count_by_compare_exchange(8, 8), first);
}

TEST(Machine, ALockLetsOneIn) {
  for (const u32 cores : {2u, 16u}) {
    g_cells.guarded.store(0, relaxed);
    Machine machine(shape(cores), costs(), 1);
    const std::function<void(u32)> body = [&](u32) {
      for (int i = 0; i < 50; ++i) {
        const coffer::LockGuard guard(g_cells.lock);
        // Not one step: without the lock others would come between.
        const u64 seen = g_cells.guarded.load(relaxed);
        machine.spend(100);
        g_cells.guarded.store(seen + 1, relaxed);
      }
    };
    machine.run([&] { on_all(cores, body); });
    EXPECT_EQ(g_cells.guarded.load(relaxed), 50u * cores);
    EXPECT_GT(machine.counts().calls[kProgram].waited, 50u * 100u * (cores - 1));
  }
}

// Without one, they do come between: the machine can show a lost update.
TEST(Machine, WithoutALockUpdatesAreLost) {
  g_cells.guarded.store(0, relaxed);
  Machine machine(shape(4), costs(), 1);
  const std::function<void(u32)> body = [&](u32) {
    for (int i = 0; i < 50; ++i) {
      const u64 seen = g_cells.guarded.load(relaxed);
      machine.spend(100);
      g_cells.guarded.store(seen + 1, relaxed);
    }
  };
  machine.run([&] { on_all(4, body); });
  EXPECT_LT(g_cells.guarded.load(relaxed), 200u);
}

// Cells of their own on one line each, or eight to a line.
u64 transfers_of_own_cells(u32 distance) {
  Machine machine(shape(8), costs(), 1);
  const std::function<void(u32)> body = [&](u32 core) {
    for (u64 i = 0; i < 200; ++i) g_cells.own[core * distance].store(i, relaxed);
  };
  machine.run([&] { on_all(8, body); });
  return machine.counts().calls[kProgram].transfers;
}

TEST(Machine, FalseSharingShows) {
  EXPECT_EQ(transfers_of_own_cells(8), 0u);
  EXPECT_GT(transfers_of_own_cells(1), 100u);
}

// Each core writes the one cell before, in and after the timed part, and in it also in a call.
TEST(Machine, OnlyWhatIsTimedCounts) {
  Machine machine(shape(2), costs(), 1);
  Machine::Meeting begun{2, {}}, ended{2, {}};
  const auto write_often = [&](int times) {
    for (int i = 0; i < times; ++i) {
      g_cells.guarded.store(1, relaxed);
      machine.spend(1000);
    }
  };
  bool counting = false;
  const std::function<void(u32)> body = [&](u32 core) {
    write_often(100);
    machine.meet(begun);
    if (!counting) machine.begin_to_count();
    counting = true;
    machine.set_timed(true);
    write_often(10);
    machine.enter(kMalloc);
    const u64 began = machine.now();
    write_often(10);
    machine.leave(kMalloc, began);
    machine.set_timed(false);
    machine.meet(ended);
    write_often(100);
    machine.system_call("after", 10, false, false);
    // Threads of one that is not timed are not, either.
    if (core == 0) machine.start_thread(1, [&] { write_often(100); });
  };
  machine.run([&] { on_all(2, body); });
  const Machine::Counts& counts = machine.counts();
  EXPECT_EQ(counts.calls[kProgram].accesses, 20u);
  EXPECT_EQ(counts.calls[kMalloc].accesses, 20u);
  EXPECT_EQ(counts.calls[kMalloc].calls, 2u);
  EXPECT_TRUE(counts.system.empty());
  const Line& line = machine.memory().line(reinterpret_cast<uptr>(&g_cells.guarded) / kLineBytes);
  EXPECT_EQ(line.counts.transfers, counts.calls[kProgram].transfers + counts.calls[kMalloc].transfers);
  EXPECT_EQ(line.in_calls.transfers, counts.calls[kMalloc].transfers);
  EXPECT_GT(line.in_calls.transfers, 5u);
  EXPECT_LE(line.counts.transfers, 40u);
}

TEST(Machine, AllMeetBeforeAnyGoesOn) {
  Machine machine(shape(4), costs(), 1);
  Machine::Meeting meeting{4, {}};
  u64 latest = 0, earliest = ~u64{0};
  const std::function<void(u32)> body = [&](u32 core) {
    machine.spend(core * 10'000);
    if (machine.now() > latest) latest = machine.now();
    machine.meet(meeting);
    if (machine.now() < earliest) earliest = machine.now();
  };
  machine.run([&] { on_all(4, body); });
  EXPECT_EQ(earliest, latest + machine.costs().wake);
}

// Each thread has variables of its own, and those of a thread that has ended do not come back.
__thread int t_number = 5;

TEST(Machine, ThreadsHaveVariablesOfTheirOwn) {
  Machine machine(shape(2), costs(), 1);
  std::vector<int> seen;
  const std::function<void()> later = [&] { seen.push_back(t_number); };
  const std::function<void()> body = [&] {
    seen.push_back(t_number);
    t_number = 6;
    machine.spend(1'000'000);
    seen.push_back(t_number);
    machine.start_thread(1, later);
  };
  machine.run([&] {
    t_number = 7;
    machine.start_thread(1, body);
    machine.spend(5'000'000);
    seen.push_back(t_number);
  });
  t_number = 5;
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<int>{5, 5, 6, 7}));
}

TEST(Machine, ACallOfTheKernelHoldsUpOthers) {
  const auto run = [](bool alone) {
    Machine machine(shape(4), costs(), 1);
    u64 latest = 0;
    const std::function<void(u32)> body = [&](u32) {
      machine.system_call("map", 10'000, alone, false);
      if (machine.now() > latest) latest = machine.now();
    };
    machine.run([&] { on_all(4, body); });
    return latest;
  };
  EXPECT_GE(run(true), run(false) + 29'000);
}

TEST(MachineDeathTest, AllWaitingForEachOtherIsSaid) {
  const auto hang = [] {
    Machine machine(shape(2), costs(), 1);
    Machine::Meeting meeting{3, {}};
    const std::function<void(u32)> body = [&](u32) { machine.meet(meeting); };
    machine.run([&] { on_all(2, body); });
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(1), "all threads wait for each other");
}

}  // namespace
}  // namespace simulation
