// SPDX-License-Identifier: MIT
// Walks over everything that Coffer holds: for statistics, for coffer_check, and for fork children.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

struct Figures;
struct Statistics;
struct HeapStatistics;

// Calls visit(arena, chunk index, use) for every taken chunk; of a large block only for its first.
template <class Visit>
void for_each_chunk(Visit&& visit) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 a = 0; a < arenas; ++a) {
    Arena* arena = &g_arenas.arenas[a];
    const u32 end = arena->highest_chunk.load(relaxed);  // relaxed: the newest chunk may be missed
    for (u32 index = 0; index < end;) {
      const Group& group = arena->groups[index / kChunksPerGroup];
      if (((group.taken.get() >> (index % kChunksPerGroup)) & 1) == 0) {
        ++index;
        continue;
      }
      const Chunk& chunk = arena->chunks[index];
      const ChunkUse use = chunk.use.load(acquire);  // acquire: pairs with the releases that describe chunks
      const u32 length = use == ChunkUse::large ? chunk.large_chunks.get() : 1;
      visit(arena, index, use);
      index += length != 0 ? length : 1;
    }
  }
}

// Calls visit(first record) for every span, mixed ones too, and large block made of slots in a chunk.
template <class Visit>
void for_each_record(Arena* arena, u32 chunk_index, Visit&& visit) {
  const u64 free = arena->chunks[chunk_index].free.load(acquire);  // acquire: pairs with the release of slots
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    if ((free >> i) & 1) continue;
    Span* record = arena->spans + usize{chunk_index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(acquire);
    if (use == SlotUse::span || use == SlotUse::large || use == SlotUse::mixed) visit(record, use);
  }
}

// What a span is to those who look from outside: its state, and of owned ones what its heap makes of it. The numbers
// stand in shared pages (docs/reference/shared-page.md), so they stay; 7 was a state of earlier versions.
enum class SpanLife : u8 {
  free = 0,
  hot = 1,
  floating = 2,
  reusable = 3,
  claimed = 4,
  shared = 5,
  listed = 6,
  mixed = 8,
};
SpanLife life_of(const Span* span, const Heap* owner);

// Blocks that start in absent pages of the span, counted from its layout.
u32 count_absent_blocks(const Span* span);

// What the process-wide counters should say, counted anew. Other threads must be outside.
struct Sums {
  usize held = 0;
  usize dirty = 0;
  usize large = 0;
  usize large_blocks = 0;
  usize tails = 0;  // of large blocks: Chunk::large_tail in bytes
  void add_large(usize bytes) {
    large += bytes;
    large_blocks += 1;
  }
};
Sums sum_chunks();

// What each class uses (span/class_use.hpp), counted anew. Other threads must be outside.
struct ClassSums {
  usize used[kClasses] = {};
  usize held[kClasses] = {};
  u32 spans[kClasses] = {};
};
void sum_classes(ClassSums& sums);
// What threads that made spans of a class at the same time may hold beyond bound_of_class.
usize makers_bound(ClassIndex size_class);

void collect_statistics(Statistics& statistics);
// The same without classes.
void collect_figures(Figures& figures);
// The same without what takes a file or a wait, so that it may be called anywhere, also from a signal handler; false:
// not just now.
bool try_statistics(Statistics& statistics);
// false: there is no heap of that index.
bool collect_heap(u32 index, HeapStatistics& statistics);

// Verifies the invariants; returns the number of violations, each one line on stderr.
usize check_everything();

}  // namespace coffer
