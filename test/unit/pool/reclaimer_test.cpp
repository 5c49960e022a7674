// SPDX-License-Identifier: MIT
#include "pool/reclaimer.hpp"
#include "support/build.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fresh.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;

Atomic<u32> g_entered, g_rounds;
Atomic<u32> g_stay_for;  // rounds for which the chore has the reclaimer stay
Atomic<i32> g_thread;    // that runs the chores
Atomic<uptr> g_errno_at, g_identity_at;
SpinLock g_lock;

void enter() { g_entered.fetch_add(1, seq_cst); }

bool chore() {
  LockGuard guard(g_lock);
  errno = 77;
  g_thread.store(static_cast<i32>(syscall(SYS_gettid)), seq_cst);
  g_errno_at.store(reinterpret_cast<uptr>(&errno), seq_cst);
  g_identity_at.store(reinterpret_cast<uptr>(&t_lock_identity), seq_cst);
  return g_rounds.fetch_add(1, seq_cst) + 1 < g_stay_for.load(seq_cst);
}

constexpr Chore kChores[] = {{&chore}};

// Sanitizers keep account of all threads: none is started under them.
bool supported() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return true;
#endif
}

u32 threads() {
  char text[4096] = {};
  std::FILE* file = std::fopen("/proc/self/status", "r");
  const usize length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = 0;
  return static_cast<u32>(std::strtoul(std::strstr(text, "Threads:") + 8, nullptr, 10));
}

template <class Condition>
bool soon(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    usleep(10'000);
  }
  return false;
}

void start() {
  test::changeable_options();
  os::note_process();
  set_chores(&enter, kChores, 1);
}

FRESH_TEST(Reclaimer, DoesItsChoresAndEnds) {
  if (!supported()) GTEST_SKIP();
  start();
  errno = 5;
  g_stay_for.store(2, seq_cst);
  want_reclaimer();
  EXPECT_EQ(threads(), 2u);
  EXPECT_TRUE(soon([] { return threads() == 1; }));
  EXPECT_EQ(g_entered.load(seq_cst), 1u);
  EXPECT_GE(g_rounds.load(seq_cst), 3u);
  EXPECT_NE(g_thread.load(seq_cst), getpid());
  EXPECT_EQ(errno, 5) << "it has an errno of its own";
  EXPECT_NE(g_errno_at.load(seq_cst), reinterpret_cast<uptr>(&errno));
  EXPECT_NE(g_identity_at.load(seq_cst), reinterpret_cast<uptr>(&t_lock_identity));
  // Another one, for whoever asks again.
  want_reclaimer();
  EXPECT_TRUE(soon([] { return g_entered.load(seq_cst) == 2; }));
  EXPECT_TRUE(soon([] { return threads() == 1; }));
}

