// SPDX-License-Identifier: MIT
// Threads that do nothing but allocate and free objects of one size, in rounds, and share nothing.
//
// Hoard: 100,000/t objects of 8 bytes; the rounds follow from table 4, which counts 9,998,831 objects in all. scalloc:
// 10^4 rounds of 10^5/t objects of 64 bytes (figure 6), or of 256 bytes (figure 13). An operation is a malloc with its
// free. Each object is written, and read again before it is freed.
#include "suite.hpp"

namespace {

struct State {
  size_t size, objects, rounds, work;
};

uint64_t run_thread(const State& state, void** objects, uint64_t seed) {
  uint64_t sum = 0;
  size_t bytes = state.size < sizeof(uint64_t) ? state.size : sizeof(uint64_t);
  for (size_t round = 0; round < state.rounds; ++round) {
    for (size_t i = 0; i < state.objects; ++i) {
      objects[i] = suite::allocate(state.size);
      uint64_t value = seed + round + i;
      memcpy(objects[i], &value, bytes);
      for (size_t turn = 0; turn < state.work; ++turn) asm volatile("" ::: "memory");
    }
    for (size_t i = 0; i < state.objects; ++i) {
      uint64_t value = 0;
      memcpy(&value, objects[i], bytes);
      sum += value;
      suite::release(objects[i]);
    }
  }
  return suite::mix(sum);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "threadtest", "Hoard 5.2, figure 3a and table 4; scalloc 7.2.1, figures 6, 13 and 14",
                 "threads allocate and free objects of one size in rounds, apart from each other");
  State state{};
  size_t threads = run.threads(1);
  state.size = run.number("size", 8, "bytes of an object; scalloc: 64, 256");
  state.objects = run.number("objects", 100'000, "objects of all threads together in a round") / threads;
  state.rounds = run.scaled("rounds", 100, "rounds of each thread; scalloc: 10000");
  state.work = run.number("work", 0, "empty turns after each allocation", 0);
  if (state.objects == 0) run.reject("more threads than objects");
  run.begin(threads);

  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    void** objects = suite::table<void*>(state.objects);
    run.start(thread);
    uint64_t sum = run_thread(state, objects, run.seed());
    run.stop();
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  run.live(threads * state.objects * state.size);
  run.report(threads * state.objects * state.rounds, checksum);
}
