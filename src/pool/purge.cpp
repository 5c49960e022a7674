// Giving the physical memory of free slots and chunks back to the kernel. A purge claims slots exactly as an allocation
// does, so there is no list to take them out of, and nobody waits while the kernel works.
#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "pool/room_map.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

namespace {

constexpr usize kPurgeFloor =
    64 * kCarvePage;                 // docs/architecture.md, "Physical memory": twice what was freed, plus 64 pages
constexpr u32 kChunksPerVisit = 16;  // chunks one call looks at, at most, when it is not a full trim

constexpr u64 kPeakHalfLifeNs = 250'000'000;  // docs/architecture.md, "Physical memory"

// The highest held bytes seen of late, and when: halved every kPeakHalfLifeNs.
Atomic<usize> g_recent_peak;
Atomic<u64> g_recent_peak_time;

Atomic<u32> g_cursor;  // where the next purge starts, in chunks over all arenas

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

// A huge page would be split by a purge of part of it and put together again by the kernel later: off first.
void forbid_huge(Arena* arena, u32 index) {
  Chunk& chunk = arena->chunks[index];
  if (chunk.huge.get() == 0) return;
  os::advise_huge_pages(reinterpret_cast<void*>(chunk_address(arena, index)), kChunkBytes, os::HugePages::forbid);
  chunk.huge.set(0);
}

u64 lowest_bits(u64 word, usize count) {
  u64 kept = 0;
  for (; count > 0 && word != 0; --count) {
    kept |= word & -word;
    word &= word - 1;
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
    claim = lowest_bits(free & resident, divide_up(bytes, kSlotBytes));
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
usize purge_free_chunk(Arena* arena, u32 index) {
  // relaxed: a hint; the claim decides.
  if (arena->chunks[index].dirty.load(relaxed) == 0) return 0;
  ChunkRun run;
  if (!take_chunks_at(arena, index, 1, &run)) return 0;
  forbid_huge(arena, index);
  const bool purged = run.fresh || os::purge(reinterpret_cast<void*>(chunk_address(arena, index)), kChunkBytes);
  return_chunks(arena, index, 1, !purged);
  if (!purged || run.fresh) return 0;
  uncharge(kChunkBytes);
  return kChunkBytes;
}

usize purge_chunk(Arena* arena, u32 index, usize bytes) {
  // relaxed: a chunk that changes hands meanwhile is safe either way, both paths claim first.
  switch (arena->chunks[index].use.load(relaxed)) {
    case ChunkUse::spans:
      return purge_slots_of(arena, index, bytes);
    case ChunkUse::none:
      return purge_free_chunk(arena, index);
    default:
      return 0;
  }
}

usize purge_from_cursor(usize bytes, u32 visits) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  u32 total = 0;
  for (u32 i = 0; i < arenas; ++i) total += g_arenas.arenas[i].highest_chunk.load(relaxed);  // relaxed: hints
  if (total == 0) return 0;
  usize done = 0;
  for (u32 visited = 0; visited < visits && visited < total && done < bytes; ++visited) {
    u32 at = g_cursor.load(relaxed) % total;  // relaxed: only a place to start
    const u32 arena_visit = at;
    for (u32 i = 0; i < arenas; ++i) {
      const u32 here = g_arenas.arenas[i].highest_chunk.load(relaxed);
      if (at < here) {
        done += purge_chunk(&g_arenas.arenas[i], at, bytes - done);
        break;
      }
      at -= here;
    }
    if (done < bytes) g_cursor.store(arena_visit + 1, relaxed);  // a chunk with more to give is visited again
  }
  return done;
}

// What may stay resident in any case.
usize least_free_limit() {
  const usize option = config::options().free_limit;
  return option < kPressureFloor ? option : kPressureFloor;
}

}  // namespace

usize purge_free(usize bytes) { return purge_from_cursor(bytes, ~u32{0}); }

usize free_limit(usize freed) {
  // relaxed, all: a limit may be late, and a lost update of the peak is made good by the next free.
  const usize now = counters().held.load(relaxed) + freed;
  const u64 time = os::monotonic_ns();
  const u64 peak_time = g_recent_peak_time.load(relaxed);
  const u64 since = time > peak_time ? time - peak_time : 0;  // another thread may have stored a later time
  const u64 halvings = since / kPeakHalfLifeNs;
  usize peak = halvings < 64 ? g_recent_peak.load(relaxed) >> halvings : 0;
  if (now >= peak) {
    peak = now;
    g_recent_peak.store(now, relaxed);
    g_recent_peak_time.store(time, relaxed);
  } else {
    // Between two halvings the decay is linear.
    peak -= peak / 2 * (since % kPeakHalfLifeNs / 1000) / (kPeakHalfLifeNs / 1000);
  }
  if (limit_pressure()) return least_free_limit();
  return config::options().free_limit + (peak > now ? peak : now) / 8;
}

void purge_after_free(usize freed) {
  const usize dirty = counters().dirty.load(relaxed);  // relaxed: judged at each free, and may be a little late
  if (COFFER_LIKELY(dirty <= least_free_limit())) return;
  if (dirty <= config::options().free_limit && !limit_pressure()) return;
  const usize limit = free_limit(freed);
  if (dirty <= limit) return;
  const usize most = 2 * freed + kPurgeFloor;
  const usize over = dirty - limit;
  purge_from_cursor(over < most ? over : most, kChunksPerVisit);
}

}  // namespace coffer
