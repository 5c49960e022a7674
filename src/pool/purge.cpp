// SPDX-License-Identifier: MIT
// Giving the physical memory of free slots and chunks back to the kernel. A purge claims slots exactly as an allocation
// does, so there is no list to take them out of, and nobody waits while the kernel works.
#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/limit.hpp"
#include "pool/reclaimer.hpp"
#include "pool/room_map.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

void forbid_huge(Arena* arena, u32 index) {
  Chunk& chunk = arena->chunks[index];
  if (chunk.huge.get() == 0) return;
  os::advise_huge_pages(reinterpret_cast<void*>(chunk_address(arena, index)), kChunkBytes, os::HugePages::forbid);
  chunk.huge.set(0);
}

namespace {

// What one limited call looks at, at most.
constexpr u32 kChunksPerVisit = 16;
constexpr u32 kGroupsPerVisit = 256;
// Where the next purge starts, in groups counted over all arenas, if the last one did not get what it wanted from the
// groups above; 0: at the top.
Atomic<u32> g_next_group;

usize g_held_at_begin;  // of the sweep; plain: one thread at a time is at the chores

// Purges the runs of set bits of `slots`; returns the bits for which the kernel refused.
u64 purge_runs(Arena* arena, u32 index, u64 slots) {
  u64 refused = 0;
  while (slots != 0) {
    const u32 bit = lowest_bit(slots);
    const u64 rest = ~(slots >> bit);
    const u32 length = rest != 0 ? lowest_bit(rest) : kSlotsPerChunk;
    const u64 mask = low_mask(length) << bit;
    // Where a page is larger than a slot, only whole pages can go.
    const uptr start = chunk_address(arena, index) + bit * kSlotBytes;
    const uptr from = round_up(start, os::page_size());
    const uptr to = round_down(start + length * kSlotBytes, os::page_size());
    const bool whole = from == start && to == start + length * kSlotBytes;
    const bool purged = from < to && os::purge(reinterpret_cast<void*>(from), to - from);
    if (!purged || !whole) refused |= mask;
    slots &= ~mask;
  }
  return refused;
}

u64 highest_bits(u64 word, usize count) {
  u64 kept = 0;
  for (; count > 0 && word != 0; --count) {
    const u64 bit = u64{1} << highest_bit(word);
    kept |= bit;
    word &= ~bit;
  }
  return kept;
}

usize purge_slots_of(Arena* arena, u32 index, usize bytes) {
  Chunk& chunk = arena->chunks[index];
  u64 free = chunk.free.load(relaxed);  // relaxed: the CAS below checks it
  u64 claim = 0;
  do {
    // A huge page brings in slots that nobody ever used.
    const u64 resident = chunk.huge.get() != 0 ? ~u64{0} : chunk.dirty.load(relaxed);
    claim = highest_bits(free & resident, divide_up(bytes, kSlotBytes));
    if (claim == 0) return 0;
    // acquire: pairs with the release in slot_pool's put_back, as every claim does.
  } while (!chunk.free.compare_exchange(free, free & ~claim, acquire, relaxed));
  forbid_huge(arena, index);
  const u64 refused = purge_runs(arena, index, claim);
  const u64 clean = claim & ~refused;
  // relaxed: published by the release below, and counted for a limit that may be late.
  const u64 were_dirty = chunk.dirty.fetch_and(~clean, relaxed) & clean;
  counters().dirty.fetch_sub(count_bits(were_dirty) * kSlotBytes, relaxed);
  uncharge(count_bits(were_dirty) * kSlotBytes);
  // release: pairs with the acquire of later claims; seq_cst for room_map.
  const u64 before = chunk.free.fetch_or(claim, seq_cst);
  note_room(arena, index, before | claim);
  return count_bits(clean) * kSlotBytes;
}

// A chunk that nobody holds: take it, purge it, give it back.
usize purge_free_chunk(Arena* arena, u32 index, usize bytes) {
  u64 dirty = 0;
  if (!take_dirty_chunk(arena, index, &dirty)) return 0;
  const u64 resident = arena->chunks[index].huge.get() != 0 ? ~u64{0} : dirty;
  const u64 chosen = highest_bits(resident, divide_up(bytes, kSlotBytes));
  if (chosen != 0) forbid_huge(arena, index);
  const bool renewed = chosen == resident && arena->chunks[index].moved.get() != 0 && unmark_moved(arena, index, 1);
  const u64 purged = renewed ? chosen : chosen & ~purge_runs(arena, index, chosen);
  return_dirty_chunk(arena, index, dirty & ~purged);
  uncharge(count_bits(dirty & purged) * kSlotBytes);
  return count_bits(purged) * kSlotBytes;
}

usize purge_chunk(Arena* arena, u32 index, usize bytes) {
  // relaxed: a chunk that changes hands meanwhile is safe either way, both paths claim first.
  switch (arena->chunks[index].use.load(relaxed)) {
    case ChunkUse::spans:
      return purge_slots_of(arena, index, bytes);
    case ChunkUse::none:
      return purge_free_chunk(arena, index, bytes);
    default:
      return 0;
  }
}

// How far a purge may still go.
struct Budget {
  usize bytes;
  u32 chunks;
  u32 groups;
};

usize purge_group(Arena* arena, u32 group, Budget& budget) {
  usize done = 0;
  // relaxed: a hint; each claim decides.
  for (u64 chunks = arena->groups[group].dirty.load(relaxed); chunks != 0 && budget.bytes > 0 && budget.chunks > 0;) {
    const u32 bit = highest_bit(chunks);
    chunks &= ~(u64{1} << bit);
    const u32 index = group * kChunksPerGroup + bit;
    const usize got = purge_chunk(arena, index, budget.bytes);
    done += got;
    budget.bytes -= got < budget.bytes ? got : budget.bytes;
    budget.chunks -= 1;
    const Chunk& chunk = arena->chunks[index];
    // relaxed: as above. A huge page may have brought in slots that are free and not dirty.
    const bool huge = chunk.huge.get() != 0 && chunk.free.load(relaxed) != 0;
    if (chunk.dirty.load(relaxed) == 0 && !huge) forget_dirty(arena, index);
  }
  return done;
}

u32 groups_of(const Arena& arena) {
  return static_cast<u32>(divide_up(arena.highest_chunk.load(relaxed), kChunksPerGroup));  // relaxed: a hint
}

// Walks over the groups from the highest to the lowest, all arenas in one row.
usize purge_from_top(Budget budget) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  u32 groups = 0;
  for (u32 i = 0; i < arenas; ++i) groups += groups_of(g_arenas.arenas[i]);
  const u32 next = g_next_group.load(relaxed);  // relaxed, here and below: only a place to start
  u32 at = next != 0 && next < groups ? next : groups;
  u32 first = groups;  // number of the arena's first group
  usize done = 0;
  for (u32 i = arenas; i-- > 0;) {
    Arena* arena = &g_arenas.arenas[i];
    const u32 here = groups_of(*arena);
    first -= here < first ? here : first;
    for (; at > first && budget.bytes > 0 && budget.chunks > 0 && budget.groups > 0; --at, --budget.groups) {
      done += purge_group(arena, at - 1 - first, budget);
    }
  }
  // Not all was found in what was looked at: the next call goes on there, so that a chunk whose pages the kernel keeps
  // does not hide those below it.
  g_next_group.store(budget.bytes > 0 ? at : 0, relaxed);
  return done;
}

}  // namespace

