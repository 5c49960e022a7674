// SPDX-License-Identifier: MIT
// Model: models/chunk_word.pml.
#include "pool/slice_pool.hpp"

#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/taken.hpp"
#include "pool/age.hpp"
#include "pool/huge_pages.hpp"
#include "pool/limit.hpp"
#include "pool/room_map.hpp"

namespace coffer {

namespace {

u32 g_shards = 1;

// The chunk of a shard at which the search for a resident run of so many slices begins: 1 + its index in the first
// arena; 0 begins at the first chunk. It is the chunk in which the last run was found, or a lower one in which a run
// was released since. So a program that takes and releases dozens of runs looks at one chunk for each, and not again at
// lower chunks that have none left. Hints, which may be stale: the claim decides. A run that came about in a lower
// chunk by the joining of neighbours is found when no higher chunk has one.
struct alignas(kCacheLine) Lowest {
  Atomic<u32> chunk[kMostSlices + 1];
};
Lowest g_lowest[kMaxShards];

// How a claim ended: a lost race means that others work on the same chunk.
enum class Claim : u8 { got, none, lost };

u64 residue_mask(u32 shard) { return aligned_positions(g_shards) << (shard & (g_shards - 1)); }

// Takes the dirty bits of claimed slices. They count as free until they are counted as held (slices_rise).
u64 take_dirty(Chunk& chunk, u64 mask) {
  // relaxed: the releaser set dirty before its release of free, which the claim acquired.
  const u64 dirty = chunk.dirty.load(relaxed) & mask;
  if (dirty != 0) chunk.dirty.fetch_and(~mask, relaxed);
  return dirty;
}

struct Start {
  u32 bit;
  u32 dirty;  // slices of the run that hold old data
};

// Of the runs of `count` slices that begin at these bits, the one of which most is dirty, the lowest of several.
Start most_resident(u64 starts, u64 dirty, u32 count) {
  Start best = {lowest_bit(starts), 0};
  for (; starts != 0 && dirty != 0; starts &= starts - 1) {
    const u32 bit = lowest_bit(starts);
    const u32 here = count_bits(dirty & low_mask(count) << bit);
    if (here > best.dirty) best = {bit, here};
  }
  return best;
}

Claim claim_in_chunk(Arena* arena, u32 index, u32 count, u32 alignment, bool dirty_only, SliceRun* run) {
  Chunk& chunk = arena->chunks[index];
  const u64 positions = aligned_positions(alignment);
  u64 free = chunk.free.load(relaxed);  // relaxed: the CAS below checks it
  for (int lost = 0;; ++lost) {
    // Slices that are resident already come first: they cost no page fault and leave others unbacked.
    const u64 resident = free & chunk.dirty.load(relaxed);
    u64 starts = run_starts(resident, count) & positions;
    const bool in_part = starts == 0 && !dirty_only;
    if (in_part) starts = run_starts(free, count) & positions;
    if (starts == 0) return Claim::none;
    const u32 bit = in_part ? most_resident(starts, resident, count).bit : lowest_bit(starts);
    const u64 mask = low_mask(count) << bit;
    // acquire: pairs with the release in put_back, by whoever used these slices before.
    if (chunk.free.compare_exchange(free, free & ~mask, acquire, relaxed)) {
      *run = {arena, index * kSlicesPerChunk + bit, count, take_dirty(chunk, mask) >> bit};
      return Claim::got;
    }
    if (lost >= 2) return Claim::lost;
  }
}

// What is dirty counts as free already.
void put_back(Arena* arena, u32 index, u64 mask, u64 dirty) {
  Chunk& chunk = arena->chunks[index];
  // seq_cst: see note_dirty. Published to claims by the release below.
  if (dirty != 0) chunk.dirty.fetch_or(dirty, seq_cst);
  // A huge page brings in slices that nobody ever used.
  if (dirty != 0 || chunk.huge.get() != 0) note_dirty(arena, index);
  // release: pairs with the acquire in claim_in_chunk. seq_cst: also the first half of room_map's argument.
  const u64 before = chunk.free.fetch_or(mask, seq_cst);
  note_room(arena, index, before | mask);
}

// How many slices of a free run of `count` are resident in this chunk, at most.
u32 most_resident_in(const Chunk& chunk, u32 count) {
  const u64 free = chunk.free.load(relaxed);  // relaxed, both: a preference; the claim decides
  const u64 dirty = free & chunk.dirty.load(relaxed);
  if (count_bits(dirty) <= count / 2) return 0;
  const u64 starts = run_starts(free, count);
  return starts != 0 ? most_resident(starts, dirty, count).dirty : 0;
}

// A run that is resident already, in one of the first chunks with room: where runs come and go, taking fresh slices
// instead would let the process grow by what is free in other shards' chunks, and turn every large run into a purge and
// as many page faults.
//
// A run of which more than half is resident will do; it may lie anywhere in its chunk, and not only where the map of
// room knows of an aligned run of the next power of two.
bool search_dirty(u32 count, u32 alignment, u64 residues, u32 from, SliceRun* run) {
  // relaxed: whether it is worth looking.
  if (counters().dirty.load(relaxed) < count * kSliceBytes) return false;
  const bool anywhere = alignment <= 1;
  const u32 order = anywhere ? order_inside(count) : order_of(count > alignment ? count : alignment);
  Arena* arena = &g_arenas.arenas[0];
  u32 chunk = next_with_room(arena, order, residues, from);
  u32 best = arena->chunk_count;
  u32 most = count / 2;
  for (u32 looked = 0; looked < kDirtyLooks && chunk < arena->chunk_count; ++looked) {
    if (claim_in_chunk(arena, chunk, count, alignment, true, run) == Claim::got) return true;
    const u32 here = anywhere ? most_resident_in(arena->chunks[chunk], count) : 0;
    if (here > most) {
      most = here;
      best = chunk;
    }
    chunk = next_with_room(arena, order, residues, chunk + 1);
  }
  return best != arena->chunk_count && claim_in_chunk(arena, best, count, alignment, false, run) == Claim::got;
}

// As search_dirty, first in the shard's own chunks, so that threads of two processors do not claim in one.
bool search_lowest(u32 count, u32 alignment, u32 shard, SliceRun* run) {
  const u64 own = residue_mask(shard);
  Atomic<u32>& lowest = g_lowest[shard & (g_shards - 1)].chunk[count];
  const u32 before = lowest.load(relaxed);  // relaxed, all: a hint
  bool found = search_dirty(count, alignment, own, before != 0 ? before - 1 : 0, run);
  if (!found && before != 0) found = search_dirty(count, alignment, own, 0, run);
  // A run that is resident in part only was the best of many: the next one, too, should be.
  const u32 now = found && run->dirty == low_mask(count) ? run->slice / kSlicesPerChunk + 1 : 0;
  if (now != before) lowest.store(now, relaxed);
  return found || (~own != 0 && search_dirty(count, alignment, ~own, 0, run));
}

// A resident run of so many slices was given back. It may be longer than any run that is taken: neighbours joined while
// they were kept (exchange/kept_slices.hpp).
void note_lowest(const Arena* arena, u32 chunk, u32 count) {
  if (arena != &g_arenas.arenas[0]) return;
  Lowest& lowest = g_lowest[chunk & (g_shards - 1)];
  for (u32 slices = 1; slices <= count && slices <= kMostSlices; ++slices) {
    // relaxed, both: a hint.
    if (lowest.chunk[slices].load(relaxed) > chunk + 1) lowest.chunk[slices].store(chunk + 1, relaxed);
  }
}

// Calls attempt(arena, chunk) for the chunks that may have room of the order, in all arenas; true: it told to stop.
template <class Attempt>
bool for_each_roomy(u32 order, u64 residues, Attempt&& attempt) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 i = 0; i < arenas; ++i) {
    Arena* arena = &g_arenas.arenas[i];
    for (u32 chunk = next_with_room(arena, order, residues, 0); chunk < arena->chunk_count;
         chunk = next_with_room(arena, order, residues, chunk + 1)) {
      if (attempt(arena, chunk)) return true;
    }
  }
  return false;
}

