// SPDX-License-Identifier: MIT
#include "mixed/mixed.hpp"

#include "config/config.hpp"
#include "mixed/map_of.hpp"
#include "observe/counters.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {

MixedPool g_mixed_pool;

// --- What is held, and what is live. ---

usize MixedPool::counted_live() const {
  usize live = 0;
  for (const Shard& shard : shards_) live += shard.live.get();
  return live;
}

bool MixedPool::may_grow(usize bytes) const {
  const usize held = counters().mixed.load(relaxed) + bytes;  // relaxed, all in this file: a guess, or under a lock
  return held <= limit_.get() || held <= kMixedFloor + kMixedPerLive * counted_live();
}

// Before a span becomes a mixed one. false: there are enough.
bool MixedPool::grow(usize bytes) {
  LockGuard guard(growth_);
  const usize live = counted_live();
  if (live > most_live_.get()) most_live_.set(live);
  const usize limit = kMixedFloor + kMixedPerLive * most_live_.get();
  const usize held = counters().mixed.load(relaxed) + bytes;
  if (held > limit) return false;
  limit_.set(limit);
  counters().mixed.store(held, relaxed);
  return true;
}

// After it ended, or did not become one.
void MixedPool::shrink(usize bytes) {
  LockGuard guard(growth_);
  const usize held = counters().mixed.load(relaxed) - bytes;
  counters().mixed.store(held, relaxed);
  if (held != 0) return;
  most_live_.set(0);
  limit_.set(0);
}

// Under the shard's lock, as all that follows here.
void MixedPool::set_live(Shard& shard, Span* span, u32 units) {
  shard.live.set(shard.live.get() + (usize{units} - span->cut.get()) * kQuantum);
  span->cut.set(units);
  set_quiet(span, 0);
}

// --- Lists by largest hole. Under the shard's lock. ---

void MixedPool::unlink(Shard& shard, Span* span) {
  if (span->listed.get() == 0) return;
  const SpanNumber next = span->next.get();
  const SpanNumber previous = span->previous.get();
  if (next != 0) span_at(next)->previous.set(previous);
  if (previous != 0) {
    span_at(previous)->next.set(next);
  } else {
    const u32 list = span->listed.get() - 1u;
    shard.heads[list].set(next);
    if (next == 0) shard.filled.set(list, false);
  }
  span->next.set(0);
  span->previous.set(0);
  span->listed.set(0);
}

void MixedPool::place(Shard& shard, Span* span, u32 hole, u32 at) {
  set_hole(span, hole, at);
  const u32 list = hole == 0 ? 0 : hole_list(hole) + 1;
  if (span->listed.get() == list) return;
  unlink(shard, span);
  if (list == 0) return;
  Owned<SpanNumber>& head = shard.heads[list - 1];
  const SpanNumber first = head.get();
  const SpanNumber number = span_number(span);
  span->next.set(first);
  if (first != 0) span_at(first)->previous.set(number);
  head.set(number);
  if (first == 0) shard.filled.set(list - 1, true);
  span->listed.set(static_cast<u8>(list));
}

// Nothing is live in it any more: off its list. Whoever does this calls end() without the lock; nobody else does, as
// the record tells that it is free from now on (model: RETIRE_LATE).
void MixedPool::retire(Shard& shard, Span* span) {
  unlink(shard, span);
  shard.held.set(shard.held.get() - span_bytes(span));
  // relaxed: published by the release of the slots. Under the lock, so that of two wrong frees the second is seen.
  span->use.store(SlotUse::none, relaxed);
}

// --- Blocks. ---

// Whether a block of the program's starts there: not pages that are on their way to the kernel.
bool MixedPool::is_block(const Shard& shard, const Span* span, uptr address) const {
  if (!is_mixed(span) || address % kQuantum != 0) return false;
  const u32 unit = unit_of(span, address);
  if (!map_of(span).is_start(unit)) return false;
  return shard.purged.get() != span_number(span) || unit != shard.purged_from.get() * kUnitsPerPage;
}

