// SPDX-License-Identifier: MIT
// The fast paths of malloc and free, over the heap that one thread owns (exchange/record.hpp); what they cannot do goes
// on in refill.cpp (allocate) and release.cpp (free).
//
// allocate(size):                                 free(block):
//   size over 64 KiB ........ large/                address outside the first arena .. free_elsewhere
//   class by one table load                         inside := 1; heap := self
//   inside := popping                               inside := span
//   heap := self                                    heap := self
//   heap->blocks[class] empty .. refill             span's owner is not the heap ..... free_beyond
//   pop                                             not the start of a block ......... report
//   inside := outside                               push on the list that span->freed names
//                                                   countdown reaches zero ........... local_event
//                                                   inside := outside
//
// What the owner frees in the hot span of a class goes back to the heap's list, from which malloc takes it first. When
// the list is empty, it is refilled from the span's remote list, then by cutting an absent page. What `inside` and
// `self` are for says inside.hpp.
#pragma once

#include "exchange/bad_pointer.hpp"
#include "exchange/record.hpp"

namespace coffer {

// --- Slow paths. They go on with the call that a fast path began, and end it. ---

void* allocate_any(usize size);
void free_elsewhere(void* block);
// The slot's record names no heap, or another one than the thread's, which may be the null heap.
void free_beyond(void* block, Span* slot, Heap* heap);
// What the caller says that the block was allocated with. It is checked, not trusted: a false claim means that the
// program took the block for something else.
enum class Claim : u8 {
  nothing,
  size,    // of free_sized, for an alignment, too: realloc may have left the block longer than its class is
  object,  // of operator delete: such a block is of its size's class
};
void free_sized_elsewhere(void* block, usize size, Claim claim);
void free_sized_beyond(void* block, Span* slot, Heap* heap, usize size, Claim claim);
// Of a size that is not of the span's class: whether no block of it can have been allocated with it.
bool is_wrong_size(const Span* span, usize size, Claim claim);
void local_event(Span* span);
// The block looks like a free one of the span: whether it is.
void free_marked(void* block, Span* span, usize size, Claim claim);

// --- Fast paths. ---

#if defined(__x86_64__)
#define COFFER_KEEP_IN_RDX(x) __asm__("" : "+d"(x))
#define COFFER_KEEP_IN_RAX(x) __asm__("" : "+a"(x))
#else
#define COFFER_KEEP_IN_RDX(x) static_cast<void>(x)
#define COFFER_KEEP_IN_RAX(x) static_cast<void>(x)
#endif
#define COFFER_KEEP_IN_REGISTER(x) __asm__("" : "+r"(x))

// malloc's own. nullptr: the slow path has to serve, and ends the call.
COFFER_INLINE void* allocate_fast(usize size) {
  // relaxed: it goes from 0 to its value once (open_fast_path in registry.cpp), and a thread that sees 0 late takes the
  // slow path once more.
  if (COFFER_UNLIKELY(!g_arenas.arenas[0].fast_sizes.is_above(size))) return nullptr;
  Heap* own = t_heap;
  usize size_class = class_of(size);
  // relaxed and a compiler fence, for the barrier is the seizer's (inside.hpp).
  own->inside.store(kPopping, relaxed);
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: pairs with the release in seize
  COFFER_KEEP_IN_RDX(size_class);        // so that the block can be in the register in which it is returned
  // In a register, and not as two scaled accesses: processors forward what the last call stored there to this call's
  // load at once where the address is a register alone (docs/design/speed-log.md).
  BlockList* list = &heap->blocks[size_class];
  COFFER_KEEP_IN_REGISTER(list);
  Block* block = list->first();
  COFFER_KEEP_IN_RAX(block);
  if (!kMisuseChecks && COFFER_UNLIKELY(block == nullptr)) return nullptr;
  Block* next = block->link;
  // Before the signature is looked at, so that `next` can be made it: an empty list stays as it is, and nobody goes on
  // after a report.
  list->set_first(next);
  // The next call reads its link, and the program writes to it. Also of kListEnd, and of a link that is no address.
  __builtin_prefetch(next);
  if constexpr (kMisuseChecks) {
    if (COFFER_UNLIKELY(block->mark != signature(next))) {
      if (COFFER_UNLIKELY(block != kListEnd)) report_broken_link(block);
      return nullptr;
    }
    block->mark = 0;
  }
  own->inside.store(kOutside, release);  // release: pairs with the seizer's acquire
  return block;
}

// Pushes a block on `list`, where a span that the thread's heap owns has what is freed of it. True: the countdown is
// over.
COFFER_INLINE bool push_freed(Span* span, BlockList& list, Block* block) {
  set_link(block, list.first());
  compiler_fence();  // a fork child must not see the list before the link
  list.set_first(block);
  return span->countdown.decrement();
}

COFFER_INLINE bool is_of_class(const Span* span, usize size) {
  return size <= kLargestSmall && class_of(size) == span->size_class.get();
}

// Frees a block of a span that `heap`, the thread's, owns, and ends the call.
template <Claim kClaim>
COFFER_INLINE void free_own(void* block, Span* span, Heap* heap, usize size) {
  BlockList& list = *span->freed.get();
  if constexpr (kMisuseChecks) {
    if (COFFER_UNLIKELY(!is_block_start(span, reinterpret_cast<uptr>(block)))) return refuse_free(block);
    if (COFFER_UNLIKELY(may_be_free(block))) return free_marked(block, span, size, kClaim);
    if constexpr (kClaim != Claim::nothing) {
      if (COFFER_UNLIKELY(!is_of_class(span, size)) && is_wrong_size(span, size, kClaim))
        return refuse_size(block, size);
    }
  }
  if (COFFER_UNLIKELY(push_freed(span, list, static_cast<Block*>(block)))) return local_event(span);
  heap->inside.store(kOutside, release);  // release: as in allocate_fast. A heap that can be used is its own `self`
}

template <Claim kClaim>
COFFER_INLINE void deallocate_as(void* block, usize size) {
  Arena& arena = g_arenas.arenas[0];
  const usize offset = reinterpret_cast<uptr>(block) - arena.base;
  // relaxed: see arena_of. A null pointer is outside, too.
  if (COFFER_UNLIKELY(!arena.fast_frontier.is_above(offset)))
    return kClaim != Claim::nothing ? free_sized_elsewhere(block, size, kClaim) : free_elsewhere(block);
  Span* span = arena.spans + offset / kSlotBytes;
  Heap* own = t_heap;
  own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and the fence: as in allocate_fast
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: as there
  // relaxed: equal only if this thread wrote it, or who had the heap before it.
  if (COFFER_UNLIKELY(!span->owner.is(heap)))
    return kClaim != Claim::nothing ? free_sized_beyond(block, span, heap, size, kClaim)
                                    : free_beyond(block, span, heap);
  free_own<kClaim>(block, span, heap, size);
}

COFFER_INLINE void deallocate(void* block) { deallocate_as<Claim::nothing>(block, 0); }

}  // namespace coffer
