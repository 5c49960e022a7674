// SPDX-License-Identifier: MIT
// The word before a block. Papers 1 and 3 find the superblock of a block through a header before the block. The papers
// do not describe two other kinds of pointers: a block with a mapping of its own, and a pointer inside a block that
// was made larger to reach an alignment. The low two bits of the same word say which kind it is:
//
//   00  a block of a superblock; the word is the superblock's address (aligned to 4 and more)
//   01  a mapped block (mapped.hpp)
//   10  inside a block: the rest of the word is the distance from that block's start, in bytes
//
// Blocks are aligned to 16, so the word is in the last 8 bytes of the 16 before each block. A block of stride s (a
// multiple of 16) serves s - 8 bytes, as glibc's blocks do.
#pragma once

#include "base/base.hpp"

namespace coffer::papers {

inline constexpr usize kWord = sizeof(u64);
inline constexpr usize kBlockAlignment = 16;

enum class Kind : u8 { superblock = 0, mapped = 1, inner = 2 };

COFFER_INLINE u64& word_before(void* block) { return static_cast<u64*>(block)[-1]; }
COFFER_INLINE Kind kind_of(u64 word) { return static_cast<Kind>(word & 3); }

COFFER_INLINE u64 superblock_word(const void* superblock) { return reinterpret_cast<uptr>(superblock); }
template <class Superblock>
COFFER_INLINE Superblock* superblock_of(u64 word) {
  return reinterpret_cast<Superblock*>(word);
}

constexpr u64 inner_word(usize distance) { return (u64{distance} << 2) | static_cast<u64>(Kind::inner); }
constexpr usize inner_distance(u64 word) { return word >> 2; }

// The bytes to ask for, so that an aligned pointer to `size` bytes can be found inside; alignment over 16.
constexpr usize with_room_for(usize size, usize alignment) { return size + alignment - kBlockAlignment; }

// The first aligned address in a block of with_room_for(size, alignment) bytes. Where that is not the block's start,
// the word before it says how far inside it lies: a distance of 16 or more, so the word lies inside the block, too.
inline void* aligned_inside(void* block, usize alignment) {
  const uptr start = reinterpret_cast<uptr>(block);
  const uptr aligned = (start + alignment - 1) & ~(uptr{alignment} - 1);
  if (aligned == start) return block;
  void* inside = reinterpret_cast<void*>(aligned);
  word_before(inside) = inner_word(aligned - start);
  return inside;
}

// The block itself, from a pointer to it or inside it.
COFFER_INLINE void* whole_block(void* block) {
  const u64 word = word_before(block);
  if (COFFER_LIKELY(kind_of(word) != Kind::inner)) return block;
  return static_cast<char*>(block) - inner_distance(word);
}

}  // namespace coffer::papers
