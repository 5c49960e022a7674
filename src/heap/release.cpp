// SPDX-License-Identifier: MIT
// free's slow paths: countdown events of the owner, blocks of other heaps, blocks elsewhere, and what is not a block.
#include "exchange/chains.hpp"
#include "exchange/inside.hpp"
#include "exchange/mail.hpp"
#include "exchange/mixed_free.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/watch.hpp"
#include "heap/heap.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "span/emptiness.hpp"

namespace coffer {

void local_event(Span* span) {
  settle_fork();
  Heap* heap = enter(t_heap);
  if (COFFER_UNLIKELY(heap == &g_null_heap)) {
    // Somebody has the heap just now, and this free may have been the last that tells of the span: it goes by mail.
    set_countdown(span, local_count(span), kNever);
    if (claim(span)) mail(span);
  } else if (heap->hot[span->size_class.get()].get() == span) {
    set_countdown(span, local_count(span), kNever);
  } else if (!stands_on_ring(span) || !recount(heap, span)) {
    place(heap, span);
  }
  leave(t_heap);
}

namespace {

// As deallocate_as, for the first record of the span that a later slot belongs to.
template <bool kSized>
COFFER_INLINE bool free_in_later_slot(void* block, Span* slot, usize size) {
  if (slot->use.load(relaxed) != SlotUse::span_rest) return false;  // relaxed: see describe_slots in span.cpp
  Span* span = slot - slot->first_distance.get();
  Heap* own = t_heap;
  own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and what follows: as in deallocate_as
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: as there
  if (!span->owner.is(heap)) return false;
  free_own<kSized>(block, span, heap, size);
  return true;
}

// The free that fills a chain, or that it takes no more of.
COFFER_NOINLINE void close_full_chain(Heap* heap, Chain& chain) {
  settle_fork();
  close_chain(heap, chain);
  leave(heap);
}

// After settle_fork.
void free_in_mixed(Heap* heap, void* block, Span* span, usize size) {
  note_if_heapless(t_heap);
  free_mixed(heap, block, span, size);
  leave(t_heap);
}

COFFER_NOINLINE void free_not_chained(void* block, Span* slot) {
  settle_fork();
  Heap* heap = enter(t_heap);
  Span* span = first_record(slot);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  const uptr address = reinterpret_cast<uptr>(block);
  if (is_large(span)) {
    note_if_heapless(t_heap);
    leave(t_heap);
    forget_sample(block);
    if (!free_large(block, span)) return refuse_free(block);
    return;
  }
  if (is_mixed(span)) return free_in_mixed(heap, block, span, 0);
  if (kMisuseChecks && COFFER_UNLIKELY(!is_block_start(span, address))) return refuse_free(block);
  // A later slot of a span of our own, or the fast path is off. relaxed: see deallocate_as.
  if (span->owner.load(relaxed) == heap) {
    Block* head = span->local_free.get();
    if (kMisuseChecks && COFFER_UNLIKELY(head == block)) return refuse_free(block);
    if (COFFER_UNLIKELY(push_local(span, static_cast<Block*>(block), head))) return local_event(span);
  } else {
    free_remote(heap, span, static_cast<Block*>(block));
  }
  leave(t_heap);
}

}  // namespace

void free_not_local(void* block, Span* slot) {
  // The commonest remote free goes on an open chain, and nobody but this thread sees it yet. The blocks that wait there
  // are live to all others, so the span is what it was when the chain was opened. The mark of the fast path is enough:
  // of a heap that has it others only take the mail. acquire: as in enter.
  Heap* heap = t_heap->self.load(acquire);
  Chain& chain = chain_of(heap, slot);
  Block* first = chain.first.get();
  if (COFFER_LIKELY(chain.span.get() == slot && first != block) &&
      (!kMisuseChecks || COFFER_LIKELY(is_block_start(slot, reinterpret_cast<uptr>(block))))) {
    if (COFFER_UNLIKELY(add_to_chain(chain, static_cast<Block*>(block), first))) return close_full_chain(heap, chain);
    return leave(heap);
  }
  free_not_chained(block, slot);
}

void free_beyond(void* block, Span* slot) {
  if (!free_in_later_slot<false>(block, slot, 0)) free_not_local(block, slot);
}

void free_sized_beyond(void* block, Span* slot, usize size) {
  if (!free_in_later_slot<true>(block, slot, size)) free_sized_not_local(block, slot, size);
}

void free_sized_not_local(void* block, Span* slot, usize size) {
  Span* span = first_record(slot);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  if (is_mixed(span)) {
    settle_fork();
    return free_in_mixed(enter(t_heap), block, span, kMisuseChecks ? size : 0);
  }
  if (kMisuseChecks && COFFER_UNLIKELY(size > usable_bytes(span))) return refuse_size(block, size);
  free_not_local(block, span);
}

void free_elsewhere(void* block) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return refuse_free(block);
  enter(t_heap);
  free_not_local(block, slot_record(arena, reinterpret_cast<uptr>(block)));
}

void free_sized_elsewhere(void* block, usize size) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return refuse_free(block);
  enter(t_heap);
  free_sized_not_local(block, slot_record(arena, reinterpret_cast<uptr>(block)), size);
}

}  // namespace coffer
