// SPDX-License-Identifier: MIT
// What the tests of large blocks share.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "exchange/sums.hpp"
#include "ground.hpp"
#include "large/large.hpp"
#include "observe/counters.hpp"
#include "span/choices.hpp"

namespace coffer::test {

inline constexpr usize kMiB = usize{1} << 20;

using Blocks = std::vector<void*>;

// Off until a test wants them.
inline void set_large_colours(bool on) { g_span_choices.large_coloured.set(on ? 1 : 0); }

inline void* allocate(usize size) {
  bool zero = false;
  void* block = allocate_large(size, 16, &zero);
  EXPECT_NE(block, nullptr) << size;
  return block;
}
inline Span* record(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  return slice_record(arena_of(address), address);
}
inline void* resize(void* block, usize size) { return resize_large(block, record(block), size); }
inline bool free_block(void* block) { return free_large(block, record(block)); }
inline u32 chunk_index(const void* block) {
  return static_cast<u32>((reinterpret_cast<uptr>(block) - first_arena().base) / kChunkBytes);
}
inline Chunk& chunk_of(const void* block) { return first_arena().chunks[chunk_index(block)]; }

inline usize held() { return counters().held.load(relaxed); }
inline usize dirty() { return counters().dirty.load(relaxed); }
inline usize large_bytes() { return sum_chunks().large; }
inline usize large_blocks() { return sum_chunks().large_blocks; }

}  // namespace coffer::test
