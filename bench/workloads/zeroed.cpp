// SPDX-License-Identifier: MIT
// calloc and free, with a window of `count` live blocks. An operation is a calloc and a free.
#include "bench.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t size = arguments.number("size", 64);
  size_t count = arguments.number("count", 100);
  size_t threads = arguments.number("threads", 1);
  size_t rounds = arguments.number("operations", 2000000) / threads / count;
  arguments.done();

  bench::Measurement measurement(threads);
  bench::run_threads(threads, [&](size_t) {
    void** blocks = bench::table<void*>(count);
    auto run = [&](size_t n) {
      for (size_t round = 0; round < n; ++round) {
        for (size_t i = 0; i < count; ++i) {
          free(blocks[i]);
          char* block = static_cast<char*>(calloc(1, size));
          bench::require(block != nullptr && block[0] == 0 && block[size - 1] == 0, "calloc failed");
          // Dirty it, so that the next owner's zeros are work.
          bench::touch(block, size);
          blocks[i] = block;
        }
      }
    };
    run(rounds / 8 + 1);
    measurement.start();
    run(rounds);
    measurement.stop();
    measurement.sample();
    for (size_t i = 0; i < count; ++i) free(blocks[i]);
  });
  measurement.report(rounds * count * threads, rounds * count);
}