bool search(u32 count, u32 alignment, u64 residues, SliceRun* run, bool* contended) {
  const u32 order = order_of(count > alignment ? count : alignment);
  Claim claim = Claim::none;
  for_each_roomy(order, residues, [&](Arena* arena, u32 chunk) {
    claim = claim_in_chunk(arena, chunk, count, alignment, false, run);
    if (claim == Claim::none) note_no_room(arena, chunk, order);
    return claim != Claim::none;
  });
  if (claim == Claim::lost) *contended = true;
  return claim == Claim::got;
}

// The map of room knows aligned runs only; a run that lies across their borders holds a smaller one, and is found by
// that. A walk over all chunks with that little room, so only when nothing else is left.
bool search_across(u32 count, u32 alignment, SliceRun* run, bool* contended) {
  return for_each_roomy(order_inside(count), ~u64{0}, [&](Arena* arena, u32 chunk) {
    const Claim claim = claim_in_chunk(arena, chunk, count, alignment, false, run);
    if (claim == Claim::lost) *contended = true;
    return claim == Claim::got;
  });
}

// A new chunk for slices; the run is taken from it before others can see it.
bool claim_new_chunk(u32 count, u32 shard, SliceRun* run) {
  ChunkRun got;
  if (!take_chunk(shard & (g_shards - 1), g_shards, &got)) return false;
  Chunk& chunk = got.arena->chunks[got.index];
  advise_slices(got.arena, got.index);
  const u64 mask = low_mask(count);
  chunk.use.store(ChunkUse::spans, relaxed);  // relaxed: published by the free word
  *run = {got.arena, got.index * kSlicesPerChunk, count, got.dirty_slices & mask};
  // relaxed: a limit that may be late. All of it counts as free as yet (take_dirty).
  if (got.dirty_slices != 0) counters().dirty.fetch_add(count_bits(got.dirty_slices) * kSliceBytes, relaxed);
  put_back(got.arena, got.index, ~mask, got.dirty_slices & ~mask);
  relieve_pressure(kChunkBytes);
  return true;
}

