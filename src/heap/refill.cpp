// SPDX-License-Identifier: MIT
// malloc's slow path: a hot span for the class, and blocks from it. In this order, so that what is resident already is
// used first: what the owner freed, what others freed, a page never cut; then a reusable span of this heap, a partly
// used one that is nobody's, and a new one.
#include "heap/refill.hpp"
#include "heap/bracket.hpp"
#include "heap/hot.hpp"
#include "heap/mixing.hpp"
#include "heap/ownership.hpp"
#include "heap/profiling.hpp"
#include "heap/registry.hpp"
#include "heap/ring.hpp"
#include "heap/taking.hpp"
#include "heap/walk.hpp"
#include "heap/watching.hpp"
#include "large/large.hpp"
#include "observe/counters.hpp"
#include "pool/partial_pool.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

// Of `count` blocks just cut, the heap's list keeps at most its limit; the rest goes onto the span's list. There it is
// counted, and can be taken from a heap that sleeps. Of a span that was empty before the heap keeps few: it may be
// empty again soon, and to find that out the heap's list has to be walked. Returns how many blocks stay on the heap's
// list. To divide the list it is walked too: the layout and the colour decide where the blocks lie, so the address of
// the last one to keep cannot be computed.
u32 keep_rest(Heap* heap, Span* span, Block* list, u32 count) {
  u32 most = cut_limit(span, count);
  if (COFFER_UNLIKELY(watches_lists())) {
    const u32 limit = unwatched_blocks(heap, span->size_class.get());
    if (most > limit) most = limit;
  }
  if (COFFER_LIKELY(count <= most)) return count;
  Block* last = list;
  for (u32 i = 1; i < most; ++i) last = last->next;
  span->local_free.set(last->next);
  set_countdown(span, count - most, kNever);
  compiler_fence();  // a fork child may find them on neither list, and never on both
  last->next = nullptr;
  return most;
}

// Refills heap->blocks from the hot span, inside its bracket; false: it has no free block.
bool refill_from(Heap* heap, ClassIndex size_class, Span* span) {
  Block* list = span->local_free.get();
  if (list != nullptr) {
    take_local(heap, size_class, span, list);
    return true;
  }
  u32 count = 0;
  bool zero = false;
  list = take_remote(span, &count);
  if (list == nullptr) {
    const u32 before = span->cut.get();
    list = cut_page(span, &zero);
    if (list == nullptr) return false;
    count = span->cut.get() - before;
    raise_claim(span);
    hot_grew(heap, size_class);
    count = keep_rest(heap, span, list, count);
    if (COFFER_UNLIKELY(watches_lists())) blocks_taken(heap, size_class, count);
  } else if (watches_lists() || count > list_limit(size_class)) {
    // As if the owner had freed them: it takes some.
    span->local_free.set(list);
    set_countdown(span, count, kNever);
    take_local(heap, size_class, span, list);
    return true;
  }
  heap->zero[size_class].set(zero ? 1 : 0);
  heap->blocks[size_class].set(list);
  watch_hot(heap, size_class, span, count);
  return true;
}

// The heap's hot span of the class has blocks, or is retired. true: heap->blocks has some.
bool refill_or_retire(Heap* heap, ClassIndex size_class, Span* span) {
  const Bracket bracket(heap, span);
  if (COFFER_UNLIKELY(!still_hot(bracket, span, size_class))) {
    forget_hot(heap, size_class);  // it was taken
    return false;
  }
  for (;;) {
    if (refill_from(heap, size_class, span)) return true;
    set_countdown(span, 0, reuse_threshold(span->capacity.get()));
    // Exhausted: it floats. Or remote frees came in meanwhile; or it was claimed, and comes by mail.
    if (mark_floating(span) != Retired::has_blocks) break;
  }
  forget_hot(heap, size_class);
  return false;
}

// While a heap holds less, what a thread allocates first falls on other cache indices than what others do. Then the
// order of addresses is worth more: 150 MB of 224-byte blocks took half as long again to read in the order in which
// they were allocated when each span began in its midst.
constexpr usize kFewSpans = usize{2} << 20;

