// SPDX-License-Identifier: MIT
// Kept slices: slices of large blocks that a heap's thread freed, kept for its next large blocks. They are a mask of
// one chunk's slices. The thread takes a run from the mask as the slice pool takes one from the chunk's word, and
// neighbours join in the same way. But no other thread uses the mask, so taking a run writes no shared line.
//
// Two rules keep placement and resident memory as they would be without kept slices:
//   - Slices are kept, and used, only while the pool would take the same ones: while it knows no resident run of the
//     length in a lower chunk (is_lowest). Without this rule 64 live blocks of 100 KB to 1 MB lay in 8 % more memory,
//     and had 40,900 page faults instead of 5,900.
//   - Slices go back when they do not serve a request, before the pool is asked, and when another block is freed and
//     none was wanted in between. So a thread that only frees keeps only its last block. Without this rule 100 MB up
//     and down had 131 faults a cycle instead of 106.
//
// For all other threads kept slices are in use and have no record: they are held, charged and perhaps resident.
// Together with its empty spans a heap keeps at most empties_budget of them (span/emptiness.hpp). It gives them back
// in the same places: release_idle, give_up_half_empty, empty_heap. In a fork child where threads vanished they go to
// the pool.
//
// The caller is the thread that uses `heap`, inside (inside.hpp), or the thread that has seized it.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

inline usize kept_bytes(const Heap* heap) {
  const u64 slices = heap->kept_slices.get();
  return slices != 0 ? count_bits(slices) * kSliceBytes : 0;
}

// A large block from kept slices; nullptr: no such run is kept.
void* allocate_kept(Heap* heap, usize size, usize alignment);
// Keeps what an ended block was made of (end_large). false: the caller has to give it back.
bool keep_large(Heap* heap, Span* span);

// All go back to the pool; the same if the slice behind this block is among them, for the block wants to grow.
void give_back_kept(Heap* heap);
void give_back_behind(Heap* heap, const Span* span);

}  // namespace coffer
