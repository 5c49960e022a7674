// SPDX-License-Identifier: MIT
// For tests of Hoard's parts, each in a process of its own (fresh.hpp): options, and which heap the test's one thread
// allocates from.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "coffer/coffer.h"
#include "fresh.hpp"
#include "options.hpp"
#include "papers/common/process.hpp"
#include "papers/hoard/heap.hpp"
#include "papers/hoard/walk.hpp"

namespace coffer::test {

using namespace papers;
using namespace papers::hoard;

// Starts Hoard with the options that changeable_options() has now.
inline void start_hoard() {
  coffer_free(coffer_malloc(1));
  ASSERT_NE(g_hoard.first_heap, nullptr);
}

inline void use_heap(u32 number) { papers::t_local = heap_at(number); }

// A class of which a superblock has so many blocks, by the request that it serves.
inline usize request_with_capacity(u32 blocks) {
  for (u32 c = 0; c < g_hoard.classes.count(); ++c) {
    if (g_hoard.capacity[c] == blocks) return g_hoard.classes.usable(c);
  }
  ADD_FAILURE() << "no class has " << blocks << " blocks a superblock";
  return 0;
}

inline Superblock* superblock_at(void* block) { return superblock_of<Superblock>(word_before(block)); }
inline Heap* owner_of(void* block) { return superblock_at(block)->owner.load(relaxed); }
inline u32 superblocks_in(u32 heap, u32 size_class) { return heap_at(heap)->bins[size_class].superblocks; }

inline std::vector<void*> allocate_many(usize count, usize size) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = coffer_malloc(size);
  return blocks;
}

}  // namespace coffer::test
