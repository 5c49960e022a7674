// SPDX-License-Identifier: MIT
#include "index/access_list.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace {

std::vector<coffer::tools::Stream> read(const std::string& text) {
  std::istringstream input(text);
  return coffer::tools::read_access_list(input);
}

TEST(AccessList, StreamsKeepTheirOrder) {
  const auto streams = read("# library=x\n0 0x10\n1 0x20\n0 0x30\n");
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].addresses, (std::vector<uint64_t>{0x10, 0x30}));
  EXPECT_EQ(streams[1].addresses, (std::vector<uint64_t>{0x20}));
}

TEST(AccessList, ProcessesHaveStreamsOfTheirOwn) {
  const auto streams = read("process\n0 16\nprocess\n0 16\n1 32\n");
  ASSERT_EQ(streams.size(), 3u);
  EXPECT_EQ(streams[0].process, 0u);
  EXPECT_EQ(streams[1].process, 1u);
  EXPECT_EQ(streams[2].process, 1u);
  EXPECT_EQ(streams[2].addresses, (std::vector<uint64_t>{32}));
}

TEST(AccessList, NamesTheLineThatIsWrong) {
  for (const char* line : {"0", "0 1 2", "process 1", "0 x", "-1 5"}) {
    EXPECT_THROW(read(std::string("0 1\n") + line + "\n"), coffer::tools::ListError) << line;
  }
}

}  // namespace
