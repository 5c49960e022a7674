// SPDX-License-Identifier: MIT
#include "mixed/mixed.hpp"
#include "policy/mixing.hpp"

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

namespace {

// Others allocate meanwhile, and what is live may be more by now.
void note_holes(usize held, usize live) { counters().holes.store(held > live ? held - live : 0, relaxed); }

}  // namespace

// Before a span becomes a mixed one. false: there are enough.
bool MixedPool::grow(usize bytes) {
  LockGuard guard(growth_);
  const usize live = counted_live();
  if (live > most_live_.get()) most_live_.set(live);
  const usize limit = kMixedFloor + kMixedPerLive * most_live_.get();
  const usize held = counters().mixed.load(relaxed) + bytes;
  if (held > limit) return false;
  limit_.set(limit);
  note_holes(held - bytes, live);
  counters().mixed.store(held, relaxed);
  return true;
}

// After it ended, or did not become one.
void MixedPool::shrink(usize bytes) {
  LockGuard guard(growth_);
  const usize held = counters().mixed.load(relaxed) - bytes;
  note_holes(held, counted_live());
  counters().mixed.store(held, relaxed);
  if (held != 0) return;
  most_live_.set(0);
  limit_.set(0);
}

// Under the shard's lock, as all that follows here.
void MixedPool::set_live(Shard& shard, Span* span, u32 units) {
  shard.live.set(shard.live.get() + (usize{units} - span->live_units.get()) * kQuantum);
  span->live_units.set(units);
  set_age(span, MixedAge::touched);
}

// --- Holes. Under the shard's lock. ---

void MixedPool::unlist(Shard& shard, Span* slot) {
  if (slot->listed.get() == 0) return;
  const SpanNumber next = slot->next.get();
  const SpanNumber previous = slot->previous.get();
  if (next != 0) span_at(next)->previous.set(previous);
  if (previous != 0) {
    span_at(previous)->next.set(next);
  } else {
    const u32 list = slot->listed.get() - 1u;
    shard.heads[list].set(next);
    if (next == 0) shard.filled.set(list, false);
  }
  slot->next.set(0);
  slot->previous.set(0);
  slot->listed.set(0);
}

// The largest hole that starts in the slot is this one.
void MixedPool::list_hole(Shard& shard, Span* slot, UnitMap::Hole hole) {
  set_hole(slot, hole);
  const u32 list = hole.units == 0 ? 0 : hole_list(hole.units) + 1;
  if (slot->listed.get() == list) return;
  unlist(shard, slot);
  if (list == 0) return;
  Owned<SpanNumber>& head = shard.heads[list - 1];
  const SpanNumber first = head.get();
  const SpanNumber number = span_number(slot);
  slot->next.set(first);
  if (first != 0) span_at(first)->previous.set(number);
  head.set(number);
  if (first == 0) shard.filled.set(list - 1, true);
  slot->listed.set(static_cast<u8>(list));
}

// Reads the table of the slots from `first` to `last`: something was cut there.
void MixedPool::count_holes(Shard& shard, Span* span, Span* first, Span* last) {
  const UnitMap map = map_of(span);
  shard.scans.set(shard.scans.get() + static_cast<u64>(last - first) + 1);
  for (Span* slot = first; slot <= last; ++slot)
    list_hole(shard, slot, map.largest_hole(static_cast<u32>(slot - span)));
}

// Of this hole a part was free before.
void MixedPool::hole_grew(Shard& shard, Span* span, UnitMap::Hole hole) {
  Span* slot = span + slot_of(hole.at);
  if (hole.units > hole_of(slot).units) list_hole(shard, slot, hole);
  // One that started in a later slot starts here now.
  const u32 to = hole.at + hole.units;
  for (Span* last = span + slot_of(to - 1); slot != last;) {
    const UnitMap::Hole there = hole_of(++slot);
    if (there.units != 0 && there.at < to) count_holes(shard, span, slot, slot);
  }
}

// Nothing is live in it any more: off its lists. Whoever does this calls end() without the lock; nobody else does, as
// the record tells that it is free from now on (model: RETIRE_LATE).
void MixedPool::retire(Shard& shard, Span* span) {
  for (u32 i = 0; i < span->slots.get(); ++i) unlist(shard, span + i);
  shard.held.set(shard.held.get() - span_bytes(span));
  // relaxed: published by the release of the slots. Under the lock, so that of two wrong frees the second is seen.
  span->use.store(SlotUse::none, relaxed);
}

// --- Blocks. ---

