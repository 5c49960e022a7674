// SPDX-License-Identifier: MIT
// Paper 3's mmicro (figure 5): threads that allocate and free blocks of one size and touch nothing else, some blocks
// at a time. An operation is a malloc with its free. Placement must not cost it anything.
#include "walk.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t size = arguments.number("size", 200), blocks = arguments.number("blocks", 64);
  size_t threads = arguments.number("threads", 1);
  size_t rounds = arguments.number("operations", 4'000'000) / threads / blocks;
  arguments.done();

  void** all = bench::table<void*>(threads * blocks);
  bench::Measurement measurement(threads);
  bench::run_threads(threads, [&](size_t thread) {
    void** mine = all + thread * blocks;
    auto work = [&](size_t count) {
      for (size_t round = 0; round < count; ++round) {
        for (size_t i = 0; i < blocks; ++i) mine[i] = bench::allocate(size);
        for (size_t i = 0; i < blocks; ++i) free(mine[i]);
      }
    };
    work(rounds / 8 + 1);
    measurement.start();
    work(rounds);
    measurement.stop();
  });
  measurement.report(rounds * blocks * threads, rounds * blocks);
}
