// SPDX-License-Identifier: MIT
#include "inspect/walk.hpp"

#include "budget/budget.hpp"
#include "exchange/chains.hpp"
#include "exchange/inside.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/mail.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/seizing.hpp"
#include "exchange/sums.hpp"
#include "guard/guard.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"

namespace coffer {

namespace {

u32 list_length(const Block* list, u32 most) {
  u32 count = 0;
  for (; list != nullptr && count < most; list = next_if_signed(list)) ++count;
  return count;
}

// Blocks of the span that a heap which the caller may read keeps outside the span: the heap's list, a chain.
u32 kept_by(const Heap* heap, const Span* span) {
  u32 count = 0;
  const ClassIndex size_class = span->size_class.get();
  if (heap->hot[size_class].get() == span) {
    count += list_length(heap->blocks[size_class].get(), span->capacity.get());
  }
  const Chain& chain = heap->chains[chain_place(span)];
  if (chain.span.get() == span) count += chain.count();
  return count;
}

void count_span(Figures& figures, ClassStatistics* classes, const Span* span, const Heap* own, const Heap* fallback,
                usize& unbacked) {
  const u32 capacity = span->capacity.get();
  // acquire: pairs with make_span; the fields are those of its life.
  const u32 free = free_blocks(span, acquire) + kept_by(own, span) + kept_by(fallback, span);
  const usize live = usize{free < capacity ? capacity - free : 0} * span->block_bytes.get();
  if (classes != nullptr) {
    ClassStatistics& entry = classes[shape_class(span->size_class.get())];
    entry.spans += 1;
    entry.held += span_bytes(span);
    entry.live += live;
  }
  figures.spans += 1;
  figures.live += live;
  figures.free_blocks += free < capacity ? free : capacity;
  unbacked += unbacked_bytes(span);
}

void count_large(Figures& figures, const Span* span) {
  figures.large += large_bytes(span);
  figures.large_blocks += 1;
  figures.live += large_bytes(span);
}

void count_mixed(Figures& statistics, const Span* span, usize& unbacked) {
  statistics.mixed_spans += 1;
  statistics.mixed_held += span_bytes(span);
  statistics.mixed_live += MixedPool::live_bytes(span);
  statistics.spans += 1;
  statistics.live += MixedPool::live_bytes(span);
  const usize absent = unbacked_bytes(span);
  statistics.mixed_resident += span_bytes(span) - absent;
  unbacked += absent;
}

// What the walk over spans counted as live; less, if a heap's thread came or went meanwhile.
void discount(usize& live, usize bytes) { live -= bytes < live ? bytes : live; }

// What a heap keeps of mixed spans is free: lists of blocks from holes, and chains on spans that became mixed since.
// What is locked is waited for, or counts as live (the figures' reader may be a signal handler).
using SizeOf = usize (MixedPool::*)(Span*, const void*);
void discount_mixed(Figures& statistics, const Heap* heap, SizeOf size_of) {
  usize bytes = 0;
  const auto add = [&](const Block* block) {
    for (; block != nullptr; block = next_if_signed(block)) {
      const uptr address = reinterpret_cast<uptr>(block);
      bytes += (g_mixed_pool.*size_of)(first_record(slice_record(arena_of(address), address)), block);
    }
  };
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (heap->hot[c].get() == nullptr) add(heap->blocks[c].get());
  }
  for (const Chain& chain : heap->chains) {
    const Span* span = chain.span.get();
    if (span != nullptr && is_mixed(span)) add(chain.first.get());
  }
  discount(statistics.mixed_live, bytes);
  discount(statistics.live, bytes);
}

// Threads have ended whose heaps wait whole: what lies on those lists is free, and nobody but who seizes the heap may
// look. Under the fallback heap's lock, which is the context's, too; not in a signal handler, for who gives a heap back
// places its mail.
struct Waiting {
  Figures* figures;
  ClassStatistics* classes;
} g_waiting;

void discount_blocks(const Span* span, u32 count) {
  const usize bytes = usize{count} * span->block_bytes.get();
  g_waiting.figures->free_blocks += count;
  discount(g_waiting.figures->live, bytes);
  if (g_waiting.classes != nullptr) discount(g_waiting.classes[shape_class(span->size_class.get())].live, bytes);
}

void discount_lists(Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const Span* hot = heap->hot[c].get();
    if (hot != nullptr) discount_blocks(hot, list_length(heap->blocks[c].get(), hot->capacity.get()));
  }
  for (const Chain& chain : heap->chains) {
    const Span* span = chain.span.get();
    if (span != nullptr && !is_mixed(span)) discount_blocks(span, chain.count());
  }
  discount_mixed(*g_waiting.figures, heap, &MixedPool::size_of);
}

void discount_waiting_heaps(Figures& figures, ClassStatistics* classes) {
  g_waiting = {&figures, classes};
  for (u32 i = 1; i < heaps_ever(); ++i) {
    Heap* heap = heap_by_index(i);
    // relaxed: only whether to try; a thread that begins now finds its heap seized for a moment.
    if (heap->attached.load(relaxed) == 0) seize(&heap, 1, &discount_lists);
  }
}

}  // namespace

