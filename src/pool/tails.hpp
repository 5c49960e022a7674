// SPDX-License-Identifier: MIT
// Tails: what earlier blocks left resident behind a large block of chunks, in its last chunk. A tail is charged with
// its block and becomes free with it. Other threads cannot use it meanwhile, so it goes back: after it lay there for a
// whole tick, at malloc_trim, and when memory is short. A tail ends with the last chunk of its block, so it is less
// than a chunk for each block.
//
// Chunk::large_tail of the block's first chunk says how long the tail is, and who may change that:
//
//   word                 meaning
//   0                    no tail; or no large block begins here
//   pages                a tail; a thread that sets kTailHeld by a CAS may change it
//   pages | kTailSeen    the same; it was there when a tick ended
//   pages | kTailHeld    a thread frees or resizes the block, or purges the tail. No other thread changes the word,
//                        the block's size or what lies behind it, until the holder stores another value.
//
// A thread that frees or resizes a block waits for the purge of its tail: for one call of the kernel, over at most 2
// MiB. Group::tails tells purges where to look. Its bits are set before a word is, and cleared by the holder of the
// word.
#pragma once

#include "arena/arena.hpp"

namespace coffer {

inline constexpr u32 kTailHeld = u32{1} << 31;
inline constexpr u32 kTailSeen = u32{1} << 30;

inline usize tail_bytes(const Chunk& chunk) {
  // relaxed: for the holder, and for figures.
  return (chunk.large_tail.load(relaxed) & (kTailSeen - 1)) * kCarvePage;
}

// For whoever frees or resizes the block that begins in the chunk: nobody purges its tail until set_tail.
void hold_tail(Arena* arena, u32 chunk);
// By the holder, or for a new block: the tail has so many bytes. The block's size is written already.
void set_tail(Arena* arena, u32 chunk, usize bytes);

// In a fork child, where whoever held the tail vanished: nobody holds it, and the block's size fits its chunks. `live`:
// whether a block begins there still.
void settle_tail(Arena* arena, u32 chunk, bool live);

// Gives tails back, about `bytes` at most. Returns the bytes given back.
usize purge_tails(usize bytes);

// A chore: tails that were seen when the last tick ended go back, and the others are seen.
bool purge_tails_that_wait();
bool purge_tails_step();  // see Chore

}  // namespace coffer
