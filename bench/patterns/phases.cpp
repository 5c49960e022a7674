// SPDX-License-Identifier: MIT
// Phases of shifting sizes: each fills the same number of bytes with blocks of one narrow range of sizes, and frees
// them again but for a few survivors anywhere among them, which stay to the end. Where a page or a span serves one size
// only, survivors of early phases keep memory that no later phase can use.
#include "pattern.hpp"

int main(int argc, char** argv) {
  pattern::Figures figures("phases");
  bench::Arguments arguments(argc, argv);
  size_t phases = arguments.number("phases", 10);
  size_t bytes = arguments.number("bytes", 40'000'000);
  size_t one_in = arguments.number("one_in", 50);
  size_t first = arguments.number("first", 40);
  size_t percent = arguments.number("percent", 170);  // from a phase's sizes to the next one's
  size_t width = arguments.number("width", 150);      // from the lowest to the highest size of a phase, in percent
  size_t total = arguments.number("total", 0);
  size_t down = arguments.number("down", 0);
  size_t shuffle = arguments.number("shuffle", 0);
  arguments.done();

  size_t lows[64];
  pattern::require(phases <= 64 && one_in > 1 && first >= 16, "bad arguments");
  for (size_t i = 0, low = first; i < phases; ++i, low = low * percent / 100) lows[down ? phases - 1 - i : i] = low;
  pattern::Blocks all, phase;
  all.make(phases * bytes / first / one_in * 2);
  phase.make(bytes / first + 1000);
  figures.own_memory_done();

  pattern::Random random(3);
  double worst = 0;
  for (size_t i = 0; i < phases; ++i) {
    size_t goal = total ? bytes - all.bytes() : bytes;
    while (phase.bytes() < goal) phase.add(random.between(lows[i], lows[i] * width / 100));
    figures.sample(all.bytes() + phase.bytes());
    double ratio = static_cast<double>(figures.now() - figures.start_kib()) * 1024 /
                   static_cast<double>(all.bytes() + phase.bytes());
    if (ratio > worst) worst = ratio;
    if (shuffle) phase.shuffle(random);
    phase.thin(one_in, random);
    all.take(phase);
  }
  figures.add("worst_ratio", worst);
  figures.add("survivors_kib", static_cast<double>(all.bytes()) / 1024);
  size_t end = figures.now();
  all.release_all();
  figures.add("freed_kib", static_cast<double>(figures.now()));
  figures.report(end);
}