SpanLife life_of(const Span* span, const Heap* owner) {
  switch (load_word(span, relaxed).state()) {  // relaxed: a figure
    case SpanState::free:
      return SpanLife::free;
    case SpanState::owned:
      if (owner != nullptr && owner->hot[span->size_class.get()].get() == span) return SpanLife::hot;
      return stands_on_ring(span) ? SpanLife::reusable : SpanLife::floating;
    case SpanState::claimed:
      return SpanLife::claimed;
    case SpanState::shared:
      return SpanLife::shared;
    case SpanState::listed:
      return SpanLife::listed;
    case SpanState::mixed:
      break;
  }
  return SpanLife::mixed;
}

bool collect_heap(u32 index, HeapStatistics& statistics) {
  if (!start_process() || index >= heaps_ever() || (index == 0 && !fallback_heap_used())) return false;
  const Heap* heap = heap_by_index(index);
  // relaxed, all: figures of a heap that may be at work.
  statistics = {heap->attached.load(relaxed), heap->held.load(relaxed), heap->slack.get(),
                mail_bytes(heap->mailbox.load(relaxed))};
  return true;
}

namespace {

// classes: an entry for each class, or nullptr. shared_heap: the fallback heap, locked.
void gather(Figures& statistics, ClassStatistics* classes, const Heap* shared_heap, SizeOf size_of) {
  statistics = {};
  const InsideAgain inside;
  const Heap* own = inside.heap();
  const Counters& counts = counters();
  // relaxed, all: figures, each right for itself.
  statistics.reserved = counts.reserved.load(relaxed);
  statistics.metadata = counts.metadata.load(relaxed);
  statistics.committed = counts.committed.load(relaxed);
  statistics.chunks = counts.chunks.load(relaxed);
  statistics.held = counts.held.load(relaxed);
  statistics.free_resident = counts.dirty.load(relaxed);
  statistics.peak_held = counts.peak.load(relaxed);
  statistics.system_calls = os::call_count();
  statistics.heaps = attached_heaps();
  statistics.heaps_ever = heaps_ever();
  statistics.bound = statistics.metadata + free_bound();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bound = class_bound(c);
    statistics.bound += bound;
    if (classes == nullptr) continue;
    if (!kHardening.parts || c < kShapes) {
      classes[c] = {class_layout(c).block_bytes, 0, 0, 0, bound};
    } else {
      classes[shape_class(c)].bound += bound;
    }
  }
  usize unbacked = 0;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use == ChunkUse::large) {
      statistics.resident += tail_bytes(arena->chunks[index]);
      statistics.bound += tail_bytes(arena->chunks[index]);
    }
    for_each_record(arena, index, [&](Span* span, SliceUse slice_use) {
      if (slice_use == SliceUse::large) count_large(statistics, span);
      if (slice_use == SliceUse::span) count_span(statistics, classes, span, own, shared_heap, unbacked);
      if (slice_use == SliceUse::mixed) count_mixed(statistics, span, unbacked);
    });
  });
  statistics.mixed_bound = g_mixed_pool.limit();
  // Slices that heaps keep are free.
  usize kept = 0;
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) kept += kept_bytes(heap_by_index(i));
  statistics.held -= kept < statistics.held ? kept : statistics.held;
  statistics.free_resident += kept;
  statistics.bound += statistics.mixed_bound + statistics.large + kept + guard::held_bytes();
  statistics.live += guard::live_bytes();
  discount_mixed(statistics, own, size_of);
  if (shared_heap != own) discount_mixed(statistics, shared_heap, size_of);
  statistics.resident += statistics.held - (unbacked < statistics.held ? unbacked : 0) + statistics.free_resident;
  statistics.limit = get_limit();
}

}  // namespace

namespace {

void collect(Figures& figures, ClassStatistics* classes) {
  const SlowPath path;
  const ReclaimerRests rests;   // it may have seized this thread's heap, whose lists would count as live
  const FallbackHeap fallback;  // locked: its lists may be read, too
  gather(figures, classes, fallback.get() != nullptr ? fallback.get() : &g_null_heap, &MixedPool::size_of);
  discount_waiting_heaps(figures, classes);
  figures.page_tables = os::page_table_bytes();
}

}  // namespace

void collect_figures(Figures& figures) {
  figures = {};
  if (start_process()) collect(figures, nullptr);
}

void collect_statistics(Statistics& statistics) {
  static_cast<Figures&>(statistics) = {};
  statistics.classes = 0;
  if (!start_process()) return;
  statistics.classes = kShapes;
  collect(statistics, statistics.by_class);
}

bool try_statistics(Statistics& statistics) {
  const FallbackHeap fallback(FallbackHeap::Wait::not_at_all);
  if (!fallback.has_lock()) return false;
  statistics.classes = kShapes;
  const Heap* const shared = fallback.get() != nullptr ? fallback.get() : &g_null_heap;
  gather(statistics, statistics.by_class, shared, &MixedPool::try_size_of);
  return true;
}

}  // namespace coffer
