// SPDX-License-Identifier: MIT
// Where in an arena free chunks lie. For the files of this folder; everything here is called under the arena's lock.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

// What a caller of take_chunks wants; modulus 0: a run by alignment, else one chunk by residue.
struct ChunkWish {
  u32 count, alignment, residue, modulus;
  bool may_grow;
  u32 room = 0;            // chunks before and behind a run that have to be free, too
  u32 place = 0;           // 1 + where alone the run may begin; 0: anywhere
  bool committed = false;  // only chunks that are writable already
};

bool range_is_free(const Arena* arena, u32 index, u32 count, bool committed = false);

// Where what is wanted is free; chunk_count: nowhere. With room, the room before the run comes first.
u32 find_free(const Arena* arena, const ChunkWish& wish);

}  // namespace coffer