FRESH_TEST(Reclaimer, IsOneForAll) {
  if (!supported()) GTEST_SKIP();
  start();
  test::run_together(4, [](u32) {
    for (int i = 0; i < 100'000; ++i) want_reclaimer();
  });
  EXPECT_EQ(threads(), 2u);
  EXPECT_TRUE(soon([] { return threads() == 1; }));
  EXPECT_EQ(g_entered.load(seq_cst), 1u);
}

// Whoever asks while it is about to end is not forgotten: it goes round once more.
FRESH_TEST(Reclaimer, StaysWhileSomebodyAsks) {
  if (!supported()) GTEST_SKIP();
  start();
  want_reclaimer();
  for (int i = 0; i < 8; ++i) {
    const u32 rounds = g_rounds.load(seq_cst);
    want_reclaimer();
    EXPECT_TRUE(soon([&] { return g_rounds.load(seq_cst) > rounds; })) << i;
  }
  EXPECT_TRUE(soon([] { return threads() == 1; }));
}

// Who attends stays; the chores rest meanwhile, and come back when somebody asks.
FRESH_TEST(Reclaimer, AttendsWhileItsChoresRest) {
  if (!supported()) GTEST_SKIP();
  start();
  static Atomic<u32> visits, leave;
  set_chores(&enter, kChores, 1, [] {
    visits.fetch_add(1, seq_cst);
    return leave.load(seq_cst) == 0;
  });
  want_reclaimer();
  EXPECT_TRUE(soon([] { return visits.load(seq_cst) >= 8; }));
  const u32 rounds = g_rounds.load(seq_cst);
  EXPECT_EQ(rounds, 5u) << "one, and four ticks to see whether more comes";
  want_reclaimer();
  EXPECT_TRUE(soon([&] { return g_rounds.load(seq_cst) > rounds; }));
  leave.store(1, seq_cst);
  EXPECT_TRUE(soon([] { return threads() == 1; }));
  EXPECT_EQ(g_entered.load(seq_cst), 1u);
}

// A daemon that was root: setuid does not reach the thread.
FRESH_TEST(Reclaimer, SeesThatTheProcessGaveUpRights) {
  if (!supported() || geteuid() != 0) GTEST_SKIP();
  start();
  static Atomic<u32> same, other, leave;
  set_chores(&enter, kChores, 1, [] {
    (os::has_process_rights() ? same : other).fetch_add(1, seq_cst);
    return leave.load(seq_cst) == 0;
  });
  EXPECT_TRUE(os::has_process_rights());
  want_reclaimer();
  EXPECT_TRUE(soon([] { return same.load(seq_cst) != 0; }));
  EXPECT_EQ(other.load(seq_cst), 0u);
  EXPECT_EQ(setuid(65534), 0);
  EXPECT_TRUE(os::has_process_rights()) << "asked by the process's first thread";
  EXPECT_TRUE(soon([] { return other.load(seq_cst) != 0; }));
  leave.store(1, seq_cst);
  EXPECT_TRUE(soon([] { return threads() == 1; }));
}

FRESH_TEST(Reclaimer, IsNotHadWhereTheKernelRefuses) {
  if (!supported()) GTEST_SKIP();
  start();
  fake::set_clock(1'000'000'000);
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kThread;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  for (int i = 0; i < 100; ++i) want_reclaimer();
  EXPECT_EQ(fake::failed_calls(), 1u) << "it is not tried again at once";
  EXPECT_EQ(threads(), 1u);
  fake::set_clock(3'500'000'000);
  for (int i = 0; i < 100; ++i) want_reclaimer();
  EXPECT_EQ(fake::failed_calls(), 2u);
  fake::stop_faults();
  fake::set_clock(9'000'000'000);
  want_reclaimer();
  EXPECT_EQ(threads(), 2u);
}

FRESH_TEST(Reclaimer, IsForbiddenByTheOption) {
  if (test::kThreadSanitizer) return;  // it has a thread of its own
  test::changeable_options().reclaimer = false;
  os::note_process();
  set_chores(&enter, kChores, 1);
  want_reclaimer();
  EXPECT_EQ(threads(), 1u);
}

Atomic<u32> g_steps;

// Through with every third.
bool step() { return g_steps.fetch_add(1, seq_cst) % 3 == 2; }

constexpr Chore kSteps[] = {{&chore}, {&chore, &step}};

// One step a call; the last one of them lets the tick end. They go on for four ticks after somebody asked.
FRESH_TEST(Reclaimer, CallsDoItsChoresWhereThereIsNone) {
  test::changeable_options().reclaimer = false;
  os::note_process();
  set_chores(&enter, kSteps, 2);
  EXPECT_FALSE(calls_sweep());
  EXPECT_TRUE(sweep_step()) << "nobody asked";
  EXPECT_EQ(g_steps.load(seq_cst), 0u);
  want_reclaimer();
  for (u32 tick = 0; tick < 5; ++tick) {
    EXPECT_TRUE(calls_sweep()) << tick;
    EXPECT_FALSE(sweep_step());
    EXPECT_FALSE(sweep_step());
    if (tick == 1) want_reclaimer();
    EXPECT_TRUE(sweep_step());
  }
  EXPECT_EQ(g_steps.load(seq_cst), 15u) << "in the second of these ticks somebody asked again";
  EXPECT_FALSE(calls_sweep());
  EXPECT_EQ(g_rounds.load(seq_cst), 0u) << "what is not bounded is left";
}

// Who is at a chore, or keeps others from them, is not joined.
FRESH_TEST(Reclaimer, StepsAreTakenByOneAtATime) {
  test::changeable_options().reclaimer = false;
  os::note_process();
  static constexpr Chore kNested[] = {{&chore, [] {
                                         EXPECT_FALSE(sweep_step());
                                         g_steps.fetch_add(1, seq_cst);
                                         return true;
                                       }}};
  set_chores(&enter, kNested, 1);
  want_reclaimer();
  {
    const ReclaimerRests rests;
    EXPECT_FALSE(sweep_step());
    EXPECT_EQ(g_steps.load(seq_cst), 0u);
  }
  EXPECT_TRUE(sweep_step());
  EXPECT_EQ(g_steps.load(seq_cst), 1u);
  forget_reclaimer();
  EXPECT_FALSE(calls_sweep()) << "a fork child asks anew";
}

FRESH_TEST(Reclaimer, IsForgottenInAForkChild) {
  if (!supported()) GTEST_SKIP();
  start();
  want_reclaimer();
  EXPECT_TRUE(soon([] { return g_entered.load(seq_cst) == 1; }));
  const int status = test::status_of([] {
    EXPECT_TRUE(forget_reclaimer());
    EXPECT_FALSE(forget_reclaimer());
    want_reclaimer();
    EXPECT_EQ(threads(), 1u) << "this process was not noted";
    os::note_process();
    want_reclaimer();
    EXPECT_EQ(threads(), 2u);
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace coffer
