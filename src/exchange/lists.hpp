// SPDX-License-Identifier: MIT
// The lists that malloc pops from, one a class: blocks of the heap's hot span of the class, or blocks from holes of
// mixed spans where it has none. What the owner frees in the hot span goes there, too, so that malloc takes first what
// was freed last: it is in the cache. Nobody counts such a list; what of a hot span is live is known when it is put
// back. While lists are watched, malloc takes a part of the local list at a time, and frees go there.
#pragma once

#include "exchange/inside.hpp"
#include "policy/listed.hpp"
#include "span/emptiness.hpp"

namespace coffer {

struct ListEnd {
  u32 count;
  Block* last;  // nullptr: the list is empty
};
// Walks a list, of which no more than `most` blocks are counted.
ListEnd measure_list(Block* list, u32 most);

// Makes the hot span's local list the heap's, which is empty. In this order, so that a fork child finds the list in one
// place or, the same head, in both.
COFFER_INLINE void take_local_list(Heap* heap, ClassIndex size_class, Span* span) {
  heap->blocks[size_class].set(span->local_free.get());
  compiler_fence();
  span->local_free.set(nullptr);
  set_countdown(span, 0, kFreesOfALook);
  compiler_fence();
}
// The same, and makes frees of the owner go to the heap's list.
inline void feed_malloc(Heap* heap, ClassIndex size_class, Span* span) {
  if (feeds_malloc(span)) return;
  take_local_list(heap, size_class, span);
  span->freed.set(&heap->blocks[size_class]);
}
// While what heaps take is counted: makes `list`, `count` blocks, the hot span's local list, and so many of them the
// heap's, which is empty, as come before the next sample.
void take_watched_list(Heap* heap, ClassIndex size_class, Span* span, Block* list, u32 count);

// Puts the heap's list back before the local list of its hot span, to which the owner's frees go from now on.
void put_back_list(Heap* heap, ClassIndex size_class, Span* span);
// The heap has used up the hot span, which floats: it comes back by frees. has_blocks: others freed meanwhile, and it
// stays hot. claimed: it comes by mail.
inline Retired retire(Span* span) {
  keep_from_malloc(span);
  set_countdown(span, 0, reuse_threshold(span->capacity.get()));
  return mark_floating(span);
}
// Frees the heap's list of a class that has no hot span: blocks from holes.
void free_list(Heap* heap, ClassIndex size_class);

}  // namespace coffer
