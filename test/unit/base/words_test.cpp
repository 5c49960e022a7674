// SPDX-License-Identifier: MIT
// Pairs of words, and the start of a page, on whatever machine this is: elsewhere they are what any code does.
#include "base/words.hpp"

#include <gtest/gtest.h>

namespace coffer {
namespace {

alignas(kHotAlignment < 64 ? 64 : kHotAlignment) u64 g_words[] = {1, u64{2} << 60, 3, 4};

TEST(Words, AreReadInTheirOrder) {
  for (const Words words : {load_words(&g_words[1]), load_words_at_once(&g_words[1])}) {
    EXPECT_EQ(words.first, u64{2} << 60);
    EXPECT_EQ(words.second, 3u);
  }
}

TEST(Words, BothOfAtomics) {
  struct {
    Atomic<u64> first{7};
    Atomic<u64> second{8};
  } cells;
  // relaxed: one thread.
  cells.second.store(9, relaxed);
  const Words words = load_words_at_once(&cells);
  EXPECT_EQ(words.first, 7u);
  EXPECT_EQ(words.second, 9u);
}

TEST(PageOf, IsTheAddress) { EXPECT_EQ(page_of(g_words), &g_words); }

}  // namespace
}  // namespace coffer
