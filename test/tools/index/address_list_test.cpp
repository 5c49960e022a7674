// SPDX-License-Identifier: MIT
#include "index/address_list.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace {

coffer::tools::Groups read(const std::string& text) {
  std::istringstream input(text);
  return coffer::tools::read_address_list(input);
}

TEST(AddressList, GroupsBySizeAndAlignment) {
  const auto groups = read(
      "# library=/lib/libc.so.6\n"
      "64 0x1000\n"
      "\n"
      "64\t4224 0 72\r\n"
      "64 0x2000 4096 64\n"
      "100 0xffffffffffffffff\n");
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups.at({64, 0}).addresses, (std::vector<uint64_t>{0x1000, 4224}));
  EXPECT_FALSE(groups.at({64, 0}).usable_known);
  EXPECT_EQ(groups.at({64, 4096}).usable, 64u);
  EXPECT_TRUE(groups.at({64, 4096}).usable_known);
  EXPECT_EQ(groups.at({100, 0}).addresses.front(), ~uint64_t{0});
}

TEST(AddressList, CountsBlocksThatAreNotAligned) {
  const auto groups = read("64 0x1018 16\n64 0x1020 16\n64 0x1020 32\n64 0x1030 32\n64 0x1001\n");
  EXPECT_EQ(groups.at({64, 16}).misaligned, 1u);
  EXPECT_EQ(groups.at({64, 32}).misaligned, 1u);
  EXPECT_EQ(groups.at({64, 0}).misaligned, 0u);
}

TEST(AddressList, KnowsWhatIsResident) {
  const auto groups = read("4096 0x3000 4096\nresident 4096 4096 256 1052672\n");
  EXPECT_EQ(groups.at({4096, 4096}).resident_blocks, 256u);
  EXPECT_EQ(groups.at({4096, 4096}).resident_bytes, 1052672u);
}

TEST(AddressList, NamesTheLineThatIsWrong) {
  for (const char* line : {"64", "64 0x", "64 -1", "64 0x10 16 16 16", "64 12q", "resident 1 2 3", "residents 1 2 3 4",
                           "size 5", "64 99999999999999999999", "64 0x10 +16"}) {
    try {
      read(std::string("64 0x1000\n") + line + "\n");
      FAIL() << line;
    } catch (const coffer::tools::ListError& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 7), "line 2:") << line;
    }
  }
}

}  // namespace
