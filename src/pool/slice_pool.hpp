// SPDX-License-Identifier: MIT
// The global pool of slices: every heap takes its spans from here and returns them here. The span pool of scalloc
// (paper 2, section 3.3 and listing 1) is an array of lock-free stacks, one for each processor. Here each chunk's free
// word is such a pool of 64 slices. Taking a run is one CAS, returning it is one fetch_or. Neighbours join because they
// are bits of one word, and only when a request needs them (OHEBS's delayed recombination). A purge claims slices as an
// allocation does.
//
// The pool is sharded by processor. A processor prefers chunks whose index modulo the number of shards is its shard.
// It takes from other chunks when its own have no room, since memory matters more than speed. It takes a new chunk
// when the others turn out to be contended, or when no chunk has room.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr u32 kMaxShards = 16;
inline constexpr u32 kMostSlices = 32;  // of a run

struct SliceRun {
  Arena* arena = nullptr;
  u32 slice = 0;  // index of the first slice in the arena
  u32 count = 0;  // slices; 0: nothing could be had
  u64 dirty = 0;  // bit i: slice i of the run holds old data; others are zero
};

// Sets the number of shards; once, before any other call.
void slice_pool_start(u32 shards);
u32 shard_count();
// The shard of the processor that runs the caller.
u32 current_shard();

// Takes `count` (1 to kMostSlices) consecutive slices whose first is a multiple of `alignment` slices (a power of two
// up to 32, counted in the chunk, which is aligned to 64). count 0 in the result: no memory.
SliceRun acquire_slices(u32 count, u32 alignment, u32 shard);
// Whether the next resident run of so many slices is to be looked for in a chunk of the shard above this one, which
// begins with this slice's record. A hint.
bool is_lowest(const Span* chunk, u32 count);
// Takes the run that follows [slice, ...) if it is free: growth in place. Stays inside the chunk.
bool acquire_slices_at(Arena* arena, u32 slice, u32 count, u64* dirty);
// Gives slices back; bit i of `dirty` tells that slice i of the run may be resident.
void release_slices(Arena* arena, u32 slice, u32 count, u64 dirty);

// Gives chunks whose slices are all free back to their arenas, for large blocks. Rare: it looks at all chunks in
// which half of the slices may be free.
void return_empty_chunks();

// Gives back the physical memory of free slices and chunks, about `bytes` of it at most, the highest addresses first:
// the lowest are used again first. Returns the bytes given back. No lock is held across the system call.
usize purge_free(usize bytes);
// After so many bytes were freed, or taken that were not resident: purges when free resident memory is over its limit
// (pool/age.hpp), at most twice as much and 64 pages; and asks for the reclaimer (docs/design/physical-memory.md).
void purge_after(usize bytes);
}  // namespace coffer