bool find_slices(u32 count, u32 alignment, u32 shard, SliceRun* run) {
  const u64 own = residue_mask(shard);
  bool contended = false;
  if (search_lowest(count, alignment, shard, run) || search(count, alignment, own, run, &contended) ||
      (!contended && search(count, alignment, ~own, run, &contended)) || claim_new_chunk(count, shard, run)) {
    return true;
  }
  // No new chunk can be had: contention is no reason to fail. Lost races end: each is another's win.
  do {
    contended = false;
    if (search(count, alignment, ~u64{0}, run, &contended)) return true;
    if (search_across(count, alignment, run, &contended)) return true;
  } while (contended);
  return false;
}

usize dirty_bytes(u64 dirty) { return count_bits(dirty) * kSliceBytes; }
usize clean_bytes(u32 count, u64 dirty) { return count * kSliceBytes - dirty_bytes(dirty); }

void put_back_run(const SliceRun& run) {
  const u32 bit = run.slice % kSlicesPerChunk;
  put_back(run.arena, run.slice / kSlicesPerChunk, low_mask(run.count) << bit, run.dirty << bit);
}

// Charges what of a claimed run is not charged as free memory yet. At the limit a run that is resident already does as
// well, and costs nothing; only then is free memory purged. false: the run was put back.
bool pay_for(SliceRun* run, u32 alignment) {
  const usize bytes = clean_bytes(run->count, run->dirty);
  if (charge(bytes)) return true;
  SliceRun resident;
  if (search_dirty(run->count, alignment, ~u64{0}, 0, &resident)) {
    if (clean_bytes(resident.count, resident.dirty) == 0) {
      put_back_run(*run);
      *run = resident;
      return true;
    }
    put_back_run(resident);  // resident in part only, or purged between look and claim
  }
  if (charge_or_purge(bytes, dirty_bytes(run->dirty))) return true;
  put_back_run(*run);
  return false;
}

}  // namespace

