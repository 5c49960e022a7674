// SPDX-License-Identifier: MIT
#include "large/large.hpp"

#include <string.h>

#include "large/chunk_run.hpp"
#include "large/colour.hpp"
#include "large/record.hpp"
#include "pool/slice_pool.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

// Two slices at least. Who asks for less is here for the alignment, or because no span can be had.
usize least_large(usize size) { return size <= kSliceBytes ? kSliceBytes + 1 : size; }

// As resize_chunk_run.
uptr resize_slice_run(uptr start, Span* span, usize size) {
  const u32 have = span->slices.get();
  const u32 want = slices_for(size);
  if (size > kLargestSliceRun) return 0;
  Arena* arena = arena_of_span(span);
  const u32 slice = static_cast<u32>(span - arena->spans);
  if (want > have) {
    u64 dirty = 0;
    if (!acquire_slices_at(arena, slice + have, want - have, &dirty)) return 0;
    keep_growth_locked(start, have * kSliceBytes, want * kSliceBytes);
  }
  set_large_bytes(span, want * kSliceBytes);
  // A fork child frees the later slices that no first one counts.
  span->slices.set(static_cast<u8>(want));
  compiler_fence();
  if (want < have) release_slices(arena, slice + want, have - want, low_mask(have - want));
  return start;
}

}  // namespace

RunShape run_shape(usize size, usize alignment) {
  size = least_large(size);
  if (size > largest_slice_run(alignment) || alignment > kLargestSliceRun) return {0, 0};
  const u32 slices = slices_for(size + slice_run_extra(size, alignment));
  const u32 wanted = static_cast<u32>(divide_up(alignment, kSliceBytes));
  // Three slices: where the next such run will find the place again. Across the places of two it would be looked for
  // last (search_across in slice_pool.cpp), and more would become resident.
  return {slices, slices == 3 && wanted <= 1 ? 4 : wanted};
}

void* begin_large(const SliceRun& run, usize size, usize alignment) {
  const usize offset = slice_run_offset(run.slice, run.count, least_large(size), alignment);
  Span* span = run.arena->spans + run.slice;
  const uptr start = slice_address(run.arena, span);
  describe_large(span, start, offset, run.count * kSliceBytes, run.count, 0);
  return reinterpret_cast<void*>(start + offset);
}

void* allocate_large(usize size, usize alignment, bool* zero) {
  const RunShape shape = run_shape(size, alignment);
  if (shape.count == 0) return allocate_chunk_run(least_large(size), alignment, zero);
  const SliceRun run = acquire_slices(shape.count, shape.alignment, current_shard());
  if (run.count == 0) return nullptr;
  *zero = run.dirty == 0;
  return begin_large(run, size, alignment);
}

bool end_large(void* block, Span* span) {
  if (reinterpret_cast<uptr>(block) != span->first_block) return false;
  SliceUse use = SliceUse::large;
  // acquire: pairs with the release in describe_large. Of two threads that free the block, one fails here.
  while (!span->use.compare_exchange(use, SliceUse::none, acquire, relaxed)) {
    if (use != SliceUse::large) return false;
  }
  mark_freed(block);
  return true;
}

void return_large(Span* span) {
  Arena* arena = arena_of_span(span);
  if (span->large_chunks.get() != 0) return free_chunk_run(arena, span);
  const u32 slices = span->slices.get();
  release_slices(arena, static_cast<u32>(span - arena->spans), slices, low_mask(slices));
}

bool free_large(void* block, Span* span) {
  if (!end_large(block, span)) return false;
  return_large(span);
  return true;
}

void* resize_large(void* block, Span* span, usize size) {
  if (size > ~u32{0} * kChunkBytes) return nullptr;
  const NotedSupply noted;
  const usize offset = large_offset(span);
  const uptr before = reinterpret_cast<uptr>(block) - offset;
  const uptr start = span->large_chunks.get() != 0 ? resize_chunk_run(before, span, size + offset)
                                                   : resize_slice_run(before, span, size + offset);
  return start == 0 ? nullptr : reinterpret_cast<void*>(start + offset);
}

void zero_large(void* block, usize size) { memset(block, 0, size); }

}  // namespace coffer
