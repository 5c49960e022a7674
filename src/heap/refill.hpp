// SPDX-License-Identifier: MIT
// Allocation by size class, for callers off malloc's fast path.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// A block of the class from `heap`, which the caller may use; nullptr: no memory. *zero is set if the block is
// known to be zero but for its first word, and else left as it is.
// last_resort: before nullptr, all that is free for the class is searched for.
Block* allocate_block(Heap* heap, ClassIndex size_class, bool last_resort, bool* zero, usize size = 0);
// The same from the calling thread's heap, or the fallback heap.
Block* allocate_of_class(ClassIndex size_class, bool* zero, bool last_resort = true, usize size = 0);
// The same, never from a hole and not as a last resort: the block is aligned as all in spans of the class are.
Block* allocate_in_span(ClassIndex size_class);
// A large block, for a thread in any state.
void* allocate_large_block(usize size, usize alignment, bool* zero);

// Whether some block is, or was, longer than its class is, for memory was exhausted.
bool served_from_larger();

// When memory is exhausted for a class whose spans need several slices, a larger class may still have room, or a single
// slice be left. With an alignment over kQuantum, only classes serve whose blocks are all aligned to it.
Block* allocate_from_larger(ClassIndex size_class, bool* zero, usize alignment = kQuantum);

}  // namespace coffer
