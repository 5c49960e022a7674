// SPDX-License-Identifier: MIT
// A small program: it holds 0.8 MB in 2,000 blocks of many sizes.
#include "pattern.hpp"

int main(int argc, char** argv) {
  pattern::Figures figures("small");
  bench::Arguments arguments(argc, argv);
  size_t count = arguments.number("blocks", 2000);
  size_t bytes = arguments.number("bytes", 800'000);
  pattern::Mix mix = {arguments.number("low", 16), arguments.number("high", 4096), true};
  arguments.done();

  pattern::Blocks blocks;
  blocks.make(count);
  // Sizes are drawn first and scaled to the sum that is wanted.
  size_t* sizes = bench::table<size_t>(count);
  pattern::Random random(5);
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += sizes[i] = mix.draw(random);
  for (size_t i = 0; i < count; ++i) {
    sizes[i] = sizes[i] * bytes / sum;
    if (sizes[i] < 16) sizes[i] = 16;
  }
  figures.own_memory_done();

  for (size_t i = 0; i < count; ++i) blocks.add(sizes[i]);
  figures.sample(blocks.bytes());
  blocks.release_all();
  figures.report(figures.now());
}
