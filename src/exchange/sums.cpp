// SPDX-License-Identifier: MIT
#include "exchange/sums.hpp"

#include "arena/each.hpp"
#include "pool/tails.hpp"
#include "span/choices.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"
#include "span/span.hpp"

namespace coffer {

u32 count_absent_blocks(const Span* span) {
  u32 count = 0;
  for_each_page(span, span->absent.get(), [&](u32, u32 from, u32 to) { count += to - from; });
  return count;
}

Sums sum_chunks() {
  Sums sums;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    // relaxed, all here: no other thread is inside.
    const Chunk& chunk = arena->chunks[index];
    if (use == ChunkUse::spans) {
      sums.held += count_bits(~chunk.free.load(relaxed)) * kSliceBytes;
      sums.dirty += count_bits(chunk.dirty.load(relaxed)) * kSliceBytes;
    } else if (use == ChunkUse::large) {
      sums.held += large_bytes(&arena->spans[usize{index} * kSlicesPerChunk]);
      sums.tails += tail_bytes(chunk);
    }
    for_each_record(arena, index, [&](const Span* span, SliceUse slice_use) {
      if (slice_use == SliceUse::large) sums.add_large(large_bytes(span));
    });
  });
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 a = 0; a < arenas; ++a) {
    const Arena& arena = g_arenas.arenas[a];
    for (u32 i = 0; i < arena.highest_chunk.load(relaxed); ++i) {
      const bool taken = (arena.groups[i / kChunksPerGroup].taken.get() >> (i % kChunksPerGroup)) & 1;
      if (!taken) sums.dirty += count_bits(arena.chunks[i].dirty.load(relaxed)) * kSliceBytes;
    }
  }
  return sums;
}

void sum_classes(ClassSums& sums) {
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](const Span* span, SliceUse slice_use) {
      if (slice_use != SliceUse::span) return;
      const ClassIndex c = span->size_class.get();
      const usize bytes = span_bytes(span);
      const bool shared = is_shared(load_word(span, relaxed).state());  // relaxed: no other thread is inside
      sums.used[c] += shared ? bytes - shared_base_bytes(span) : bytes;
      sums.held[c] += bytes;
      sums.spans[c] += 1;
    });
  });
}

usize class_bound(ClassIndex size_class) {
  const usize high = class_high(size_class);
  if (high == 0) return 0;  // it has no span
  return bound_of_class(high) + most_makers(size_class) * (kSliceBytes << shape_of(size_class).slices_log2);
}

}  // namespace coffer
