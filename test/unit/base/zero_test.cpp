// SPDX-License-Identifier: MIT
#include "base/zero.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace coffer {
namespace {

constexpr usize kMargin = 64;

TEST(Zero, EverySizeAndNotAByteMore) {
  alignas(16) unsigned char memory[kMargin + kMostZeroedInline + kMargin];
  for (usize offset = 0; offset < kMargin; offset += 16) {  // whatever the cache line
    for (usize size = 0; size <= kMostZeroedInline; ++size) {
      std::memset(memory, 0xa5, sizeof memory);
      zero_small(memory + offset, size);
      const usize zeroed = size == 0 ? 16 : (size + 15) / 16 * 16;
      for (usize i = 0; i < sizeof memory; ++i) {
        const bool inside = i >= offset && i < offset + zeroed;
        ASSERT_EQ(memory[i], inside ? 0 : 0xa5) << "size " << size << ", byte " << i << " from " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace coffer
