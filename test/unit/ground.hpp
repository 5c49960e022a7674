// SPDX-License-Identifier: MIT
// Arena and slice pool for tests of what stands on them, without heaps. For children of fresh.hpp.
#pragma once

#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "options.hpp"
#include "pool/slice_pool.hpp"

namespace coffer::test {

// Nothing is purged unless a test asks for it, and pages are small, so that they can be counted and moved.
inline void start_ground(usize arena_bytes = usize{256} << 20, u32 shards = 1) {
  changeable_options().free_limit = usize{1} << 40;
  changeable_options().huge = config::HugePolicy::never;
  ASSERT_TRUE(arenas_start(arena_bytes));
  slice_pool_start(shards);
  links_start();
}

inline Arena& first_arena() { return g_arenas.arenas[0]; }

// What the fast path of free does with a block of a span of the thread's own; true: the countdown is over.
inline bool push_own(Span* span, void* block) {
  return push_freed(span, *span->freed.get(), static_cast<Block*>(block));
}

// What carve_blocks carves, as a list. nullptr: no absent page is left.
inline Block* cut_page(Span* span, bool* zero) {
  const Linked blocks = carve_blocks(span, zero);
  if (blocks.first != nullptr) set_next(blocks.last, nullptr);
  return blocks.first;
}

}  // namespace coffer::test
