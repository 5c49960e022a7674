// SPDX-License-Identifier: MIT
// CIF's classes against the paper's own numbers (L = 16, P = 2048) and on this machine's lines.
#include "papers/cif/size_classes.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace coffer::cif {
namespace {

constexpr ClassRule kRules[] = {ClassRule::powers, ClassRule::halves, ClassRule::odd, ClassRule::adjusted};
constexpr Cache kCaches[] = {kPaperCache, kThisCache, {128, 8192}};

// Indices that a flat array really reaches, by walking it.
u32 walked(Cache cache, usize block) {
  std::set<usize> seen;
  for (usize n = 0; n < cache.page; ++n) seen.insert(n * block % cache.page / cache.line);
  return static_cast<u32>(seen.size());
}

TEST(CifClasses, PaperCache) {
  EXPECT_EQ(kPaperCache.indices(), 128u);             // appendix A
  EXPECT_EQ(reached_indices(kPaperCache, 128), 16u);  // section 1: "just 16 instead of 128"
  EXPECT_EQ(reached_indices(kPaperCache, 768), 8u);   // section 3: repeats after 8 blocks
  EXPECT_EQ(reached_indices(kPaperCache, 2048), 1u);
  EXPECT_EQ(reached_indices(kPaperCache, 16), 128u);
  // Appendix B's equivalent form: 128 / gcd(128, S / 16).
  for (usize block = 16; block <= 32768; block += 16) {
    EXPECT_EQ(reached_indices(kPaperCache, block), 128 / std::gcd(usize{128}, block / 16)) << block;
  }
}

TEST(CifClasses, FormulaIsWhatAWalkFinds) {
  for (const Cache cache : kCaches) {
    for (usize block = kSmallestBlock; block < 3 * cache.page; block += 16) {
      if (block > cache.line && block % cache.line != 0) continue;  // no class is that
      EXPECT_EQ(reached_indices(cache, block), walked(cache, block)) << cache.line << " " << block;
    }
  }
}

TEST(CifClasses, AppendixBsTransformation) {
  EXPECT_EQ(index_aware(kPaperCache, 16), 16u);
  EXPECT_EQ(index_aware(kPaperCache, 32), 48u);
  EXPECT_EQ(index_aware(kPaperCache, 128), 144u);
  EXPECT_EQ(index_aware(kPaperCache, 144), 144u);
  EXPECT_EQ(index_aware(kPaperCache, 768), 784u);
  EXPECT_EQ(index_aware(kPaperCache, 2048), 2064u);
  EXPECT_EQ(index_aware(kThisCache, 64), 64u);
  EXPECT_EQ(index_aware(kThisCache, 128), 192u);
  for (const Cache cache : kCaches) {
    for (usize block = cache.line; block < 4 * cache.page; block += cache.line) {
      EXPECT_TRUE(is_index_friendly(cache, index_aware(cache, block))) << block;
    }
  }
}

TEST(CifClasses, PowersBeginAt16) {
  const SizeClasses paper(ClassRule::powers, kPaperCache);
  const SizeClasses here(ClassRule::powers, kThisCache);
  for (u32 c = 0; c < 12; ++c) {
    EXPECT_EQ(paper.bytes(c), usize{16} << c);
    EXPECT_EQ(here.bytes(c), usize{16} << c);
  }
  EXPECT_EQ(here.bytes(here.of_request(0)), 16u);
  EXPECT_EQ(here.bytes(here.of_request(8)), 16u);
  EXPECT_EQ(here.bytes(here.of_request(9)), 32u);
  EXPECT_EQ(here.bytes(here.of_request(24)), 32u);
  EXPECT_EQ(here.bytes(here.of_request(25)), 64u);
  EXPECT_EQ(here.bytes(here.of_request(120)), 128u);
  EXPECT_EQ(here.bytes(here.of_request(121)), 256u);  // a header word does not fit beside 128 bytes
}

TEST(CifClasses, OddOnThePapersMachine) {
  const SizeClasses classes(ClassRule::odd, kPaperCache);
  for (u32 n = 0; n < 100; ++n) EXPECT_EQ(classes.bytes(n), (2 * n + 1) * 16u);
  EXPECT_EQ(classes.bytes(classes.of_request(100)), 112u);
  EXPECT_EQ(classes.bytes(classes.of_request(104)), 112u);
  EXPECT_EQ(classes.bytes(classes.of_request(105)), 144u);
}

TEST(CifClasses, OddAndHalvesHere) {
  const SizeClasses odd(ClassRule::odd, kThisCache);
  const usize expected_odd[] = {16, 32, 64, 192, 320, 448};
  for (u32 c = 0; c < 6; ++c) EXPECT_EQ(odd.bytes(c), expected_odd[c]);
  const SizeClasses halves(ClassRule::halves, kThisCache);
  const usize expected_halves[] = {16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048};
  for (u32 c = 0; c < 12; ++c) EXPECT_EQ(halves.bytes(c), expected_halves[c]);
  const SizeClasses adjusted(ClassRule::adjusted, kThisCache);
  const usize expected_adjusted[] = {16, 32, 64, 192, 320, 576, 1088, 2112};
  for (u32 c = 0; c < 8; ++c) EXPECT_EQ(adjusted.bytes(c), expected_adjusted[c]);
}

TEST(CifClasses, EveryBlockGetsTheSmallestClassThatHoldsIt) {
  for (const Cache cache : kCaches) {
    for (const ClassRule rule : kRules) {
      const SizeClasses classes(rule, cache);
      u32 fits = 0;
      for (usize block = 1; block <= 40000; ++block) {
        while (classes.bytes(fits) < block) ++fits;
        ASSERT_EQ(classes.of_block(block), fits) << static_cast<int>(rule) << " " << cache.line << " " << block;
      }
    }
  }
}

TEST(CifClasses, AboveALineAllAreWholeLinesAndTheAwareOnesFriendly) {
  for (const Cache cache : kCaches) {
    for (const ClassRule rule : kRules) {
      const SizeClasses classes(rule, cache);
      const u32 count = classes.count(32768);
      EXPECT_LE(classes.bytes(count - 1), 32768u);
      EXPECT_GT(classes.bytes(count), 32768u);
      for (u32 c = 0; c < count; ++c) {
        const usize bytes = classes.bytes(c);
        EXPECT_TRUE(bytes < cache.line ? cache.line % bytes == 0 : bytes % cache.line == 0) << bytes;
        if (rule == ClassRule::odd || rule == ClassRule::adjusted) {
          EXPECT_TRUE(is_index_friendly(cache, bytes)) << bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace coffer::cif