Span* new_span(Heap* heap, ClassIndex size_class) {
  // relaxed, both: a figure for budgets. Counted first: who has the record's number from an earlier life may take the
  // span at once, and end it, and what the record says then is another span's.
  const usize bytes = kSlotBytes << shape_of(size_class).slots_log2;
  const usize before = heap->held.fetch_add(bytes, relaxed);
  Span* span = make_span(size_class, heap, before < kFewSpans ? Start::coloured : Start::first);
  if (span == nullptr) heap->held.fetch_sub(bytes, relaxed);
  return span;
}

Span* adopt(Heap* heap, ClassIndex size_class) {
  return g_partial_pool.adopt(size_class, current_shard(), [&](Span* span) { return take_over(heap, span); });
}

// A reusable span of the heap becomes hot.
Span* next_reusable(Heap* heap, ClassIndex size_class) {
  while (Span* span = pop_ring(heap, size_class)) {
    bool empty = false;
    {
      const Bracket bracket(heap, span);
      if (!bracket.owned()) continue;
      if (!mark_hot(span)) continue;
      // relaxed: a guess about what the program will do next.
      empty = local_count(span) + absent_count(span) + load_word(span, relaxed).count() >= span->capacity.get();
    }
    if (empty) class_came_back(heap, size_class);
    return span;
  }
  return nullptr;
}

// What a process holds at least before idle heaps are searched for spans.
constexpr usize kWorthSearching = usize{4} << 20;

// What a refill came to: a span, blocks from holes, or, with neither, no memory.
struct Found {
  Span* span;
  bool blocks;
};

Found next_hot(Heap* heap, ClassIndex size_class, bool holes, usize size) {
  if (Span* span = next_reusable(heap, size_class)) return {span, false};
  if (Span* span = adopt(heap, size_class)) return {span, false};
  if (holes && take_holes(heap, size_class, size)) return {nullptr, true};
  // Counted only from here on, for all threads write the count; and looks once more (docs/design/bound.md).
  const Maker maker;
  if (Span* span = adopt(heap, size_class)) return {span, false};
  // relaxed: a threshold. A small process has no idle heap whose spans are worth a search.
  if (counters().held.load(relaxed) > kWorthSearching && look_is_due()) rob_idle_heaps(heap);
  if (settle_unsettled()) {
    if (Span* span = adopt(heap, size_class)) return {span, false};
  }
  if (holes && make_holes(heap, size_class, size)) return {nullptr, true};
  class_came_back(heap, size_class);
  return {new_span(heap, size_class), false};
}

// A floating span of the heap with a free block becomes hot.
Span* scavenge_floating(Heap* heap, ClassIndex size_class, ClassIndex largest) {
  Span* found = nullptr;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans || found != nullptr) return;
    for_each_record(arena, index, [&](Span* span, SlotUse slot_use) {
      // relaxed, here and below: the heap's own name and states, or only whether to try.
      if (found != nullptr || slot_use != SlotUse::span || span->owner.load(relaxed) != heap) return;
      if (span->size_class.get() < size_class || span->size_class.get() > largest) return;
      const Bracket bracket(heap, span);
      if (!bracket.owned() || load_word(span, relaxed).state() != SpanState::floating) return;
      if (local_count(span) == 0 && load_word(span, relaxed).count() == 0) return;
      if (mark_reusable(span) && mark_hot(span)) found = span;
    });
  });
  return found;
}

// A shared span with a free block, though fewer than make one listed, becomes the heap's, in state hot.
Span* scavenge_shared(Heap* heap, ClassIndex size_class, ClassIndex largest) {
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
  return listed < kClasses ? adopt(heap, listed) : nullptr;
}

// Memory is exhausted: what this heap and others keep for speed is given up, then blocks that are free but do not make
// their span reusable are looked for. Full walks; they run before every NULL, and never earlier.
Span* scavenge(Heap* heap, ClassIndex size_class, ClassIndex largest) {
  release_idle(heap);
  rob_heaps();
  settle_unsettled();
  {
    const Maker maker;
    if (Span* span = adopt(heap, size_class)) return span;
    if (Span* span = new_span(heap, size_class)) return span;
  }
  if (Span* span = scavenge_floating(heap, size_class, largest)) return span;
  return scavenge_shared(heap, size_class, largest);
}

