// SPDX-License-Identifier: MIT
#include "index/cache.hpp"

#include <gtest/gtest.h>

namespace {

using coffer::tools::Cache;
using coffer::tools::Geometry;
using coffer::tools::Replacement;

// Hits and misses of addresses, as text.
std::string hits(Cache& cache, const std::vector<uint64_t>& addresses) {
  std::string result;
  for (uint64_t address : addresses) result += cache.access(address) ? 'h' : 'm';
  return result;
}

// Worked out by hand: two ways, two sets, lines of 16 bytes. Lines 0, 2, 4 and 6 share set 0.
TEST(Cache, ReplacesTheLineUsedLeastRecently) {
  Cache cache({16, 2, 2}, Replacement::lru);
  //                           0    2    0    4 (out: 2)  0    2 (out: 4)  4 (out: 0)  0 (out: 2)  6 (out: 4)  0
  EXPECT_EQ(hits(cache, {0, 32, 0, 64, 0, 32, 64, 0, 96, 0}), "mmhmhmmmmh");
  EXPECT_EQ(cache.accesses(), 10u);
  EXPECT_EQ(cache.misses(), 7u);
  // Set 1 was not touched by any of it.
  EXPECT_EQ(hits(cache, {16, 48, 31, 63}), "mmhh");
  cache.forget_counts();
  EXPECT_EQ(cache.accesses() + cache.misses(), 0u);
  EXPECT_EQ(hits(cache, {16}), "h");
}

TEST(Cache, ALineIsAllOfItsBytes) {
  Cache cache({64, 4, 1}, Replacement::lru);
  EXPECT_EQ(hits(cache, {0, 63, 64, 127, 255, 256, 0}), "mhmhmmm");
}

// Going round n lines of one set: all stay while there are ways for them, and none when there is one too few.
TEST(Cache, ARingFitsOrDoesNot) {
  for (uint64_t count : {1, 4, 5, 9}) {
    Cache cache({16, 128, 4}, Replacement::lru);
    for (int lap = 0; lap < 10; ++lap) {
      for (uint64_t i = 0; i < count; ++i) cache.access(i * 2048);
    }
    EXPECT_EQ(cache.misses(), count <= 4 ? count : 10 * count) << count;
  }
}

// Appendix A: 8 KiB, 512 lines. 512 blocks at one line each fit if they are spread, and half of them do not if their
// stride leaves out every other index.
TEST(Cache, ThePapersMachine) {
  for (uint64_t stride : {16, 32, 272}) {
    Cache cache({16, 128, 4}, Replacement::lru);
    for (int lap = 0; lap < 3; ++lap) {
      for (uint64_t i = 0; i < 512; ++i) cache.access(i * stride);
    }
    EXPECT_EQ(cache.misses(), stride == 32 ? 3 * 512u : 512u) << stride;
  }
}

TEST(Cache, ProcessesShareIndicesAndNotMemory) {
  Cache cache({16, 2, 2}, Replacement::lru);
  EXPECT_FALSE(cache.access(0, 0));
  EXPECT_FALSE(cache.access(0, 1));
  EXPECT_TRUE(cache.access(0, 0));
  EXPECT_FALSE(cache.access(0, 2));  // takes the place of process 1's
  EXPECT_FALSE(cache.access(0, 1));
}

// Random replacement keeps some of a ring that does not fit: with 5 lines on 4 ways, far from all miss and far from
// none.
TEST(Cache, RandomReplacementKeepsSome) {
  Cache cache({16, 1, 4}, Replacement::random, 7);
  for (int lap = 0; lap < 10'000; ++lap) {
    for (uint64_t i = 0; i < 5; ++i) cache.access(i * 16);
  }
  EXPECT_GT(cache.misses(), 10'000u);
  EXPECT_LT(cache.misses(), 30'000u);
  Cache fits({16, 1, 4}, Replacement::random, 7);
  for (int lap = 0; lap < 100; ++lap) {
    for (uint64_t i = 0; i < 4; ++i) fits.access(i * 16);
  }
  EXPECT_EQ(fits.misses(), 4u);
}

TEST(Cache, ATlbIsACacheOfPages) {
  Cache tlb({4096, 1, 64}, Replacement::lru);
  for (int lap = 0; lap < 2; ++lap) {
    for (uint64_t page = 0; page < 64; ++page) tlb.access(page * 4096 + page);
  }
  EXPECT_EQ(tlb.misses(), 64u);
}

}  // namespace
