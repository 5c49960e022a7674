// SPDX-License-Identifier: MIT
#include "arena/arena.hpp"

#include "arena/find.hpp"
#include "arena/reservation.hpp"
#include "budget/budget.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/taken.hpp"

namespace coffer {

ArenaTable g_arenas;

namespace {

Atomic<u32> g_moved;  // chunks that are marked as moved

// Sets or clears the taken bits of a range; returns whether all of it was committed before.
bool mark_range(Arena* arena, u32 index, u32 count, bool taken) {
  bool committed = true;
  for (u32 chunk = index; chunk < index + count;) {
    Group& group = arena->groups[chunk / kChunksPerGroup];
    const u32 bit = chunk % kChunksPerGroup;
    const u32 here = kChunksPerGroup - bit < index + count - chunk ? kChunksPerGroup - bit : index + count - chunk;
    const u64 mask = low_mask(here) << bit;
    committed = committed && (group.committed.get() & mask) == mask;
    group.taken.set(taken ? group.taken.get() | mask : group.taken.get() & ~mask);
    chunk += here;
  }
  return committed;
}

void mark_committed(Arena* arena, u32 index, u32 count) {
  usize added = 0;
  for (u32 chunk = index; chunk < index + count; ++chunk) {
    Group& group = arena->groups[chunk / kChunksPerGroup];
    const u64 bit = u64{1} << (chunk % kChunksPerGroup);
    if ((group.committed.get() & bit) == 0) added += 1;
    group.committed.set(group.committed.get() | bit);
  }
  counters().committed.fetch_add(added * kChunkBytes, relaxed);  // relaxed: statistics
  counters().chunks.fetch_add(added, relaxed);
}

void raise_lowest_group(Arena* arena) {
  // relaxed: under the lock.
  while (usize{arena->lowest_free_group} * kChunksPerGroup * kChunkBytes < arena->frontier.load(relaxed) &&
         arena->groups[arena->lowest_free_group].taken.get() == ~u64{0}) {
    arena->lowest_free_group += 1;
  }
}

// Chunks that were made writable before they are claimed.
struct Prepared {
  u32 from = 0, end = 0;
  bool covers(u32 index, u32 count) const { return from <= index && index + count <= end; }
};

bool claim_range(Arena* arena, u32 index, u32 count, const Prepared& prepared, bool* committed) {
  if (!advance_frontier(arena, index + count)) return false;
  // relaxed: written under the lock; walks read it without and may miss the newest chunk.
  if (index + count > arena->highest_chunk.load(relaxed)) arena->highest_chunk.store(index + count, relaxed);
  compiler_fence();  // the walk of a fork child comes by every chunk that is taken
  if (prepared.covers(index, count)) mark_committed(arena, prepared.from, prepared.end - prepared.from);
  *committed = mark_range(arena, index, count, true);
  raise_lowest_group(arena);
  return true;
}

void unclaim_range(Arena* arena, u32 index, u32 count) {
  LockGuard guard(arena->lock);
  mark_range(arena, index, count, false);
  if (index / kChunksPerGroup < arena->lowest_free_group) arena->lowest_free_group = index / kChunksPerGroup;
}

// The end of a claimed range's time as free memory: its dirty bytes are no longer free ones, but stay charged.
void absorb_dirty(ChunkRun* run) {
  run->dirty = 0;
  run->dirty_slices = run->arena->chunks[run->index].dirty.load(relaxed);  // relaxed: as below
  for (u32 chunk = run->index; chunk < run->index + run->count; ++chunk) {
    Chunk& record = run->arena->chunks[chunk];
    // relaxed: the range was claimed under the lock that its last holder released.
    const u64 dirty = record.dirty.load(relaxed);
    run->last_dirty = dirty != 0;
    if (dirty == 0) continue;
    record.dirty.store(0, relaxed);
    run->dirty += count_bits(dirty) * kSliceBytes;
  }
  if (run->dirty != 0) counters().dirty.fetch_sub(run->dirty, relaxed);  // relaxed: a limit that may be late
  run->fresh = run->dirty == 0;
}

// A chunk of the caller's serves nobody. relaxed: published to the next holder by the arena's lock, which unclaim_range
// takes. Stored only where it changes something, so that the records of a vast block that nobody touched stay unbacked.
void unuse(Chunk& record) {
  if (record.use.load(relaxed) != ChunkUse::none) record.use.store(ChunkUse::none, relaxed);
  if (record.free.load(relaxed) != 0) record.free.store(0, relaxed);
}

// Describes a chunk of the caller's as free, with these slices dirty.
void describe_free(Arena* arena, u32 chunk, u64 dirty) {
  Chunk& record = arena->chunks[chunk];
  unuse(record);
  // seq_cst: see note_dirty.
  if (record.dirty.load(relaxed) != dirty) record.dirty.store(dirty, seq_cst);
  if (dirty == 0 && record.huge.get() == 0) return;
  note_dirty(arena, chunk);
  counters().dirty.fetch_add(count_bits(dirty) * kSliceBytes, relaxed);  // relaxed: see absorb_dirty
}

bool commit_chunks(Arena* arena, u32 index, u32 count, Prepared* prepared) {
  // relaxed: statistics, read to judge a limit of the whole process.
  const usize used = counters().committed.load(relaxed) + counters().metadata.load(relaxed);
  const usize reserved = counters().reserved.load(relaxed);
  if (!os::limit_allows(usize{count} * kChunkBytes, reserved > used ? reserved - used : 0)) return false;
  if (!os::commit(reinterpret_cast<void*>(chunk_address(arena, index)), usize{count} * kChunkBytes)) return false;
  *prepared = {index, index + count};
  return true;
}

bool is_committed(const Arena* arena, u32 chunk) {
  // acquire: pairs with the release in advance_frontier; the group's record can be read.
  if (usize{chunk} * kChunkBytes >= arena->frontier.load(acquire)) return false;
  return (arena->groups[chunk / kChunksPerGroup].committed.get() >> (chunk % kChunksPerGroup) & 1) != 0;
}

// Chunks are committed together with their neighbours in an aligned window that grows with the arena, up to half of it
// and to a group: fewer calls, each of which stops the page faults of all threads, and fewer mappings. Neighbours that
// are backed before they are one mapping stay separate for ever, and the kernel allows 65,530. The window ends where
// chunks are committed already: a program may have advised the kernel about its blocks there, and committing takes
// MADV_DONTDUMP away.
bool commit_window(Arena* arena, u32 index, u32 count, Prepared* prepared) {
  // relaxed: a rule of thumb.
  const usize committed = counters().committed.load(relaxed) / kChunkBytes;
  usize window = committed / kCommitShare;
  if (window < count || os::locks_memory()) return false;
  window = window > kChunksPerGroup ? kChunksPerGroup : usize{1} << highest_bit(window);
  const u32 least = static_cast<u32>(round_down(index, window));
  const u32 most = static_cast<u32>(round_up(index + count, window));
  u32 from = index;
  while (from > least && !is_committed(arena, from - 1)) --from;
  u32 end = index + count;
  while (end < most && end < arena->chunk_count && !is_committed(arena, end)) ++end;
  return commit_chunks(arena, from, end - from, prepared);
}

bool prepare_chunks(Arena* arena, u32 index, u32 count, Prepared* prepared) {
  return commit_window(arena, index, count, prepared) || commit_chunks(arena, index, count, prepared);
}

// The claimed range is made writable outside the lock: no other thread can have it.
bool commit_range(ChunkRun* run, bool committed) {
  Arena* arena = run->arena;
  if (!committed) {
    Prepared prepared;
    if (!prepare_chunks(arena, run->index, run->count, &prepared)) {
      unclaim_range(arena, run->index, run->count);
      return false;
    }
    LockGuard guard(arena->lock);
    mark_committed(arena, prepared.from, prepared.end - prepared.from);
  }
  absorb_dirty(run);
  return true;
}

// no_memory: the address space was there, the kernel gave no memory; another arena would not help.
enum class Taken : u8 { got, no_space, no_memory };

// Behind the frontier chunks are made writable before they are claimed, for the claim makes their records writable,
// too, and raises what walks go up to, for ever: a request that the kernel refuses leaves nothing behind. Ends: a round
// more is one in which another thread took the place that was found.
Taken take_in_arena(Arena* arena, const ChunkWish& wish, ChunkRun* run) {
  const u32 count = wish.count;
  Prepared prepared;
  for (;;) {
    u32 index = 0;
    bool claimed = false;
    bool committed = false;
    {
      LockGuard guard(arena->lock);
      index = find_free(arena, wish);
      if (index >= arena->chunk_count) return Taken::no_space;
      index += wish.room;
      const usize end = usize{index + count} * kChunkBytes;
      // relaxed: under the lock.
      claimed = end <= arena->frontier.load(relaxed) || prepared.covers(index, count);
      if (claimed && !claim_range(arena, index, count, prepared, &committed)) return Taken::no_memory;
    }
    *run = {arena, index, count, true};
    if (claimed) return commit_range(run, committed) ? Taken::got : Taken::no_memory;
    if (!prepare_chunks(arena, index, count, &prepared)) return Taken::no_memory;
  }
}

}  // namespace

bool arenas_start(usize wanted) {
  LockGuard guard(g_arenas.growth);
  return make_arena(wanted, kSmallestArena, 0, 1);
}

namespace {

// The kernel refuses chunks at the place that was found: what it gave before may be free at another.
bool take_committed(ChunkWish wish, ChunkRun* run) {
  wish.committed = true;
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 i = 0; i < arenas; ++i) {
    if (take_in_arena(&g_arenas.arenas[i], wish, run) == Taken::got) return true;
  }
  return false;
}

bool take(const ChunkWish& wish, ChunkRun* run) {
  run->refused = false;
  // Ends: every round either returns or has found one arena more than the last, and their number is limited.
  u32 tried = 0;
  for (;;) {
    // acquire: pairs with the release in make_arena.
    const u32 arenas = g_arenas.count.load(acquire);
    for (u32 i = tried; i < arenas; ++i) {
      const Taken taken = take_in_arena(&g_arenas.arenas[i], wish, run);
      if (taken == Taken::got) return true;
      if (taken == Taken::no_memory) {
        if (wish.room == 0 && take_committed(wish, run)) return true;
        run->refused = true;
        return false;
      }
    }
    tried = arenas;
    if (!wish.may_grow) return false;
    LockGuard guard(g_arenas.growth);
    if (g_arenas.count.load(relaxed) != arenas) continue;  // relaxed: under the lock. Someone else made one
    // As large as the first, and large enough; smaller ones only if the kernel refuses.
    usize least = 0;
    if (!checked_multiply(u64{wish.count} + wish.alignment, kChunkBytes, &least)) return false;
    const usize like_first = arenas > 0 ? g_arenas.arenas[0].bytes : kSmallestArena;
    if (!make_arena(like_first > least ? like_first : least, least > kSmallestArena ? least : kSmallestArena,
                    wish.count, wish.alignment)) {
      return false;
    }
  }
}

}  // namespace

