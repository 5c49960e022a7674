// SPDX-License-Identifier: MIT
#include "large/chunk_run.hpp"

#include <string.h>

#include "large/colour.hpp"
#include "large/record.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/returned.hpp"
#include "policy/taken.hpp"
#include "pool/age.hpp"
#include "pool/huge_pages.hpp"
#include "pool/limit.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"

namespace coffer {

namespace {

// A block aligned to more would lie so far up in the arena that every later search for a large block walks there: with
// 60 threads that asked for alignments up to 2^62 and for terabytes, a call took up to 12 s. A search up to 64 GiB
// reads 512 groups, some 15 us. (glibc refuses what is more than the machine's memory.)
constexpr usize kMostAlignment = usize{64} << 30;

u32 chunks_for(usize size) { return static_cast<u32>(divide_up(size, kChunkBytes)); }
u32 chunk_of(const Arena* arena, const Span* span) { return static_cast<u32>(span - arena->spans) / kSlicesPerChunk; }

void change_held(usize before, usize after) {
  if (after >= before) {
    held_rises(after - before);
  } else {
    held_falls(before - after);
  }
}

// Where the last page of a run lies that may hold old data in its last chunk: bytes from its start. Of a single chunk
// more is known than of the last one of several.
usize dirty_end(const ChunkRun& run) {
  if (!run.last_dirty) return 0;
  return run.count == 1 ? (highest_bit(run.dirty_slices) + 1) * kSliceBytes : usize{run.count} * kChunkBytes;
}

// What a block of whole chunks counts for in the budget: its bytes, and what is resident behind them.
usize charge_of(usize size, usize dirty_end) {
  const usize bytes = round_up(size, kCarvePage);
  return dirty_end > bytes ? dirty_end : bytes;
}

// The block gives its chunks up.
void forget_tail(Arena* arena, u32 index) {
  tail_changes(tail_bytes(arena->chunks[index]), 0);
  set_tail(arena, index, 0);
}

// Gives chunks back of which `dirty` bytes, it is not known which, are charged as resident; clean, if counting all of
// them so would pass the limit.
void return_charged(const ChunkRun& run, usize dirty) {
  const usize length = usize{run.count} * kChunkBytes;
  bool resident = dirty != 0;
  if (resident && !charge(length - dirty)) {
    resident = !give_back_pages(reinterpret_cast<void*>(chunk_address(run.arena, run.index)), length);
    if (resident) charge_anyway(length - dirty);
  }
  if (!resident) uncharge(dirty);
  return_chunks(run.arena, run.index, run.count, resident);
}

// `size`: with the offset. `moved_from`: bytes of the block whose content comes here; held changes by the difference.
void describe_chunks(const ChunkRun& run, usize offset, usize size, usize moved_from) {
  Chunk& chunk = run.arena->chunks[run.index];
  chunk.large_chunks.set(run.count);
  const usize bytes = round_up(size, kCarvePage);
  const usize tail = charge_of(size, dirty_end(run)) - bytes;
  tail_changes(0, tail);
  chunk.use.store(ChunkUse::large, release);  // release: pairs with the acquire of walks
  Span* span = run.arena->spans + usize{run.index} * kSlicesPerChunk;
  describe_large(span, chunk_address(run.arena, run.index), offset, bytes, 1, run.count);
  change_held(moved_from, bytes);
  note_peak();
  if (tail != 0) set_tail(run.arena, run.index, tail);
}

// Whether a run could come from chunks that others give up: those that are committed are as many.
bool may_be_joined(usize bytes) { return bytes <= counters().committed.load(relaxed); }  // relaxed: grows only

// Chunks that hold only free slices are joined to runs here, when a request wants one and finds none (delayed
// recombination); a further arena is the last resort.
bool take_run(u32 chunks, u32 alignment_chunks, ChunkRun* run) {
  if (take_chunks(chunks, alignment_chunks, false, run)) return true;
  const bool joinable = may_be_joined(chunks * kChunkBytes);
  if (joinable) return_empty_chunks();
  return ((joinable || !run->refused) && take_chunks(chunks, alignment_chunks, true, run)) ||
         // Under a limit, the run's records may be what is too much.
         (make_room() && take_chunks(chunks, alignment_chunks, true, run));
}

// A block that grew once will grow again: it gets a place with as much free address space again behind it, and before
// it, where another such block may lie.
bool take_run_to_grow(u32 chunks, ChunkRun* run) {
  return take_chunks_with_room(chunks, chunks < kMostRoom ? chunks : kMostRoom, run) || take_run(chunks, 1, run);
}

// Where memory is short, what is resident behind a block of `size` bytes, at the end of the chunk that ends it, goes
// back at once: it would count, and serve nobody.
void clear_tail(ChunkRun* run, uptr start, usize size) {
  if (!run->last_dirty || !(is_limited() || limit_pressure())) return;
  const uptr end = round_up(chunk_address(run->arena, run->index) + dirty_end(*run), os::page_size());
  const uptr from = start + round_up(size, os::page_size());
  run->last_dirty = from < end && !os::purge(reinterpret_cast<void*>(from), end - from);
}

// Charges a run of chunks, of which `dirty` bytes were charged as free memory, so that together with `credit` bytes
// that the block has elsewhere it makes `need`. Returns what was charged in `paid`; false: the run was given back.
bool pay_for(const ChunkRun& run, usize dirty, usize credit, usize need, usize* paid) {
  *paid = need > dirty + credit ? need - dirty - credit : 0;
  if (charge_or_purge(*paid)) return true;
  return_charged(run, dirty);
  return false;
}

// Gives a run of chunks back, of which the first `charged` bytes are charged.
void return_run(Arena* arena, u32 index, u32 count, usize charged) {
  const usize unit = os::page_size() > kSliceBytes ? os::page_size() : kSliceBytes;
  const uptr start = chunk_address(arena, index);
  // Free memory counts by slices.
  usize resident = round_up(charged, unit);
  usize kept = many_moved() && arena->chunks[index].moved.get() != 0 ? 0 : resident;
  if (kept > charged && !charge(kept - charged)) kept = round_down(charged, unit);
  if (kept < charged) {
    if (give_back_pages(reinterpret_cast<void*>(start + kept), round_up(charged, os::page_size()) - kept)) {
      uncharge(charged - kept);
      resident = kept;
    } else {
      charge_anyway(resident - charged);
    }
  }
  // Chunks of which nothing is resident any more merge with their neighbours again.
  const u32 left = chunks_for(resident);
  unmark_moved(arena, index + left, count - left);
  return_chunks_partly(arena, index, count, resident);
  purge_after(charged);
}

// `charged`: what the block counts for from now on. The caller holds its tail, and no longer afterwards.
void set_chunk_run_size(Span* span, usize size, u32 chunks, usize charged) {
  Arena* arena = arena_of_span(span);
  const u32 index = chunk_of(arena, span);
  const usize bytes = round_up(size, kCarvePage);
  tail_changes(tail_bytes(arena->chunks[index]), charged - bytes);
  change_held(large_bytes(span), bytes);
  set_large_bytes(span, bytes);
  span->large_chunks.set(chunks);
  arena->chunks[index].large_chunks.set(chunks);
  set_tail(arena, index, charged - bytes);
}

uptr shrink_chunk_run(uptr start, Span* span, Arena* arena, u32 index, usize size) {
  const u32 have = span->large_chunks.get();
  const u32 want = chunks_for(size);
  // To the end of the run, not of the block: an earlier, larger size may have left data there.
  const uptr end = start + usize{have} * kChunkBytes;
  const uptr keep = start + round_up(size, os::page_size());
  const bool worth_it = want < have || large_bytes(span) - size >= kPurgeOnShrink;
  if (worth_it) forbid_huge_behind(arena, index, size);
  const bool purged = worth_it && give_back_pages(reinterpret_cast<void*>(keep), end - keep);
  Chunk& chunk = arena->chunks[index];
  const usize before = large_bytes(span) + tail_bytes(chunk);
  if (purged) {
    set_chunk_run_size(span, size, want, round_up(size, kCarvePage));
    uncharge(before - round_up(size, kCarvePage));
  } else if (want == have) {
    set_chunk_run_size(span, size, want, before);
  } else {
    set_chunk_run_size(span, size, want, usize{want} * kChunkBytes);
    uncharge(before - usize{want} * kChunkBytes);
    charge_anyway(usize{have - want} * kChunkBytes);
  }
  if (purged) unmark_moved(arena, index + want, have - want);
  if (want < have) return_chunks(arena, index + want, have - want, !purged);
  return start;
}

// Grows a block in place, into its last chunk or into the free chunks behind it. false: not possible.
bool grow_chunk_run(Span* span, Arena* arena, u32 index, usize size) {
  Chunk& chunk = arena->chunks[index];
  const u32 have = span->large_chunks.get();
  const u32 want = chunks_for(size);
  const usize before = large_bytes(span) + tail_bytes(chunk);
  if (want == have) {
    const usize bytes = round_up(size, kCarvePage);
    if (bytes > before && !charge_or_purge(bytes - before)) return false;
    set_chunk_run_size(span, size, want, bytes > before ? bytes : before);
    if (bytes > before) purge_after(bytes - before);
    return true;
  }
  ChunkRun more;
  if (!take_chunks_at(arena, index + have, want - have, &more)) return false;
  clear_tail(&more, chunk_address(arena, index), size);
  forbid_huge_behind(arena, index, size);
  const usize dirty = more.dirty;
  const usize need = charge_of(size, more.last_dirty ? have * kChunkBytes + dirty_end(more) : 0);
  usize paid = 0;
  if (!pay_for(more, dirty, before, need, &paid)) return false;
  uncharge(before + dirty + paid - need);
  set_chunk_run_size(span, size, want, need);
  purge_after(paid);
  return true;
}

// Brings the content of a block that cannot grow where it is to a run of chunks that is long enough. Its pages move;
// or, if half of what it needs there is resident already, or the kernel cannot move them, they are copied, and the old
// ones wait for the next block.
uptr move_chunk_run(Span* span, Arena* arena, u32 index, usize size) {
  const usize bytes = large_bytes(span);
  const usize offset = large_offset(span);
  const u32 have = span->large_chunks.get();
  const usize charged = bytes + tail_bytes(arena->chunks[index]);
  ChunkRun run;
  if (!take_run_to_grow(chunks_for(size), &run)) return 0;
  clear_tail(&run, chunk_address(run.arena, run.index), size);
  forbid_huge_behind(run.arena, run.index, size);
  const bool copy = run.dirty >= bytes / 2;
  // If the pages move, only what the block grows by has to be paid for.
  const usize dirty = run.dirty;
  const usize need = charge_of(size, dirty_end(run));
  usize paid = 0;
  if (!pay_for(run, dirty, copy ? 0 : charged, need, &paid)) return 0;
  char* from = reinterpret_cast<char*>(chunk_address(arena, index));
  char* to = reinterpret_cast<char*>(chunk_address(run.arena, run.index));
  const bool moved = !copy && os::move_pages(from, to, usize{have} * kChunkBytes);
  if (!copy && !moved) {
    if (!charge_or_purge(charged)) {
      uncharge(paid);
      return_charged(run, dirty);
      return 0;
    }
    paid += charged;
  }
  if (!moved) memcpy(to + offset, from + offset, bytes - offset);
  uncharge((moved ? charged : 0) + dirty + paid - need);
  span->use.store(SliceUse::none, relaxed);  // relaxed: the block is the caller's alone
  forget_tail(arena, index);
  describe_chunks(run, offset, size, bytes);
  if (moved) {
    mark_moved(run.arena, run.index, have);
    move_advice(arena->chunks + index, run.arena->chunks + run.index, have);
    // The old range is empty; if pages had been moved there before, it merges with its neighbours again.
    unmark_moved(arena, index, have);
    return_chunks(arena, index, have, false);
  } else {
    return_run(arena, index, have, charged);
  }
  purge_after(paid);
  return reinterpret_cast<uptr>(to);
}

}  // namespace

bool may_fit_later(usize size) { return limit_could_allow(size) && (is_limited() || may_be_joined(size)); }

void* allocate_chunk_run(usize size, usize alignment, bool* zero) {
  if (size > ~u32{0} * kChunkBytes || !limit_could_allow(size)) return nullptr;
  if (alignment > kMostAlignment) return nullptr;
  const usize alignment_chunks = alignment > kChunkBytes ? alignment / kChunkBytes : 1;
  ChunkRun run;
  const u32 chunks = chunks_for(size + chunk_run_extra(size));
  if (!take_run(chunks, static_cast<u32>(alignment_chunks), &run)) return nullptr;
  const uptr start = chunk_address(run.arena, run.index);
  const usize offset = chunk_run_offset(run.index, run.count, size, alignment);
  size += offset;
  clear_tail(&run, start, size);
  const usize dirty = run.dirty;
  advise_large(run.arena, run.index, size, dirty);
  const usize need = charge_of(size, dirty_end(run));
  usize paid = 0;
  if (!pay_for(run, dirty, 0, need, &paid)) return nullptr;
  uncharge(dirty + paid - need);
  *zero = run.fresh;
  describe_chunks(run, offset, size, 0);
  relieve_pressure(paid);
  purge_after(paid);
  os::keep_locked(reinterpret_cast<void*>(start), round_up(size, os::page_size()));
  return reinterpret_cast<void*>(start + offset);
}

void free_chunk_run(Arena* arena, Span* span) {
  const u32 index = chunk_of(arena, span);
  const usize bytes = large_bytes(span);
  hold_tail(arena, index);
  const usize charged = bytes + tail_bytes(arena->chunks[index]);
  forget_tail(arena, index);
  large_ends(arena, index, span->large_chunks.get());
  held_falls(bytes);
  return_run(arena, index, span->large_chunks.get(), charged);
}

uptr resize_chunk_run(uptr start, Span* span, usize size) {
  if (size - large_offset(span) <= largest_slice_run(kQuantum) || size > ~u32{0} * kChunkBytes) return 0;
  if (size > large_bytes(span) && !limit_could_allow(size)) return 0;
  Arena* arena = arena_of_span(span);
  const u32 index = chunk_of(arena, span);
  const usize before = large_bytes(span);
  hold_tail(arena, index);
  if (size <= before) return shrink_chunk_run(start, span, arena, index, size);
  look_at_group_limit();
  if (!grow_chunk_run(span, arena, index, size)) start = move_chunk_run(span, arena, index, size);
  if (start == 0) {
    set_tail(arena, index, tail_bytes(arena->chunks[index]));
  } else {
    keep_growth_locked(start, before, size);
  }
  return start;
}

}  // namespace coffer
