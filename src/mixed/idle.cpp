// SPDX-License-Identifier: MIT
#include "mixed/idle.hpp"

#include "arena/each.hpp"
#include "config/config.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "policy/kept.hpp"

namespace coffer {

namespace {

// Calls visit(span) for the mixed spans of so many chunks, from `at` on, and stops (walk_down) behind a chunk in which
// one of them answered true.
template <class Visit>
u32 walk_mixed(u32 at, u32 looks, Visit&& visit) {
  // relaxed: a span that becomes one now waits for the next time.
  if (counters().mixed.load(relaxed) == 0) return 0;
  return walk_down(
      at, looks, [](const Group& group) { return group.taken.get(); },
      [&](Arena* arena, u32 index) {
        // acquire: pairs with the releases that describe chunks.
        if (arena->chunks[index].use.load(acquire) != ChunkUse::spans) return true;
        bool stop = false;
        for_each_record(arena, index, [&](Span* span, SliceUse use) {
          if (use == SliceUse::mixed) stop = visit(span) || stop;
        });
        return !stop;
      });
}

// Of purge_mixed_pages, where the next look goes on.
Atomic<u32> g_next_pages;

// For calls; plain: one at a time is at the chores. Where the next step goes on: at the chunk of the span (its start)
// behind which the last one stopped, or below what it looked at.
u32 g_next;
uptr g_last;

}  // namespace

usize purge_mixed_spans() {
  usize bytes = 0;
  walk_mixed(0, ~u32{0}, [&](Span* span) {
    bytes += g_mixed_pool.purge(span, ~usize{0});
    return false;
  });
  return bytes;
}

bool purge_mixed_pages(usize bytes) {
  usize done = 0;
  // relaxed, both: each place is as good as another's.
  const u32 at = walk_mixed(g_next_pages.load(relaxed), kLooks, [&](Span* span) {
    if (done < bytes) done += g_mixed_pool.purge(span, bytes - done);
    return done >= bytes;
  });
  const u32 next = done >= bytes ? at + 1 : at;  // the rest of that chunk is next
  g_next_pages.store(next, relaxed);
  return next == 0;
}

bool purge_mixed_that_wait() {
  usize waits = 0;
  walk_mixed(0, ~u32{0}, [&](Span* span) {
    g_mixed_pool.purge_if_idle(span, &waits);
    return false;
  });
  return waits > config::options().free_limit;
}

bool purge_mixed_step() {
  usize waits = 0;
  uptr purged = 0;
  const u32 at = walk_mixed(g_next, kLooks, [&](Span* span) {
    const uptr start = span_start(span);
    const bool done = start / kChunkBytes == g_last / kChunkBytes && start <= g_last;
    if (purged == 0 && !done && g_mixed_pool.purge_if_idle(span, &waits) != 0) purged = start;
    return purged != 0;
  });
  g_last = purged;
  g_next = purged != 0 ? at + 1 : at;
  return g_next == 0;
}

}  // namespace coffer
