// SPDX-License-Identifier: MIT
// Walks over the chunks that are taken, and over what their slices are.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

// Calls visit(arena, chunk index, use) for every taken chunk; of a large block only for its first.
template <class Visit>
void for_each_chunk(Visit&& visit) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 a = 0; a < arenas; ++a) {
    Arena* arena = &g_arenas.arenas[a];
    const u32 end = arena->highest_chunk.load(relaxed);  // relaxed: the newest chunk may be missed
    for (u32 index = 0; index < end;) {
      const Group& group = arena->groups[index / kChunksPerGroup];
      if (((group.taken.get() >> (index % kChunksPerGroup)) & 1) == 0) {
        ++index;
        continue;
      }
      const Chunk& chunk = arena->chunks[index];
      const ChunkUse use = chunk.use.load(acquire);  // acquire: pairs with the releases that describe chunks
      const u32 length = use == ChunkUse::large ? chunk.large_chunks.get() : 1;
      visit(arena, index, use);
      index += length != 0 ? length : 1;
    }
  }
}

// Walks from the highest chunk to the lowest, all arenas in one row, and goes on another time where it stopped: calls
// visit(arena, chunk index) for those of which chosen(group) has the bit, below `at` (0: from the top), until it
// answers false, or so many chunks, or groups without one, were looked at. Returns where it stopped; 0: it came to the
// end.
template <class Chosen, class Visit>
u32 walk_down(u32 at, u32 looks, Chosen&& chosen, Visit&& visit) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  u32 first = 0;                                    // the arena's first chunk in the row
  for (u32 i = 0; i < arenas; ++i) first += g_arenas.arenas[i].highest_chunk.load(relaxed);  // relaxed: as above
  if (at == 0 || at > first) at = first;
  for (u32 i = arenas; i-- > 0;) {
    Arena* arena = &g_arenas.arenas[i];
    const u32 here = arena->highest_chunk.load(relaxed);  // relaxed: as above
    first -= here < first ? here : first;
    while (at > first) {
      if (looks-- == 0) return at;
      const u32 group = (at - 1 - first) / kChunksPerGroup;
      const u32 below = group * kChunksPerGroup;
      const u64 chunks = chosen(arena->groups[group]) & low_mask(at - first - below);
      at = first + below + (chunks != 0 ? highest_bit(chunks) : 0);
      if (chunks != 0 && !visit(arena, at - first)) return at;
    }
  }
  return 0;
}

// Calls visit(first record) for every span, mixed ones too, and large block that begins in a chunk.
template <class Visit>
void for_each_record(Arena* arena, u32 chunk_index, Visit&& visit) {
  const Chunk& chunk = arena->chunks[chunk_index];
  const u64 free = chunk.free.load(acquire);  // acquire: pairs with the release of slices
  // relaxed: large is whole, and as the caller found it.
  const u32 slices = chunk.use.load(relaxed) == ChunkUse::large ? 1 : kSlicesPerChunk;
  for (u32 i = 0; i < slices; ++i) {
    if ((free >> i) & 1) continue;
    Span* record = arena->spans + usize{chunk_index} * kSlicesPerChunk + i;
    const SliceUse use = record->use.load(acquire);
    if (use == SliceUse::span || use == SliceUse::large || use == SliceUse::mixed) visit(record, use);
  }
}

}  // namespace coffer
