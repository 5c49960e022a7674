// SPDX-License-Identifier: MIT
// Which chunks may use huge pages. A page fault costs six times as much a page as a huge page does, but a huge page is
// resident whole; so chunks get them once what that may waste is a small part of what the process holds.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

// A chunk that was taken for slices. The caller's alone as yet.
void advise_slices(Arena* arena, u32 index);
// Chunks from `index` on, taken for a large block of so many bytes, of which `dirty` were there before. The caller's
// alone. Chunks that the block fills may get huge pages, the one in which it ends does not.
void advise_large(Arena* arena, u32 index, usize size, usize dirty);
// Before the chunks of a large block are given back.
void large_ends(const Arena* arena, u32 index, u32 count);
// A huge page would be split by a purge of part of it and put together again by the kernel later: off first.
void forbid_huge(Arena* arena, u32 index);
// The same for the chunk in which a large block of so many bytes ends, if it does not end with the chunk.
void forbid_huge_behind(Arena* arena, u32 index, usize size);
// The kernel moved the pages of so many chunks, and what it was advised of goes with them.
void move_advice(const Chunk* from, Chunk* to, u32 count);

}  // namespace coffer
