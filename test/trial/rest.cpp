// SPDX-License-Identifier: MIT
#include "trial/rest.hpp"

#include <coffer/coffer.h>

#include "arena/each.hpp"
#include "exchange/registry.hpp"
#include "support/check.hpp"

namespace coffer::trial {

void expect_nothing_left_behind(bool is_child) {
  for (u32 i = 1; i < heaps_ever(); ++i) {
    const Heap* const heap = heap_by_index(i);
    // coffer_check looks at no heap that is at work. In a child one may be without its thread (stamp_heaps).
    REQUIRE(is_child || at_work_on(heap, relaxed) == kOutside, "heap %u is at work and all threads are outside", i);
    if (heap->attached.load(relaxed) != 0) continue;
    REQUIRE(heap->mailbox.load(relaxed) == 0, "mail waits at heap %u, which has no thread", i);
    REQUIRE(heap->left_chains.load(relaxed) == 0, "heap %u has no thread and chains left", i);
    for (const Chain& chain : heap->chains) {
      REQUIRE(chain.span.get() == nullptr, "heap %u has no thread and an open chain", i);
    }
  }
}

usize live_now() {
  struct coffer_stats stats = {};
  coffer_stats(&stats, sizeof stats);
  return stats.live;
}

usize large_tails() {
  usize bytes = 0;
  for_each_chunk([&](const Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::large) return;
    const usize whole = usize{arena->chunks[index].large_chunks.get()} * kChunkBytes;
    bytes += whole - large_bytes(arena->spans + usize{index} * kSlotsPerChunk);
  });
  return bytes;
}

}  // namespace coffer::trial
