// SPDX-License-Identifier: MIT
// Address space: one large reservation made at start, its metadata, and the hand-out of chunks. scalloc's arena (paper
// 2, section 3.1): address space costs nothing, physical memory comes on demand, and whether a pointer is ours is one
// subtraction and one compare.
//
// Where the first arena cannot be large (RLIMIT_AS, RLIMIT_MEMLOCK, valgrind), further ones are made when it is full;
// they are found through a small table, off the fast path.
#pragma once

#include "arena/descriptor.hpp"
#include "os/spin_lock.hpp"

namespace coffer {

inline constexpr u32 kMaxArenas = 64;
inline constexpr const char* kArenaName = "coffer arena";  // in /proc/self/maps, where the kernel can
// Two bits a unit of 16 bytes, a bit for each 64 units, and 16 bytes a page.
inline constexpr usize kUnitMapBytes = 2 * kSliceBytes / kQuantum / 8 + 2 * sizeof(u64) + 16 * kPagesPerSlice;
inline constexpr u32 kSummaryRatio = 64;  // groups a bit-word of the room summary stands for

struct Arena {
  // What the fast paths read, in pairs (base/words.hpp).
  uptr base = uptr{1} << 63;    // first byte of chunk 0; until there is one, above every address, null included
  Atomic<usize> fast_frontier;  // frontier, as the fast path of free sees it; 0 where that path is off
  Atomic<usize> fast_sizes;     // of [0]: malloc's fast path serves requests below; 0 until a slow path has opened it
  Atomic<uptr> heap_offset;     // of [0]: t_heap from the thread pointer, where that is asked for (kKeepsOffset)
  Atomic<uptr> link_key;        // of [0]: what links of free blocks are signed with (block.hpp)
  Span* spans = nullptr;        // by slice

