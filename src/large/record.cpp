// SPDX-License-Identifier: MIT
#include "large/record.hpp"

#include "observe/counters.hpp"
#include "os/os.hpp"

namespace coffer {

void count_large(u32 chunk, usize bytes, usize blocks) {
  TurnCell& cell = turn_cell(chunk);
  cell.large.fetch_add(bytes, relaxed);  // relaxed, both: statistics
  if (blocks != 0) cell.large_blocks.fetch_add(blocks, relaxed);
}

void describe_large(Span* span, u32 chunk, uptr start, usize offset, usize bytes, u32 slots, u32 chunks) {
  span->owner.store(nullptr, relaxed);  // relaxed, here and below: see describe_slots in span.cpp
  span->limit = 0;
  span->first_block = start + offset;
  set_large_bytes(span, bytes);
  span->large_chunks.set(chunks);
  span->slots.set(static_cast<u8>(slots));
  for (u32 i = 1; i < slots; ++i) {
    span[i].first_distance.set(static_cast<u8>(i));
    span[i].use.store(SlotUse::large_rest, relaxed);
  }
  span->use.store(SlotUse::large, release);  // release: pairs with the CAS in free_large
  count_large(chunk, bytes, 1);
}

void keep_growth_locked(uptr start, usize before, usize after) {
  const usize page = os::page_size();
  const uptr from = round_down(start + before, page);
  const uptr to = round_up(start + after, page);
  if (to > from) os::keep_locked(reinterpret_cast<void*>(from), to - from);
}

}  // namespace coffer
