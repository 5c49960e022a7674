// SPDX-License-Identifier: MIT
// The table of live blocks is a map.
#include "trace/block_table.hpp"

#include <gtest/gtest.h>

#include <unordered_map>

namespace coffer::trace {
namespace {

TEST(BlockTable, HoldsWhatAMapHolds) {
  BlockTable table;
  std::unordered_map<u64, u64> model;
  u64 state = 1;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const u64 key = 16 * (1 + (state >> 33) % 3000);
    const Block* const found = table.find(key);
    ASSERT_EQ(found != nullptr, model.count(key) != 0);
    if (found != nullptr) {
      ASSERT_EQ(table.take(key).identity, model[key]);
      model.erase(key);
    } else {
      table.insert(key, {static_cast<u64>(i), 0});
      model[key] = static_cast<u64>(i);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

}  // namespace
}  // namespace coffer::trace