void return_empty_chunks() {
  // The order of half a chunk, the largest of the map.
  for_each_roomy(kOrders - 1, ~u64{0}, [&](Arena* arena, u32 index) {
    Chunk& chunk = arena->chunks[index];
    u64 free = ~u64{0};
    // relaxed, here and below: a chunk that is missed is no loss, and the claim decides.
    // acquire: pairs with the release in put_back; from here on nobody else can use the chunk.
    if (chunk.use.load(relaxed) != ChunkUse::spans || !chunk.free.compare_exchange(free, 0, acquire, relaxed)) {
      return false;
    }
    return_counted_chunk(arena, index);
    return false;
  });
}

void slice_pool_start(u32 shards) {
  g_shards = 1;
  while (g_shards < shards && g_shards < kMaxShards) g_shards *= 2;
  g_turn_cells.set(g_shards);
  for (Lowest& lowest : g_lowest) {
    for (Atomic<u32>& chunk : lowest.chunk) {
      if (chunk.load(relaxed) != 0) chunk.store(0, relaxed);  // relaxed: before any other call
    }
  }
}

u32 shard_count() { return g_shards; }

u32 current_shard() { return g_shards == 1 ? 0 : os::current_processor() & (g_shards - 1); }

SliceRun acquire_slices(u32 count, u32 alignment, u32 shard) {
  SliceRun run;
  // Under a limit, a new chunk may fail for want of metadata: then once more with room.
  const bool found =
      find_slices(count, alignment, shard, &run) || (make_room() && find_slices(count, alignment, shard, &run));
  if (!found || !pay_for(&run, alignment)) return {};
  slices_rise(run.slice / kSlicesPerChunk, run.count * kSliceBytes, count_bits(run.dirty) * kSliceBytes);
  // Resident slices, too: they may have become so before the program asked for locked memory.
  os::keep_locked(reinterpret_cast<void*>(run.arena->base + uptr{run.slice} * kSliceBytes), count * kSliceBytes);
  if (run.dirty != low_mask(count)) purge_after(clean_bytes(count, run.dirty));
  note_peak();
  return run;
}

bool is_lowest(const Span* chunk, u32 count) {
  const usize slice = slice_in_first(chunk);
  const u32 index = static_cast<u32>(slice / kSlicesPerChunk);
  // relaxed: a hint. The hints are of the first arena.
  return slice < slices_of_first() && index < g_lowest[index & (g_shards - 1)].chunk[count].load(relaxed);
}

bool acquire_slices_at(Arena* arena, u32 slice, u32 count, u64* dirty) {
  const u32 bit = slice % kSlicesPerChunk;
  if (bit == 0 || bit + count > kSlicesPerChunk) return false;
  Chunk& chunk = arena->chunks[slice / kSlicesPerChunk];
  const u64 mask = low_mask(count) << bit;
  u64 free = chunk.free.load(relaxed);  // relaxed: the CAS below checks it
  do {
    if ((free & mask) != mask) return false;
    // acquire: pairs with the release in put_back.
  } while (!chunk.free.compare_exchange(free, free & ~mask, acquire, relaxed));
  *dirty = take_dirty(chunk, mask) >> bit;
  if (!charge_or_purge(clean_bytes(count, *dirty), dirty_bytes(*dirty))) {
    put_back(arena, slice / kSlicesPerChunk, mask, *dirty << bit);
    return false;
  }
  slices_rise(slice / kSlicesPerChunk, count * kSliceBytes, count_bits(*dirty) * kSliceBytes);
  if (*dirty != low_mask(count)) purge_after(clean_bytes(count, *dirty));
  return true;
}

void release_slices(Arena* arena, u32 slice, u32 count, u64 dirty) {
  const u32 bit = slice % kSlicesPerChunk;
  slices_fall(slice / kSlicesPerChunk, count * kSliceBytes, count_bits(dirty) * kSliceBytes);
  put_back(arena, slice / kSlicesPerChunk, low_mask(count) << bit, dirty << bit);
  if (dirty != 0) note_lowest(arena, slice / kSlicesPerChunk, count);
  uncharge(clean_bytes(count, dirty));
  purge_after(count * kSliceBytes);
}

}  // namespace coffer
