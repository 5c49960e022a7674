// SPDX-License-Identifier: MIT
// Large blocks that are whole chunks of address space: those above kLargestSliceRun. For the files of this folder.
#pragma once

#include "large/large.hpp"

namespace coffer {

// As allocate_large.
void* allocate_chunk_run(usize size, usize alignment, bool* zero);

// `span`: the first slice's record, whose use the caller has taken.
void free_chunk_run(Arena* arena, Span* span);

// `size` is the run's, from its first slice's start: with the block's offset, which stays what it is. Where the run
// starts now; 0: it is as it was.
uptr resize_chunk_run(uptr start, Span* span, usize size);

}  // namespace coffer
