// SPDX-License-Identifier: MIT
// What a fork child does about mixed spans. A thread that vanished while it had a shard's lock may have left anything
// between two stores: lists and sums are made anew from the spans' tables, and a table itself is made whole, for what
// is half written there is a block that only the vanished thread knew (UnitMap::restore).
#include "mixed/map_of.hpp"
#include "observe/counters.hpp"

namespace coffer {

bool MixedPool::forget_others() {
  bool any = growth_.forget_others();
  for (Shard& shard : shards_) {
    if (!shard.lock.forget_others()) continue;
    shard.torn = true;
    any = true;
  }
  return any;
}

bool MixedPool::is_torn() const {
  for (const Shard& shard : shards_) {
    if (shard.torn) return true;
  }
  return false;
}

void MixedPool::drop_lists() {
  for (Shard& shard : shards_) {
    if (!shard.torn) continue;
    for (u32 list = 0; list < kHoleLists; ++list) {
      shard.heads[list].set(0);
      shard.filled.set(list, false);
    }
    shard.held.set(0);
    shard.live.set(0);
    const SpanNumber purged = shard.purged.get();
    if (purged == 0) continue;
    // Whether they had been taken yet, or were back already: then nobody else has taken them.
    UnitMap map = map_of(span_at(purged));
    map.restore();
    const u32 unit = shard.purged_from.get() * kUnitsPerPage;
    if (map.is_start(unit)) map.remove(unit, map.block_units(unit));
    shard.purged.set(0);
  }
}

void MixedPool::restore(Span* span) {
  Shard& shard = shard_of(span);
  if (!shard.torn) return;
  if (!is_mixed(span)) {
    // relaxed, both: the writers are gone.
    if (load_word(span, relaxed).state() != SpanState::mixed) return;
    // It was becoming one: its table was complete before its state said so. Which pages are absent is not known.
    span->local_free.set(nullptr);
    set_countdown(span, 0, kNever);
    span->absent.set(0);
    span->use.store(SliceUse::mixed, relaxed);
  }
  UnitMap map = map_of(span);
  map.restore();
  // The lists lead to every slice.
  for (u32 i = 1; i < span->slices.get(); ++i) {
    span[i].first_distance.set(static_cast<u8>(i));
    span[i].use.store(SliceUse::span_rest, relaxed);  // relaxed: as above
  }
  span->live_units.set(0);
  set_live(shard, span, map.count_used());
  if (!add(shard, span)) return end(span);
  list_holes(shard, span);
}

void MixedPool::mark_whole() {
  for (Shard& shard : shards_) shard.torn = false;
}

void MixedPool::finish_purges() {
  for (Shard& shard : shards_) {
    Span* span = nullptr;
    {
      LockGuard guard(shard.lock);
      if (shard.purged.get() == 0) continue;
      span = span_at(shard.purged.get());
      // What the kernel took is not known: it counts as resident.
      if (!end_purge(shard, false)) continue;
    }
    end(span);
  }
}

void MixedPool::count_anew() const {
  usize held = 0;
  for (const Shard& shard : shards_) held += shard.held.get();
  counters().mixed.store(held, relaxed);  // relaxed: the child's other threads wait
}

}  // namespace coffer
