// SPDX-License-Identifier: MIT
// How mixed spans begin and end, and how their idle pages are given back. models/mixed_span.pml explores it: labels
// there bear the names of the functions here.
#include "mixed/map_of.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/huge_pages.hpp"
#include "pool/slice_pool.hpp"
#include "span/choices.hpp"
#include "span/class_use.hpp"
#include "span/colour.hpp"

namespace coffer {

namespace {

// The blocks of a free list that were taken out of the table. Not whole: what comes after the last one is no block in
// use.
struct Removed {
  u32 count = 0;
  Block* last = nullptr;
  bool whole = false;
};

Removed remove_list(UnitMap& map, const Span* span, Block* list) {
  const uptr start = span_start(span);
  const u32 units = static_cast<u32>(span->block_bytes.get() / kQuantum);
  Removed removed;
  for (; list != nullptr; list = next_if_signed(list)) {
    const uptr address = reinterpret_cast<uptr>(list);
    if (!is_block_of(span, address)) return removed;
    const u32 unit = static_cast<u32>((address - start) / kQuantum);
    if (!map.is_start(unit)) return removed;  // twice on the list: also where a circle ends
    map.remove(unit, units);
    removed.last = list;
    ++removed.count;
  }
  removed.whole = true;
  return removed;
}

// The table of a span of one class: all blocks, less those on its local list and those that were never carved.
bool describe(UnitMap& map, const Span* span) {
  map.clear();
  const Stride stride = stride_of(span);
  const u32 units = static_cast<u32>(span->block_bytes.get() / kQuantum);
  for (u32 i = 0; i < span->capacity.get(); ++i) {
    const u32 unit = static_cast<u32>((first_offset(span) + stride.offset(i)) / kQuantum);
    if (((span->absent.get() >> (unit / kUnitsPerPage)) & 1) == 0) map.add(unit, units);
  }
  return remove_list(map, span, span->local_free.get()).whole;
}

// What follows the last one, if the list is not whole, is lost.
void push_back_local(Span* span, Block* list, const Removed& removed) {
  if (removed.count == 0) return;
  set_next(removed.last, span->local_free.get());
  const u32 before = local_count(span);
  span->local_free.set(list);
  set_countdown(span, before + removed.count, kNever);
}

// The transition. Blocks that others freed leave the table first: on the list they would be lost (model: NO_EMPTYING).
// The lock, under which the table was made, is held on, so that who meets the new state waits for the span's count
// (model: LOCK_GAP). false: one of them was no block in use.
bool mark_mixed(UnitMap& map, Span* span) {
  Heap* owner = span->owner.load(relaxed);  // relaxed: the caller's, or the claimant's own knowledge
  u64 seen = span->remote.load(relaxed);    // relaxed: the CAS below checks it
  for (;;) {
    if (RemoteWord(seen).first() != 0) {
      u32 count = 0;
      Block* list = take_remote(span, &count);
      const Removed removed = remove_list(map, span, list);
      push_back_local(span, list, removed);
      if (!removed.whole) {
        span->owner.store(owner, relaxed);  // relaxed: as above
        return false;
      }
      seen = span->remote.load(relaxed);
      continue;
    }
    span->owner.store(nullptr, relaxed);  // relaxed: published by the CAS
    const RemoteWord mixed = RemoteWord(seen).with(SpanState::mixed, 0, 0);
    // release: pairs with the acquire in push_remote, though the lock, which that thread takes next, would do.
    if (span->remote.compare_exchange(seen, mixed.bits(), std::memory_order_release, relaxed)) return true;
  }
}

}  // namespace

bool MixedPool::convert(Span* span) {
  Arena* arena = arena_of_span(span);
  if (!commit_unit_maps(arena, slice_index(arena, span) + span->slices.get())) return false;
  if (!grow(span_bytes(span))) return false;
  bool whole = false, live = false;
  {
    Shard& shard = shard_of(span);
    LockGuard guard(shard.lock);
    UnitMap map = map_of(span);
    const u64 untouched = untouched_pages(span);
    whole = describe(map, span) && mark_mixed(map, span);
    if (whole) {
      give_colour_line(span);
      span_ended(span, 0);  // for its class
      span->local_free.set(nullptr);
      set_countdown(span, 0, kNever);
      span->absent.set(untouched);
      span->live_units.set(0);
      set_live(shard, span, map.count_used());
      live = add(shard, span);
      if (live) list_holes(shard, span);
    }
  }
  if (!whole) {
    shrink(span_bytes(span));
  } else if (!live) {
    end(span);  // its last blocks were freed meanwhile
  }
  return whole;
}

// Under the lock: a span of the shard's from now on, of which no hole is listed. false: nothing is live in it, and the
// caller ends it.
bool MixedPool::add(Shard& shard, Span* span) {
  const bool live = span->live_units.get() != 0;
  // relaxed, both: who still sees a span of a class gets here by the remote word; others by the lock, or with a block.
  span->use.store(live ? SliceUse::mixed : SliceUse::none, relaxed);
  if (!live) return false;
  const UnitMap map = map_of(span);
  for (u32 page = 0; page < map.pages(); ++page) map.record(page) = {};
  shard.held.set(shard.held.get() + span_bytes(span));
  return true;
}

void MixedPool::list_holes(Shard& shard, Span* span) {
  const UnitMap map = map_of(span);
  for (u32 page = 0; page < map.pages(); ++page) look_at(shard, map, span, page * kUnitsPerPage);
}

namespace {

// Where the first block of a new mixed span goes: some lines in, others in each slice and process, so that what
// processes allocate first does not start at the same cache index in all of them. It lies in the first two pages. What
// is before it is a hole for others, which is used when the larger one behind it is.
u32 first_unit(const Span* span, u32 slice, u32 slices, u32 units) {
  const bool coloured = g_span_choices.coloured.get() != 0;
  const u32 colour = coloured ? static_cast<u32>(u64{fraction_of_place(slice)} * kCacheSets >> 32) : 0;
  const u32 start = indexed_start(span, colour * kUnitsPerLine, units);
  return 2 * start + units <= slices * kUnitsPerSlice ? start : 0;  // the rest is the largest hole
}

}  // namespace

Block* MixedPool::make(u32 bytes, u32 slices) {
  if (!grow(slices * kSliceBytes)) return nullptr;
  const SliceRun run = acquire_slices(slices, slices, current_shard());
  const bool ready = run.count != 0 && commit_unit_maps(run.arena, run.slice + slices);
  if (!ready) {
    if (run.count != 0) release_slices(run.arena, run.slice, slices, run.dirty);
    shrink(slices * kSliceBytes);
    return nullptr;
  }
  Span* span = run.arena->spans + run.slice;
  span->first_block = run.arena->base + uptr{run.slice} * kSliceBytes;
  span->limit = 0;
  span->multiplier = 0;
  span->block_bytes.set(0);
  span->capacity.set(0);
  span->slices.set(static_cast<u8>(slices));
  u64 absent = 0;
  for (u32 i = 0; i < slices; ++i) {
    if (((run.dirty >> i) & 1) == 0) absent |= low_mask(kPagesPerSlice) << (i * kPagesPerSlice);
  }
  const u32 units = units_for(bytes);
  const u32 start = first_unit(span, run.slice, slices, units);
  span->absent.set(absent & ~pages_of(start, start + units));
  set_countdown(span, 0, kNever);
  span->local_free.set(nullptr);
  {
    Shard& shard = shard_of(span);
    LockGuard guard(shard.lock);
    UnitMap map = map_of(span);
    map.clear();
    const Hole whole = map.add(start, units);
    // relaxed, both: published by the lock, and with the blocks.
    span->remote.store(load_word(span, relaxed).next_life(SpanState::mixed).bits(), relaxed);
    for (u32 i = 1; i < slices; ++i) {
      span[i].first_distance.set(static_cast<u8>(i));
      span[i].use.store(SliceUse::span_rest, relaxed);
    }
    span->live_units.set(0);
    set_live(shard, span, units);
    add(shard, span);
    hole_shrank(shard, map, span, whole, start + units);
  }
  return fresh_block(span->first_block + usize{start} * kQuantum, ((absent >> (start / kUnitsPerPage)) & 1) != 0);
}

// Nothing is live, it is on no list, and it is described as free: it is the caller's alone.
void MixedPool::end(Span* span) {
  const u32 slices = span->slices.get();
  u64 dirty = 0;
  for (u32 i = 0; i < slices; ++i) {
    const u64 pages = low_mask(kPagesPerSlice);
    if (((span->absent.get() >> (i * kPagesPerSlice)) & pages) != pages) dirty |= u64{1} << i;
    span[i].use.store(SliceUse::none, relaxed);  // relaxed, all here: published by the release of the slices
  }
  span->limit = 0;
  span->remote.store(load_word(span, relaxed).next_life(SpanState::free).bits(), relaxed);
  Arena* arena = arena_of_span(span);
  release_slices(arena, slice_index(arena, span), slices, dirty);
  shrink(slices * kSliceBytes);
}

// --- Idle pages. ---

// Under the lock: takes the first run of idle pages, as a block is taken, so that nobody carves them while the kernel
// works, nor ends the span (model: UNCOUNTED). false: there is none, or others are at work in the shard.
bool MixedPool::begin_purge(Shard& shard, Span* span, usize bytes) {
  if (!is_mixed(span) || shard.purged.get() != 0 || age_of(span) == MixedAge::purged) return false;
  UnitMap map = map_of(span);
  const u32 pages = span->slices.get() * kPagesPerSlice;
  const u32 step = static_cast<u32>(os::page_size() > kCarvePage ? os::page_size() / kCarvePage : 1);
  const u64 resident = ~span->absent.get() & low_mask(pages);
  const auto idle = [&](u32 page) {
    if (page + step > pages || (resident & (low_mask(step) << page)) == 0) return false;
    const Hole hole = map.hole_around(page * kUnitsPerPage);
    return hole.at + hole.units >= (page + step) * kUnitsPerPage;
  };
  u32 from = 0;
  u32 count = 0;
  while (from < pages && !idle(from)) from += step;
  while (from + count < pages && idle(from + count) && count * kCarvePage < bytes) count += step;
  if (count == 0) {
    set_age(span, MixedAge::purged);
    return false;
  }
  shard.purged_from.set(from);
  shard.purged_pages.set(count);
  shard.purged.set(span_number(span));
  compiler_fence();  // a fork child that finds them taken finds who took them (restore)
  const Hole hole = map.add(from * kUnitsPerPage, count * kUnitsPerPage);
  span->live_units.set(span->live_units.get() + count * kUnitsPerPage);  // in use, and not live
  hole_shrank(shard, map, span, hole, (from + count) * kUnitsPerPage);
  return true;
}

// Under the lock: puts the pages back. true: nothing is live in the span any more, and the caller ends it.
bool MixedPool::end_purge(Shard& shard, bool purged) {
  Span* span = span_at(shard.purged.get());
  const u32 pages = shard.purged_pages.get();
  const u32 unit = shard.purged_from.get() * kUnitsPerPage;
  UnitMap map = map_of(span);
  const UnitMap::Grown grown = map.remove(unit, pages * kUnitsPerPage);
  compiler_fence();  // as in begin_purge
  shard.purged.set(0);
  span->live_units.set(span->live_units.get() - pages * kUnitsPerPage);
  if (purged) span->absent.set(span->absent.get() | (low_mask(pages) << (unit / kUnitsPerPage)));
  hole_grew(shard, map, span, grown);
  if (span->live_units.get() != 0) return false;
  retire(shard, span);
  return true;
}

usize MixedPool::purge(Span* span, usize bytes) {
  Shard& shard = shard_of(span);
  const SpanNumber number = span_number(span);
  for (usize done = 0;;) {
    uptr start = 0;
    usize length = 0;
    {
      LockGuard guard(shard.lock);
      if (done >= bytes || !begin_purge(shard, span, bytes - done)) return done;
      start = span_start(span) + shard.purged_from.get() * kCarvePage;
      length = shard.purged_pages.get() * kCarvePage;
    }
    Arena* arena = arena_of_span(span);
    forbid_huge(arena, slice_index(arena, span) / kSlicesPerChunk);
    const bool purged = os::purge(reinterpret_cast<void*>(start), length);
    if (purged) done += length;
    bool last = false;
    {
      LockGuard guard(shard.lock);
      // Else a signal handler forked, and this is the child, which has put them back (model: NO_SECOND_LOOK).
      if (shard.purged.get() == number) last = end_purge(shard, purged);
    }
    if (last) end(span);
    if (last || !purged) return done;
  }
}

usize MixedPool::purge_if_idle(Span* span, usize* waits) {
  {
    LockGuard guard(shard_of(span).lock);
    if (!is_mixed(span)) return 0;
    switch (age_of(span)) {
      case MixedAge::touched:
        set_age(span, MixedAge::seen);
        *waits += span_bytes(span) - live_bytes(span);
        return 0;
      case MixedAge::seen:
      case MixedAge::purged:
        break;
    }
  }
  return purge(span, ~usize{0});
}

}  // namespace coffer