bool take_chunks(u32 count, u32 alignment_chunks, bool may_grow, ChunkRun* run) {
  return take({count, alignment_chunks, 0, 0, may_grow}, run);
}

bool take_chunks_with_room(u32 count, u32 room, ChunkRun* run) { return take({count, 1, 0, 0, false, room}, run); }

bool take_chunk(u32 residue, u32 modulus, ChunkRun* run) { return take({1, 1, residue, modulus, true}, run); }

bool take_chunks_at(Arena* arena, u32 index, u32 count, ChunkRun* run) {
  return take_in_arena(arena, {count, 1, 0, 0, false, 0, index + 1}, run) == Taken::got;
}

void return_chunks_partly(Arena* arena, u32 index, u32 count, usize bytes) {
  const u64 slices = divide_up(bytes, kSliceBytes);
  for (u32 i = 0; i < count; ++i) {
    const u64 before = u64{i} * kSlicesPerChunk;
    const u64 here = slices > before ? slices - before : 0;
    describe_free(arena, index + i, low_mask(here < kSlicesPerChunk ? static_cast<u32>(here) : kSlicesPerChunk));
  }
  unclaim_range(arena, index, count);
}

void return_chunks(Arena* arena, u32 index, u32 count, bool resident) {
  return_chunks_partly(arena, index, count, resident ? usize{count} * kChunkBytes : 0);
}

