// SPDX-License-Identifier: MIT
// How an arena comes to be, and its metadata after it. For the files of this folder.
//
// An arena and its records are one reservation: first the chunks, then three arrays and the room summary (spans,
// chunks, groups). The arrays become usable a group of chunks at a time, up to the frontier, as chunks are handed out.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr usize kSmallestArena = 2 * kChunkBytes;

// Reserves and describes one arena of at most `wanted` bytes, halving until the kernel agrees, but not below `least`.
// `chunks`, from the first multiple of so many on, are what it is made for: where the kernel has no memory for them
// there is none, or it would stay for nothing. Under the growth lock.
bool make_arena(usize wanted, usize least, u32 chunks, u32 alignment_chunks);

// Whether the kernel has address space for the smallest arena; where it has none there is no more memory to be had.
bool has_room_for_arena();

// Makes the metadata of all chunks before `end` usable. Under the arena's lock. A system call under a lock, but once
// in 128 MiB, and the frontier must not be passed by anyone before the records behind it can be read.
bool advance_frontier(Arena* arena, u32 end);

}  // namespace coffer
