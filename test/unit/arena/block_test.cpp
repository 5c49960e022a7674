// SPDX-License-Identifier: MIT
// Links of free blocks and their marks.
#include "arena/block.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u64 kMostUserAddress = u64{1} << 48;

TEST(LinkKey, HasTheByteWhateverIsAddedToIt) {
  for (const u64 random : {u64{0}, ~u64{0}, u64{0x0123456789abcdef}, u64{1} << 55}) {
    const uptr key = make_link_key(random);
    EXPECT_EQ(key >> 56, kMarkByte);
    EXPECT_EQ((key + kMostUserAddress - 1) >> 56, kMarkByte);
  }
  EXPECT_NE(make_link_key(1), make_link_key(2));
}

FRESH_TEST(LinkKey, IsChosenOnceAProcess) {
  links_start();
  const uptr key = g_arenas.arenas[0].link_key.load(relaxed);
  EXPECT_NE(key, 0u);
  EXPECT_NE(key, make_link_key(0));
  links_start();
  EXPECT_EQ(g_arenas.arenas[0].link_key.load(relaxed), key) << "there may be lists";
}

FRESH_TEST(Link, EndsWhereTheListDoes) {
  links_start();
  alignas(16) Block blocks[3] = {};
  BlockList list;
  EXPECT_EQ(list.get(), nullptr);
  set_next(&blocks[0], nullptr);
  set_next(&blocks[1], &blocks[0]);
  list.set(&blocks[1]);
  EXPECT_TRUE(may_be_free(&blocks[1]));
  EXPECT_FALSE(may_be_free(&blocks[2]));
  EXPECT_EQ(next_of(&blocks[1]), &blocks[0]);
  EXPECT_EQ(next_of(&blocks[0]), nullptr);
  EXPECT_EQ(pop(list), &blocks[1]);
  EXPECT_EQ(blocks[1].mark, 0u) << "handed out";
  EXPECT_EQ(pop(list), &blocks[0]);
  EXPECT_EQ(list.get(), nullptr);
}

FRESH_TEST(Link, TheEndIsNeverRight) {
  for (u32 i = 0; i < 2; ++i) {
    EXPECT_EQ(kListEnd->link, kListEnd) << "an empty list stays empty";
    EXPECT_NE(kListEnd->mark, signature(kListEnd->link));
    links_start();
  }
}

FRESH_TEST(Link, IsFollowedOnlyIfItIsSigned) {
  links_start();
  alignas(16) Block blocks[2] = {};
  for (const bool mark : {false, true}) {
    for (u32 bit = 0; bit < 64; ++bit) {
      set_next(&blocks[0], &blocks[1]);
      const uptr flip = uptr{1} << bit;
      if (mark) {
        blocks[0].mark ^= flip;
      } else {
        blocks[0].link = reinterpret_cast<Block*>(reinterpret_cast<uptr>(blocks[0].link) ^ flip);
      }
      EXPECT_FALSE(is_signed(&blocks[0]));
      EXPECT_EQ(next_if_signed(&blocks[0]), nullptr);
    }
  }
  const Outcome outcome = outcome_of([&] { next_of(&blocks[0]); });
  EXPECT_TRUE(outcome.aborted());
  EXPECT_NE(outcome.errors.find("written to after it was freed"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace coffer
