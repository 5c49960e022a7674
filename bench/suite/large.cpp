// A working set of large blocks, every page written, of which random ones are replaced. An operation is a free and a
// malloc.
#include "suite.hpp"

namespace {

struct Block {
  unsigned char* memory;
  size_t size;
};

uint64_t replace(Block& block, size_t size) {
  uint64_t old = block.size;
  if (old != 0) suite::require(block.memory[old - 2] == static_cast<unsigned char>(old), "a block was damaged");
  suite::release(block.memory);
  block = {static_cast<unsigned char*>(suite::allocate(size)), size};
  bench::touch(block.memory, size);
  block.memory[size - 2] = static_cast<unsigned char>(size);
  return old;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "large", "of no paper", "large blocks, every page written");
  size_t threads = run.threads(1);
  size_t low = run.number("low", 100'000, "bytes of the smallest block", 4096);
  size_t high = run.number("high", 1'000'000, "bytes of the largest block", 4096, size_t{1} << 31);
  size_t slots = run.number("slots", 16, "blocks that live, of each thread");
  size_t operations = run.scaled("operations", 20'000, "replacements of all threads together") / threads + 1;
  if (low > high) run.reject("low is above high");
  run.begin(threads);

  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    Block* blocks = suite::table<Block>(slots);
    suite::Random random(run.seed() * 1000 + thread);
    for (size_t i = 0; i < slots; ++i) replace(blocks[i], random.between(low, high));
    uint64_t sum = 0;
    run.start(thread);
    for (size_t i = 0; i < operations; ++i) sum += replace(blocks[random.below(slots)], random.between(low, high));
    run.stop();
    run.sample();
    for (size_t i = 0; i < slots; ++i) suite::release(blocks[i].memory);
    checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  });
  run.live(threads * slots * ((low + high) / 2));
  run.report(operations * threads, checksum);
}
