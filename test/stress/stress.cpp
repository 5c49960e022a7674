// SPDX-License-Identifier: MIT
// stress SCENARIO [--seed N] [--percent N]
#include "stress/stress.hpp"

#include <sched.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <random>

#include "support/arguments.hpp"
#include "support/held_block.hpp"

namespace coffer::test {

void Meeting::wait() {
  const unsigned round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
    if (spins > 200) sched_yield();
  }
}

void check_all_free() {
  check_allocator("after everything was freed");
  const std::size_t live = live_bytes();
  REQUIRE(live == 0, "stats: live %zu after everything was freed", live);
  coffer_malloc_trim(0);
  check_allocator("after the last trim");
}

namespace {

struct Scenario {
  const char* name;
  void (*run)(const Load&);
};

constexpr Scenario kScenarios[] = {
    {"producer_consumer", producer_consumer},
    {"ring", ring},
    {"thread_churn", thread_churn},
    {"thread_exit", thread_exit},
    {"same_span", same_span},
    {"asymmetric", asymmetric},
    {"limit", at_the_limit},
    {"fork", fork_under_load},
};

int stress(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const Load load = {arguments.number("--seed", std::random_device{}()), arguments.number("--percent", 100)};
  for (const Scenario& scenario : kScenarios) {
    if (argc < 2 || std::strcmp(argv[1], scenario.name) != 0) continue;
    std::printf("%s: seed %" PRIu64 "\n", scenario.name, load.seed);
    std::fflush(stdout);
    scenario.run(load);
    return 0;
  }
  std::fprintf(stderr, "usage: stress SCENARIO [--seed N] [--percent N]; scenarios:");
  for (const Scenario& scenario : kScenarios) std::fprintf(stderr, " %s", scenario.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::stress(argc, argv); }
