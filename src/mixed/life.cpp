// How mixed spans begin and end, and how their idle pages are given back.
#include "mixed/map_of.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/slot_pool.hpp"
#include "span/class_use.hpp"

namespace coffer {

namespace {

// Pages of which no byte was written since they were last known to be zero.
u64 untouched_pages(const Span* span) {
  const u32 pages = span->slots.get() * kPagesPerSlot;
  u64 untouched = span->absent.get() & low_mask(pages);
  const u64 cut = ~span->absent.get() & low_mask(pages);
  // The last block that starts in a page that was cut may reach into the pages after it.
  if (cut != 0) {
    const usize touched = (highest_bit(cut) + 1) * kCarvePage + span->block_bytes.get();
    untouched &= ~low_mask(static_cast<u32>(divide_up(touched, kCarvePage)));
  }
  for (u32 slot = 0; slot < span->slots.get(); ++slot) {
    if ((span->dirty_slots_at_start.get() >> slot) & 1)
      untouched &= ~(low_mask(kPagesPerSlot) << (slot * kPagesPerSlot));
  }
  return untouched;
}

// Takes the blocks of a free list out of the table; false: the list leads to something that is no block in use.
bool remove_list(UnitMap& map, const Span* span, const Block* list) {
  const uptr start = span_start(span);
  const u32 units = span->block_bytes.get() / kQuantum;
  for (; list != nullptr; list = list->next) {
    const uptr address = reinterpret_cast<uptr>(list);
    if (!is_block_start(span, address)) return false;
    const u32 unit = static_cast<u32>((address - start) / kQuantum);
    if (!map.is_start(unit)) return false;  // twice on the list: also where a circle ends
    map.remove(unit, units);
  }
  return true;
}

// The table of a span of one class: all blocks, less those on its local list and those that were never cut.
bool describe(UnitMap& map, const Span* span) {
  map.clear();
  const u32 first = static_cast<u32>((span->first_block - span_start(span)) / kQuantum);
  const u32 units = span->block_bytes.get() / kQuantum;
  for (u32 i = 0; i < span->capacity.get(); ++i) {
    const u32 unit = first + i * units;
    if (((span->absent.get() >> (unit / kUnitsPerPage)) & 1) == 0) map.add(unit, units);
  }
  return remove_list(map, span, span->local_free.get());
}

void push_back_local(Span* span, Block* list, u32 count) {
  Block* last = list;
  while (last->next != nullptr) last = last->next;
  last->next = span->local_free.get();
  const u32 before = local_count(span);
  span->local_free.set(list);
  set_countdown(span, before + count, kNever);
}

// The transition. Blocks that others freed leave the table first. false: one of them was no block in use.
bool mark_mixed(UnitMap& map, Span* span) {
  Heap* owner = span->owner.load(relaxed);  // relaxed: the caller's, or the claimant's own knowledge
  u64 seen = span->remote.load(relaxed);    // relaxed: the CAS below checks it
  for (;;) {
    if (RemoteWord(seen).first() != 0) {
      u32 count = 0;
      Block* list = take_remote(span, &count);
      const bool whole = remove_list(map, span, list);
      push_back_local(span, list, count);
      if (!whole) {
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
  if (!commit_unit_maps(arena, slot_index(arena, span) + span->slots.get())) return false;
  counters().mixed.fetch_add(span_bytes(span), relaxed);  // relaxed: a figure
  {
    Shard& shard = shard_of(span);
    LockGuard guard(shard.lock);
    UnitMap map = map_of(span);
    const u64 untouched = untouched_pages(span);
    if (!describe(map, span) || !mark_mixed(map, span)) {
      counters().mixed.fetch_sub(span_bytes(span), relaxed);  // relaxed: as above
      return false;
    }
    span_ended(span, 0);  // for its class
    span->local_free.set(nullptr);
    set_countdown(span, 0, kNever);
    span->absent.set(untouched);
    const u32 used = map.count_used();
    span->cut.set(used);
    span->next.set(0);
    span->previous.set(0);
    span->listed.set(0);
    // relaxed, both: who still sees a span of a class gets here by the remote word.
    if (used != 0) {
      span->use.store(SlotUse::mixed, relaxed);
      place(shard, span, map.largest_hole());
      return true;
    }
    span->use.store(SlotUse::none, relaxed);
  }
  end(span);  // its last blocks were freed meanwhile
  return true;
}

Block* MixedPool::make(u32 bytes, u32 slots) {
  const SlotRun run = acquire_slots(slots, slots, current_shard());
  if (run.count == 0) return nullptr;
  if (!commit_unit_maps(run.arena, run.slot + slots)) {
    release_slots(run.arena, run.slot, slots, run.dirty);
    return nullptr;
  }
  Span* span = run.arena->spans + run.slot;
  span->first_block = run.arena->base + uptr{run.slot} * kSlotBytes;
  span->limit = 0;
  span->multiplier = 0;
  span->block_bytes.set(0);
  span->capacity.set(0);
  span->slots.set(static_cast<u8>(slots));
  u64 absent = 0;
  for (u32 i = 0; i < slots; ++i) {
    if (((run.dirty >> i) & 1) == 0) absent |= low_mask(kPagesPerSlot) << (i * kPagesPerSlot);
  }
  span->absent.set(absent & ~pages_of(0, units_for(bytes)));
  const u32 units = units_for(bytes);
  span->cut.set(units);
  span->next.set(0);
  span->previous.set(0);
  span->listed.set(0);
  set_countdown(span, 0, kNever);
  span->local_free.set(nullptr);
  {
    Shard& shard = shard_of(span);
    LockGuard guard(shard.lock);
    UnitMap map = map_of(span);
    map.clear();
    map.add(0, units);
    // relaxed, both: published by the lock, and with the blocks.
    span->remote.store(load_word(span, relaxed).next_life(SpanState::mixed).bits(), relaxed);
    for (u32 i = 1; i < slots; ++i) {
      span[i].first_distance.set(static_cast<u8>(i));
      span[i].use.store(SlotUse::span_rest, relaxed);
    }
    span->use.store(SlotUse::mixed, relaxed);
    place(shard, span, map.units() - units);
    counters().mixed.fetch_add(span_bytes(span), relaxed);  // relaxed: a figure
  }
  Block* block = reinterpret_cast<Block*>(span->first_block);
  block->next = nullptr;
  return block;
}

// Nothing is live, it is on no list, and it is described as free: it is the caller's alone.
void MixedPool::end(Span* span) {
  const u32 slots = span->slots.get();
  counters().mixed.fetch_sub(slots * kSlotBytes, relaxed);  // relaxed: a figure
  u64 dirty = 0;
  for (u32 i = 0; i < slots; ++i) {
    const u64 pages = low_mask(kPagesPerSlot);
    if (((span->absent.get() >> (i * kPagesPerSlot)) & pages) != pages) dirty |= u64{1} << i;
    span[i].use.store(SlotUse::none, relaxed);  // relaxed, all here: published by the release of the slots
  }
  span->limit = 0;
  span->remote.store(load_word(span, relaxed).next_life(SpanState::free).bits(), relaxed);
  Arena* arena = arena_of_span(span);
  release_slots(arena, slot_index(arena, span), slots, dirty);
}

usize MixedPool::purge(Span* span, usize bytes) {
  Shard& shard = shard_of(span);
  usize done = 0;
  while (done < bytes) {
    u32 from = 0;
    u32 count = 0;
    {
      LockGuard guard(shard.lock);
      if (!is_mixed(span)) return done;
      UnitMap map = map_of(span);
      const u32 pages = span->slots.get() * kPagesPerSlot;
      const u32 step = static_cast<u32>(os::page_size() > kCarvePage ? os::page_size() / kCarvePage : 1);
      const auto idle = [&](u32 page) {
        const u32 unit = page * kUnitsPerPage;
        return page + step <= pages && (span->absent.get() & (low_mask(step) << page)) != low_mask(step) << page &&
               map.next_used(unit) >= unit + step * kUnitsPerPage;
      };
      while (from < pages && !idle(from)) from += step;
      while (from + count < pages && idle(from + count) && count * kCarvePage < bytes - done) count += step;
      if (count == 0) return done;
      // Taken as a block is, so that nobody cuts them while the kernel works.
      map.add(from * kUnitsPerPage, count * kUnitsPerPage);
      span->cut.set(span->cut.get() + count * kUnitsPerPage);
    }
    const usize length = count * kCarvePage;
    const bool purged = os::purge(reinterpret_cast<void*>(span_start(span) + from * kCarvePage), length);
    {
      LockGuard guard(shard.lock);
      UnitMap map = map_of(span);
      map.remove(from * kUnitsPerPage, count * kUnitsPerPage);
      span->cut.set(span->cut.get() - count * kUnitsPerPage);
      if (purged) span->absent.set(span->absent.get() | (low_mask(count) << from));
      if (span->cut.get() != 0) {
        const u32 unit = from * kUnitsPerPage;
        const u32 hole = map.next_used(unit) - map.hole_start(unit);
        if (hole > hole_of(span)) place(shard, span, hole);
        if (!purged) return done;
        done += length;
        continue;
      }
      // Its last block was freed meanwhile.
      unlink(shard, span);
      span->use.store(SlotUse::none, relaxed);  // relaxed: as in release
    }
    end(span);
    return done + (purged ? length : 0);
  }
  return done;
}

}  // namespace coffer
