// SPDX-License-Identifier: MIT
// Colours of large blocks. The runs of large blocks start on slices and chunks. Without colours all blocks would start
// at one cache index and in one or two sets of the TLB. A walk over the first lines of many blocks, or several threads
// at equal places of theirs, would then use a small part of the caches.
//
//   line   a block starts some lines behind its run's start, less than a cache page. It touches at most one page more.
//   page   it also starts some whole pages behind, fewer than a slice has. These pages are never touched.
//
// Both follow from the place of the run, and not from a count of blocks. So a block that comes to the place of an
// earlier one uses the same lines and pages, and makes no further ones resident. Neighbours have different colours.
//
// What it can cost: one slice, where the size leaves too little room in its last slice, for runs of at least
// kLeastSlicesForOneMore; one chunk of address space, for runs of at least kLeastChunksForOneMore. Blocks of nearly 1
// MiB become runs of chunks. All others have as many colours as their last slice or chunk has room for.
//
// With an alignment above a line, colours are multiples of the alignment.
#pragma once

#include "large/large.hpp"
#include "pool/slice_pool.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"

namespace coffer {

inline constexpr usize kMostLineColour = kCachePage - kCacheLine;
inline constexpr u32 kLeastSlicesForOneMore = 16;
inline constexpr u32 kLeastChunksForOneMore = 8;

// Whether blocks of this alignment have line colours.
inline bool has_line_colours(usize alignment) {
  return g_span_choices.large_coloured.get() != 0 && alignment < kCachePage;
}

// The largest request for a run of slices.
inline usize largest_slice_run(usize alignment) {
  return has_line_colours(alignment) ? kLargestSliceRun - kMostLineColour : kLargestSliceRun;
}

// Bytes that a run of slices gets on top of the size.
inline usize slice_run_extra(usize size, usize alignment) {
  return has_line_colours(alignment) && size >= kLeastSlicesForOneMore * kSliceBytes ? kMostLineColour : 0;
}

// The same of a run of chunks.
inline usize chunk_run_extra(usize size) {
  return g_span_choices.large_coloured.get() != 0 && size >= kLeastChunksForOneMore * kChunkBytes ? kMostLineColour : 0;
}

// As many lines as fit into `room`, by index.
inline usize line_colour(u32 index, usize room) {
  const usize colours = (room < kMostLineColour ? room : kMostLineColour) / kCacheLine + 1;
  return index * colours / kCacheSets * kCacheLine;
}

// The offset of a block in its run, by its cache index, by the place that gives it its page, and by what the run has
// more than the block needs. Where that is too little for the page, the last one that fits: blocks of several sizes
// that come to one place one after the other then touch no more pages together than the longest of them alone.
inline usize run_offset(u32 index, u32 place, usize room, usize alignment) {
  const usize line = line_colour(index, room);
  const usize page = u64{fraction_of_place(place)} * (kSliceBytes / kCachePage) >> 32;
  // A line stays behind the block, so that no class's blocks have as many usable bytes.
  const usize most = room >= line + kCacheLine ? (room - line - kCacheLine) / kCachePage : 0;
  return round_down((page < most ? page : most) * kCachePage + line, alignment);
}

// The offset of a block of `size` bytes in its run, which is long enough for it.
inline usize slice_run_offset(u32 slice, u32 slices, usize size, usize alignment) {
  if (!has_line_colours(alignment)) return 0;
  // Runs of one length, packed into chunks of one shard, follow each other; those of different shards are far apart.
  const u32 chunk = slice / kSlicesPerChunk;
  const u32 shards = shard_count();
  const u32 shift = lowest_bit(shards);
  const u32 place = (chunk >> shift) * (kSlicesPerChunk / slices) + slice % kSlicesPerChunk / slices +
                    (chunk & (shards - 1)) * (kCacheSets >> shift);
  return run_offset(index_of_place(place), slice, slices * kSliceBytes - size, alignment);
}

inline usize chunk_run_offset(u32 chunk, u32 chunks, usize size, usize alignment) {
  if (g_span_choices.large_coloured.get() == 0) return 0;
  const u32 place = chunk / chunks;
  return run_offset(index_of_place(place), place, chunks * kChunkBytes - size, alignment);
}

}  // namespace coffer