usize MixedPool::release(Span* span, void* block, usize least) {
  usize bytes = 0;
  bool last = false, much = false;
  Shard& shard = shard_of(span);
  {
    LockGuard guard(shard.lock);
    if (!is_block(shard, span, reinterpret_cast<uptr>(block))) return 0;
    UnitMap map = map_of(span);
    const u32 unit = unit_of(span, reinterpret_cast<uptr>(block));
    const u32 units = map.block_units(unit);
    bytes = usize{units} * kQuantum;
    if (COFFER_UNLIKELY(bytes < least)) return 0;
    map.remove(unit, units);
    const u32 used = span->cut.get() - units;
    set_live(shard, span, used);
    if (unit < search_start(span)) set_search_start(span, unit);
    if (used != 0) {
      const u32 from = map.hole_start(unit);
      const u32 hole = map.next_used(unit) - from;
      if (hole > hole_of(span)) place(shard, span, hole, from);
      much = hole >= kUnitsPerPage && shard.held.get() - shard.live.get() > config::options().free_limit / kShards;
    } else {
      retire(shard, span);
      last = true;
    }
  }
  if (last) end(span);
  if (much) want_reclaimer();
  return bytes;
}

usize MixedPool::size_of(Span* span, const void* block) {
  Shard& shard = shard_of(span);
  LockGuard guard(shard.lock);
  if (!is_block(shard, span, reinterpret_cast<uptr>(block))) return 0;
  return usize{map_of(span).block_units(unit_of(span, reinterpret_cast<uptr>(block)))} * kQuantum;
}

usize MixedPool::size_around(Span* span, uptr address) {
  LockGuard guard(shard_of(span).lock);
  const UnitMap map = map_of(span);
  u32 unit = unit_of(span, address);
  if (!is_mixed(span) || !map.is_used(unit)) return 0;
  while (unit > 0 && !map.is_start(unit)) --unit;
  return usize{map.block_units(unit)} * kQuantum;
}

bool MixedPool::resize(Span* span, void* block, usize bytes) {
  Shard& shard = shard_of(span);
  LockGuard guard(shard.lock);
  UnitMap map = map_of(span);
  const u32 unit = unit_of(span, reinterpret_cast<uptr>(block));
  const u32 have = map.block_units(unit);
  const u32 want = units_for(bytes);
  if (want <= have) {
    map.set_used(unit + want, have - want, false);
    set_live(shard, span, span->cut.get() - (have - want));
    if (unit + want < search_start(span)) set_search_start(span, unit + want);
    const u32 hole = want < have ? map.next_used(unit + want) - (unit + want) : 0;
    if (hole > hole_of(span)) place(shard, span, hole, unit + want);
    return true;
  }
  if (unit + want > map.units() || map.next_used(unit + have) < unit + want) return false;
  map.set_used(unit + have, want - have, true);
  set_live(shard, span, span->cut.get() + (want - have));
  span->absent.set(span->absent.get() & ~pages_of(unit + have, unit + want));
  return true;
}

// --- Checks. ---

MixedPool::Fault MixedPool::check(Span* span) {
  LockGuard guard(shard_of(span).lock);
  const UnitMap map = map_of(span);
  const RemoteWord word = load_word(span, relaxed);
  if (word.state() != SpanState::mixed || word.count() != 0 || word.first() != 0) return Fault::state;
  // relaxed: no other thread is inside.
  if (span->owner.load(relaxed) != nullptr) return Fault::state;
  if (!map.is_whole()) return Fault::table;
  if (map.count_used() != span->cut.get() || span->cut.get() == 0) return Fault::count;
  const u32 hole = hole_of(span);
  if (hole < map.largest_hole() || hole > map.units()) return Fault::hole;
  if (span->listed.get() != (hole == 0 ? 0 : hole_list(hole) + 1)) return Fault::list;
  return Fault::none;
}

}  // namespace coffer
