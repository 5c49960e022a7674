// SPDX-License-Identifier: MIT
#include "exchange/kept_slots.hpp"

#include "exchange/ownership.hpp"
#include "large/large.hpp"
#include "os/os.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

namespace {

u32 slot_of(const Span* span) { return static_cast<u32>(span - arena_of_span(span)->spans) % kSlotsPerChunk; }

}  // namespace

void* allocate_kept(Heap* heap, usize size, usize alignment) {
  heap->freed_large.set(0);
  const u64 slots = heap->kept_slots.get();
  const RunShape shape = run_shape(size, alignment);
  if (slots == 0 || shape.count == 0) return nullptr;
  u64 starts = run_starts(slots, shape.count);
  if (shape.alignment > 1) starts &= aligned_positions(shape.alignment);
  if (starts == 0 || !is_lowest(heap->kept_chunk.get(), shape.count)) {
    give_back_kept(heap);
    return nullptr;
  }
  const u32 bit = lowest_bit(starts);
  heap->kept_slots.set(slots & ~(low_mask(shape.count) << bit));
  const Span* span = heap->kept_chunk.get() + bit;
  Arena* arena = arena_of_span(span);
  const u32 slot = static_cast<u32>(span - arena->spans);
  os::keep_locked(reinterpret_cast<void*>(slot_address(arena, span)), shape.count * kSlotBytes);
  return begin_large({arena, slot, shape.count, low_mask(shape.count)}, size, alignment);
}

bool keep_large(Heap* heap, Span* span) {
  if (span->large_chunks.get() != 0) return false;
  const u32 count = span->slots.get();
  const u32 bit = slot_of(span);
  Span* chunk = span - bit;
  if (!is_lowest(chunk, count) || !may_keep_empty(heap, count * kSlotBytes)) return false;
  if (heap->kept_chunk.get() != chunk || heap->freed_large.get() != 0) {
    give_back_kept(heap);
    heap->kept_chunk.set(chunk);
  }
  heap->kept_slots.set(heap->kept_slots.get() | low_mask(count) << bit);
  heap->freed_large.set(1);
  return true;
}

void give_back_kept(Heap* heap) {
  u64 slots = heap->kept_slots.get();
  if (slots == 0) return;
  heap->kept_slots.set(0);
  Arena* arena = arena_of_span(heap->kept_chunk.get());
  const u32 first = static_cast<u32>(heap->kept_chunk.get() - arena->spans);
  while (slots != 0) {
    const u32 bit = lowest_bit(slots);
    const u64 rest = ~(slots >> bit);
    const u32 count = rest != 0 ? lowest_bit(rest) : kSlotsPerChunk;
    release_slots(arena, first + bit, count, low_mask(count));
    slots &= ~(low_mask(count) << bit);
  }
}

void give_back_behind(Heap* heap, const Span* span) {
  const u32 bit = slot_of(span);
  const u32 behind = bit + span->slots.get();
  const bool kept = heap->kept_chunk.get() == span - bit && behind < kSlotsPerChunk;
  if (kept && (heap->kept_slots.get() >> behind & 1) != 0) give_back_kept(heap);
}

}  // namespace coffer
