// SPDX-License-Identifier: MIT
#include "large/large.hpp"

#include <string.h>

#include "large/chunk_run.hpp"
#include "large/colour.hpp"
#include "large/record.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

namespace {

void* allocate_slot_run(usize size, usize alignment, bool* zero) {
  const u32 slots = slots_for(size + slot_run_extra(size, alignment));
  const u32 wanted_slots = static_cast<u32>(divide_up(alignment, kSlotBytes));
  // Three slots, among which is one for the colour of 64 KiB: where the next such run will find the place again. Across
  // the places of two it would be looked for last (search_across in slot_pool.cpp), and more would become resident.
  const u32 alignment_slots = slots == 3 && wanted_slots <= 1 ? 4 : wanted_slots;
  const SlotRun run = acquire_slots(slots, alignment_slots, current_shard());
  if (run.count == 0) return nullptr;
  *zero = run.dirty == 0;
  const usize offset = slot_run_offset(run.slot, slots, size, alignment);
  Span* span = run.arena->spans + run.slot;
  const uptr start = slot_address(run.arena, span);
  describe_large(span, run.slot / kSlotsPerChunk, start, offset, slots * kSlotBytes, slots, 0);
  return reinterpret_cast<void*>(start + offset);
}

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
  // A fork child frees later slots that no first slot counts, so the block never counts one that is not described.
  for (u32 i = have; i < want; ++i) {
    span[i].first_distance.set(static_cast<u8>(i));
    span[i].use.store(SlotUse::large_rest, relaxed);  // relaxed, here and below: see describe_large
  }
  compiler_fence();
  count_large(slot / kSlotsPerChunk, (usize{want} - have) * kSlotBytes, 0);
  set_large_bytes(span, want * kSlotBytes);
  span->slots.set(static_cast<u8>(want));
  compiler_fence();
  for (u32 i = want; i < have; ++i) span[i].use.store(SlotUse::none, relaxed);
  if (want < have) release_slots(arena, slot + want, have - want, low_mask(have - want));
  return start;
}

}  // namespace

void* allocate_large(usize size, usize alignment, bool* zero) {
  if (size <= kLargestSmall) size = kLargestSmall + 1;  // here for its alignment: it counts as large all the same
  if (size <= largest_slot_run(alignment) && alignment <= kLargestSlotRun)
    return allocate_slot_run(size, alignment, zero);
  return allocate_chunk_run(size, alignment, zero);
}

bool free_large(void* block, Span* span) {
  Arena* arena = arena_of_span(span);
  if (reinterpret_cast<uptr>(block) != span->first_block) return false;
  SlotUse use = SlotUse::large;
  // acquire: pairs with the release in describe_large. Of two threads that free the block, one fails here.
  while (!span->use.compare_exchange(use, SlotUse::none, acquire, relaxed)) {
    if (use != SlotUse::large) return false;
  }
  const u32 slot = static_cast<u32>(span - arena->spans);
  count_large(slot / kSlotsPerChunk, usize{0} - large_bytes(span), ~usize{0});
  if (span->large_chunks.get() != 0) {
    free_chunk_run(arena, span);
    return true;
  }
  const u32 slots = span->slots.get();
  for (u32 i = 1; i < slots; ++i) span[i].use.store(SlotUse::none, relaxed);  // relaxed: see describe_large
  release_slots(arena, slot, slots, low_mask(slots));
  return true;
}

void* resize_large(void* block, Span* span, usize size) {
  if (size > ~u32{0} * kChunkBytes) return nullptr;
  const usize offset = large_offset(span);
  const uptr before = reinterpret_cast<uptr>(block) - offset;
  const uptr start = span->large_chunks.get() != 0 ? resize_chunk_run(before, span, size + offset)
                                                   : resize_slot_run(before, span, size + offset);
  return start == 0 ? nullptr : reinterpret_cast<void*>(start + offset);
}

void zero_large(void* block, usize size) { memset(block, 0, size); }

}  // namespace coffer