bool claim_free_chunk(Arena* arena, u32 index) {
  LockGuard guard(arena->lock);
  if (!range_is_free(arena, index, 1)) return false;
  mark_range(arena, index, 1, true);
  return true;
}

void return_counted_chunk(Arena* arena, u32 index) {
  unuse(arena->chunks[index]);
  unclaim_range(arena, index, 1);
}

void mark_moved(Arena* arena, u32 index, u32 count) {
  for (u32 chunk = index; chunk < index + count; ++chunk) {
    if (arena->chunks[chunk].moved.get() != 0) continue;
    arena->chunks[chunk].moved.set(1);
    g_moved.fetch_add(1, relaxed);  // relaxed: a limit that may be late
  }
}

bool unmark_moved(Arena* arena, u32 index, u32 count) {
  bool done = true;
  for (u32 chunk = index; chunk < index + count;) {
    u32 length = 0;
    while (chunk + length < index + count && arena->chunks[chunk + length].moved.get() != 0) ++length;
    if (length == 0) {
      ++chunk;
      continue;
    }
    void* start = reinterpret_cast<void*>(chunk_address(arena, chunk));
    const usize bytes = usize{length} * kChunkBytes;
    if (os::remap(start, bytes)) {
      // A mapping merges with its neighbours only if it has their advice and their name.
      os::advise_huge_pages(start, bytes, os::HugePages::forbid);
      os::name_mapping(start, bytes, kArenaName);
      for (u32 i = 0; i < length; ++i) {
        arena->chunks[chunk + i].moved.set(0);
        arena->chunks[chunk + i].huge.set(0);
      }
      g_moved.fetch_sub(length, relaxed);  // relaxed: as above
    } else {
      done = false;
    }
    chunk += length;
  }
  return done;
}

