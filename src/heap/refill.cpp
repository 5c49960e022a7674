// SPDX-License-Identifier: MIT
// malloc's slow path: a hot span for the class, and blocks from it. In this order, so that what is resident already is
// used first: what the owner freed, what others freed, a page never carved; then a reusable span of this heap, a partly
// used one that is nobody's, and a new one.
#include "heap/refill.hpp"
#include "arena/each.hpp"
#include "exchange/chains.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/seizing.hpp"
#include "exchange/watch.hpp"
#include "heap/failure.hpp"
#include "heap/heap.hpp"
#include "heap/mixing.hpp"
#include "large/large.hpp"
#include "observe/counters.hpp"
#include "policy/idle.hpp"
#include "policy/taken.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"
#include "span/class_use.hpp"
#include "span/order.hpp"

namespace coffer {

namespace {

// A block of the hot span; others that come with it are on heap->blocks, which was empty. nullptr: the span has no free
// block. *zero is set if the block is zero but for its link.
Block* refill_from(Heap* heap, ClassIndex size_class, Span* span, bool* zero) {
  const bool watched = COFFER_UNLIKELY(watches_lists());
  if (!watched) feed_malloc(heap, size_class, span);
  u32 count = local_count(span);
  Block* list = watched ? span->local_free.get() : heap->blocks[size_class].get();
  if (list == nullptr) list = take_remote(span, &count);
  if (list == nullptr) {
    if (absent_count(span) == 0) return nullptr;
    const u32 before = span->carved.get();
    const Linked carved = carve_blocks(span, zero);
    if (carved.first == nullptr) return nullptr;
    count = span->carved.get() - before;
    if (count == 1 && !watched) {
      if (kMisuseChecks && (!*zero || kHardening.shuffles)) carved.first->mark = 0;
      return carved.first;
    }
    set_next(carved.last, nullptr);
    list = carved.first;
  }
  if (watched) {
    take_watched_list(heap, size_class, span, list, count);
  } else {
    heap->blocks[size_class].set(list);
  }
  return pop(heap->blocks[size_class]);
}

// The same; the heap's hot span of the class is retired if it has none.
Block* refill_or_retire(Heap* heap, ClassIndex size_class, Span* span, bool* zero) {
  do {
    if (Block* block = refill_from(heap, size_class, span, zero)) return block;
  } while (retire(span) == Retired::has_blocks);
  heap->hot[size_class].set(nullptr);
  return nullptr;
}

Span* new_span(Heap* heap, ClassIndex size_class) {
  // relaxed, both: a figure for budgets. Counted first: who has the record's number from an earlier life may take the
  // span at once, and end it, and what the record says then is another span's.
  const usize bytes = kSliceBytes << shape_of(size_class).slices_log2;
  const usize before = heap->held.fetch_add(bytes, relaxed);
  Span* span = make_span(size_class, heap, before < kFewSpans ? Start::coloured : Start::first);
  if (span == nullptr) heap->held.fetch_sub(bytes, relaxed);
  if (span != nullptr) end_shortage();
  return span;
}

Span* adopt(Heap* heap, ClassIndex size_class) {
  return g_partial_pool.adopt(size_class, current_shard(), [&](Span* span) { return take_over(heap, span); });
}

// What a refill came to: a span, a block from a hole, or, with neither, no memory.
struct Found {
  Span* span;
  Block* block;
};

// How far a refill goes.
enum class Reach : u8 {
  what_there_is,  // no new span
  new_span,
  last_resort,  // before nullptr, all that is free for the class is searched for
};

Found next_hot(Heap* heap, ClassIndex size_class, Reach reach, bool holes, usize size, bool used_up) {
  if (Span* span = pop_ring(heap, size_class)) {
    raise_claim(span);  // by what was carved till now
    restore_order(span);
    return {span, nullptr};
  }
  if (Span* span = adopt(heap, size_class)) return {span, nullptr};
  if (Block* block = holes ? take_hole(heap, size_class, size, used_up) : nullptr) return {nullptr, block};
  // Counted only from here on, for all threads write the count; and looks once more (docs/design/bound.md, theorem 1).
  const Maker maker(size_class);
  if (Span* span = adopt(heap, size_class)) return {span, nullptr};
  // relaxed: a threshold. A small process has no idle heap whose spans are worth a search.
  if (reach != Reach::what_there_is && counters().held.load(relaxed) > kWorthSearching &&
      steal_from_idle_heaps(heap, 1u << shape_of(size_class).slices_log2)) {
    if (Span* span = adopt(heap, size_class)) return {span, nullptr};
  }
  if (Block* block = holes ? make_hole(heap, size_class, size, used_up) : nullptr) return {nullptr, block};
  if (reach == Reach::what_there_is) return {};
  give_back_holes();
  return {new_span(heap, size_class), nullptr};
}

// The classes that serve a request at the limit of memory: the one that it is for, and larger ones.
struct Serving {
  ClassIndex first, end;
  usize alignment;

