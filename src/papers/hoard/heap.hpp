// SPDX-License-Identifier: MIT
// A heap: superblocks by size class and fullness, and what is counted about them. Heap 0 is the global heap; the others
// are the paper's per-processor heaps.
#pragma once

#include "base/bits.hpp"
#include "cpu/cpu.hpp"
#include "papers/common/counted_lock.hpp"
#include "papers/hoard/parameters.hpp"
#include "papers/hoard/superblock.hpp"
#include "papers/hoard/threshold.hpp"

namespace coffer::papers::hoard {

// The superblocks of one class in one heap.
struct Bin {
  u64 used;         // blocks in use: u of this heap and class
  u64 blocks;       // blocks in all: a of this heap and class
  u32 superblocks;  // their number
  u32 groups;       // bit g: group g is not empty
  Superblock* front[kGroups];
};

// Written under the heap's lock.
struct Counts {
  u64 mallocs;           // that this heap served
  u64 frees;             // of blocks in its superblocks
  u64 superblock_locks;  // taken for those frees
  u64 retries;           // times a free found, under this heap's lock, that the superblock had left (figure 2's race)
  u64 created;           // superblocks from the system
  u64 from_global;       // superblocks taken from heap 0 ...
  u64 shared_blocks;     // ... and blocks in use in them: those of other heaps' threads, perhaps (table 3)
  u64 to_global;         // superblocks given to heap 0
  u64 recycled;          // empty superblocks that changed their class
};

struct alignas(2 * kCacheLine) Heap {
  CountedLock lock;
  u32 number;
  Atomic<u32> threads;             // that use it (assign:adaptive)
  u64 empties[kMostClasses / 64];  // bit c: class c has an empty superblock
  Counts counts;
  Bin bins[kMostClasses];
};

// All functions: under the heap's lock.

// Takes a superblock into the heap, which becomes its owner, at the front of its group; and out of it.
void attach(Heap* heap, Superblock* superblock);
void detach(Heap* heap, Superblock* superblock);

// The superblock of the class with the fewest free blocks, but at least one; empty ones last. nullptr: none has any.
COFFER_INLINE Superblock* fullest(const Heap* heap, u32 size_class) {
  const Bin& bin = heap->bins[size_class];
  const u32 groups = bin.groups & ~(1u << kFullGroup);
  return groups != 0 ? bin.front[highest_bit(groups)] : nullptr;
}
// An empty superblock of any class; nullptr: none.
Superblock* any_empty(const Heap* heap);
// The emptiest superblock of the class if it is f empty, else nullptr. In constant time (section 3.1).
Superblock* half_of(const Heap* heap, u32 size_class);

// Makes an empty superblock one of another class. It is in no heap.
void format(Superblock* superblock, u32 size_class);

// The superblock has a free block.
void* take_block(Heap* heap, Superblock* superblock);
// Puts the block back and the superblock to the front of its group.
void put_block(Heap* heap, Superblock* superblock, void* block);

// Section 3.1, for heaps other than heap 0.
inline bool is_crossed(const Heap* heap, u32 size_class) {
  const Bin& bin = heap->bins[size_class];
  return g_hoard.threshold.crossed(bin.used, bin.blocks, g_hoard.capacity[size_class]);
}

inline bool holds_after_malloc(const Heap* heap, u32 size_class) {
  const Bin& bin = heap->bins[size_class];
  return g_hoard.threshold.holds_after_malloc(bin.used, bin.blocks, g_hoard.capacity[size_class]);
}

// Counts everything anew and compares; number of violations.
usize check_heap(const Heap* heap);

// Number of heaps with heap 0, and each.
inline u32 heap_count() { return g_hoard.heaps + 1; }
inline Heap* heap_at(u32 number) { return g_hoard.first_heap + number; }
inline Heap* global_heap() { return g_hoard.first_heap; }

}  // namespace coffer::papers::hoard
