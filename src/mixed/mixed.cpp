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

namespace {

PageNumber number_of(const Span* span, u32 page) { return PageNumber{span_number(span)} * kPagesPerSlice + page; }

}  // namespace

COFFER_INLINE void MixedPool::unlist(Shard& shard, const PageRecord& record) {
  const PageNumber next = record.next(), previous = record.previous();
  if (next != 0) record_of(next).set_previous(previous);
  if (previous != 0) return record_of(previous).set_next(next);
  shard.heads[record.list() - 1].set(next);
  if (next == 0) shard.filled.set(record.list() - 1, false);
}

// The largest hole that starts in the page is this one; of no units: none does.
COFFER_INLINE void MixedPool::list_hole(Shard& shard, const UnitMap& map, const Span* span, u32 page, Hole hole) {
  PageRecord& record = map.record(page);
  record.set_hole({hole.units, hole.at % kUnitsPerPage});
  const u32 list = hole.units == 0 ? 0 : hole_list(hole.units) + 1;
  if (record.list() == list) return;
  if (record.list() != 0) unlist(shard, record);
  record.set_list(list);
  if (list == 0) return;
  Owned<PageNumber>& head = shard.heads[list - 1];
  const PageNumber first = head.get(), number = number_of(span, page);
  record.set_next(first);
  record.set_previous(0);
  if (first != 0) {
    record_of(first).set_previous(number);
  } else {
    shard.filled.set(list - 1, true);
  }
  head.set(number);
}

// Reads the table of the page that the unit lies in.
void MixedPool::look_at(Shard& shard, const UnitMap& map, const Span* span, u32 unit) {
  const u32 page = unit / kUnitsPerPage;
  shard.scans.set(shard.scans.get() + 1);
  list_hole(shard, map, span, page, map.largest_in_page(page));
}

// It is new, or begins where it did and goes on further.
void MixedPool::hole_grew(Shard& shard, const UnitMap& map, const Span* span, Hole hole) {
  const u32 page = hole.at / kUnitsPerPage;
  if (hole.units > map.record(page).hole().units) list_hole(shard, map, span, page, hole);
}

void MixedPool::hole_grew(Shard& shard, const UnitMap& map, const Span* span, const UnitMap::Grown& grown) {
  hole_grew(shard, map, span, grown.hole);
  const Hole& gone = grown.swallowed;
  // In the same page the one that swallowed it is larger.
  if (gone.units == 0 || gone.at / kUnitsPerPage == grown.hole.at / kUnitsPerPage) return;
  if (map.record(gone.at / kUnitsPerPage).hole().units == gone.units) look_at(shard, map, span, gone.at);
}

// Of a hole the front was carved: what is left of it begins at `to`.
void MixedPool::hole_shrank(Shard& shard, const UnitMap& map, const Span* span, Hole before, u32 to) {
  look_at(shard, map, span, before.at);
  const Hole left = {before.at + before.units - to, to};
  if (left.units != 0 && to / kUnitsPerPage != before.at / kUnitsPerPage) hole_grew(shard, map, span, left);
}

// Nothing is live in it any more: it is one hole, which leaves its list. Whoever does this calls end() without the
// lock; nobody else does, as the record tells that it is free from now on (model: RETIRE_LATE).
void MixedPool::retire(Shard& shard, Span* span) {
  PageRecord& record = map_of(span).record(0);
  unlist(shard, record);
  record = {};
  shard.held.set(shard.held.get() - span_bytes(span));
  // relaxed: published by the release of the slices. Under the lock, so that of two wrong frees the second is seen.
  span->use.store(SliceUse::none, relaxed);
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
    const UnitMap::Grown grown = map.remove(unit, units);
    const u32 used = span->live_units.get() - units;
    set_live(shard, span, used);
    hole_grew(shard, map, span, grown);
    if (used != 0) {
      much = grown.hole.units >= kUnitsPerPage &&
             shard.held.get() - shard.live.get() > config::options().free_limit / kShards;
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
  return size_in(shard, span, reinterpret_cast<uptr>(block));
}

usize MixedPool::try_size_of(Span* span, const void* block) {
  Shard& shard = shard_of(span);
  if (!shard.lock.try_lock()) return 0;
  const usize bytes = size_in(shard, span, reinterpret_cast<uptr>(block));
  shard.lock.unlock();
  return bytes;
}

usize MixedPool::size_in(const Shard& shard, Span* span, uptr address) {
  const UnitMap map = map_of(span);
  return is_block(shard, span, map, address) ? usize{map.block_units(unit_of(span, address))} * kQuantum : 0;
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
    const UnitMap::Grown grown = map.shrink(unit, want);
    set_live(shard, span, span->live_units.get() - (have - want));
    hole_grew(shard, map, span, grown);
    return true;
  }
  const Hole hole = map.extend(unit, want);
  if (hole.units == 0) return false;
  set_live(shard, span, span->live_units.get() + (want - have));
  span->absent.set(span->absent.get() & ~pages_of(unit + have, unit + want));
  hole_shrank(shard, map, span, hole, unit + want);
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

MixedPool::Fault MixedPool::check(Span* span) {
  LockGuard guard(shard_of(span).lock);
  const UnitMap map = map_of(span);
  const RemoteWord word = load_word(span, relaxed);
  if (word.state() != SpanState::mixed || word.count() != 0 || word.first() != 0) return Fault::state;
  // relaxed: no other thread is inside.
  if (span->owner.load(relaxed) != nullptr) return Fault::state;
  if (!map.is_whole()) return Fault::table;
  if (map.count_used() != span->live_units.get() || span->live_units.get() == 0) return Fault::count;
  for (u32 page = 0; page < map.pages(); ++page) {
    const Hole hole = map.largest_in_page(page);
    const PageRecord& noted = map.record(page);
    if (noted.list() != (hole.units == 0 ? 0 : hole_list(hole.units) + 1)) return Fault::list;
    if (hole.units == 0) continue;
    const u32 at = page * kUnitsPerPage + noted.hole().at;
    const Hole found = map.hole_around(at);
    if (noted.hole().units != hole.units || found.at != at || found.units != hole.units) return Fault::hole;
    const PageNumber before =
        noted.previous() != 0 ? record_of(noted.previous()).next() : shard_of(span).heads[noted.list() - 1].get();
    if (before != number_of(span, page)) return Fault::list;
  }
  return Fault::none;
}

}  // namespace coffer
