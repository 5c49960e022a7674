// SPDX-License-Identifier: MIT
// Walks over the chunks that are taken, and over what their slots are.
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

// Calls visit(first record) for every span, mixed ones too, and large block made of slots in a chunk.
template <class Visit>
void for_each_record(Arena* arena, u32 chunk_index, Visit&& visit) {
  const u64 free = arena->chunks[chunk_index].free.load(acquire);  // acquire: pairs with the release of slots
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    if ((free >> i) & 1) continue;
    Span* record = arena->spans + usize{chunk_index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(acquire);
    if (use == SlotUse::span || use == SlotUse::large || use == SlotUse::mixed) visit(record, use);
  }
}

}  // namespace coffer