bool refill(Heap* heap, ClassIndex size_class, bool last_resort, bool holes, usize size) {
  if (Span* span = heap->hot[size_class].get()) {
    if (span->local_free.get() != nullptr && refill_or_retire(heap, size_class, span)) return true;
  }
  if (COFFER_UNLIKELY(heap->grown.get() == 0) && holes && take_young(heap, size_class, size)) return true;
  heap->ticks.set(heap->ticks.get() + 1);
  heap->asked[size_class].set(heap->ticks.get());
  close_chain(heap);
  take_mail(heap);
  shed_surplus(heap);
  for (;;) {
    Span* span = heap->hot[size_class].get();
    if (span != nullptr && refill_or_retire(heap, size_class, span)) return true;
    const Found found = next_hot(heap, size_class, holes, size);
    if (found.blocks) return true;
    span = found.span;
    if (span == nullptr && last_resort) span = scavenge(heap, size_class, size_class);
    if (span == nullptr) return false;
    heap->hot[size_class].set(span);
  }
}

}  // namespace

Block* allocate_block(Heap* heap, ClassIndex size_class, bool last_resort, bool* zero, usize size) {
  Owned<Block*>& head = heap->blocks[size_class];
  if (head.get() == nullptr && !refill(heap, size_class, last_resort, true, size)) return nullptr;
  Block* block = head.get();
  *zero = heap->zero[size_class].get() != 0;
  head.set(block->next);
  return block;
}

Block* allocate_of_class(ClassIndex size_class, bool* zero, bool last_resort, usize size) {
  settle_fork();
  Heap* heap = own_heap();
  if (COFFER_LIKELY(heap != nullptr)) return allocate_block(heap, size_class, last_resort, zero, size);
  FallbackHeap fallback;
  return fallback.get() != nullptr ? allocate_block(fallback.get(), size_class, last_resort, zero) : nullptr;
}

Block* allocate_in_span(ClassIndex size_class) {
  Heap* heap = own_heap();
  if (heap == nullptr) return nullptr;
  if (heap->hot[size_class].get() == nullptr) return_list(heap, size_class);
  if (heap->blocks[size_class].get() == nullptr && !refill(heap, size_class, true, false, 0)) return nullptr;
  bool zero = false;
  return allocate_block(heap, size_class, true, &zero);
}

void* allocate_large_block(usize size, usize alignment, bool* zero) {
  settle_fork();
  // Large blocks belong to no heap; but a thread that has one is known to fork (registry.cpp).
  Heap* heap = own_heap();
  if (heap == nullptr && !start_process()) return nullptr;
  note_if_heapless(t_heap);
  void* block = allocate_large(size, alignment, zero);
  if (COFFER_UNLIKELY(block == nullptr) && heap != nullptr && may_fit_later(size)) {
    // As in scavenge: what this heap keeps for speed is given up.
    release_idle(heap);
    block = allocate_large(size, alignment, zero);
  }
  if (COFFER_UNLIKELY(watches_lists()) && block != nullptr) large_taken(block, size);
  return block;
}

Block* allocate_from_larger(ClassIndex size_class, bool* zero) {
  for (ClassIndex c = size_class + 1; c < kSizeClasses; ++c) {
    if (Block* block = allocate_of_class(c, zero, false)) return block;
  }
  if (void* block = allocate_large_block(kSlotBytes, kSlotBytes, zero)) return static_cast<Block*>(block);
  Heap* heap = own_heap();
  if (heap == nullptr) return nullptr;
  // Every class was asked, so none of them has a hot span with a block, and the one found here can become one.
  Span* span = scavenge(heap, size_class, kSizeClasses - 1);
  if (span == nullptr) return nullptr;
  const ClassIndex found = span->size_class.get();
  if (heap->hot[found].get() != nullptr) {
    const Bracket bracket(heap, span);
    if (bracket.owned()) place(heap, span, SpanState::hot);
    return nullptr;
  }
  heap->hot[found].set(span);
  return allocate_block(heap, found, false, zero);
}

