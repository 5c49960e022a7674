// SPDX-License-Identifier: MIT
// Arena and slot pool for tests of what stands on them, without heaps. For children of fresh.hpp.
#pragma once

#include <gtest/gtest.h>

#include "options.hpp"
#include "pool/slot_pool.hpp"

namespace coffer::test {

// Nothing is purged unless a test asks for it.
inline void start_ground(usize arena_bytes = usize{256} << 20, u32 shards = 1) {
  changeable_options().free_limit = usize{1} << 40;
  ASSERT_TRUE(arenas_start(arena_bytes));
  slot_pool_start(shards);
}

inline Arena& first_arena() { return g_arenas.arenas[0]; }

}  // namespace coffer::test
