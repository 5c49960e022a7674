// SPDX-License-Identifier: MIT
// The checksum is the usual one, by whatever instructions.
#include "trace/crc32.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace coffer::trace {
namespace {

TEST(Crc32, IsThatOfZlib) {
  EXPECT_EQ(crc32(0, "123456789", 9), 0xCBF43926u);
  EXPECT_EQ(crc32(crc32(0, "1234", 4), "56789", 5), 0xCBF43926u);
}

TEST(Crc32, IsTheSameByAllWays) {
  std::mt19937 random(3);
  std::vector<u8> bytes(5000);
  for (u8& byte : bytes) byte = static_cast<u8>(random());
  for (std::size_t length = 0; length < 700; ++length) {
    const u8* const at = bytes.data() + length % 37;
    const u32 before = length % 3 == 0 ? 0 : static_cast<u32>(random());
    ASSERT_EQ(crc32(before, at, length), crc32_by_table(before, at, length)) << length;
  }
  EXPECT_EQ(crc32(0, bytes.data(), bytes.size()), crc32_by_table(0, bytes.data(), bytes.size()));
}

}  // namespace
}  // namespace coffer::trace
