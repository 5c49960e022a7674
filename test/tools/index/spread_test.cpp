// SPDX-License-Identifier: MIT
#include "index/spread.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace {

using coffer::tools::Geometry, coffer::tools::measure_spread;

constexpr Geometry kL1{64, 64, 12}, kT2{16, 128, 4};

// `count` addresses that are `stride` apart, with a spacer of `spacer` bytes after every `each` of them.
std::vector<uint64_t> array(uint64_t count, uint64_t stride, uint64_t each = 0, uint64_t spacer = 0) {
  std::vector<uint64_t> addresses;
  for (uint64_t i = 0, at = 1 << 20; i < count; ++i, at += stride) {
    if (each != 0 && i != 0 && i % each == 0) at += spacer;
    addresses.push_back(at);
  }
  return addresses;
}

TEST(Geometry, IsReadAndChecked) {
  const Geometry cache = Geometry::parse("16:128:4");
  EXPECT_EQ(cache.line, 16u);
  EXPECT_EQ(cache.sets, 128u);
  EXPECT_EQ(cache.ways, 4u);
  EXPECT_EQ(cache.page(), 2048u);
  EXPECT_EQ(cache.index(2048 + 16 * 5 + 15), 5u);
  for (const char* text : {"", "64", "64:64", "64:64:", "64:64:0", "0:64:8", "48:64:8", "64:64:8:1", "64:x:8", ":::"}) {
    EXPECT_THROW(Geometry::parse(text), std::invalid_argument) << text;
  }
}

// Appendix B: a stride of S reaches sets / gcd(sets, S / line) indices. The paper's example has blocks of 768 bytes on
// its machine: 8 indices, and all 128 when a line is left out after every 8 blocks.
TEST(Spread, OfRegularArraysIsThePapers) {
  EXPECT_EQ(measure_spread(kT2, array(256, 768), 0).distinct, 8u);
  EXPECT_EQ(measure_spread(kT2, array(1024, 768, 8, 16), 0).distinct, 128u);
  EXPECT_EQ(measure_spread(kT2, array(256, 128), 0).distinct, 16u);
  EXPECT_EQ(measure_spread(kT2, array(256, 144), 0).distinct, 128u);
  for (uint64_t lines = 1; lines <= 200; ++lines) {
    const uint64_t expected = kL1.sets / std::gcd(kL1.sets, lines);
    EXPECT_EQ(measure_spread(kL1, array(256, lines * 64), 0).distinct, expected) << lines;
  }
}

TEST(Spread, ShareIsOfWhatCanBeReached) {
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(256, 4096), 0).share(), 1.0 / 64);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(256, 4160), 0).share(), 1);
  // Ten blocks cannot reach more than ten.
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(10, 64), 0).share(), 1);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(10, 128), 0).share(), 1);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(10, 2048), 0).share(), 0.2);
  // Blocks that the caller wants aligned have fewer by their nature.
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(256, 4096), 4096).share(), 1);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(256, 4096), 1024).share(), 0.25);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(256, 4096), 16).share(), 1.0 / 64);
  EXPECT_EQ(coffer::tools::attainable_indices({64, 96, 8}, 1000, 4096), 3u);
}

TEST(Spread, LoadsAndConflictsAreCounted) {
  // 4 indices with 64 lines each, in sets of 12: nothing stays.
  const auto crowded = measure_spread(kL1, array(256, 1024), 0);
  EXPECT_EQ(crowded.heaviest, 64u);
  EXPECT_DOUBLE_EQ(crowded.conflicts, 100);
  EXPECT_DOUBLE_EQ(crowded.ideal_conflicts, 0);
  // 12 lines on one index fit; 13 are one too many, and then all of them miss.
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(12, 4096), 0).conflicts, 0);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(13, 4096), 0).conflicts, 100);
  // 13 on one index, 39 elsewhere.
  auto mixed = array(13, 4096);
  for (uint64_t address : array(39, 64)) mixed.push_back(address + 64);
  EXPECT_DOUBLE_EQ(measure_spread(kL1, mixed, 0).conflicts, 25);
  // More lines than the cache has: the best placement misses too.
  EXPECT_DOUBLE_EQ(measure_spread(kL1, array(64 * 13, 64), 0).ideal_conflicts, 100);
  // Blocks in the same line are one line: 16 of 32 bytes on 8 lines of a cache with one set.
  EXPECT_DOUBLE_EQ(measure_spread({64, 1, 8}, array(16, 32), 0).conflicts, 0);
  uint64_t sum = 0;
  for (uint64_t load : crowded.loads) sum += load;
  EXPECT_EQ(sum, 256u);
}

TEST(Layout, CountsLinesPagesAndDistances) {
  const auto layout = coffer::tools::measure_layout(64, 4096, 100, {4096, 4096 + 112, 4096 + 224, 4096 + 336, 1 << 20});
  EXPECT_EQ(layout.stride, 112u);
  EXPECT_EQ(layout.pages, 2u);
  EXPECT_DOUBLE_EQ(layout.on_line, 0.4);
  EXPECT_DOUBLE_EQ(layout.fewest_lines, 2);
  // 0-99: 2 lines, 112-211: 3, 224-323: 3, 336-435: 2, and the last 2.
  EXPECT_DOUBLE_EQ(layout.lines, 12.0 / 5);
  EXPECT_EQ(coffer::tools::measure_layout(64, 4096, 100, {}).pages, 0u);
}

TEST(Layout, TakesWhatAListMaySay) {
  const uint64_t last = ~uint64_t{0};
  EXPECT_DOUBLE_EQ(coffer::tools::measure_layout(64, 4096, 100, {last}).lines, 1);
  EXPECT_GT(coffer::tools::measure_layout(64, 4096, last, {64, last}).fewest_lines, 1e17);
  EXPECT_DOUBLE_EQ(coffer::tools::measure_layout(64, 4096, 0, {64}).lines, 1);
}

}  // namespace
