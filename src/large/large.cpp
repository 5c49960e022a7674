// SPDX-License-Identifier: MIT
#include "large/large.hpp"

#include <string.h>

#include "large/chunk_run.hpp"
#include "large/colour.hpp"
#include "large/record.hpp"
#include "pool/slot_pool.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

// Two slots at least. Who asks for less is here for the alignment, or because no span can be had.
usize least_large(usize size) { return size <= kSlotBytes ? kSlotBytes + 1 : size; }

// As resize_chunk_run.
uptr resize_slot_run(uptr start, Span* span, usize size) {
  const u32 have = span->slots.get();
  const u32 want = slots_for(size);
  if (size > kLargestSlotRun) return 0;
  Arena* arena = arena_of_span(span);
  const u32 slot = static_cast<u32>(span - arena->spans);
  if (want > have) {
    u64 dirty = 0;
    if (!acquire_slots_at(arena, slot + have, want - have, &dirty)) return 0;
    keep_growth_locked(start, have * kSlotBytes, want * kSlotBytes);
  }
  set_large_bytes(span, want * kSlotBytes);
  // A fork child frees the later slots that no first one counts.
  span->slots.set(static_cast<u8>(want));
  compiler_fence();
  if (want < have) release_slots(arena, slot + want, have - want, low_mask(have - want));
  return start;
}

}  // namespace

RunShape run_shape(usize size, usize alignment) {
  size = least_large(size);
  if (size > largest_slot_run(alignment) || alignment > kLargestSlotRun) return {0, 0};
  const u32 slots = slots_for(size + slot_run_extra(size, alignment));
  const u32 wanted = static_cast<u32>(divide_up(alignment, kSlotBytes));
  // Three slots: where the next such run will find the place again. Across the places of two it would be looked for
  // last (search_across in slot_pool.cpp), and more would become resident.
  return {slots, slots == 3 && wanted <= 1 ? 4 : wanted};
}

void* begin_large(const SlotRun& run, usize size, usize alignment) {
  const usize offset = slot_run_offset(run.slot, run.count, least_large(size), alignment);
  Span* span = run.arena->spans + run.slot;
  const uptr start = slot_address(run.arena, span);
  describe_large(span, start, offset, run.count * kSlotBytes, run.count, 0);
  return reinterpret_cast<void*>(start + offset);
}

void* allocate_large(usize size, usize alignment, bool* zero) {
  const RunShape shape = run_shape(size, alignment);
  if (shape.count == 0) return allocate_chunk_run(least_large(size), alignment, zero);
  const SlotRun run = acquire_slots(shape.count, shape.alignment, current_shard());
  if (run.count == 0) return nullptr;
  *zero = run.dirty == 0;
  return begin_large(run, size, alignment);
}

bool end_large(void* block, Span* span) {
  if (reinterpret_cast<uptr>(block) != span->first_block) return false;
  SlotUse use = SlotUse::large;
  // acquire: pairs with the release in describe_large. Of two threads that free the block, one fails here.
  while (!span->use.compare_exchange(use, SlotUse::none, acquire, relaxed)) {
    if (use != SlotUse::large) return false;
  }
  mark_freed(block);
  return true;
}

void return_large(Span* span) {
  Arena* arena = arena_of_span(span);
  if (span->large_chunks.get() != 0) return free_chunk_run(arena, span);
  const u32 slots = span->slots.get();
  release_slots(arena, static_cast<u32>(span - arena->spans), slots, low_mask(slots));
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
                                                   : resize_slot_run(before, span, size + offset);
  return start == 0 ? nullptr : reinterpret_cast<void*>(start + offset);
}

void zero_large(void* block, usize size) { memset(block, 0, size); }

}  // namespace coffer
