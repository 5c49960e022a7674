// SPDX-License-Identifier: MIT
// Which chunks may have room: a two-level bitmap for each order (runs of 1, 2, 4 ... 32 aligned free slices). It is a
// hint: the truth is the chunk's own free word. A bit may be set for a chunk without room; a search clears it. A chunk
// with room has its bits set, or a thread is about to set them.
//
// Why no room is forgotten: a thread that frees slices first sets the free bits, then reads the room bit. A thread that
// clears a room bit first clears it, then reads the free bits again, and sets the bit again if there is room. All four
// operations are sequentially consistent, so at least one of the two threads sees the other's change. The same holds
// between a group's word and the summary.
//
// Model: models/room_map.pml.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

// The order that serves a run of `slices` slices.
constexpr u32 order_of(u32 slices) { return ceil_log2(slices); }
// The largest order of which every run of `slices` slices, wherever it starts, holds an aligned one.
constexpr u32 order_inside(u32 slices) { return highest_bit(slices + 1) - 1; }

// Sets the bits of every order for which `free`, the chunk's free word, has an aligned run.
void note_room(Arena* arena, u32 chunk, u64 free);
// Sets them whatever they seem to be, in both levels: for a fork child, where a setter may have vanished half way.
void restore_room(Arena* arena, u32 chunk);
// The chunk had no aligned run of the order: clears its bit (unless there is one now).
void note_no_room(Arena* arena, u32 chunk, u32 order);

// The lowest chunk at or after `from` whose bit of the order is set and whose index modulo 64 is in `residues`;
// chunk_count if there is none.
u32 next_with_room(Arena* arena, u32 order, u64 residues, u32 from);

}  // namespace coffer
