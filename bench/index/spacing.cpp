// SPDX-License-Identifier: MIT
// For the question of section 8.2 of paper 3, how far apart size classes should be: blocks of many sizes, visited in
// random order, each at a few of its lines. A step is a visit. How many pages the blocks lie on, and how often a TLB
// misses, is what the simulator tells of the list.
#include "walk.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t low = arguments.number("low", 16), high = arguments.number("high", 4096);
  size_t blocks = arguments.number("blocks", 4000), steps = arguments.number("operations", 4'000'000);
  bool logarithmic = arguments.number("logarithmic", 1) != 0, whole = arguments.number("whole", 0) != 0;
  bool list = arguments.number("list", 0) != 0;
  arguments.done();
  bench::require(blocks > 0 && low >= sizeof(uint64_t), "bad sizes");

  bench::Sizes sizes(low, high, logarithmic, 11);
  bench::Random random(5);
  char** places = bench::table<char*>(blocks);
  size_t* lengths = bench::table<size_t>(blocks);
  // Twice as many, and each other one freed again: a heap that has been used.
  for (size_t i = 0; i < blocks * 2; ++i) {
    void* block = bench::allocate(sizes[i]);
    if (i % 2 == 0) {
      places[i / 2] = static_cast<char*>(block);
      lengths[i / 2] = sizes[i];
    } else {
      free(block);
    }
  }
  for (size_t i = blocks - 1; i > 0; --i) {
    size_t other = random.below(i + 1);
    char* place = places[i];
    places[i] = places[other];
    places[other] = place;
    size_t length = lengths[i];
    lengths[i] = lengths[other];
    lengths[other] = length;
  }
  walk::run(list, steps / blocks, blocks, [&](auto see) {
    uint64_t sum = 0;
    for (size_t i = 0; i < blocks; ++i) {
      for (size_t offset = 0; offset < (whole ? lengths[i] : 1); offset += 64) {
        see(places[i] + offset);
        sum += static_cast<unsigned char>(places[i][offset]);
      }
    }
    walk::use(sum);
    walk::barrier();
  });
}
