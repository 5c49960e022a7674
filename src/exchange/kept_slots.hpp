// SPDX-License-Identifier: MIT
// Slots of large blocks that a heap's thread freed, kept for its next ones: a mask of one chunk's slots. A run is taken
// from it as the slot pool takes one from the chunk's word, and neighbours join as there, but nobody else looks, so no
// line is touched that others write.
//
// They are kept and used only where the pool would take them, too: while it knows no resident run of the length in a
// lower chunk (is_lowest). And they go back when they do not serve, before the pool is asked, and when another block is
// freed and none was wanted meanwhile: who only frees keeps nothing but the last one. So blocks lie where they would
// without, and no more is resident. (Without the first rule 64 live blocks of 100 KB to 1 MB lay in 8 % more memory,
// and had 40,900 page faults for 5,900; without the last one 100 MB up and down had 131 faults a breath for 106.)
//
// To all others kept slots are in use and described by no record, as what a thread has in hand: they are held, charged
// and perhaps resident. A heap keeps no more of them, together with its empty spans, than empties_budget
// (span/emptiness.hpp), and gives them back where those go: release_idle, give_up_half_empty, empty_heap. In a fork
// child where threads vanished they go to the pool.
//
// Called by the thread that uses `heap`, inside (inside.hpp), or by who has seized it.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

inline usize kept_bytes(const Heap* heap) {
  const u64 slots = heap->kept_slots.get();
  return slots != 0 ? count_bits(slots) * kSlotBytes : 0;
}

// A large block from kept slots; nullptr: no such run is kept.
void* allocate_kept(Heap* heap, usize size, usize alignment);
// Keeps what an ended block was made of (end_large). false: the caller has to give it back.
bool keep_large(Heap* heap, Span* span);

// All go back to the pool; the same if the slot behind this block is among them, for the block wants to grow.
void give_back_kept(Heap* heap);
void give_back_behind(Heap* heap, const Span* span);

}  // namespace coffer
