// SPDX-License-Identifier: MIT
// A superblock (paper 3, section 3): a colour region, a header, and an array of blocks of one class.
//
//   colour before the header (default)        | colour | header |h| block 0      |h| block 1      |h| ...
//   colour after it                           | header | colour |h| block 0      |h| block 1      |h| ...
//
// h is a block's header word: the address of the superblock. It is the last word of the line before the block's data.
// So that of block 0 is in the last line of the header (or of the colour), and each other one is in the line where the
// block before it ends. The colour region and the spacers of a punctuated array are never used.
//
// Memory comes from the system in pieces of a superblock's size (papers/common/pieces.hpp).
//
// Invariants, under the owner's lock:
//   used + blocks on the free list + (capacity - fresh) = capacity
//   the superblock is in the group of its owner that `used` puts it into (papers/cif/fullness.hpp)
#pragma once

#include "base/atomic.hpp"
#include "papers/cif/fullness.hpp"
#include "papers/cif/settings.hpp"
#include "papers/common/word.hpp"

namespace coffer::cif {

struct Heap;

struct FreeBlock {
  FreeBlock* next;
};

struct Superblock : Filling {
  u32 fresh;            // blocks cut so far: those from here on were never used
  Atomic<Heap*> owner;  // changes under the lock of the heap that it names
  FreeBlock* free;      // last freed first; blocks that were never used are not on it
  u32 size_class;
  Array array;
  u32 first;   // from here to block 0's data
  u32 colour;  // lines
};

// Where things lie, as offsets from the start of a superblock's memory.
struct Layout {
  usize header;
  usize first;  // block 0's data
  Array array;
  usize capacity;
};

constexpr Layout lay_out(const Settings& settings, usize block, u32 colour) {
  const usize line = settings.cache.line;
  const usize colour_bytes = colour * line;
  const bool before = settings.place != ColourPlace::after;
  const usize header = before ? colour_bytes : 0;
  const usize first = round_up(header + sizeof(Superblock) + kHeaderWord, line) + (before ? 0 : colour_bytes);
  const Array array = make_array(settings.array, settings.cache, block);
  // Block 0 starts with its header word, a word before its data.
  const usize start = first + settings.shift - kHeaderWord;
  return {header, first + settings.shift, array, array.count_in(settings.superblock - start)};
}

inline void* block_data(Superblock* superblock, usize n) {
  return reinterpret_cast<char*>(superblock) + superblock->first + superblock->array.offset(n);
}

// Where its memory starts.
inline void* memory_of(const Settings& settings, Superblock* superblock) {
  const usize header = settings.place == ColourPlace::after ? 0 : superblock->colour * usize{settings.cache.line};
  return reinterpret_cast<char*>(superblock) - header;
}

// Makes a superblock of the class in `memory`, with every block unused and no owner; or an empty one serve another
// class: then `memory` is its own, and so must be the colour, since the header stays where it is.
Superblock* format(const Settings& settings, void* memory, u32 size_class, u32 colour);

// A block; there is one.
void* take_block(Superblock* superblock);
// The block back; `data` is its start.
void give_block(Superblock* superblock, void* data);

// Verifies the invariants above that need no heap; number of violations.
usize check(const Settings& settings, Superblock* superblock);

}  // namespace coffer::cif
