// SPDX-License-Identifier: MIT
// free's slow paths: countdown events of the owner, blocks of other heaps, blocks elsewhere, and what is not a block.
#include "exchange/chains.hpp"
#include "exchange/freed.hpp"
#include "exchange/inside.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/mixed_free.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/seizing.hpp"
#include "exchange/watch.hpp"
#include "guard/guard.hpp"
#include "harden/foreign.hpp"
#include "heap/heap.hpp"
#include "heap/refill.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "span/choices.hpp"

namespace coffer {

namespace {

// In a shortage a block of a class that has none left: its span becomes hot at once, in place of the one that is used
// up, and not by a ring and a slow malloc.
bool becomes_hot(Heap* heap, Span* span) {
  const ClassIndex c = span->size_class.get();
  Span* hot = heap->hot[c].get();
  if (stands_on_ring(span) || heap->blocks[c].get() != nullptr || watches_lists()) return false;
  if (hot != nullptr) {
    // What it has on its local list since it was retired in vain would not be counted any more.
    if (absent_count(hot) != 0 || hot->local_free.get() != nullptr) return false;
    if (retire(hot) == Retired::has_blocks) return false;  // it stays hot, and the next refill takes them
    heap->hot[c].set(nullptr);
  }
  heap->hot[c].set(span);
  feed_malloc(heap, c, span);
  return true;
}

// Out of line, so that the commonest event, of a hot span, needs no stack frame for it.
COFFER_NOINLINE void place_freed(Heap* heap, Span* span) {
  note_awake(heap);
  if (COFFER_LIKELY(!is_short()) || !becomes_hot(heap, span)) place(heap, span);
  note_supply();
}

}  // namespace

void local_event(Span* span) {
  settle_fork();
  Heap* heap = enter(t_heap);
  // In the child of a fork by a signal handler that interrupted this free, the span may be anybody's by now: if
  // somebody had the heap at the fork, settle_fork took its spans for those of a thread that vanished. relaxed: as in
  // deallocate_as.
  if (COFFER_UNLIKELY(span->owner.load(relaxed) != t_heap)) return leave(t_heap);
  if (COFFER_UNLIKELY(heap == &g_null_heap)) {
    // Somebody has the heap just now, and this free may have been the last that tells of the span: it goes by mail. If
    // it is hot it stays so.
    set_countdown(span, local_count(span), feeds_malloc(span) ? kFreesOfALook : kNever);
    if (claim(span)) mail(span);
    note_supply();
  } else if (const ClassIndex c = span->size_class.get(); heap->hot[c].get() == span) {
    // Somebody counts what malloc takes since this list was taken.
    if (watches_lists()) put_back_list(heap, c, span);
    set_countdown(span, local_count(span), kFreesOfALook);
  } else {
    place_freed(heap, span);
  }
  leave(t_heap);
}

// In a call of free, on its fast path or not, which ends here.
void free_marked(void* block, Span* span, usize size, Claim claim) {
  if (is_freed(span, block)) return refuse_free(block);
  // The program copied what it found in memory that it had not written to.
  static_cast<Block*>(block)->mark = 0;
  if (claim == Claim::nothing) return deallocate(block);
  return claim == Claim::size ? deallocate_as<Claim::size>(block, size) : deallocate_as<Claim::object>(block, size);
}

bool is_wrong_size(const Span* span, usize size, Claim claim) {
  const usize have = usable_bytes(span);
  if (size > have) return true;
  if (size == have || is_large(span) || served_from_larger()) return false;  // have: what malloc_usable_size says
  return claim == Claim::object || size < have / 2;  // PlainAllocator::reallocate moves what shrinks below that
}

namespace {

// The free that fills a chain, or that it takes no more of.
COFFER_NOINLINE void close_full_chain(Heap* heap, Chain& chain) {
  settle_fork();
  close_chain(heap, chain);
  leave(heap);
}

// After settle_fork.
void free_in_mixed(Heap* heap, void* block, Span* span, usize least, usize most) {
  note_if_heapless(t_heap);
  free_mixed(heap, block, span, least, most);
  leave(t_heap);
}

void free_large_block(void* block, Span* span) {
  const SlowPath path;
  note_if_heapless(t_heap);
  forget_sample(block);
  if (!end_large(block, span)) return refuse_free(block);
  const Inside inside;
  if (inside.heap() == &g_null_heap || !keep_large(inside.heap(), span)) return_large(span);
}

COFFER_NOINLINE void free_not_chained(void* block, Span* slice) {
  const NotedSupply noted;
  settle_fork();
  Heap* heap = enter(t_heap);
  Span* span = first_record(slice);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  const uptr address = reinterpret_cast<uptr>(block);
  if (is_large(span)) {
    leave(t_heap);
    return free_large_block(block, span);
  }
  if (is_mixed(span)) return free_in_mixed(heap, block, span, 0, ~usize{0});
  if (kMisuseChecks && COFFER_UNLIKELY(!is_block_start(span, address))) return refuse_free(block);
  if (COFFER_UNLIKELY(may_be_free(block))) return free_marked(block, span, 0, Claim::nothing);
  // A later slice of a span of our own, or the fast path is off. relaxed: see deallocate_as.
  if (span->owner.load(relaxed) == heap) {
    if (COFFER_UNLIKELY(push_freed(span, *span->freed.get(), static_cast<Block*>(block)))) return local_event(span);
  } else {
    free_remote(heap, span, static_cast<Block*>(block));
  }
  leave(t_heap);
}

// The longest block of a mixed span that may be freed with this size: what is carved for its class, in whole lines.
usize most_for(usize size, Claim claim) {
  if (served_from_larger() || size > kLargestSmall) return ~usize{0};
  const usize carved = round_up(class_layout(class_of(size)).block_bytes, kCacheLine);
  return claim == Claim::object || carved > 2 * size ? carved : 2 * size + 1;  // as in is_wrong_size
}

COFFER_NOINLINE void free_sized_not_chained(void* block, Span* slice, usize size, Claim claim) {
  Span* span = first_record(slice);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  if (is_mixed(span)) {
    const NotedSupply noted;
    settle_fork();
    const usize most = kMisuseChecks ? most_for(size, claim) : ~usize{0};
    return free_in_mixed(enter(t_heap), block, span, kMisuseChecks ? size : 0, most);
  }
  if (kMisuseChecks && COFFER_UNLIKELY(!is_of_class(span, size)) && is_wrong_size(span, size, claim)) {
    return refuse_size(block, size);
  }
  free_not_chained(block, span);
}

// In the fast path of free, which found that the slice's record does not name the heap.
template <Claim kClaim>
COFFER_INLINE void free_not_own(void* block, Span* slice, Heap* heap, usize size) {
  Span* span = slice;
  if (slice->use.load(relaxed) == SliceUse::span_rest) {  // relaxed: see describe_slices in span.cpp
    // As deallocate_as, for the first record of the span that the slice belongs to.
    span -= slice->first_distance.get();
    Heap* own = t_heap;
    own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and what follows: as there
    compiler_fence();
    heap = own->self.load(acquire);  // acquire: as there
    if (span->owner.is(heap)) return free_own<kClaim>(block, span, heap, size, beside(span));
  }
  // The commonest remote free goes on an open chain, and nobody but this thread sees it yet. The blocks that wait there
  // are live to all others, so the span is what it was when the chain was opened. The mark of the fast path is enough:
  // of a heap that has it others only take the mail. The null heap has no chain.
  Chain& chain = chain_of(heap, span);
  Block* first = chain.first.get();
  if (COFFER_LIKELY(chain.span.get() == span) &&
      (!kMisuseChecks ||
       (COFFER_LIKELY(!may_be_free(block)) && COFFER_LIKELY(is_block_start(span, reinterpret_cast<uptr>(block))) &&
        (kClaim == Claim::nothing || COFFER_LIKELY(is_of_class(span, size)))))) {
    if (COFFER_UNLIKELY(add_to_chain(chain, static_cast<Block*>(block), first))) return close_full_chain(heap, chain);
    return leave(heap);
  }
  if constexpr (kClaim != Claim::nothing) {
    free_sized_not_chained(block, span, size, kClaim);
  } else {
    free_not_chained(block, span);
  }
}

}  // namespace

void free_beyond(void* block, Span* slice, Heap* heap) { free_not_own<Claim::nothing>(block, slice, heap, 0); }

void free_sized_beyond(void* block, Span* slice, Heap* heap, usize size, Claim claim) {
  return claim == Claim::size ? free_not_own<Claim::size>(block, slice, heap, size)
                              : free_not_own<Claim::object>(block, slice, heap, size);
}

// A block that no arena has. given: the size that the caller named, if any.
COFFER_COLD void free_foreign(void* block, usize given = guard::kNoSize) {
  if (guard::owns(block)) {
    const SlowPath path;
    forget_sample(block);
    return guard::deallocate(block, kMisuseChecks ? given : guard::kNoSize);
  }
  if (const harden::Foreign* const foreign = harden::foreign()) return foreign->release(block);
  refuse_free(block);
}

void free_elsewhere(void* block) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return free_foreign(block);
  free_not_chained(block, slice_record(arena, reinterpret_cast<uptr>(block)));
}

void free_sized_elsewhere(void* block, usize size, Claim claim) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return free_foreign(block, size);
  free_sized_not_chained(block, slice_record(arena, reinterpret_cast<uptr>(block)), size, claim);
}

}  // namespace coffer
