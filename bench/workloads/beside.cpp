// SPDX-License-Identifier: MIT
// A worker in place beside a grower: one thread allocates and frees a block at once, of one size after the other, and
// keeps a few of each; another fills memory, frees all of it, and begins again. An operation is a block of the grower:
// malloc, a write, free. The worker goes on until the grower is through.
//
// An allocator that takes memory from threads that seem idle must not take this worker for one: he needs no new memory,
// and frees few blocks of each size while the other one grows.
#include "bench.hpp"

namespace {

constexpr size_t kKept = 30;  // of each size
constexpr size_t kBlock = 1000;
constexpr size_t kPairs = 4;   // of one size
constexpr size_t kWork = 300;  // rounds of a loop between them

struct Worker {
  size_t classes;
  uint32_t* sizes;
  void** kept;

  explicit Worker(size_t wanted)
      : classes(wanted), sizes(bench::table<uint32_t>(wanted)), kept(bench::table<void*>(wanted * kKept)) {
    size_t size = 24;
    for (size_t i = 0; i < classes; ++i) {
      sizes[i] = static_cast<uint32_t>(size);
      size += size / 8 + 16;
      if (size > 30'000) size = 40;
    }
  }
  void begin() {
    for (size_t i = 0; i < classes * kKept; ++i) kept[i] = bench::allocate(sizes[i / kKept]);
  }
  void go_round() const {
    for (size_t i = 0; i < classes; ++i) {
      for (size_t pair = 0; pair < kPairs; ++pair) free(bench::allocate(sizes[i]));
      for (volatile size_t turns = 0; turns < kWork;) turns = turns + 1;
    }
  }
  void end() {
    for (size_t i = 0; i < classes * kKept; ++i) free(kept[i]);
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t classes = arguments.number("classes", 2);
  size_t live = arguments.number("live", 64'000);  // blocks of the grower, at most
  size_t blocks = arguments.number("operations", 1'000'000);
  arguments.done();
  bench::require(classes > 0 && live > 0, "bad arguments");

  Worker worker(classes);
  void** grown = bench::table<void*>(live);
  bench::Measurement measurement(2);
  std::atomic<bool> through{false};
  bench::run_threads(2, [&](size_t index) {
    if (index == 0) {
      worker.begin();
      measurement.start();
      while (!through.load(std::memory_order_relaxed)) worker.go_round();
      worker.end();
      return;
    }
    measurement.start();
    for (size_t left = blocks; left > 0;) {
      size_t count = left < live ? left : live;
      for (size_t i = 0; i < count; ++i) grown[i] = bench::allocate(kBlock);
      for (size_t i = 0; i < count; ++i) free(grown[i]);
      left -= count;
    }
    measurement.stop();
    measurement.sample();
    through.store(true, std::memory_order_relaxed);
  });
  measurement.report(blocks, blocks);
}