  Atomic<usize> frontier;          // bytes from base whose metadata is committed; grows only
  Chunk* chunks = nullptr;         // by chunk
  Group* groups = nullptr;         // by group
  u64* unit_maps = nullptr;        // kUnitMapBytes by slice: side tables of mixed spans (mixed/unit_map.hpp)
  Atomic<u64>* summary = nullptr;  // kOrders words for each kSummaryRatio groups: which groups have room
  usize bytes = 0;                 // of the arena proper
  usize reserved = 0;              // with metadata
  u32 chunk_count = 0;
  u32 first_slice_number = 0;  // of slice 0, over all arenas
  SpinLock lock;               // groups' taken and committed words, the hints below, and growth of the frontier
  u32 lowest_free_group = 0;   // no group before it has a free chunk
  Atomic<u32> unit_maps_end;   // slices whose unit maps can be written; grows under the lock
  Atomic<u32> highest_chunk;   // 1 + the highest chunk ever taken: walks end here
};

// All arenas; [0] is the one the fast path knows. Entries are filled once and never change place.
struct ArenaTable {
  alignas(alignof(Arena)) alignas(kHotAlignment) Arena arenas[kMaxArenas];
  Atomic<u32> count;
  SpinLock growth;  // making a new arena
};

extern ArenaTable g_arenas __attribute__((visibility("hidden")));

// Makes the first arena, of at most `wanted` bytes. false: not even a small one could be had.
bool arenas_start(usize wanted);

// Takes `count` consecutive chunks whose first is a multiple of `alignment_chunks` (a power of two; counted in
// addresses, not from the base), commits them, and returns the first one's arena and index. `fresh` tells that every
// page of them is zero. false: no address space or no memory.
struct ChunkRun {
  Arena* arena;
  u32 index;
  u32 count;
  bool fresh;
  usize dirty = 0;          // bytes of it that hold old data: they were charged as free memory (budget.hpp)
  u64 dirty_slices = 0;     // the same of its first chunk, by slices
  bool last_dirty = false;  // the last chunk holds some
  bool refused = false;     // none was taken: the kernel or the limit gave no memory, wherever it were
};
// `may_grow`: a further arena may be made for it.
bool take_chunks(u32 count, u32 alignment_chunks, bool may_grow, ChunkRun* run);
// The same at a place with at least `room` free chunks behind it, and before it, where another block may want to grow.
bool take_chunks_with_room(u32 count, u32 room, ChunkRun* run);
// Takes one chunk, by preference one whose index is `residue` modulo `modulus` (a power of two up to 64).
bool take_chunk(u32 residue, u32 modulus, ChunkRun* run);
// Takes the chunk run [index, index + count) if it is free (growth in place).
bool take_chunks_at(Arena* arena, u32 index, u32 count, ChunkRun* run);
// Gives chunks back. They stay committed; `resident` tells whether their pages may hold data, and that the caller
// leaves all of them charged.
void return_chunks(Arena* arena, u32 index, u32 count, bool resident);
// The same where only the first `bytes` of them may hold data.
void return_chunks_partly(Arena* arena, u32 index, u32 count, usize bytes);

// For purging: takes a free chunk, whose dirty slices go on counting as free memory. false: it is not free.
bool claim_free_chunk(Arena* arena, u32 index);
// Gives a chunk back whose dirty slices are counted already.
void return_counted_chunk(Arena* arena, u32 index);

// Chunks whose pages were moved to where they are have a mapping of their own, and the kernel allows 65,530. What
// follows is for chunks of the caller's.
void mark_moved(Arena* arena, u32 index, u32 count);
// Maps those of the range that are marked anew, so that they merge with their neighbours; their content is lost. false:
// for some the kernel refused, and they are as they were.
bool unmark_moved(Arena* arena, u32 index, u32 count);
// Whether there are so many that no more should wait for their next use.
bool many_moved();

// In a fork child: lets go of locks that vanished threads had; true if there were any. And, while all other threads
// wait, makes whole what such a thread may have left half changed: hints and counts that follow from the groups' words.
bool arenas_forget_others();
void restore_arenas();

// Group::dirty tells purges where to look. Why no dirty slice is forgotten: whoever makes slices dirty first sets their
// bits, then calls this, which reads the chunk's bit in the group; whoever clears that bit first clears it, then reads
// the slices' bits again (forget_dirty). All four are sequentially consistent, so one of the two sees the other.
inline void note_dirty(Arena* arena, u32 chunk) {
  Atomic<u64>& word = arena->groups[chunk / kChunksPerGroup].dirty;
  const u64 bit = u64{1} << (chunk % kChunksPerGroup);
  if ((word.load(seq_cst) & bit) == 0) word.fetch_or(bit, seq_cst);  // seq_cst, both: see above
}
inline void forget_dirty(Arena* arena, u32 chunk) {
  Atomic<u64>& word = arena->groups[chunk / kChunksPerGroup].dirty;
  const u64 bit = u64{1} << (chunk % kChunksPerGroup);
  word.fetch_and(~bit, seq_cst);  // seq_cst, all: see above
  if (arena->chunks[chunk].dirty.load(seq_cst) != 0) word.fetch_or(bit, seq_cst);
}

// Makes the side tables of all slices before `end` usable, zero where they never were. false: no memory.
bool commit_unit_maps(Arena* arena, u32 end);
// Gives back the pages that hold nothing but the side tables of these slices, which are free and the caller's.
void give_back_unit_maps(const Arena* arena, u32 slice, u32 count);

// --- Address, slice, chunk: all in constant time. ---

// The arena that holds an address among those whose metadata can be read; null for a foreign address.
Arena* arena_of_slow(uptr address);
COFFER_INLINE Arena* arena_of(uptr address) {
  // relaxed: the frontier grows only; a program that got a block from another thread got the frontier with it.
  if (COFFER_LIKELY(address - g_arenas.arenas[0].base < g_arenas.arenas[0].frontier.load(relaxed))) {
    return &g_arenas.arenas[0];
  }
  return arena_of_slow(address);
}

COFFER_INLINE Span* slice_record(Arena* arena, uptr address) {
  return arena->spans + (address - arena->base) / kSliceBytes;
}
COFFER_INLINE uptr slice_address(const Arena* arena, const Span* span) {
  return arena->base + static_cast<uptr>(span - arena->spans) * kSliceBytes;
}
COFFER_INLINE uptr chunk_address(const Arena* arena, u32 index) { return arena->base + uptr{index} * kChunkBytes; }

// The arena whose record this is, and numbers in place of pointers. Those of the first arena, which mostly is the only
// one, by a subtraction and a compare: rings, mail and pools link by numbers. Its slices are numbered from 0 on.
Arena* arena_of_span_slow(const Span* span);
Span* span_at_slow(SpanNumber number);
inline usize slices_of_first() { return usize{g_arenas.arenas[0].chunk_count} * kSlicesPerChunk; }
inline usize slice_in_first(const Span* span) {  // slices_of_first() or more: it is another arena's
  return (reinterpret_cast<uptr>(span) - reinterpret_cast<uptr>(g_arenas.arenas[0].spans)) / sizeof(Span);
}
inline Arena* arena_of_span(const Span* span) {
  return COFFER_LIKELY(slice_in_first(span) < slices_of_first()) ? &g_arenas.arenas[0] : arena_of_span_slow(span);
}
inline SpanNumber span_number(const Span* span) {
  const usize slice = slice_in_first(span);
  if (COFFER_LIKELY(slice < slices_of_first())) return static_cast<SpanNumber>(slice + 1);
  const Arena* arena = arena_of_span_slow(span);
  return arena->first_slice_number + static_cast<u32>(span - arena->spans) + 1;
}
inline Span* span_at(SpanNumber number) {
  const usize slice = usize{number} - 1;
  return COFFER_LIKELY(slice < slices_of_first()) ? g_arenas.arenas[0].spans + slice : span_at_slow(number);
}

}  // namespace coffer
