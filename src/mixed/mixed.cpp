#include "mixed/mixed.hpp"

#include "config/config.hpp"
#include "mixed/map_of.hpp"
#include "observe/counters.hpp"
#include "pool/reclaimer.hpp"
#include "span/choices.hpp"

namespace coffer {

MixedPool g_mixed_pool;

namespace {

// Spans of one list that a search looks at, where the size lies inside the list and some of them are just too small;
// and tables that it looks into, where alignment decides.
constexpr u32 kLooksOfList = 8;
constexpr u32 kLooks = 12;

// A hole with room for a few blocks more, so that choosing among places costs nothing else.
bool is_wide(u32 hole, u32 units) { return hole >= 2 * units + kUnitsPerPage; }

// Where in a wide hole a block of whole pairs of lines starts, so that its like reach all cache indices: page p has
// them at lines p, p + g, p + 2g ... modulo its lines, g the greatest step that all of them have in common. One after
// the other they then lie as in a punctuated span (CIF, section 3), and what is left over serves others.
u32 indexed_start(u32 from, u32 units) {
  constexpr u32 kUnitsPerLine = kCacheLine / kQuantum;
  const u32 lines = units / kUnitsPerLine;
  const u32 natural = lines & (0 - lines);
  const u32 step = natural < kCacheSets ? natural : kCacheSets;
  const u32 line = static_cast<u32>(divide_up(from, kUnitsPerLine));
  const u32 page = line / kCacheSets;
  const u32 start = line + ((page - line) & (step - 1));
  const bool same_page = start / kCacheSets == page;
  return kUnitsPerLine * (same_page ? start : (page + 1) * kCacheSets + ((page + 1) & (step - 1)));
}

// The first place for a block of so many units in a hole.
u32 start_in(u32 from, u32 to, u32 units, u32 align) {
  constexpr u32 kPairOfLines = 2 * kCacheLine / kQuantum;
  const bool pairs = units % kPairOfLines == 0 && is_wide(to - from, units);
  if (pairs && g_span_choices.flat.get() == 0) return indexed_start(from, units);
  return static_cast<u32>(round_up(from, align));
}

}  // namespace

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

void MixedPool::place(Shard& shard, Span* span, u32 hole) {
  set_hole(span, hole);
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

// The shard whose smallest hole of at least about `units` is the smallest; not one of those in `tried`.
MixedPool::Shard* MixedPool::choose(u32 units, u32 tried) {
  Shard* best = nullptr;
  u32 best_list = kHoleLists;
  for (u32 i = 0; i < kShards; ++i) {
    if ((tried >> i) & 1) continue;
    const u32 list = shards_[i].filled.next(hole_list(units));
    if (list >= best_list) continue;
    best = &shards_[i];
    best_list = list;
  }
  return best;
}

// A span with a hole for `units` at a multiple of `align`; the smallest that will do, by lists.
Span* MixedPool::find(Shard& shard, u32 units, u32 align) {
  u32 looks = kLooks;
  for (u32 list = hole_list(units); (list = shard.filled.next(list)) < kHoleLists; ++list) {
    SpanNumber number = shard.heads[list].get();
    for (u32 i = 0; number != 0 && i < kLooksOfList; ++i) {
      Span* span = span_at(number);
      const u32 hole = hole_of(span);
      if (hole >= units + align - 1) return span;
      // Only where it starts decides. A look into the table takes as long as all the rest.
      if (hole >= units && looks > 0) {
        --looks;
        if (map_of(span).has_hole(search_start(span), units, align)) return span;
      }
      number = span->next.get();
    }
  }
  return nullptr;
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

MixedPool::Piece MixedPool::piece_of(u32 bytes, Lines lines) {
  constexpr u32 kUnitsPerLine = kCacheLine / kQuantum;
  const u32 units = static_cast<u32>(bytes / kQuantum);
  const u32 natural = units & (0 - units);
  if (natural >= kUnitsPerLine) return {units, kUnitsPerLine, 1};
  // So many blocks end where a line does.
  if (lines == Lines::whole) return {units, kUnitsPerLine, kUnitsPerLine / natural};
  return {units, natural, 1};
}

// Cuts up to `most` blocks; found[i]: their units. Returns their number, which may be 0 where the hole was an old one.
u32 MixedPool::cut(Shard& shard, Span* span, const Piece& piece, u32 most, u32* found) {
  UnitMap map = map_of(span);
  u32 count = 0;
  u32 largest = 0;
  u64 touched = 0;
  const u32 first = map.next_free(search_start(span));
  set_search_start(span, first);
  for (u32 from = first; from < map.units();) {
    const u32 to = map.next_used(from);
    u32 at = static_cast<u32>(round_up(from, piece.align));
    if (at + piece.all() <= to) {
      if (at - from > largest) largest = at - from;
      for (; at + piece.all() <= to && count + piece.blocks <= most; at += piece.all()) {
        for (u32 i = 0; i < piece.blocks; ++i) {
          map.add(at + i * piece.units, piece.units);
          found[count++] = at + i * piece.units;
        }
        touched |= pages_of(at, at + piece.all());
      }
      from = at;
    }
    if (to - from > largest) largest = to - from;
    if (count + piece.blocks > most) {
      // The rest is not looked at: no hole there is larger than the largest was.
      if (hole_of(span) > largest) largest = hole_of(span);
      break;
    }
    from = to < map.units() ? map.next_free(to) : to;
  }
  set_live(shard, span, span->cut.get() + count * piece.units);
  span->absent.set(span->absent.get() & ~touched);
  place(shard, span, largest);
  return count;
}

// The same for one block, from the first hole that fits. Unless that was the largest, the rest is not looked at.
u32 MixedPool::cut_one(Shard& shard, Span* span, u32 units, u32 align, u32* found) {
  UnitMap map = map_of(span);
  u32 count = 0;
  u32 largest = 0;
  const u32 first = map.next_free(search_start(span));
  set_search_start(span, first);
  for (u32 from = first; from < map.units();) {
    const u32 to = map.next_used(from);
    const u32 at = start_in(from, to, units, align);
    u32 left = to - from;
    if (count == 0 && at + units <= to) {
      map.add(at, units);
      *found = at;
      count = 1;
      set_live(shard, span, span->cut.get() + units);
      span->absent.set(span->absent.get() & ~pages_of(at, at + units));
      if (to - from < hole_of(span)) return count;
      left = at - from > to - at - units ? at - from : to - at - units;
    }
    if (left > largest) largest = left;
    from = to < map.units() ? map.next_free(to) : to;
  }
  place(shard, span, largest);
  return count;
}

Block* MixedPool::take(u32 bytes, u32 most, Lines lines) {
  const Piece piece = piece_of(bytes, lines);
  if (most > kMostTaken) most = kMostTaken;
  u32 found[kMostTaken];
  u32 count = 0;
  uptr start = 0;
  // A shard that was chosen may turn out to have no such hole.
  for (u32 tried = 0; count == 0;) {
    Shard* shard = choose(piece.all(), tried);
    if (shard == nullptr) return nullptr;
    LockGuard guard(shard->lock);
    while (count == 0) {
      Span* span = find(*shard, piece.all(), piece.align);
      if (span == nullptr) break;
      start = span_start(span);
      count =
          most == 1 ? cut_one(*shard, span, piece.units, piece.align, found) : cut(*shard, span, piece, most, found);
    }
    tried |= 1u << (shard - shards_);
  }
  // Linked without the lock: the holes may not be resident.
  Block* list = nullptr;
  while (count > 0) {
    Block* block = reinterpret_cast<Block*>(start + usize{found[--count]} * kQuantum);
    block->next = list;
    list = block;
  }
  return list;
}

// Whether a block of the program's starts there: not pages that are on their way to the kernel.
bool MixedPool::is_block(const Shard& shard, const Span* span, uptr address) const {
  if (!is_mixed(span) || address % kQuantum != 0) return false;
  const u32 unit = unit_of(span, address);
  if (!map_of(span).is_start(unit)) return false;
  return shard.purged.get() != span_number(span) || unit != shard.purged_from.get() * kUnitsPerPage;
}

usize MixedPool::release(Span* span, void* block) {
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
    map.remove(unit, units);
    const u32 used = span->cut.get() - units;
    set_live(shard, span, used);
    if (unit < search_start(span)) set_search_start(span, unit);
    if (used != 0) {
      const u32 hole = map.next_used(unit) - map.hole_start(unit);
      if (hole > hole_of(span)) place(shard, span, hole);
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
    if (hole > hole_of(span)) place(shard, span, hole);
    return true;
  }
  if (unit + want > map.units() || map.next_used(unit + have) < unit + want) return false;
  map.set_used(unit + have, want - have, true);
  set_live(shard, span, span->cut.get() + (want - have));
  span->absent.set(span->absent.get() & ~pages_of(unit + have, unit + want));
  return true;
}

// --- Fork and checks. ---

void MixedPool::lock_for_fork() {
  growth_.lock_for_fork();
  for (Shard& shard : shards_) shard.lock.lock_for_fork();
}

void MixedPool::unlock_after_fork() {
  for (Shard& shard : shards_) shard.lock.unlock_after_fork();
  growth_.unlock_after_fork();
}

void MixedPool::count_anew() const {
  usize held = 0;
  for (const Shard& shard : shards_) held += shard.held.get();
  counters().mixed.store(held, relaxed);
}

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
