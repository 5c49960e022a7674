// SPDX-License-Identifier: MIT
// Flat and punctuated arrays, against section 3's example and by walking every byte.
#include "papers/cif/array.hpp"

#include <gtest/gtest.h>

#include <set>

namespace coffer::cif {
namespace {

constexpr ArrayRule kRules[] = {ArrayRule::punctuated, ArrayRule::multiple, ArrayRule::flat};

u32 index_of(Cache cache, usize offset) { return static_cast<u32>(offset % cache.page / cache.line); }

u32 indices_of(const Array& array, Cache cache, usize bytes) {
  std::set<u32> seen;
  for (usize n = 0; n < array.count_in(bytes); ++n) seen.insert(index_of(cache, array.offset(n)));
  return static_cast<u32>(seen.size());
}

// Section 3: blocks of 768 at B fall on I, I + 48, I + 96, I + 16, I + 64, I + 112, I + 32, I + 80 and I again.
TEST(CifArray, SectionThreesExample) {
  const Array flat = make_array(ArrayRule::flat, kPaperCache, 768);
  const u32 expected[] = {0, 48, 96, 16, 64, 112, 32, 80, 0};
  for (usize n = 0; n < 9; ++n) EXPECT_EQ(index_of(kPaperCache, flat.offset(n)), expected[n]) << n;
  EXPECT_EQ(indices_of(flat, kPaperCache, 64 * 1024), 8u);

  // "inserts a spacer after every 8 blocks": all 128 indices, given room for 16 such runs.
  const Array multiple = make_array(ArrayRule::multiple, kPaperCache, 768);
  EXPECT_EQ(multiple.run, 8u);
  EXPECT_EQ(multiple.offset(7), 7u * 768);
  EXPECT_EQ(multiple.offset(8), 8u * 768 + 16);
  EXPECT_EQ(indices_of(multiple, kPaperCache, 16 * multiple.run_bytes()), 128u);

  // "after each contiguous run of blocks totaling at least 2048 bytes": what CIF does.
  const Array punctuated = make_array(ArrayRule::punctuated, kPaperCache, 768);
  EXPECT_EQ(punctuated.run, 3u);
  EXPECT_EQ(punctuated.offset(3), 3u * 768 + 16);
  EXPECT_EQ(indices_of(punctuated, kPaperCache, 128 * punctuated.run_bytes()), 128u);
}

TEST(CifArray, ForPowersOfTwoBothRulesAreOne) {
  for (const Cache cache : {kPaperCache, kThisCache}) {
    for (usize block = 16; block <= 65536; block *= 2) {
      EXPECT_EQ(run_of(ArrayRule::punctuated, cache, block), run_of(ArrayRule::multiple, cache, block)) << block;
    }
  }
}

TEST(CifArray, FriendlyClassesHaveNoSpacers) {
  for (const ArrayRule rule : kRules) {
    EXPECT_EQ(run_of(rule, kPaperCache, 16), kNoSpacers);
    EXPECT_EQ(run_of(rule, kPaperCache, 144), kNoSpacers);
    EXPECT_EQ(run_of(rule, kThisCache, 16), kNoSpacers);
    EXPECT_EQ(run_of(rule, kThisCache, 192), kNoSpacers);
  }
  EXPECT_EQ(run_of(ArrayRule::punctuated, kThisCache, 128), 32u);
  EXPECT_EQ(run_of(ArrayRule::punctuated, kThisCache, 4096), 1u);
  EXPECT_EQ(run_of(ArrayRule::punctuated, kThisCache, 8192), 1u);
  EXPECT_EQ(run_of(ArrayRule::flat, kThisCache, 128), kNoSpacers);
}

// "In the worst case punctuated arrays require just one cache line of spacer per cache page."
TEST(CifArray, AtMostALineACachePageIsLost) {
  for (const Cache cache : {kPaperCache, kThisCache}) {
    for (usize block = cache.line; block <= 32768; block += cache.line) {
      const Array array = make_array(ArrayRule::punctuated, cache, block);
      const usize count = array.count_in(1 << 20);
      EXPECT_LE(array.offset(count) - count * block, array.offset(count) / cache.page * cache.line) << block;
    }
  }
}

TEST(CifArray, GivenRoomEveryClassReachesEveryIndex) {
  for (const Cache cache : {kPaperCache, kThisCache}) {
    for (const ArrayRule rule : {ArrayRule::punctuated, ArrayRule::multiple}) {
      for (usize block = cache.line; block <= 16 * 1024; block += cache.line) {
        const Array array = make_array(rule, cache, block);
        EXPECT_EQ(indices_of(array, cache, usize{8} << 20), cache.indices()) << block << " " << cache.line;
      }
    }
  }
}

TEST(CifArray, OffsetAndBlockOfOffsetAreInverse) {
  for (const ArrayRule rule : kRules) {
    for (const usize block : {16, 64, 128, 192, 768, 1024, 4096, 6144, 32768}) {
      const Array array = make_array(rule, kThisCache, block);
      usize next = 0;
      for (usize byte = 0; byte < 200'000; ++byte) {
        while (array.offset(next) <= byte) ++next;  // the block before `next` is the last that starts by now
        ASSERT_EQ(array.at(byte), next - 1) << block << " " << byte;
      }
    }
  }
}

TEST(CifArray, CountInIsWhatFits) {
  for (const ArrayRule rule : kRules) {
    for (const usize block : {16, 128, 768, 2048, 8192, 16384}) {
      const Array array = make_array(rule, kThisCache, block);
      usize fits = 0;
      for (usize bytes = 0; bytes < 100'000; bytes += 8) {
        while (array.offset(fits) + block <= bytes) ++fits;
        ASSERT_EQ(array.count_in(bytes), fits) << block << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace coffer::cif
