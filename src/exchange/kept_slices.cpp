// SPDX-License-Identifier: MIT
#include "exchange/kept_slices.hpp"

#include "exchange/ownership.hpp"
#include "large/large.hpp"
#include "os/os.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {

namespace {

u32 slice_of(const Span* span) { return static_cast<u32>(span - arena_of_span(span)->spans) % kSlicesPerChunk; }

}  // namespace

void* allocate_kept(Heap* heap, usize size, usize alignment) {
  heap->freed_large.set(0);
  const u64 slices = heap->kept_slices.get();
  const RunShape shape = run_shape(size, alignment);
  if (slices == 0 || shape.count == 0) return nullptr;
  u64 starts = run_starts(slices, shape.count);
  if (shape.alignment > 1) starts &= aligned_positions(shape.alignment);
  if (starts == 0 || !is_lowest(heap->kept_chunk.get(), shape.count)) {
    give_back_kept(heap);
    return nullptr;
  }
  const u32 bit = lowest_bit(starts);
  heap->kept_slices.set(slices & ~(low_mask(shape.count) << bit));
  const Span* span = heap->kept_chunk.get() + bit;
  Arena* arena = arena_of_span(span);
  const u32 slice = static_cast<u32>(span - arena->spans);
  os::keep_locked(reinterpret_cast<void*>(slice_address(arena, span)), shape.count * kSliceBytes);
  return begin_large({arena, slice, shape.count, low_mask(shape.count)}, size, alignment);
}

bool keep_large(Heap* heap, Span* span) {
  if (span->large_chunks.get() != 0) return false;
  const u32 count = span->slices.get();
  const u32 bit = slice_of(span);
  Span* chunk = span - bit;
  if (!is_lowest(chunk, count) || !may_keep_empty(heap, count * kSliceBytes)) return false;
  if (heap->kept_chunk.get() != chunk || heap->freed_large.get() != 0) {
    give_back_kept(heap);
    heap->kept_chunk.set(chunk);
  }
  heap->kept_slices.set(heap->kept_slices.get() | low_mask(count) << bit);
  heap->freed_large.set(1);
  return true;
}

void give_back_kept(Heap* heap) {
  u64 slices = heap->kept_slices.get();
  if (slices == 0) return;
  heap->kept_slices.set(0);
  Arena* arena = arena_of_span(heap->kept_chunk.get());
  const u32 first = static_cast<u32>(heap->kept_chunk.get() - arena->spans);
  while (slices != 0) {
    const u32 bit = lowest_bit(slices);
    const u64 rest = ~(slices >> bit);
    const u32 count = rest != 0 ? lowest_bit(rest) : kSlicesPerChunk;
    release_slices(arena, first + bit, count, low_mask(count));
    slices &= ~(low_mask(count) << bit);
  }
}

void give_back_behind(Heap* heap, const Span* span) {
  const u32 bit = slice_of(span);
  const u32 behind = bit + span->slices.get();
  const bool kept = heap->kept_chunk.get() == span - bit && behind < kSlicesPerChunk;
  if (kept && (heap->kept_slices.get() >> behind & 1) != 0) give_back_kept(heap);
}

}  // namespace coffer
