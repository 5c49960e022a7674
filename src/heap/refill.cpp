// malloc's slow path: a hot span for the class, and blocks from it. In this order, so that what is resident already is
// used first: what the owner freed, what others freed, a page never cut; then a reusable span of this heap, a partly
// used one that is nobody's, and a new one.
#include "heap/refill.hpp"
#include "heap/ownership.hpp"
#include "heap/registry.hpp"
#include "heap/walk.hpp"
#include "large/large.hpp"
#include "pool/partial_pool.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

// Makes the hot span's local list the heap's. In this order, so that a fork child finds the list in one place or, the
// same head, in both.
COFFER_INLINE void take_local(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  heap->zero[size_class].set(0);
  heap->blocks[size_class].set(list);
  compiler_fence();
  span->local_free.set(nullptr);
  set_countdown(span, 0, kNever);
  compiler_fence();
}

// Refills heap->blocks from the hot span; false: it has no free block.
bool refill_from(Heap* heap, ClassIndex size_class, Span* span) {
  Block* list = span->local_free.get();
  if (list != nullptr) {
    take_local(heap, size_class, span, list);
    return true;
  }
  u32 count = 0;
  list = take_remote(span, &count);
  if (list != nullptr) {
    heap->zero[size_class].set(0);
    heap->blocks[size_class].set(list);
    return true;
  }
  bool zero = false;
  list = cut_page(span, &zero);
  if (list != nullptr) {
    heap->zero[size_class].set(zero ? 1 : 0);
    heap->blocks[size_class].set(list);
    return true;
  }
  return false;
}

// The hot span is exhausted: it floats, unless remote frees came in meanwhile.
bool retire_hot(Heap* heap, ClassIndex size_class, Span* span) {
  set_countdown(span, 0, reuse_threshold(span->capacity.get()));
  push_floating(heap, span);
  if (!mark_floating(span)) {
    unlink_floating(heap, span);
    set_countdown(span, 0, kNever);
    return false;
  }
  heap->hot[size_class].set(nullptr);
  return true;
}

Span* new_span(Heap* heap, ClassIndex size_class) {
  Span* span = make_span(size_class);
  if (span != nullptr) take_in(heap, span);
  return span;
}

Span* next_hot(Heap* heap, ClassIndex size_class) {
  if (Span* span = pop_reusable(heap, size_class)) {
    mark_hot(span);
    set_countdown(span, local_count(span), kNever);
    return span;
  }
  if (Span* span = g_partial_pool.adopt(size_class, current_shard(), mark_adopted)) {
    take_in(heap, span);
    set_countdown(span, local_count(span), kNever);
    return span;
  }
  return new_span(heap, size_class);
}

// Memory is exhausted: what this heap keeps for speed is given up, then blocks that are free but do not make their span
// reusable are looked for. A full walk over this heap's floating spans, then over all shared ones; it runs before every
// NULL, and never earlier.
Span* scavenge(Heap* heap, ClassIndex size_class, ClassIndex largest) {
  release_idle(heap);
  if (Span* span = new_span(heap, size_class)) return span;
  for (SpanNumber number = heap->floating.get(); number != 0; number = span_at(number)->next.get()) {
    Span* span = span_at(number);
    // relaxed: only whether to try.
    if (span->size_class.get() < size_class || span->size_class.get() > largest) continue;
    if (local_count(span) == 0 && load_word(span, relaxed).count() == 0) continue;
    if (!mark_reusable(span)) continue;
    unlink_floating(heap, span);
    mark_hot(span);
    set_countdown(span, local_count(span), kNever);
    return span;
  }
  ClassIndex listed = kClasses;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans || listed < kClasses) return;
    for_each_record(arena, index, [&](Span* span, SlotUse slot_use) {
      const ClassIndex found = span->size_class.get();
      if (slot_use != SlotUse::span || found < size_class || found > largest || !list_early(span)) return;
      do_duty(heap, span, PushDuty::list);
      listed = found;
    });
  });
  Span* span = listed < kClasses ? g_partial_pool.adopt(listed, current_shard(), mark_adopted) : nullptr;
  if (span != nullptr) {
    take_in(heap, span);
    set_countdown(span, local_count(span), kNever);
  }
  return span;
}

