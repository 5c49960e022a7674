// SPDX-License-Identifier: MIT
// The global pool of slots: the back end that every heap takes spans from and returns them to. scalloc's span-pool
// (paper 2, section 3.3 and listing 1) is an array of lock-free stacks by processor; here each chunk's free word is
// such a pool of 64 slots: taking a run is one CAS, returning it one fetch_or, neighbours join by being bits of one
// word and only when a request wants them (OHEBS's delayed recombination), and purging claims slots as an allocation
// does.
//
// Sharded by processor: a processor prefers chunks whose index is its shard modulo the number of shards, takes from
// others when its own have no room (memory before speed), and takes a new chunk of its own when those others turn out
// to be contended or there is no room anywhere.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr u32 kMaxShards = 16;
inline constexpr u32 kMostSlots = 32;  // of a run

struct SlotRun {
  Arena* arena = nullptr;
  u32 slot = 0;   // index of the first slot in the arena
  u32 count = 0;  // slots; 0: nothing could be had
  u64 dirty = 0;  // bit i: slot i of the run holds old data; others are zero
};

// Sets the number of shards; once, before any other call.
void slot_pool_start(u32 shards);
u32 shard_count();
// The shard of the processor that runs the caller.
u32 current_shard();

// Takes `count` (1 to kMostSlots) consecutive slots whose first is a multiple of `alignment` slots (a power of two up
// to 32, counted in the chunk, which is aligned to 64). count 0 in the result: no memory.
SlotRun acquire_slots(u32 count, u32 alignment, u32 shard);
// Whether the next resident run of so many slots is to be looked for in a chunk of the shard above this one, which
// begins with this slot's record. A hint.
bool is_lowest(const Span* chunk, u32 count);
// Takes the run that follows [slot, ...) if it is free: growth in place. Stays inside the chunk.
bool acquire_slots_at(Arena* arena, u32 slot, u32 count, u64* dirty);
// Gives slots back; bit i of `dirty` tells that slot i of the run may be resident.
void release_slots(Arena* arena, u32 slot, u32 count, u64 dirty);

// Gives chunks whose slots are all free back to their arenas, for large blocks. Rare: it looks at all chunks in
// which half of the slots may be free.
void return_empty_chunks();

// Gives back the physical memory of free slots and chunks, about `bytes` of it at most, the highest addresses first:
// the lowest are used again first. Returns the bytes given back. No lock is held across the system call.
usize purge_free(usize bytes);
// After so many bytes were freed, or taken that were not resident: purges when free resident memory is over its limit
// (pool/age.hpp), at most twice as much and 64 pages; and asks for the reclaimer (docs/design/physical-memory.md).
void purge_after(usize bytes);
}  // namespace coffer
