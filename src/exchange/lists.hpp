// SPDX-License-Identifier: MIT
// The lists that malloc pops from, one a class: blocks of the heap's hot span of the class, or blocks from holes of
// mixed spans where it has none. A list is taken whole from what the hot span has free, and goes back whole. Nobody
// counts what malloc takes from it: what of a hot span is live is known when the list is put back.
#pragma once

#include "exchange/inside.hpp"

namespace coffer {

struct ListEnd {
  u32 count;
  Block* last;  // nullptr: the list is empty
};
// Walks a list, of which no more than `most` blocks are counted.
ListEnd measure_list(Block* list, u32 most);

// Makes the hot span's local list the heap's. In this order, so that a fork child finds the list in one place or, the
// same head, in both.
COFFER_INLINE void take_whole_list(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  heap->zero[size_class].set(0);
  heap->blocks[size_class].set(list);
  compiler_fence();
  span->local_free.set(nullptr);
  set_countdown(span, 0, kNever);
  compiler_fence();
}
// The same while what heaps take is counted: no more than comes before the next sample.
void take_watched_list(Heap* heap, ClassIndex size_class, Span* span, Block* list);
inline void take_list(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  if (COFFER_UNLIKELY(watches_lists())) return take_watched_list(heap, size_class, span, list);
  take_whole_list(heap, size_class, span, list);
}

// Puts the heap's list back before the local list of its hot span.
void put_back_list(Heap* heap, ClassIndex size_class, Span* span);
// Frees the heap's list of a class that has no hot span: blocks from holes.
void free_list(Heap* heap, ClassIndex size_class);

}  // namespace coffer