bool arenas_forget_others() {
  bool any = g_arenas.growth.forget_others();
  // relaxed: the child has one thread.
  for (u32 a = 0; a < g_arenas.count.load(relaxed); ++a) any = g_arenas.arenas[a].lock.forget_others() || any;
  return any;
}

void restore_arenas() {
  usize committed = 0;
  // relaxed, all here: the child's other threads wait.
  for (u32 a = 0; a < g_arenas.count.load(relaxed); ++a) {
    Arena& arena = g_arenas.arenas[a];
    const usize frontier = arena.frontier.load(relaxed);
    if (os::has_barrier()) arena.fast_frontier.store(frontier, relaxed);  // as advance_frontier does
    arena.lowest_free_group = 0;                                          // the next who takes chunks raises it
    const usize groups = divide_up(frontier, kChunkBytes * kChunksPerGroup);
    for (usize i = 0; i < groups; ++i) committed += count_bits(arena.groups[i].committed.get());
  }
  counters().committed.store(committed * kChunkBytes, relaxed);
  counters().chunks.store(committed, relaxed);
}

bool many_moved() { return g_moved.load(relaxed) > kMostMoved; }  // relaxed: as above

Arena* arena_of_slow(uptr address) {
  // acquire, twice: pair with the releases in make_arena and advance_frontier.
  const u32 arenas = g_arenas.count.load(acquire);
  for (u32 i = 0; i < arenas; ++i) {
    Arena* arena = &g_arenas.arenas[i];
    if (address - arena->base < arena->frontier.load(acquire)) return arena;
  }
  return nullptr;
}

Arena* arena_of_span_slow(const Span* span) {
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 i = 1; i < arenas; ++i) {
    Arena* arena = &g_arenas.arenas[i];
    if (span >= arena->spans && span < arena->spans + usize{arena->chunk_count} * kSlicesPerChunk) return arena;
  }
  assertion_failed(__FILE__, __LINE__, "a span belongs to an arena");
}

Span* span_at_slow(SpanNumber number) {
  const u32 slice = number - 1;
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 i = 1; i < arenas; ++i) {
    const Arena& arena = g_arenas.arenas[i];
    if (slice - arena.first_slice_number < arena.chunk_count * kSlicesPerChunk) {
      return arena.spans + (slice - arena.first_slice_number);
    }
  }
  assertion_failed(__FILE__, __LINE__, "a span number belongs to an arena");
}

}  // namespace coffer
