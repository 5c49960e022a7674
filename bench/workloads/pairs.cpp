// SPDX-License-Identifier: MIT
// malloc and free at once, one size: the shortest way through an allocator. An operation is a pair.
#include "bench.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t size = arguments.number("size", 64);
  size_t threads = arguments.number("threads", 1);
  size_t pairs = arguments.number("operations", 4000000) / threads;
  arguments.done();

  bench::Measurement measurement(threads);
  bench::run_threads(threads, [&](size_t) {
    for (size_t i = 0; i < pairs / 8; ++i) free(bench::allocate(size));
    measurement.start();
    for (size_t i = 0; i < pairs; ++i) free(bench::allocate(size));
    measurement.stop();
  });
  measurement.report(pairs * threads, pairs);
}
