// SPDX-License-Identifier: MIT
// A superblock: S bytes from the system, aligned to S, cut into blocks of one size class (paper 1, section 3). Its
// record stands at its beginning. A superblock belongs to exactly one heap at any time, its owner.
//
// Every field but `lock` is written under the owner's lock only: by malloc, which holds that lock alone, and by free,
// which holds the superblock's, too. So the superblock's lock guards nothing by itself; it makes frees of one
// superblock queue there and not at the heap. `owner` is changed by whoever holds the locks of both the old and the new
// owner; a reader who holds neither must read it again under the lock of the one that it found (release.cpp).
#pragma once

#include "os/spin_lock.hpp"
#include "papers/common/word.hpp"

namespace coffer::papers::hoard {

struct Heap;

// A free block.
struct Block {
  Block* next;
};

struct Superblock {
  SpinLock lock;
  Atomic<Heap*> owner;
  Superblock* next;      // in its fullness group: the front was used last
  Superblock* previous;  // nullptr: this is the front
  Block* free;           // blocks that were used before, last in first out
  u32 stride;
  u32 capacity;  // blocks
  u32 used;      // blocks in use: the paper's u of a superblock
  u32 fresh;     // blocks that were never handed out begin at this one; they are on no list and untouched
  u32 least;     // `used` from here ...
  u32 most;      // ... to here leaves it in its group
  u16 size_class;
  u8 group;
};

// Bytes before the first block that a program sees. With a word before each block, that word lies there, too.
constexpr usize head_bytes(usize word) {
  return (sizeof(Superblock) + word + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}
// Blocks of `stride` bytes that a superblock has.
constexpr u32 capacity_of(usize superblock_bytes, usize stride, usize word) {
  return static_cast<u32>((superblock_bytes - head_bytes(word) + word) / stride);
}
// The largest block of which there are two: "half the size of a superblock" (section 3), less what the record takes.
constexpr usize largest_stride(usize superblock_bytes, usize word) {
  return (superblock_bytes - head_bytes(word) + word) / 2 / kBlockAlignment * kBlockAlignment;
}

}  // namespace coffer::papers::hoard
