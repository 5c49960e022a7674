// SPDX-License-Identifier: MIT
#include "arena/find.hpp"

#include "observe/counters.hpp"
#include "policy/taken.hpp"

namespace coffer {

namespace {

// Of a group below the frontier: the chunks that are taken or, if only `committed` ones count, not writable.
u64 not_free(const Arena* arena, u32 group, bool committed) {
  const Group& record = arena->groups[group];
  return record.taken.get() | (committed ? ~record.committed.get() : 0);
}

}  // namespace

bool range_is_free(const Arena* arena, u32 index, u32 count, bool committed) {
  for (u32 chunk = index; chunk < index + count;) {
    if (usize{chunk} * kChunkBytes >= arena->frontier.load(relaxed)) return !committed;  // relaxed: under the lock
    const u32 bit = chunk % kChunksPerGroup;
    const u32 here = kChunksPerGroup - bit < index + count - chunk ? kChunksPerGroup - bit : index + count - chunk;
    if (not_free(arena, chunk / kChunksPerGroup, committed) & (low_mask(here) << bit)) return false;
    chunk += here;
  }
  return true;
}

namespace {

// First fit from the lowest group that can have a free chunk; `committed`: of chunks that are writable already.
// chunk_count if there is none.
u32 find_range(const Arena* arena, u32 count, u32 alignment_chunks, bool committed) {
  // relaxed: under the lock. Behind the frontier nothing is writable.
  const usize end = committed ? arena->frontier.load(relaxed) / kChunkBytes : arena->chunk_count;
  const u32 base_chunk = static_cast<u32>(arena->base / kChunkBytes % alignment_chunks);
  const auto align = [&](u32 chunk) {
    return static_cast<u32>(round_up(u64{chunk} + base_chunk, alignment_chunks) - base_chunk);
  };
  u32 chunk = align(arena->lowest_free_group * kChunksPerGroup);
  while (u64{chunk} + count <= end) {
    if (range_is_free(arena, chunk, count, committed)) return chunk;
    // Past the first taken chunk of the range that was tried.
    u32 next = chunk;
    for (;;) {
      const u32 group = next / kChunksPerGroup;
      const u64 taken = not_free(arena, group, committed) >> (next % kChunksPerGroup);
      if (taken == 0) {
        next = (group + 1) * kChunksPerGroup;
        continue;
      }
      next += lowest_bit(taken);
      // Shifted in from above are zeros: only a group that is full from its first chunk has no gap.
      const u64 gap = ~(not_free(arena, next / kChunksPerGroup, committed) >> (next % kChunksPerGroup));
      next += gap != 0 ? lowest_bit(gap) : kChunksPerGroup;
      break;
    }
    chunk = align(next > chunk ? next : chunk + 1);
  }
  return arena->chunk_count;
}

u32 dirty_slices(const Arena* arena, u32 chunk) {
  // relaxed, both: of a free chunk they change under the lock only.
  const u64 noted = arena->groups[chunk / kChunksPerGroup].dirty.load(relaxed) >> (chunk % kChunksPerGroup);
  return (noted & 1) != 0 ? count_bits(arena->chunks[chunk].dirty.load(relaxed)) : 0;
}

// The free range of which most is resident, the lowest of several, among the first kRangeLooks chunks: where blocks of
// many sizes come and go, the lowest gap that is wide enough is often one whose pages were given back, while as much is
// resident elsewhere and has to go back next. chunk_count: none has anything.
u32 find_resident_range(const Arena* arena, u32 count) {
  // relaxed: whether it is worth looking.
  if (counters().dirty.load(relaxed) <= count * kSliceBytes || count > kRangeLooks) return arena->chunk_count;
  const u32 from = arena->lowest_free_group * kChunksPerGroup;
  const usize known = arena->frontier.load(relaxed) / kChunkBytes;  // relaxed: under the lock
  const u32 dirty_end = arena->highest_chunk.load(relaxed);         // relaxed: as well
  const u32 looks = dirty_end > from + kRangeLooks ? from + kRangeLooks : dirty_end;
  u32 best = arena->chunk_count;
  u32 most = 0;
  u32 length = 0;  // free chunks up to here, and the dirty slices in the last `count` of them
  u32 dirty = 0;
  for (u32 chunk = from; chunk < looks + count - 1 && chunk < arena->chunk_count; ++chunk) {
    const bool record = chunk < known;  // behind that nothing was ever taken
    if (record && (arena->groups[chunk / kChunksPerGroup].taken.get() >> (chunk % kChunksPerGroup) & 1) != 0) {
      if (chunk >= looks) break;
      length = dirty = 0;
      continue;
    }
    if (record) dirty += dirty_slices(arena, chunk);
    if (length++ >= count) dirty -= dirty_slices(arena, chunk - count);
    // One slice a chunk more is not worth it: blocks of one size would creep out of each other's places.
    if (length < count || dirty <= most + count) continue;
    most = dirty;
    best = chunk + 1 - count;
    if (most == count * kSlicesPerChunk) break;
  }
  return best;
}

// The lowest free chunk among those with index % modulus == residue (modulus a power of two up to 64), else the lowest
// of all; `committed`: of those that are writable already.
u32 find_chunk(const Arena* arena, u32 residue, u32 modulus, bool committed) {
  const u64 wanted = aligned_positions(modulus) << residue;
  u32 any = arena->chunk_count;
  for (u32 group = arena->lowest_free_group; group * kChunksPerGroup < arena->chunk_count; ++group) {
    const u32 start = group * kChunksPerGroup;
    const bool known = usize{start} * kChunkBytes < arena->frontier.load(relaxed);  // relaxed: under the lock
    u64 free = known ? ~not_free(arena, group, committed) : committed ? 0 : ~u64{0};
    if (arena->chunk_count - start < kChunksPerGroup) free &= low_mask(arena->chunk_count - start);
    if (free != 0 && any == arena->chunk_count) any = start + lowest_bit(free);
    if ((free & wanted) != 0) return start + lowest_bit(free & wanted);
    if (!known) break;
  }
  return any;
}

}  // namespace

u32 find_free(const Arena* arena, const ChunkWish& wish) {
  if (wish.place != 0) {
    const u32 at = wish.place - 1;
    const bool fits = u64{at} + wish.count <= arena->chunk_count && range_is_free(arena, at, wish.count);
    return fits ? at : arena->chunk_count;
  }
  if (wish.modulus != 0) return find_chunk(arena, wish.residue, wish.modulus, wish.committed);
  if (wish.alignment == 1 && wish.room == 0 && !wish.committed) {
    const u32 resident = find_resident_range(arena, wish.count);
    if (resident < arena->chunk_count) return resident;
  }
  return find_range(arena, wish.count + 2 * wish.room, wish.alignment, wish.committed);
}

}  // namespace coffer