// Whether a block of the program's starts there: not pages that are on their way to the kernel.
COFFER_INLINE bool MixedPool::is_block(const Shard& shard, const Span* span, const UnitMap& map, uptr address) {
  if (!is_mixed(span) || address % kQuantum != 0) return false;
  const u32 unit = unit_of(span, address);
  if (!map.is_start(unit)) return false;
  const SpanNumber purged = shard.purged.get();
  return COFFER_LIKELY(purged == 0) || purged != span_number(span) || unit != shard.purged_from.get() * kUnitsPerPage;
}

usize MixedPool::release(Span* span, void* block, usize least, usize most) {
  usize bytes = 0;
  bool last = false, much = false;
  Shard& shard = shard_of(span);
  {
    LockGuard guard(shard.lock);
    UnitMap map = map_of(span);
    if (!is_block(shard, span, map, reinterpret_cast<uptr>(block))) return 0;
    const u32 unit = unit_of(span, reinterpret_cast<uptr>(block));
    const u32 units = map.block_units(unit);
    bytes = usize{units} * kQuantum;
    if (COFFER_UNLIKELY(bytes < least || bytes > most)) return 0;
    mark_freed(block);
    const UnitMap::Hole hole = map.remove(unit, units);
    const u32 used = span->live_units.get() - units;
    set_live(shard, span, used);
    if (used != 0) {
      hole_grew(shard, span, hole);
      much =
          hole.units >= kUnitsPerPage && shard.held.get() - shard.live.get() > config::options().free_limit / kShards;
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
  const UnitMap map = map_of(span);
  if (!is_block(shard, span, map, reinterpret_cast<uptr>(block))) return 0;
  return usize{map.block_units(unit_of(span, reinterpret_cast<uptr>(block)))} * kQuantum;
}

usize MixedPool::size_around(Span* span, uptr address) {
  LockGuard guard(shard_of(span).lock);
  const UnitMap map = map_of(span);
  if (!is_mixed(span)) return 0;
  const u32 start = map.run_start(unit_of(span, address));
  return map.is_start(start) ? usize{map.block_units(start)} * kQuantum : 0;
}

bool MixedPool::resize(Span* span, void* block, usize bytes) {
  Shard& shard = shard_of(span);
  LockGuard guard(shard.lock);
  UnitMap map = map_of(span);
  const u32 unit = unit_of(span, reinterpret_cast<uptr>(block));
  const u32 have = map.block_units(unit);
  const u32 want = units_for(bytes);
  if (want == have) return true;
  if (want < have) {
    const UnitMap::Hole hole = map.shrink(unit, want);
    set_live(shard, span, span->live_units.get() - (have - want));
    hole_grew(shard, span, hole);
    return true;
  }
  if (!map.extend(unit, want)) return false;
  set_live(shard, span, span->live_units.get() + (want - have));
  span->absent.set(span->absent.get() & ~pages_of(unit + have, unit + want));
  const u32 last = unit + want < map.units() ? unit + want : map.units() - 1;
  count_holes(shard, span, span + slot_of(unit + have), span + slot_of(last));
  return true;
}

// --- Checks. ---

TakeSteps MixedPool::steps() const {
  TakeSteps sum;
  for (const Shard& shard : shards_) {
    sum.takes += shard.takes.get();
    sum.looks += shard.looks.get();
    sum.scans += shard.scans.get();
  }
  return sum;
}

namespace {

bool starts_hole(const UnitMap& map, u32 at, u32 units) {
  const UnitMap::Hole hole = map.hole_around(at);
  return hole.at == at && hole.units == units;
}

}  // namespace

MixedPool::Fault MixedPool::check(Span* span) {
  LockGuard guard(shard_of(span).lock);
  const UnitMap map = map_of(span);
  const RemoteWord word = load_word(span, relaxed);
  if (word.state() != SpanState::mixed || word.count() != 0 || word.first() != 0) return Fault::state;
  // relaxed: no other thread is inside.
  if (span->owner.load(relaxed) != nullptr) return Fault::state;
  if (!map.is_whole()) return Fault::table;
  if (map.count_used() != span->live_units.get() || span->live_units.get() == 0) return Fault::count;
  for (u32 i = 0; i < span->slots.get(); ++i) {
    const UnitMap::Hole hole = map.largest_hole(i);
    const UnitMap::Hole noted = hole_of(span + i);
    if (noted.units != hole.units || (hole.units != 0 && !starts_hole(map, noted.at, hole.units))) return Fault::hole;
    if (span[i].listed.get() != (hole.units == 0 ? 0 : hole_list(hole.units) + 1)) return Fault::list;
  }
  return Fault::none;
}

}  // namespace coffer
