// SPDX-License-Identifier: MIT
#include "heap/walk.hpp"

#include "heap/registry.hpp"
#include "heap/taking.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "os/os.hpp"
#include "pool/breath.hpp"
#include "pool/limit.hpp"
#include "pool/slot_pool.hpp"
#include "pool/tails.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"

namespace coffer {

namespace {

u32 list_length(const Block* list, u32 most) {
  u32 count = 0;
  for (; list != nullptr && count < most; list = list->next) ++count;
  return count;
}

// Blocks of the span that a heap which the caller may read keeps outside the span: the heap's list, its open chain.
u32 kept_by(const Heap* heap, const Span* span) {
  u32 count = 0;
  const ClassIndex size_class = span->size_class.get();
  if (heap->hot[size_class].get() == span) {
    count += list_length(heap->blocks[size_class].get(), span->capacity.get());
  }
  if (heap->chain_span.get() == span) count += heap->chain_count.get();
  return count;
}

void count_span(Figures& figures, ClassStatistics* classes, const Span* span, const Heap* fallback, usize& unbacked) {
  const u32 capacity = span->capacity.get();
  const u32 free = known_free_blocks(span) + kept_by(t_heap, span) + kept_by(fallback, span);
  const usize live = usize{free < capacity ? capacity - free : 0} * span->block_bytes.get();
  if (classes != nullptr) {
    ClassStatistics& entry = classes[span->size_class.get()];
    entry.spans += 1;
    entry.held += span_bytes(span);
    entry.live += live;
  }
  figures.spans += 1;
  figures.live += live;
  figures.free_blocks += free < capacity ? free : capacity;
  unbacked += unbacked_bytes(span);
}

void count_mixed(Figures& statistics, const Span* span, usize& unbacked) {
  statistics.mixed_spans += 1;
  statistics.mixed_held += span_bytes(span);
  statistics.mixed_live += MixedPool::live_bytes(span);
  statistics.spans += 1;
  statistics.live += MixedPool::live_bytes(span);
  const usize absent = MixedPool::unbacked_bytes(span);
  statistics.mixed_resident += span_bytes(span) - absent;
  unbacked += absent;
}

// Blocks from holes on a heap's lists are free, and those of a hot span that was taken and has become a mixed one.
void discount_hole_lists(Figures& statistics, const Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const Span* hot = heap->hot[c].get();
    if (hot != nullptr && !is_mixed(hot)) continue;
    usize bytes = 0;
    for (const Block* block = heap->blocks[c].get(); block != nullptr; block = block->next) {
      const uptr address = reinterpret_cast<uptr>(block);
      bytes += g_mixed_pool.size_of(first_record(slot_record(arena_of(address), address)), block);
    }
    statistics.mixed_live -= bytes;
    statistics.live -= bytes;
  }
}

}  // namespace

u32 count_absent_blocks(const Span* span) {
  u32 count = 0;
  for_each_page(span, span->absent.get(), [&](u32, u32 from, u32 to) { count += to - from; });
  return count;
}

u32 known_free_blocks(const Span* span) {
  const RemoteWord word = load_word(span, acquire);  // acquire: pairs with make_span; the fields are those of its life
  if (is_shared(word.state())) return word.count();
  return local_count(span) + absent_count(span) + word.count();
}

Sums sum_chunks() {
  Sums sums;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    // relaxed, all here: no other thread is inside.
    const Chunk& chunk = arena->chunks[index];
    if (use == ChunkUse::spans) {
      sums.held += count_bits(~chunk.free.load(relaxed)) * kSlotBytes;
      sums.dirty += count_bits(chunk.dirty.load(relaxed)) * kSlotBytes;
      for_each_record(arena, index, [&](const Span* span, SlotUse slot_use) {
        if (slot_use == SlotUse::large) sums.add_large(large_bytes(span));
      });
    } else if (use == ChunkUse::large) {
      const usize bytes = large_bytes(&arena->spans[usize{index} * kSlotsPerChunk]);
      sums.held += bytes;
      sums.tails += tail_bytes(chunk);
      sums.add_large(bytes);
    }
  });
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 a = 0; a < arenas; ++a) {
    const Arena& arena = g_arenas.arenas[a];
    for (u32 i = 0; i < arena.highest_chunk.load(relaxed); ++i) {
      const bool taken = (arena.groups[i / kChunksPerGroup].taken.get() >> (i % kChunksPerGroup)) & 1;
      if (!taken) sums.dirty += count_bits(arena.chunks[i].dirty.load(relaxed)) * kSlotBytes;
    }
  }
  return sums;
}