namespace {

// Out of line, as all that follows, so that what is common in allocate_any needs no stack frame.
COFFER_NOINLINE Block* allocate_some(Heap* heap, ClassIndex size_class, Span* hot, Block* list) {
  take_some(heap, size_class, hot, list);
  heap->blocks[size_class].set(list->next);
  heap->bracket.store(nullptr, release);  // release: as at the end of a Bracket
  return list;
}

COFFER_NOINLINE void* allocate_slowly(usize size) {
  bool zero = false;
  if (size > kLargestSmall) return allocate_large_block(size, kQuantum, &zero);
  const ClassIndex size_class = class_of(size);
  if (COFFER_UNLIKELY(samples_lists())) {
    if (void* sampled = sample_small(size, size_class, kQuantum)) return sampled;
  }
  Block* block = allocate_of_class(size_class, &zero, false, size);
  return COFFER_LIKELY(block != nullptr) ? block : allocate_from_larger(size_class, &zero);
}

// While samples are taken: all that was freed in the hot span, as in allocate_any, if the block to be sampled is not
// among it. A heap that keeps one block for itself comes here for each.
COFFER_NOINLINE void* allocate_unusually(usize size) {
  Heap* heap = t_heap;
  const ClassIndex size_class = class_of(size);
  Span* hot = heap->hot[size_class].get();
  // acquire: as in settle_fork. Whoever watches figures, too, is told at each list.
  if (!only_samples() || g_pending.load(acquire) != 0) return allocate_slowly(size);
  heap->bracket.store(hot, relaxed);  // relaxed, here and in the load of the owner: as in allocate_any
  compiler_fence();
  Block* list = hot->local_free.get();
  u32 frees = 0;
  if (COFFER_LIKELY(list != nullptr && hot->owner.load(relaxed) == heap && hot->size_class.get() == size_class &&
                    may_take_all(heap, size_class, hot, &frees) &&
                    pass_unsampled(heap, size_class, hot, local_count(hot)))) {
    take_whole_list(heap, size_class, hot, list, frees);
    heap->blocks[size_class].set(list->next);
    heap->bracket.store(nullptr, release);  // release: as at the end of a Bracket
    return list;
  }
  heap->bracket.store(nullptr, release);  // release: as above
  return allocate_slowly(size);
}

}  // namespace

void* allocate_any(usize size) {
  // relaxed: as in allocate_fast. Before the fast path is open there may be no heap, not even the null heap.
  if (COFFER_UNLIKELY(!g_arenas.arenas[0].fast_sizes.is_above(size))) return allocate_slowly(size);
  const ClassIndex size_class = class_of(size);
  // By far the commonest reason to be here, and for large blocks every second call: the heap's list ran out, and what
  // was freed meanwhile waits in the hot span. (The null heap has no hot span.)
  Heap* heap = t_heap;
  Span* hot = heap->hot[size_class].get();
  if (COFFER_UNLIKELY(hot == nullptr || heap->blocks[size_class].get() != nullptr)) return allocate_slowly(size);
  // Brackets need fences, or somebody counts what heaps take.
  if (COFFER_UNLIKELY(is_unusual())) return allocate_unusually(size);
  // As a Bracket does; by hand, because allocate_some is jumped to inside it.
  heap->bracket.store(hot, relaxed);  // relaxed, here and in the load of the owner: see bracket.hpp
  compiler_fence();
  Block* list = hot->local_free.get();
  if (COFFER_LIKELY(list != nullptr && hot->owner.load(relaxed) == heap && hot->size_class.get() == size_class)) {
    u32 frees = 0;
    if (COFFER_UNLIKELY(!may_take_all(heap, size_class, hot, &frees))) {
      return allocate_some(heap, size_class, hot, list);
    }
    take_whole_list(heap, size_class, hot, list, frees);
    heap->blocks[size_class].set(list->next);
    heap->bracket.store(nullptr, release);  // release: as at the end of a Bracket
    return list;
  }
  heap->bracket.store(nullptr, release);  // release: as above
  return allocate_slowly(size);
}

}  // namespace coffer
