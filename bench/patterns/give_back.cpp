// SPDX-License-Identifier: MIT
// 500 MB are allocated in blocks of mixed sizes and all freed; what does the process hold after two seconds in which it
// does nothing?
#include "pattern.hpp"

int main(int argc, char** argv) {
  pattern::Figures figures("give_back");
  bench::Arguments arguments(argc, argv);
  size_t bytes = arguments.number("bytes", 500'000'000);
  size_t quiet_ms = arguments.number("quiet_ms", 2000);
  pattern::Mix mix = {arguments.number("low", 16), arguments.number("high", 65536), true};
  size_t shuffle = arguments.number("shuffle", 1);
  arguments.done();

  pattern::Blocks blocks;
  blocks.make(bytes / 2048);
  figures.own_memory_done();

  pattern::Random random(7);
  blocks.fill(bytes, mix, random);
  figures.sample(blocks.bytes());
  if (shuffle) blocks.shuffle(random);
  blocks.release_all();
  figures.add("freed_kib", static_cast<double>(figures.now()));
  pattern::sleep_ms(quiet_ms);
  figures.report(figures.now());
}
