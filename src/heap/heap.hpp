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
// The slice's record names no heap, or another one than the thread's, which may be the null heap.
void free_beyond(void* block, Span* slice, Heap* heap);
// What the caller says that the block was allocated with. It is checked, not trusted: a false claim means that the
// program took the block for something else.
enum class Claim : u8 {
  nothing,
  size,    // of free_sized, for an alignment, too: realloc may have left the block longer than its class is
  object,  // of operator delete: such a block is of its size's class
};
void free_sized_elsewhere(void* block, usize size, Claim claim);
void free_sized_beyond(void* block, Span* slice, Heap* heap, usize size, Claim claim);
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

// t_heap, by what the caller loaded beside other words.
COFFER_INLINE Heap* heap_at([[maybe_unused]] uptr offset) {
  if constexpr (!kKeepsOffset) return t_heap;
  return *reinterpret_cast<Heap**>(static_cast<char*>(__builtin_thread_pointer()) + offset);
}

// malloc's own. nullptr: the slow path has to serve, and ends the call.
COFFER_INLINE void* allocate_fast(usize size) {
  // relaxed: it goes from 0 to its value once (open_fast_path in registry.cpp), and a thread that sees 0 late takes the
  // slow path once more.
  const Arena& arena = page_of(g_arenas)->arenas[0];
  Words opened;  // fast_sizes and heap_offset; relaxed, both: see keep_offset in registry.cpp
  if constexpr (kPairs) {
    opened = load_words_at_once(&arena.fast_sizes);
    if (COFFER_UNLIKELY(size >= opened.first)) return nullptr;
  } else if constexpr (kKeepsOffset) {
    opened.first = arena.fast_sizes.load(relaxed);
    if (COFFER_UNLIKELY(size >= opened.first)) return nullptr;
    opened.second = arena.heap_offset.load(relaxed);
  } else {
    if (COFFER_UNLIKELY(!arena.fast_sizes.is_above(size))) return nullptr;
    opened.first = kPopping;
  }
  Heap* own = heap_at(opened.second);
  usize word = word_of(size);
  // relaxed and a compiler fence, for the barrier is the seizer's (inside.hpp). It is kPopping.
  own->inside.store(opened.first, relaxed);
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: pairs with the release in seize
  COFFER_KEEP_IN_RDX(word);              // so that the block can be in the register in which it is returned
  // On x86-64 in a register, and not as two scaled accesses: processors forward what the last call stored there to this
  // call's load at once where the address is a register alone (docs/design/speed-log.md).
  BlockList* list = reinterpret_cast<BlockList*>(heap) + word;
  if constexpr (!kPairs) COFFER_KEEP_IN_REGISTER(list);
  Block* block = list->first();
  COFFER_KEEP_IN_RAX(block);
  if (!kMisuseChecks && COFFER_UNLIKELY(block == nullptr)) return nullptr;
  Words signed_link;
  if constexpr (kPairs) signed_link = load_words(block);
  Block* next = kPairs ? reinterpret_cast<Block*>(signed_link.first) : block->link;
  // Before the signature is looked at, so that `next` can be made it: an empty list stays as it is, and nobody goes on
  // after a report.
  list->set_first(next);
  // The next call reads its link, and the program writes to it. Also of kListEnd, and of a link that is no address.
  __builtin_prefetch(next);
  if constexpr (kMisuseChecks) {
    const uptr wanted = arena.link_key.plus(reinterpret_cast<uptr>(next));  // relaxed: see links_start
    if (COFFER_UNLIKELY((kPairs ? signed_link.second : block->mark) != wanted)) {
      if (COFFER_UNLIKELY(block != kListEnd)) report_broken_link(block);
      return nullptr;
    }
    block->mark = 0;
  }
  // release: pairs with the seizer's acquire. A heap that has a block is its own `self`.
  (kPairs ? heap : own)->inside.store(kOutside, release);
  return block;
}

// Of machines with pairs: what a fast path got beside other words.
struct Beside {
  uptr freed = 0, key = 0;
};
COFFER_INLINE Beside beside([[maybe_unused]] const Span* span) {
  if constexpr (!kPairs) return {};
  // relaxed: it is there before there is a block (links_start).
  return {reinterpret_cast<uptr>(span->freed.get()), g_arenas.arenas[0].link_key.load(relaxed)};
}

