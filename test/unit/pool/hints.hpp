// SPDX-License-Identifier: MIT
// What room_map should say, counted from the chunks' free words.
#pragma once

#include "pool/room_map.hpp"

namespace coffer::test {

// The plain meaning of an aligned run, without a fold.
inline bool has_aligned_run(u64 free, u32 order) {
  const u32 slices = 1u << order;
  for (u32 at = 0; at + slices <= kSlicesPerChunk; at += slices) {
    if (((free >> at) & low_mask(slices)) == low_mask(slices)) return true;
  }
  return false;
}

inline bool room_bit(const Arena& arena, u32 chunk, u32 order) {
  return (arena.groups[chunk / kChunksPerGroup].room[order].load(relaxed) >> (chunk % kChunksPerGroup)) & 1;
}

inline bool summary_bit(const Arena& arena, u32 group, u32 order) {
  return (arena.summary[group / kSummaryRatio * kOrders + order].load(relaxed) >> (group % kSummaryRatio)) & 1;
}

// Chunks with room that the map has forgotten; none while no thread is inside.
inline u32 forgotten_room(const Arena& arena) {
  u32 forgotten = 0;
  for (u32 chunk = 0; chunk < arena.highest_chunk.load(relaxed); ++chunk) {
    const u64 free = arena.chunks[chunk].free.load(relaxed);
    for (u32 order = 0; order < kOrders; ++order) {
      if (!has_aligned_run(free, order)) continue;
      const bool known = room_bit(arena, chunk, order) && summary_bit(arena, chunk / kChunksPerGroup, order);
      forgotten += known ? 0 : 1;
    }
  }
  return forgotten;
}

}  // namespace coffer::test
