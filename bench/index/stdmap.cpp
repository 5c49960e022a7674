// SPDX-License-Identifier: MIT
// Paper 3's stdmap: a std::map of int to int, keys out of [0, 500), half of them there, walked by its iterator again
// and again. A step is an element.
#include <map>

#include "walk.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t keys = arguments.number("keys", 500), steps = arguments.number("operations", 10'000'000);
  bool list = arguments.number("list", 0) != 0;
  arguments.done();

  std::map<int, int> map;
  bench::Random random(1);
  while (map.size() < keys / 2) map[static_cast<int>(random.below(keys))] = 1;
  walk::run(list, steps / map.size(), map.size(), [&](auto see) {
    uint64_t sum = 0;
    for (const auto& [key, value] : map) {
      see(&key);  // its links lie right before it
      sum += static_cast<uint64_t>(key + value);
    }
    walk::use(sum);
    walk::barrier();
  });
}
