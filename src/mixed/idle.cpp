// SPDX-License-Identifier: MIT
#include "mixed/idle.hpp"

#include "arena/each.hpp"
#include "config/config.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {

namespace {

template <class Visit>
void for_each_mixed(Visit&& visit) {
  // relaxed: a span that becomes one now waits for the next time.
  if (counters().mixed.load(relaxed) == 0) return;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SlotUse slot_use) {
      if (slot_use == SlotUse::mixed) visit(span);
    });
  });
}

}  // namespace

usize purge_mixed_spans() {
  usize bytes = 0;
  for_each_mixed([&](Span* span) { bytes += g_mixed_pool.purge(span, ~usize{0}); });
  return bytes;
}

bool purge_mixed_that_wait() {
  usize waits = 0;
  for_each_mixed([&](Span* span) { g_mixed_pool.purge_if_idle(span, &waits); });
  return waits > config::options().free_limit;
}

}  // namespace coffer
