// SPDX-License-Identifier: MIT
// A working set of large blocks, every page written, of which random ones are replaced. An operation is a free and a
// malloc. touch=0 writes only to the first page of each, for what malloc and free cost by themselves.
#include "suite.hpp"

namespace {

struct Block {
  uint64_t* memory;
  size_t size;
};

// The block's number stands behind the word that touch() writes, so that blocks that overlap are noticed.
uint64_t replace(Block& block, size_t size, uint64_t number, bool touch) {
  uint64_t old = block.size;
  suite::require(old == 0 || block.memory[1] == block.memory[2] - old, "a block was damaged");
  suite::release(block.memory);
  block = {static_cast<uint64_t*>(suite::allocate(size)), size};
  if (touch) bench::touch(block.memory, size);
  block.memory[1] = number;
  block.memory[2] = number + size;
  return old;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "large", "of no paper", "large blocks, every page written");
  size_t threads = run.threads(1);
  size_t low = run.number("low", 100'000, "bytes of the smallest block", 4096);
  size_t high = run.number("high", 1'000'000, "bytes of the largest block", 4096, size_t{1} << 31);
  size_t slots = run.number("slots", 16, "blocks that live, of each thread");
  bool touch = run.number("touch", 1, "0: only the first page of a block is written", 0, 1) != 0;
  size_t operations = run.scaled("operations", 20'000, "replacements of all threads together") / threads + 1;
  if (low > high) run.reject("low is above high");
  run.begin(threads);

  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    Block* blocks = suite::table<Block>(slots);
    suite::Random random(run.seed() * 1000 + thread);
    for (size_t i = 0; i < slots; ++i) replace(blocks[i], random.between(low, high), i, touch);
    uint64_t sum = 0;
    run.start(thread);
    for (size_t i = 0; i < operations; ++i) {
      size_t slot = random.below(slots);
      sum += replace(blocks[slot], random.between(low, high), slots + i, touch);
    }
    run.stop();
    run.sample();
    for (size_t i = 0; i < slots; ++i) suite::release(blocks[i].memory);
    checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  });
  run.live(threads * slots * ((low + high) / 2));
  run.report(operations * threads, checksum);
}