usize purge_free(usize bytes) {
  g_next_group.store(0, relaxed);  // relaxed: only a place to start
  return purge_from_top({bytes, ~u32{0}, ~u32{0}});
}

void purge_after(usize bytes) {
  // relaxed, here and below: figures that may be a little late.
  const usize dirty = counters().dirty.load(relaxed);
  if (COFFER_LIKELY(dirty <= least_free_limit())) return;
  const usize option = config::options().free_limit;
  if (dirty <= option && !limit_pressure()) return;
  if (dirty > option + kFreeBatch) want_reclaimer();
  const u64 began = tick_began();
  const bool ends = !reclaimer_lives() && tick_is_over(began);
  const usize limit = ends ? next_free_limit(held_now()) : free_limit();
  const usize batch = limit / 32 < kFreeBatch ? limit / 32 : kFreeBatch;
  if (dirty > limit + batch) {
    const usize most = 2 * bytes + kFreeBatch;
    const u32 chunks = kChunksPerVisit + static_cast<u32>(bytes / kChunkBytes * 2);
    purge_from_top({dirty - limit < most ? dirty - limit : most, chunks, kGroupsPerVisit});
  } else if (ends) {
    end_tick(began);
  }
}

bool begin_sweep() {
  g_held_at_begin = held_now();
  return false;
}

bool purge_what_waits() {
  const usize now = held_now();
  const usize held = now < g_held_at_begin ? g_held_at_begin : now;
  const usize keep = is_quiet(held) ? least_free_limit() : next_free_limit(held);
  const usize dirty = counters().dirty.load(relaxed);  // relaxed: as above
  const usize done = dirty > keep ? purge_free(dirty - keep) : 0;
  end_tick(tick_began());
  // Where the kernel refuses, waiting does not help.
  return dirty > done + config::options().free_limit + kFreeBatch && (done != 0 || dirty <= keep);
}

}  // namespace coffer