  // Twins serve only what asks for their alignment, and classes of pointers only pointers.
  static Serving at_least(ClassIndex size_class, usize alignment) {
    if (kHardening.parts && size_class >= kShapes) return {size_class, kClasses, alignment};
    return {size_class, alignment > kQuantum ? kShapes : kSizeClasses, alignment};
  }
  static Serving only(ClassIndex size_class) { return {size_class, size_class + 1, kQuantum}; }
  bool has(ClassIndex c) const {
    if (c == first || alignment <= kQuantum) return true;
    return class_bytes(c) >= class_bytes(first) && is_aligned_class(c, alignment);
  }
  // From holes come blocks that are aligned to a cache line at most.
  bool may_use_holes() const { return alignment <= kQuantum; }
};

// A span of these classes that is known to have a free block becomes hot. Those on the ring need not have one.
Span* find_known(Heap* heap, const Serving& classes) {
  for (ClassIndex c = classes.first; c < classes.end; ++c) {
    if (!classes.has(c)) continue;
    while (Span* span = pop_ring(heap, c)) {
      if (free_blocks(span, relaxed) != 0) return span;  // relaxed: remote ones may be missed
      if (retire(span) == Retired::has_blocks) return span;
    }
    if (Span* span = adopt(heap, c)) return span;
  }
  return nullptr;
}

// A span of the heap, in the search that makes all free blocks known. One that floats becomes reusable, or its next
// free makes it so.
void settle_own(Heap* heap, Span* span) {
  if (stands_on_ring(span) || heap->hot[span->size_class.get()].get() == span) return;
  if (free_blocks(span, relaxed) == 0) {  // relaxed: as in find_known
    // relaxed: the heap's own. As it is since an earlier time.
    if (span->countdown.get() == 1 && span->claim_at.load(relaxed) == 1) return;
    set_countdown(span, 0, 1);
    if (mark_floating(span) != Retired::has_blocks) return;  // or it comes by mail
  }
  place(heap, span);
}

// Memory is exhausted: makes all blocks known that are free but do not make their span reusable, of all classes, in
// this heap's spans and in those that are nobody's. A walk over everything, once: from then on, as long as no span can
// be made, all thresholds are one block (span/shortage.hpp), and what is freed stands on a ring, comes by mail, or is
// listed, where find_known finds it. Why no block is missed that this walk would find the next time:
//   - a floating span of the heap has no free block and a threshold of one, by this walk or since it became floating;
//     where the event of a free comes to nothing, because somebody has just seized the heap, the span comes by mail
//   - a shared span has no free block, and the next push lists it: by this walk, or by whoever shared it (share_span)
//   - a time that ended, by a new span, takes `settled` back for all heaps, for numbers do not come again.
void settle(Heap* heap) {
  const u32 shortage = begin_shortage();
  if (heap->settled.get() == shortage) return;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SliceUse slice_use) {
      if (slice_use != SliceUse::span) return;
      // relaxed: the heap's own name.
      if (span->owner.load(relaxed) == heap) {
        settle_own(heap, span);
      } else if (list_early(span)) {
        do_duty(span, PushDuty::list);
      }
    });
  });
  heap->settled.set(shortage);
}

// Memory is exhausted: what this heap and others keep for speed is given up, then blocks that are free but do not make
// their span reusable are looked for. This runs before every NULL, and never earlier.
Span* scavenge(Heap* heap, const Serving& classes) {
  release_idle(heap);
  steal_from_heaps(Take::empty_spans, heap);
  take_mail(heap);  // what waited on their chains
  {
    const Maker maker(classes.first);
    if (Span* span = find_known(heap, classes)) return span;
    if (Span* span = new_span(heap, classes.first)) return span;
  }
  settle(heap);
  return find_known(heap, classes);
}

