// SPDX-License-Identifier: MIT
// free's slow paths: countdown events of the owner, blocks of other heaps, blocks elsewhere, and what is not a block.
#include "heap/chains.hpp"
#include "heap/inside.hpp"
#include "heap/mail.hpp"
#include "heap/mixing.hpp"
#include "heap/ownership.hpp"
#include "heap/profiling.hpp"
#include "heap/registry.hpp"
#include "heap/ring.hpp"
#include "heap/walk.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

using harden::BadPointer;

// The large block of several chunks that an address lies in. Only a large block's first chunk is marked, so this looks
// at all of them: good enough for last words.
Span* large_around(const Arena* arena, uptr address) {
  Span* found = nullptr;
  for_each_chunk([&](Arena* in, u32 index, ChunkUse use) {
    if (in != arena || use != ChunkUse::large) return;
    if (address - chunk_address(in, index) < usize{in->chunks[index].large_chunks.get()} * kChunkBytes) {
      found = in->spans + usize{index} * kSlotsPerChunk;
    }
  });
  return found;
}

usize usable_bytes(const Span* span) { return is_large(span) ? large_usable(span) : span->block_bytes.get(); }

}  // namespace

void report_bad_pointer(const char* call, void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  if (arena == nullptr) harden::bad_pointer(call, block, BadPointer::foreign, 0);
  Span* span = first_record(slot_record(arena, address));
  if (span == nullptr) span = large_around(arena, address);
  if (span == nullptr) {
    // relaxed: words for a person. A pointer to memory that never held anything is foreign, not freed.
    const bool used = slot_record(arena, address)->remote.load(relaxed) != 0 ||
                      slot_record(arena, address)->absent.get() != 0 ||
                      slot_record(arena, address)->first_distance.get() != 0;
    harden::bad_pointer(call, block, used ? BadPointer::free_span : BadPointer::foreign, 0);
  }
  if (is_large(span)) {
    harden::bad_pointer(call, block, BadPointer::not_a_start, large_usable(span));
  }
  if (is_mixed(span)) {
    // Of a block that was freed the table knows nothing any more.
    const usize bytes = g_mixed_pool.size_around(span, address);
    const bool hole = bytes == 0 && address % kQuantum == 0;
    harden::bad_pointer(call, block, hole ? BadPointer::already_free : BadPointer::not_a_start, bytes);
  }
  const BadPointer what = is_block_start(span, address) ? BadPointer::already_free : BadPointer::not_a_start;
  harden::bad_pointer(call, block, what, span->block_bytes.get());
}

void refuse_free(void* block) { report_bad_pointer("free", block); }

void refuse_size(void* block, usize size) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  Span* span = first_record(slot_record(arena, address));
  if (span == nullptr) refuse_free(block);  // another thread freed it meanwhile
  // A pointer to something else is the better explanation of a wrong size.
  if (is_mixed(span)) harden::bad_size(block, size, g_mixed_pool.size_of(span, block));
  const bool start = is_large(span) ? address == span->first_block : is_block_start(span, address);
  if (!start) refuse_free(block);
  harden::bad_size(block, size, usable_bytes(span));
}

void local_event(Span* span) {
  settle_fork();
  Heap* heap = enter(t_heap);
  // In the child of a fork by a signal handler that interrupted this free, the span may be anybody's by now: if
  // somebody had the heap at the fork, settle_fork took its spans for those of a thread that vanished. relaxed: as in
  // deallocate_as.
  if (COFFER_UNLIKELY(span->owner.load(relaxed) != t_heap)) return leave(t_heap);
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
