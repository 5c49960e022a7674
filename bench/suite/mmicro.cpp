// SPDX-License-Identifier: MIT
// Threads that allocate and free blocks of one size and do nothing else, some blocks at a time. The paper runs for 50 s
// and says how many pairs of malloc and free a millisecond all threads do together; here the number of pairs is given.
// The paper names no size; 200 bytes are those of its figure 1. An operation is a pair.
#include "suite.hpp"

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "mmicro", "CIF section 6, figure 5", "malloc and free, pairs a millisecond");
  size_t threads = run.threads(1);
  size_t size = run.number("size", 200, "bytes of a block");
  size_t blocks = run.number("blocks", 64, "blocks allocated before the first of them is freed");
  size_t operations = run.scaled("operations", 500'000'000, "pairs of all threads together");
  run.begin(threads);

  size_t rounds = operations / threads / blocks + 1;
  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    unsigned char** mine = suite::table<unsigned char*>(blocks);
    uint64_t sum = 0;
    auto work = [&](size_t count) {
      for (size_t round = 0; round < count; ++round) {
        for (size_t i = 0; i < blocks; ++i) {
          mine[i] = static_cast<unsigned char*>(suite::allocate(size));
          mine[i][0] = static_cast<unsigned char>(round + i);
        }
        for (size_t i = 0; i < blocks; ++i) {
          sum += mine[i][0];
          suite::release(mine[i]);
        }
      }
    };
    work(rounds / 8 + 1);
    run.start(thread);
    work(rounds);
    run.stop();
    checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  });
  run.report(rounds * blocks * threads, checksum);
}
