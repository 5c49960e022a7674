// SPDX-License-Identifier: MIT
// calloc and free, with a window of blocks that live: each is written before it is freed, so that the next owner's
// zeros are work. Every zero is checked at one word in each line. An operation is a calloc and a free.
#include "suite.hpp"

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "zeroed", "of no paper", "calloc and free");
  size_t threads = run.threads(1);
  size_t size = run.number("size", 64, "bytes of a block", 8);
  size_t count = run.number("count", 100, "blocks that live, of each thread");
  size_t rounds = run.scaled("operations", 20'000'000, "callocs of all threads together") / threads / count + 1;
  run.begin(threads);

  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    uint64_t** blocks = suite::table<uint64_t*>(count);
    uint64_t sum = 0;
    size_t words = size / sizeof(uint64_t);
    run.start(thread);
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < count; ++i) {
        suite::release(blocks[i]);
        uint64_t* block = static_cast<uint64_t*>(suite::allocate_zeroed(size));
        uint64_t seen = block[words - 1];
        for (size_t word = 0; word < words; word += 8) {
          seen |= block[word];
          block[word] = round + i;
        }
        suite::require(seen == 0, "calloc gave a block that is not zero");
        block[words - 1] = i;
        sum += block[0];
        blocks[i] = block;
      }
    }
    run.stop();
    for (size_t i = 0; i < count; ++i) suite::release(blocks[i]);
    checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  });
  run.live(threads * count * size);
  run.report(rounds * count * threads, checksum);
}