Block* refill(Heap* heap, ClassIndex size_class, Reach reach, bool* zero, usize size, bool holes) {
  note_awake(heap);
  if (COFFER_UNLIKELY(calls_sweep())) purge_after(0);
  close_next_chain(heap);
  take_mail(heap);
  shed_surplus(heap);
  for (;;) {
    Span* span = heap->hot[size_class].get();
    if (span != nullptr) {
      if (Block* block = refill_or_retire(heap, size_class, span, zero)) return block;
    }
    const Found found = next_hot(heap, size_class, reach, holes, size, span != nullptr);
    if (found.block != nullptr) return found.block;
    span = found.span;
    if (span == nullptr && reach == Reach::last_resort) span = scavenge(heap, Serving::only(size_class));
    if (span == nullptr) return nullptr;
    heap->hot[size_class].set(span);
  }
}

// holes: the block may come from one.
Block* take_block(Heap* heap, ClassIndex size_class, Reach reach, bool* zero, usize size, bool holes = true) {
  if (!holes && heap->hot[size_class].get() == nullptr) free_list(heap, size_class);
  BlockList& head = heap->blocks[size_class];
  return head.get() != nullptr ? pop(head) : refill(heap, size_class, reach, zero, size, holes);
}

}  // namespace

Block* allocate_block(Heap* heap, ClassIndex size_class, bool last_resort, bool* zero, usize size) {
  return take_block(heap, size_class, last_resort ? Reach::last_resort : Reach::new_span, zero, size);
}

namespace {

// use(heap, own): of the thread's own heap, or else of the fallback heap; nullptr: there is neither.
template <class Use>
COFFER_INLINE Block* use_heap(Use&& use) {
  {
    Inside inside;
    Heap* heap = inside.own();
    if (COFFER_LIKELY(heap != nullptr)) return use(heap, true);
  }
  const SlowPath path;
  FallbackHeap fallback;
  return fallback.get() != nullptr ? use(fallback.get(), false) : nullptr;
}

}  // namespace

Block* allocate_of_class(ClassIndex size_class, bool* zero, bool last_resort, usize size) {
  settle_fork();
  return use_heap(
      [=](Heap* heap, bool own) { return allocate_block(heap, size_class, last_resort, zero, own ? size : 0); });
}

Block* allocate_in_span(ClassIndex size_class) {
  settle_fork();
  bool zero = false;
  return use_heap([&](Heap* heap, bool) { return take_block(heap, size_class, Reach::new_span, &zero, 0, false); });
}

void* allocate_large_block(usize size, usize alignment, bool* zero) {
  const SlowPath path;
  void* block = nullptr;
  if (COFFER_UNLIKELY(samples_lists()) && (block = guard_large(size, alignment)) != nullptr) {
    *zero = true;
    return block;
  }
  {
    // Large blocks belong to no heap; but a thread that has one is known to fork (registry.cpp).
    Inside inside;
    if (Heap* heap = inside.own()) {
      block = allocate_kept(heap, size, alignment);
      *zero = false;
    } else if (!start_process()) {
      return nullptr;
    } else {
      note_if_heapless(t_heap);
    }
  }
  if (block == nullptr) block = allocate_large(size, alignment, zero);
  if (COFFER_UNLIKELY(block == nullptr) && may_fit_later(size)) {
    // As in scavenge: what heaps keep for speed is given up.
    const Inside inside;
    if (inside.heap() != &g_null_heap) release_idle(inside.heap());
    steal_from_heaps(Take::empty_spans, inside.heap());
    block = allocate_large(size, alignment, zero);
  }
  // The mark of the block before it (end_large), which the program may copy before it writes there.
  if (block != nullptr && !*zero && may_be_free(block)) static_cast<Block*>(block)->mark = 0;
  if (COFFER_UNLIKELY(watches_lists()) && block != nullptr) large_taken(block, size);
  return block;
}

namespace {

Atomic<u8> g_from_larger;

}  // namespace

// relaxed, here and where it is set: who frees such a block has it from who set this.
bool served_from_larger() { return g_from_larger.load(relaxed) != 0; }

