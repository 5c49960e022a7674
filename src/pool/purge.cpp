// SPDX-License-Identifier: MIT
// Giving the physical memory of free slices and chunks back to the kernel. A purge claims slices exactly as an
// allocation does, so there is no list to take them out of, and nobody waits while the kernel works.
#include "arena/each.hpp"
#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/huge_pages.hpp"
#include "pool/limit.hpp"
#include "pool/reclaimer.hpp"
#include "pool/room_map.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {

namespace {

// Where the next purge starts (walk_down), if the last one did not get what it wanted from the chunks above.
Atomic<u32> g_next;

usize g_held_at_begin;  // of the sweep; plain: one thread at a time is at the chores

// Purges the runs of set bits of `slices`; returns the bits for which the kernel refused.
u64 purge_runs(Arena* arena, u32 index, u64 slices) {
  u64 refused = 0;
  while (slices != 0) {
    const u32 bit = lowest_bit(slices);
    const u64 rest = ~(slices >> bit);
    const u32 length = rest != 0 ? lowest_bit(rest) : kSlicesPerChunk;
    const u64 mask = low_mask(length) << bit;
    // Where a page is larger than a slice, only whole pages can go.
    const uptr start = chunk_address(arena, index) + bit * kSliceBytes;
    const uptr from = round_up(start, os::page_size());
    const uptr to = round_down(start + length * kSliceBytes, os::page_size());
    const bool whole = from == start && to == start + length * kSliceBytes;
    const bool purged = from < to && give_back_pages(reinterpret_cast<void*>(from), to - from);
    if (!purged || !whole) refused |= mask;
    if (purged) give_back_unit_maps(arena, index * kSlicesPerChunk + bit, length);
    slices &= ~mask;
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

// Which of these slices a purge takes: so many bytes of dirty ones, the highest; and, for nothing, what a huge page
// brought in and nobody used, for it is one no longer then.
u64 choose(const Chunk& chunk, u64 free, u64 dirty, usize bytes) {
  const u64 unused = chunk.huge.get() != 0 ? free & ~dirty : 0;
  return highest_bits(free & dirty, divide_up(bytes, kSliceBytes)) | unused;
}

// Of slices that are the caller's: those are clean now. Until then they count as free memory, however slow the kernel
// is: others would else take as much, and all of it would be free in the end.
usize count_clean(Chunk& chunk, u64 clean) {
  // relaxed, both: published with the slices, and counted for a limit that may be late.
  const usize done = count_bits(chunk.dirty.fetch_and(~clean, relaxed) & clean) * kSliceBytes;
  counters().dirty.fetch_sub(done, relaxed);
  uncharge(done);
  return done;
}

usize purge_slices_of(Arena* arena, u32 index, usize bytes) {
  Chunk& chunk = arena->chunks[index];
  u64 free = chunk.free.load(relaxed);  // relaxed, both: the CAS below checks it; dirty is a hint
  u64 claim = 0;
  do {
    claim = choose(chunk, free, chunk.dirty.load(relaxed), bytes);
    if (claim == 0) return 0;
    // acquire: pairs with the release in slice_pool's put_back, as every claim does.
  } while (!chunk.free.compare_exchange(free, free & ~claim, acquire, relaxed));
  forbid_huge(arena, index);
  const usize done = count_clean(chunk, claim & ~purge_runs(arena, index, claim));
  // release: pairs with the acquire of later claims; seq_cst for room_map.
  const u64 before = chunk.free.fetch_or(claim, seq_cst);
  note_room(arena, index, before | claim);
  return done;
}

// A chunk that nobody holds: take it, purge it, give it back.
usize purge_free_chunk(Arena* arena, u32 index, usize bytes) {
  if (!claim_free_chunk(arena, index)) return 0;
  Chunk& chunk = arena->chunks[index];
  const u64 dirty = chunk.dirty.load(relaxed);  // relaxed: claimed under the lock that its last holder released
  const u64 chosen = choose(chunk, ~u64{0}, dirty, bytes);
  const bool whole = (dirty & ~chosen) == 0;
  if (chosen != 0) forbid_huge(arena, index);
  const bool renewed = whole && chunk.moved.get() != 0 && unmark_moved(arena, index, 1);
  const usize done = count_clean(chunk, renewed ? chosen : chosen & ~purge_runs(arena, index, chosen));
  return_counted_chunk(arena, index);
  return done;
}

usize purge_chunk(Arena* arena, u32 index, usize bytes) {
  // relaxed: a chunk that changes hands meanwhile is safe either way, both paths claim first.
  switch (arena->chunks[index].use.load(relaxed)) {
    case ChunkUse::spans:
      return purge_slices_of(arena, index, bytes);
    case ChunkUse::none:
      return purge_free_chunk(arena, index, bytes);
    default:
      return 0;
  }
}

usize purge_from_top(usize bytes, u32 looks) {
  if (bytes == 0) return 0;
  usize done = 0;
  // relaxed, all here: hints; each claim decides.
  const u32 at = walk_down(
      g_next.load(relaxed), looks, [](const Group& group) { return group.dirty.load(relaxed); },
      [&](Arena* arena, u32 index) {
        done += purge_chunk(arena, index, bytes - done);
        if (arena->chunks[index].dirty.load(relaxed) == 0) forget_dirty(arena, index);
        return done < bytes;
      });
  // Not all was found in what was looked at: the next call goes on there, so that chunks whose pages the kernel keeps,
  // or that have nothing to give, do not hide those below them.
  g_next.store(done < bytes ? at : 0, relaxed);
  return done;
}

}  // namespace

usize purge_free(usize bytes) {
  g_next.store(0, relaxed);  // relaxed: only a place to start
  return purge_from_top(bytes, ~u32{0});
}

void purge_after(usize bytes) {
  // relaxed, here and below: figures that may be a little late.
  const usize dirty = counters().dirty.load(relaxed);
  const usize option = config::options().free_limit;
  if (COFFER_LIKELY(!calls_sweep())) {
    if (COFFER_LIKELY(dirty <= least_free_limit())) return;
    if (dirty <= option && !limit_pressure()) return;
  }
  if (dirty > option + kFreeBatch) want_reclaimer();
  const u64 began = tick_began();
  const bool ends = !reclaimer_lives() && tick_is_over(began);
  const usize limit = ends ? next_free_limit(held_now()) : free_limit();
  const usize batch = limit / 32 < kFreeBatch ? limit / 32 : kFreeBatch;
  if (dirty > limit + batch) {
    const usize most = 2 * bytes + kFreeBatch;
    const u32 looks = kStepLooks * (1 + static_cast<u32>(bytes / kChunkBytes));
    purge_from_top(dirty - limit < most ? dirty - limit : most, looks);
  } else if (ends && sweep_step()) {
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
