// SPDX-License-Identifier: MIT
// What reading the clock costs, which is taken off every call's time.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>

#include "suite/latency.hpp"

namespace coffer::replay {
namespace {

using suite::Ticks;

constexpr uint64_t kInterruptNs = 100'000;
constexpr suseconds_t kBetweenUs = 200;
constexpr uint64_t kRunNs = 2'000'000;  // that interrupts as the clock is set do not count

void be_busy(uint64_t ns) {
  const uint64_t start = bench::clock_ns(CLOCK_MONOTONIC);
  while (bench::clock_ns(CLOCK_MONOTONIC) - start < ns) {
  }
}

void interrupt(int) { be_busy(kInterruptNs); }

void interrupt_every(suseconds_t us) {
  const itimerval often = {{0, us}, {0, us}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
}

// As on a busy machine: an interrupt that took longer than all readings together made them look several times as slow,
// and a replay's time in the allocator 0.
TEST(Clock, AnInterruptIsNoneOfItsCost) {
  struct sigaction action = {};
  action.sa_handler = interrupt;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  interrupt_every(kBetweenUs);
  double least = 1e9;
  double most = 0;
  for (int i = 0; i < 200; ++i) {
    Ticks::start();
    be_busy(kRunNs);
    Ticks::stop();
    least = std::min(least, Ticks::overhead_ns());
    most = std::max(most, Ticks::overhead_ns());
  }
  interrupt_every(0);
  EXPECT_GT(least, 0);
  EXPECT_LT(most, 3 * least);
}

}  // namespace
}  // namespace coffer::replay