Block* allocate_from_larger(ClassIndex size_class, bool* zero, usize alignment) {
  g_from_larger.store(1, relaxed);  // relaxed: see served_from_larger
  const Serving classes = Serving::at_least(size_class, alignment);
  const bool holes = classes.may_use_holes();
  // No run of so many slices could be had, nor a longer one: of the classes that need as many only what there is
  // serves.
  u32 refused = kMaxSpanSlices + 1;
  Block* found = use_heap([&](Heap* heap, bool own) -> Block* {
    if (own) begin_search(heap);
    refused = 1u << shape_of(size_class).slices_log2;
    for (ClassIndex c = size_class + 1; c < classes.end; ++c) {
      if (!classes.has(c)) continue;
      const u32 slices = 1u << shape_of(c).slices_log2;
      const Reach reach = slices < refused ? Reach::new_span : Reach::what_there_is;
      if (Block* block = take_block(heap, c, reach, zero, 0, holes)) return block;
      if (slices < refused) refused = slices;
    }
    return nullptr;
  });
  if (found != nullptr) return found;
  // Of two slices, which need not be aligned. And for a thread that can have no heap.
  if (refused > 1) {
    const usize start = alignment > kSliceBytes ? alignment : kSliceBytes;
    if (void* block = allocate_large_block(class_bytes(size_class), start, zero)) return static_cast<Block*>(block);
  }
  // For a thread whose heap another has just seized the fallback heap looks, too.
  return use_heap([=](Heap* heap, bool own) -> Block* {
    Span* span = scavenge(heap, classes);
    if (span == nullptr) {
      if (Block* block = holes ? last_hole(heap, size_class) : nullptr) return block;
      if (own && holes) remember_failure(heap, size_class);
      return nullptr;
    }
    const ClassIndex got = span->size_class.get();
    // Every class was asked, so none of them has a hot span with a block, unless it was another heap that was asked.
    if (heap->hot[got].get() != nullptr) {
      place(heap, span);
      return nullptr;
    }
    free_list(heap, got);
    heap->hot[got].set(span);
    return take_block(heap, got, Reach::what_there_is, zero, 0, holes);
  });
}

namespace {

COFFER_NOINLINE bool failed_before(ClassIndex size_class) {
  settle_fork();
  const Inside inside;
  return fails_again(inside.heap(), size_class);  // no search of the null heap's was in vain
}

// Out of line, as all that follows, so that what is common in allocate_any needs no stack frame.
COFFER_NOINLINE void* allocate_slowly(usize size) {
  bool zero = false;
  if (size > kLargestSmall) return allocate_large_block(size, kQuantum, &zero);
  const ClassIndex size_class = class_of(size);
  if (COFFER_UNLIKELY(is_short()) && failed_before(size_class)) return nullptr;
  if (COFFER_UNLIKELY(samples_lists())) {
    if (void* sampled = sample_small(size, size_class, kQuantum)) return sampled;
  }
  Block* block = allocate_of_class(size_class, &zero, false, size);
  return COFFER_LIKELY(block != nullptr) ? block : allocate_from_larger(size_class, &zero);
}

// While samples are taken: all that was freed in the hot span, if the block to be sampled is not among it. A heap that
// keeps one block for itself comes here for each. nullptr: the rest of the way has to serve.
COFFER_NOINLINE Block* take_unsampled(ClassIndex size_class) {
  Heap* heap = enter(t_heap);
  Block* list = nullptr;
  if (Span* hot = heap->hot[size_class].get(); hot != nullptr && heap->blocks[size_class].get() == nullptr) {
    list = hot->local_free.get();
    if (list != nullptr && is_settled() && pass_unsampled(heap, size_class, hot, local_count(hot))) {
      take_local_list(heap, size_class, hot);
      list = pop(heap->blocks[size_class]);
    } else {
      list = nullptr;
    }
  }
  leave(t_heap);
  return list;
}

}  // namespace

void* allocate_any(usize size) {
  // Whoever watches figures, too, is told at each list. The null heap has no hot span.
  if (COFFER_UNLIKELY(only_samples()) && size <= kLargestSmall) {
    if (Block* block = take_unsampled(class_of(size))) return block;
  }
  return allocate_slowly(size);
}

}  // namespace coffer