void sum_classes(ClassSums& sums) {
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](const Span* span, SlotUse slot_use) {
      if (slot_use != SlotUse::span) return;
      const ClassIndex c = span->size_class.get();
      const usize bytes = span_bytes(span);
      const bool shared = is_shared(load_word(span, relaxed).state());  // relaxed: no other thread is inside
      sums.used[c] += shared ? bytes - shared_base_bytes(span) : bytes;
      sums.held[c] += bytes;
      sums.spans[c] += 1;
    });
  });
}

usize makers_bound(ClassIndex size_class) { return most_makers() * (kSlotBytes << shape_of(size_class).slots_log2); }

bool collect_heap(u32 index, HeapStatistics& statistics) {
  if (!start_process() || index >= heaps_ever() || (index == 0 && !fallback_heap_used())) return false;
  const Heap* heap = heap_by_index(index);
  // relaxed, all: figures of a heap that may be at work.
  const u64 box = heap->mailbox.load(relaxed);
  statistics = {heap->attached.get(), heap->held.load(relaxed), heap->slack.get(),
                box == kMailboxClosed ? 0 : mail_bytes(box)};
  return true;
}

namespace {

// classes: an entry for each class, or nullptr. shared_heap: the fallback heap, locked.
void gather(Figures& statistics, ClassStatistics* classes, const Heap* shared_heap) {
  statistics = {};
  const Counters& counts = counters();
  // relaxed, all: figures, each right for itself.
  statistics.reserved = counts.reserved.load(relaxed);
  statistics.metadata = counts.metadata.load(relaxed);
  statistics.committed = counts.committed.load(relaxed);
  statistics.chunks = counts.chunks.load(relaxed);
  statistics.held = counts.held.load(relaxed);
  statistics.free_resident = counts.dirty.load(relaxed);
  statistics.large = counts.large.load(relaxed);
  statistics.large_blocks = counts.large_blocks.load(relaxed);
  statistics.peak_held = counts.peak.load(relaxed);
  statistics.system_calls = os::call_count();
  statistics.heaps = attached_heaps();
  statistics.heaps_ever = heaps_ever();
  // Each of the makers was at work on one span; the largest counts.
  statistics.bound = statistics.metadata + statistics.large + free_bound() + makers_bound(kClasses - 1);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bound = bound_of_class(class_high(c));
    statistics.bound += bound;
    if (classes != nullptr) classes[c] = {class_layout(c).block_bytes, 0, 0, 0, bound + makers_bound(c)};
  }
  statistics.live = statistics.large;
  usize unbacked = 0;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use == ChunkUse::large) statistics.resident += tail_bytes(arena->chunks[index]);
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SlotUse slot_use) {
      if (slot_use == SlotUse::span) count_span(statistics, classes, span, shared_heap, unbacked);
      if (slot_use == SlotUse::mixed) count_mixed(statistics, span, unbacked);
    });
  });
  statistics.mixed_bound = g_mixed_pool.limit();
  statistics.bound += statistics.mixed_bound;
  discount_hole_lists(statistics, t_heap);
  if (shared_heap != t_heap) discount_hole_lists(statistics, shared_heap);
  statistics.resident += statistics.held - (unbacked < statistics.held ? unbacked : 0) + statistics.free_resident;
  statistics.limit = get_limit();
}

}  // namespace

namespace {

void collect(Figures& figures, ClassStatistics* classes) {
  settle_fork();
  const FallbackHeap fallback;  // locked: its lists may be read, too
  gather(figures, classes, fallback.get() != nullptr ? fallback.get() : &g_null_heap);
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
  statistics.classes = kClasses;
  collect(statistics, statistics.by_class);
}

bool try_statistics(Statistics& statistics) {
  const FallbackHeap fallback(FallbackHeap::Wait::not_at_all);
  if (!fallback.has_lock()) return false;
  statistics.classes = kClasses;
  gather(statistics, statistics.by_class, fallback.get() != nullptr ? fallback.get() : &g_null_heap);
  return true;
}

}  // namespace coffer
