// SPDX-License-Identifier: MIT
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace coffer {
namespace {

std::string content(const Text& text) { return {text.data(), text.stored()}; }

TEST(Text, AddsCharactersWordsAndNumbers) {
  TextBuffer<100> text;
  text.add("a").add('b').add("cdef", 2).add(' ').number(0).add(' ').number(~u64{0});
  EXPECT_EQ(content(text), "abcd 0 18446744073709551615");
}

TEST(Text, AlignsNumbers) {
  TextBuffer<100> text;
  text.number(7, 3).add('|').number(1234, 3).pad(0, 12).add('|');
  EXPECT_EQ(content(text), "  7|1234    |");
}

TEST(Text, WritesHexadecimal) {
  TextBuffer<100> text;
  text.hex(0).add(' ').hex(0x1f0).add(' ').hex(~u64{0});
  EXPECT_EQ(content(text), "0x0 0x1f0 0xffffffffffffffff");
}

TEST(Text, CountsWhatDoesNotFit) {
  TextBuffer<4> text;
  text.add("abcdef");
  EXPECT_EQ(text.length(), 6u);
  EXPECT_EQ(content(text), "abcd");
  text.terminate();
  EXPECT_STREQ(text.data(), "abc");
}

TEST(Text, TerminatesBehindTheTextOrNotAtAll) {
  TextBuffer<4> text;
  text.add("ab");
  text.terminate();
  EXPECT_STREQ(text.data(), "ab");
  Text none(nullptr, 0);
  none.add("ab");
  none.terminate();
  EXPECT_EQ(none.length(), 2u);
  EXPECT_EQ(none.stored(), 0u);
}

}  // namespace
}  // namespace coffer