// Pushes a block on `list`, where a span that the thread's heap owns has what is freed of it. True: the countdown is
// over. Of pairs: the key of links, and the countdown.
COFFER_INLINE bool push_freed(Span* span, BlockList& list, Block* block, uptr key, i32 left) {
  if constexpr (kPairs && kMisuseChecks) {
    Block* link = list.first();
    uptr mark = reinterpret_cast<uptr>(link) + key;
    __asm__("" : "+r"(mark), "+r"(block));  // so that the two stores come together, and are one instruction
    block->link = link;
    block->mark = mark;
  } else {
    set_link(block, list.first());
  }
  compiler_fence();  // a fork child must not see the list before the link
  list.set_first(block);
  if constexpr (!kPairs) return span->countdown.decrement();
  const i32 next = left - 1;
  span->countdown.set(next);
  return next == 0;
}

COFFER_INLINE bool push_freed(Span* span, BlockList& list, Block* block) {
  return push_freed(span, list, block, beside(span).key, kPairs ? span->countdown.get() : 0);
}

COFFER_INLINE bool is_of_class(const Span* span, usize size) {
  return size <= kLargestSmall && class_of(size) == span->size_class.get();
}

// Frees a block of a span that `heap`, the thread's, owns, and ends the call.
template <Claim kClaim>
COFFER_INLINE void free_own(void* block, Span* span, Heap* heap, usize size, Beside got) {
  BlockList& list = *(kPairs ? reinterpret_cast<BlockList*>(got.freed) : span->freed.get());
  Words limit;
  if constexpr (kPairs) limit = load_words_at_once(&span->limit);  // and countdown, which is the owner's
  if constexpr (kMisuseChecks) {
    const uptr offset = reinterpret_cast<uptr>(block) - span->first_block;
    if (COFFER_UNLIKELY(!passes(offset, span->multiplier, kPairs ? limit.first : span->limit)))
      return refuse_free(block);
    if (COFFER_UNLIKELY(may_be_free(block))) return free_marked(block, span, size, kClaim);
    if constexpr (kClaim != Claim::nothing) {
      if (COFFER_UNLIKELY(!is_of_class(span, size)) && is_wrong_size(span, size, kClaim))
        return refuse_size(block, size);
    }
  }
  if (COFFER_UNLIKELY(push_freed(span, list, static_cast<Block*>(block), got.key, static_cast<i32>(limit.second))))
    return local_event(span);
  heap->inside.store(kOutside, release);  // release: as in allocate_fast. A heap that can be used is its own `self`
}

template <Claim kClaim>
COFFER_INLINE void deallocate_as(void* block, usize size) {
  Arena& arena = page_of(g_arenas)->arenas[0];
  Words first, signing, owned;
  // relaxed, here and below: see arena_of. A null pointer is outside, too.
  if constexpr (kPairs) first = load_words(&arena.base);  // and fast_frontier
  const usize offset = reinterpret_cast<uptr>(block) - (kPairs ? first.first : arena.base);
  if (COFFER_UNLIKELY(kPairs ? offset >= first.second : !arena.fast_frontier.is_above(offset)))
    return kClaim != Claim::nothing ? free_sized_elsewhere(block, size, kClaim) : free_elsewhere(block);
  if constexpr (kPairs) signing = load_words_at_once(&arena.link_key);  // and spans
  Span* span = (kPairs ? reinterpret_cast<Span*>(signing.second) : arena.spans) + offset / kSliceBytes;
  if constexpr (kPairs) COFFER_KEEP_IN_REGISTER(span);
  // relaxed: it is there before there is a block.
  Heap* own = heap_at(kKeepsOffset ? arena.heap_offset.load(relaxed) : 0);
  own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and the fence: as in allocate_fast
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: as there
  // relaxed: equal only if this thread wrote it, or who had the heap before it.
  if constexpr (kPairs) owned = load_words(&span->owner);  // and freed
  if (COFFER_UNLIKELY(kPairs ? owned.first != reinterpret_cast<uptr>(heap) : !span->owner.is(heap)))
    return kClaim != Claim::nothing ? free_sized_beyond(block, span, heap, size, kClaim)
                                    : free_beyond(block, span, heap);
  free_own<kClaim>(block, span, heap, size, {owned.second, signing.first});
}

COFFER_INLINE void deallocate(void* block) { deallocate_as<Claim::nothing>(block, 0); }

}  // namespace coffer