bool refill(Heap* heap, ClassIndex size_class, bool last_resort) {
  Span* span = heap->hot[size_class].get();
  if (COFFER_LIKELY(span != nullptr) && COFFER_LIKELY(span->local_free.get() != nullptr)) {
    return refill_from(heap, size_class, span);
  }
  close_chain(heap);
  take_mail(heap);
  shed_surplus(heap);
  for (;;) {
    span = heap->hot[size_class].get();
    if (span != nullptr) {
      if (refill_from(heap, size_class, span)) return true;
      if (!retire_hot(heap, size_class, span)) continue;
    }
    span = next_hot(heap, size_class);
    if (span == nullptr && last_resort) span = scavenge(heap, size_class, size_class);
    if (span == nullptr) return false;
    heap->hot[size_class].set(span);
  }
}

}  // namespace

Block* allocate_block(Heap* heap, ClassIndex size_class, bool last_resort, bool* zero) {
  Owned<Block*>& head = heap->blocks[size_class];
  if (head.get() == nullptr && !refill(heap, size_class, last_resort)) return nullptr;
  Block* block = head.get();
  *zero = heap->zero[size_class].get() != 0;
  head.set(block->next);
  return block;
}

Block* allocate_of_class(ClassIndex size_class, bool* zero, bool last_resort) {
  settle_fork();
  Heap* heap = own_heap();
  if (COFFER_LIKELY(heap != nullptr)) return allocate_block(heap, size_class, last_resort, zero);
  FallbackHeap fallback;
  return fallback.get() != nullptr ? allocate_block(fallback.get(), size_class, last_resort, zero) : nullptr;
}

void* allocate_large_block(usize size, usize alignment, bool* zero) {
  settle_fork();
  // Large blocks belong to no heap; but a thread that has one is known to fork (registry.cpp).
  Heap* heap = own_heap();
  if (heap == nullptr && !start_process()) return nullptr;
  void* block = allocate_large(size, alignment, zero);
  if (COFFER_LIKELY(block != nullptr) || heap == nullptr) return block;
  // As in scavenge: what this heap keeps for speed is given up.
  release_idle(heap);
  return allocate_large(size, alignment, zero);
}

Block* allocate_from_larger(ClassIndex size_class, bool* zero) {
  for (ClassIndex c = size_class + 1; c < kClasses; ++c) {
    if (Block* block = allocate_of_class(c, zero, false)) return block;
  }
  if (void* block = allocate_large_block(kSlotBytes, kSlotBytes, zero)) return static_cast<Block*>(block);
  Heap* heap = own_heap();
  if (heap == nullptr) return nullptr;
  // Every class was asked, so none of them has a hot span with a block, and the one found here can become one.
  Span* span = scavenge(heap, size_class, kClasses - 1);
  if (span == nullptr) return nullptr;
  const ClassIndex found = span->size_class.get();
  if (heap->hot[found].get() != nullptr) {
    mark_reusable(span);
    place_reusable(heap, span);
    return nullptr;
  }
  heap->hot[found].set(span);
  return allocate_block(heap, found, false, zero);
}

void* allocate_any(usize size) {
  bool zero = false;
  if (COFFER_LIKELY(size <= kLargestSmall)) {
    const ClassIndex size_class = class_of(size);
    // By far the commonest reason to be here, and for large blocks every second call: the heap's list ran out, and what
    // was freed meanwhile waits in the hot span. (The null heap has no hot span.)
    Heap* heap = t_heap;
    Span* hot = heap->hot[size_class].get();
    if (COFFER_LIKELY(hot != nullptr && heap->blocks[size_class].get() == nullptr)) {
      if (Block* list = hot->local_free.get()) {
        take_local(heap, size_class, hot, list);
        heap->blocks[size_class].set(list->next);
        return list;
      }
    }
    Block* block = allocate_of_class(size_class, &zero, false);
    return COFFER_LIKELY(block != nullptr) ? block : allocate_from_larger(size_class, &zero);
  }
  return allocate_large_block(size, kSlotBytes, &zero);
}

}  // namespace coffer
