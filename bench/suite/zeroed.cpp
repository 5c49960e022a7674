// SPDX-License-Identifier: MIT
// calloc and free, with a window of blocks that live: each is written before it is freed, so that the next owner's
// zeros are work. Every zero is checked at one word in each line. An operation is a calloc and a free.
//
// high= draws the sizes, size to high, instead of one. before= is what the process did first: as many blocks of 16 to
// 4,096 bytes, as many in each octave, written whole and freed in random order, so that blocks come from memory that
// was used and not from pages that the kernel has just zeroed.
#include "suite.hpp"

namespace {

void use_and_free(size_t count, uint64_t seed) {
  bench::Sizes sizes(16, 4096, true, seed);
  bench::Random random(seed);
  void** blocks = suite::table<void*>(count);
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = suite::allocate(sizes[i]);
    memset(blocks[i], 0x5a, sizes[i]);
  }
  for (size_t i = count; i > 0; --i) {
    size_t other = random.below(i);
    suite::release(blocks[other]);
    blocks[other] = blocks[i - 1];
  }
  bench::drop_table(blocks, count);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "zeroed", "of no paper", "calloc and free");
  size_t threads = run.threads(1);
  size_t size = run.number("size", 64, "bytes of a block, or of the smallest", 8);
  size_t high = run.number("high", 0, "bytes of the largest block; 0: all have one size", 0, 1 << 30);
  size_t before = run.number("before", 0, "blocks of mixed sizes that each thread uses and frees first", 0);
  size_t count = run.number("count", 100, "blocks that live, of each thread");
  size_t rounds = run.scaled("operations", 20'000'000, "callocs of all threads together") / threads / count + 1;
  if (high != 0 && high < size) run.reject("size is above high");
  run.begin(threads);

  bench::Sizes sizes(size, high == 0 ? size : high, false, run.seed() + 40);
  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    uint64_t** blocks = suite::table<uint64_t*>(count);
    if (before > 0) use_and_free(before, run.seed() * 1000 + thread);
    uint64_t sum = 0;
    run.start(thread);
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < count; ++i) {
        suite::release(blocks[i]);
        size_t bytes = sizes[round * count + i], words = bytes / sizeof(uint64_t);
        uint64_t* block = static_cast<uint64_t*>(suite::allocate_zeroed(bytes));
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
  run.live(threads * count * (high == 0 ? size : (size + high) / 2));
  run.report(rounds * count * threads, checksum);
}
