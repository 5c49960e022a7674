// SPDX-License-Identifier: MIT
// 100 MB up and down every 50 ms, 40 times, then quiet. An allocator that gives memory back at once pays for it with
// page faults in every breath; one that never does still holds it two seconds after the last.
#include <sys/resource.h>

#include "pattern.hpp"

namespace {

struct Usage {
  double faults, cpu_ms;

  static Usage now() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return {static_cast<double>(usage.ru_minflt), static_cast<double>(bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID)) / 1e6};
  }
};

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("breathing");
  bench::Arguments arguments(argc, argv);
  size_t bytes = arguments.number("bytes", 100'000'000);
  size_t breaths = arguments.number("breaths", 40);
  size_t period_ms = arguments.number("period_ms", 50);
  size_t quiet_ms = arguments.number("quiet_ms", 2000);
  pattern::Mix mix = {arguments.number("low", 16), arguments.number("high", 65536), true};
  arguments.done();
  pattern::require(breaths > 1, "bad arguments");

  pattern::Blocks blocks;
  blocks.make(bytes / 2048);
  figures.own_memory_done();

  Usage first{}, before{};
  uint64_t start = bench::clock_ns(CLOCK_MONOTONIC);
  for (size_t i = 0; i < breaths; ++i) {
    // The first breath needs its faults, and the sample of the second is not the allocator's work.
    if (i == 2) first = Usage::now();
    pattern::Random random(11);
    blocks.fill(bytes, mix, random);
    if (i == 1) figures.sample(blocks.bytes());
    blocks.release_all();
    start += period_ms * 1000000u;
    pattern::sleep_until(start);
  }
  before = Usage::now();
  pattern::sleep_ms(quiet_ms);
  size_t end = figures.now();
  double count = static_cast<double>(breaths - 2);
  figures.add("faults_a_breath", (before.faults - first.faults) / count);
  figures.add("cpu_ms_a_breath", (before.cpu_ms - first.cpu_ms) / count);
  figures.report(end);
}
