// SPDX-License-Identifier: MIT
// Blocks from holes that share no cache line with others.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "mixed/mixed.hpp"

namespace coffer {
namespace {

using test::start_ground;

Span* record_of(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  return first_record(slice_record(arena_of(address), address));
}

// For a thread that is not alone: what one call gives shares no line with what others hold, whatever the holes are.
FRESH_TEST(MixedLines, WholeOnesAreSharedWithNobody) {
  start_ground();
  std::mt19937 random(3);
  std::map<uptr, u32> line_of_call;  // which call a line went to
  const auto claim_lines = [&](const Block* block, u32 bytes, u32 call) {
    const uptr start = reinterpret_cast<uptr>(block);
    for (uptr line = start / kCacheLine; line <= (start + bytes - 1) / kCacheLine; ++line) {
      const auto [at, fresh] = line_of_call.emplace(line, call);
      ASSERT_TRUE(fresh || at->second == call) << bytes << " bytes";
    }
  };
  // Holes of all sizes, at all places; what is left between them is call 0's.
  std::vector<Block*> first;
  for (int i = 0; i < 2000; ++i) {
    const u32 bytes = 16 * (1 + static_cast<u32>(random() % 40));
    Block* block = g_mixed_pool.take(bytes, 1);
    if (block == nullptr) block = g_mixed_pool.make(bytes, 8);
    ASSERT_NE(block, nullptr);
    first.push_back(block);
  }
  for (Block* block : first) {
    Span* span = record_of(block);
    const usize bytes = g_mixed_pool.size_of(span, block);
    if (random() % 2 == 0) {
      ASSERT_EQ(g_mixed_pool.release(span, block), bytes);
    } else {
      claim_lines(block, static_cast<u32>(bytes), 0);
    }
  }
  u32 call = 0, blocks = 0;
  for (const u32 bytes : {16u, 32u, 48u, 64u, 80u, 96u, 112u}) {
    for (int i = 0; i < 20; ++i) {
      ++call;
      for (Block* block = g_mixed_pool.take(bytes, 9, Lines::whole); block != nullptr; block = next_of(block)) {
        ++blocks;
        claim_lines(block, bytes, call);
        ASSERT_EQ(g_mixed_pool.size_of(record_of(block), block), bytes);
      }
    }
  }
  EXPECT_GT(blocks, 500u);
}

}  // namespace
}  // namespace coffer
