// SPDX-License-Identifier: MIT
#include "pool/room_map.hpp"

namespace coffer {

namespace {

Atomic<u64>& summary_word(Arena* arena, u32 group, u32 order) {
  return arena->summary[group / kSummaryRatio * kOrders + order];
}

bool has_run(u64 free, u32 order) {
  const u32 slices = 1u << order;
  return (run_starts(free, slices) & aligned_positions(slices)) != 0;
}

void set_bit(Arena* arena, u32 chunk, u32 order) {
  const u32 group = chunk / kChunksPerGroup;
  const u64 group_bit = u64{1} << (group % kSummaryRatio);
  // seq_cst: pairs with note_no_room (see the head of room_map.hpp), for both levels.
  arena->groups[group].room[order].fetch_or(u64{1} << (chunk % kChunksPerGroup), seq_cst);
  Atomic<u64>& summary = summary_word(arena, group, order);
  if ((summary.load(seq_cst) & group_bit) == 0) summary.fetch_or(group_bit, seq_cst);
}

}  // namespace

constexpr u64 kAlignedOfOrder[kOrders] = {aligned_positions(1), aligned_positions(2),  aligned_positions(4),
                                          aligned_positions(8), aligned_positions(16), aligned_positions(32)};

void note_room(Arena* arena, u32 chunk, u64 free) {
  const Group& group = arena->groups[chunk / kChunksPerGroup];
  const u64 bit = u64{1} << (chunk % kChunksPerGroup);
  u64 runs = free;  // where runs of the order begin, aligned or not: has_run, a step for each order
  for (u32 order = 0; order < kOrders; ++order) {
    if (order != 0) runs &= runs >> (1u << (order - 1));
    if ((runs & kAlignedOfOrder[order]) == 0) break;  // no run of this order, so none of a higher one
    // seq_cst: after the fetch_or that freed the slices; pairs with the fetch_and in note_no_room.
    if ((group.room[order].load(seq_cst) & bit) == 0) set_bit(arena, chunk, order);
  }
}

void restore_room(Arena* arena, u32 chunk) {
  const u64 free = arena->chunks[chunk].free.load(relaxed);  // relaxed: no other thread is inside
  for (u32 order = 0; order < kOrders && has_run(free, order); ++order) set_bit(arena, chunk, order);
}

void note_no_room(Arena* arena, u32 chunk, u32 order) {
  const u32 group_index = chunk / kChunksPerGroup;
  Group& group = arena->groups[group_index];
  const u64 bit = u64{1} << (chunk % kChunksPerGroup);
  // seq_cst, here and in the reads that follow each clearing: pairs with note_room and set_bit.
  const u64 before = group.room[order].fetch_and(~bit, seq_cst);
  if ((before & ~bit) == 0) {
    const u64 group_bit = u64{1} << (group_index % kSummaryRatio);
    Atomic<u64>& summary = summary_word(arena, group_index, order);
    summary.fetch_and(~group_bit, seq_cst);
    if (group.room[order].load(seq_cst) != 0) summary.fetch_or(group_bit, seq_cst);
  }
  if (has_run(arena->chunks[chunk].free.load(seq_cst), order)) set_bit(arena, chunk, order);
}

u32 next_with_room(Arena* arena, u32 order, u64 residues, u32 from) {
  // relaxed, throughout: hints. The claim that follows is the acquire.
  const u32 end = arena->highest_chunk.load(relaxed);
  u32 group = from / kChunksPerGroup;
  u64 mask = ~low_mask(from % kChunksPerGroup);
  while (group * kChunksPerGroup < end) {
    const u64 summary = summary_word(arena, group, order).load(relaxed) >> (group % kSummaryRatio);
    if (summary == 0) {
      group = (group / kSummaryRatio + 1) * kSummaryRatio;
      mask = ~u64{0};
      continue;
    }
    const u32 skip = lowest_bit(summary);
    if (skip != 0) mask = ~u64{0};
    group += skip;
    if (group * kChunksPerGroup >= end) break;
    const u64 room = arena->groups[group].room[order].load(relaxed) & residues & mask;
    if (room != 0) return group * kChunksPerGroup + lowest_bit(room);
    group += 1;
    mask = ~u64{0};
  }
  return arena->chunk_count;
}

}  // namespace coffer
