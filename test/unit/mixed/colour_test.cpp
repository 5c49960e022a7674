// SPDX-License-Identifier: MIT
// The colour of mixed spans: where the first block of a process starts (issue 16: at the same cache index in all).
#include <gtest/gtest.h>

#include <set>

#include "fresh.hpp"
#include "ground.hpp"
#include "mixed/mixed.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"

namespace coffer {
namespace {

using test::start_ground;

// Cache indices of the first block of 64 processes, each of which has a seed of its own.
usize indices_of_first_blocks(u32 bytes, bool coloured) {
  config::Options& options = test::changeable_options();
  options.placement = config::PlacementPolicy::index;
  options.colour = coloured;
  span_choices_start();
  std::set<uptr> seen;
  for (u32 process = 0; process < 64; ++process) {
    colours_start();
    Block* block = g_mixed_pool.make(bytes, 1);
    const uptr address = reinterpret_cast<uptr>(block);
    seen.insert(address / kCacheLine % kCacheSets);
    EXPECT_LT(address % kSliceBytes, 2 * kCarvePage) << "few pages are touched";
    Span* span = first_record(slice_record(arena_of(address), address));
    EXPECT_EQ(g_mixed_pool.check(span), MixedPool::Fault::none);
    EXPECT_NE(g_mixed_pool.release(span, block), 0u);
  }
  return seen.size();
}

// 64 draws of 64 reach 40, give or take 3.
FRESH_TEST(MixedColour, ProcessesStartAtManyIndices) {
  start_ground();
  for (const u32 bytes : {16u, 112u, 128u, 320u, 1024u, 4096u}) {
    EXPECT_GE(indices_of_first_blocks(bytes, true), 25u) << bytes;
  }
}

FRESH_TEST(MixedColour, WithoutColourAllStartAtOne) {
  start_ground();
  for (const u32 bytes : {16u, 112u, 128u, 320u, 1024u, 4096u}) {
    EXPECT_EQ(indices_of_first_blocks(bytes, false), 1u) << bytes;
  }
}

}  // namespace
}  // namespace coffer
