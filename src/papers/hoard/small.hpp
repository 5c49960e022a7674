// SPDX-License-Identifier: MIT
// Blocks of superblocks: the two procedures of figure 2, without the requests that are too large for them.
#pragma once

#include "papers/common/pieces.hpp"
#include "papers/hoard/heap.hpp"

namespace coffer::papers::hoard {

// Superblocks from the system.
Pieces& superblock_source();

// A block of the class from the calling thread's heap. nullptr: no memory.
void* allocate_small(u32 size_class);
// A block of that superblock, by its start.
void free_small(Superblock* superblock, void* block);
// The empty superblocks of all heaps go back to the system; true if there were any. Under g_reclaim (hoard.cpp).
bool release_empties();

}  // namespace coffer::papers::hoard
