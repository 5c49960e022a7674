// SPDX-License-Identifier: MIT
// A working set of blocks of random sizes, of which random ones are replaced. An operation is a free and a malloc.
#include "bench.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t low = arguments.number("low", 16);
  size_t high = arguments.number("high", 512);
  bool logarithmic = arguments.number("logarithmic", 0) != 0;
  size_t slots = arguments.number("slots", 10000);
  size_t threads = arguments.number("threads", 1);
  size_t operations = arguments.number("operations", 2000000) / threads;
  arguments.done();

  bench::Sizes sizes(low, high, logarithmic, 11);
  bench::Measurement measurement(threads);
  bench::run_threads(threads, [&](size_t index) {
    void** blocks = bench::table<void*>(slots);
    bench::Random random(100 + index);
    auto replace = [&](size_t slot) {
      size_t size = sizes[random.next()];
      free(blocks[slot]);
      blocks[slot] = bench::allocate(size);
      bench::touch(blocks[slot], size);
    };
    for (size_t i = 0; i < slots; ++i) replace(i);
    for (size_t i = 0; i < operations / 8; ++i) replace(random.below(slots));
    measurement.start();
    for (size_t i = 0; i < operations; ++i) replace(random.below(slots));
    measurement.stop();
    measurement.sample();
    for (size_t i = 0; i < slots; ++i) free(blocks[i]);
  });
  measurement.report(operations * threads, operations);
}
