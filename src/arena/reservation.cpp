// SPDX-License-Identifier: MIT
#include "arena/reservation.hpp"

#include "budget/budget.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"

namespace coffer {

namespace {

constexpr usize kMetadataAlignment = 64 * 1024;  // the largest page size
constexpr u32 kSlicesPerGroup = kSlicesPerChunk * kChunksPerGroup;

struct MetadataSizes {
  usize spans, chunks, groups, summary, unit_maps;
  usize total() const { return spans + chunks + groups + summary + unit_maps; }
};

u32 group_count(u32 chunk_count) { return static_cast<u32>(divide_up(chunk_count, kChunksPerGroup)); }

MetadataSizes metadata_sizes(u32 chunk_count) {
  const usize groups = group_count(chunk_count);
  return {round_up(groups * kSlicesPerGroup * sizeof(Span), kMetadataAlignment),
          round_up(groups * kChunksPerGroup * sizeof(Chunk), kMetadataAlignment),
          round_up(groups * sizeof(Group), kMetadataAlignment),
          round_up(divide_up(groups, kSummaryRatio) * kOrders * sizeof(u64), kMetadataAlignment),
          round_up(usize{chunk_count} * kSlicesPerChunk * kUnitMapBytes, kMetadataAlignment)};
}

// The part of a metadata array that belongs to bytes [from, to) of it, rounded out to pages.
struct Part {
  uptr start, end;
};
Part part(const void* array, usize from, usize to) {
  const usize page = os::page_size();
  const uptr start = reinterpret_cast<uptr>(array);
  return {round_down(start + from, page), round_up(start + to, page)};
}

bool commit(const Part& part) { return os::commit(reinterpret_cast<void*>(part.start), part.end - part.start); }

bool commit_part(const void* array, usize from, usize to) {
  const Part wanted = part(array, from, to);
  const usize bytes = wanted.end - wanted.start;
  if (!charge(bytes)) return false;
  if (!commit(wanted)) {
    uncharge(bytes);
    return false;
  }
  counters().metadata.fetch_add(bytes, relaxed);  // relaxed: a statistic
  return true;
}

bool set_up_arena(Arena* arena, void* memory, usize bytes) {
  const u32 chunk_count = static_cast<u32>(bytes / kChunkBytes);
  const MetadataSizes sizes = metadata_sizes(chunk_count);
  const uptr start = reinterpret_cast<uptr>(memory);
  uptr at = start + bytes;
  arena->spans = reinterpret_cast<Span*>(at);
  at += sizes.spans;
  arena->chunks = reinterpret_cast<Chunk*>(at);
  at += sizes.chunks;
  arena->groups = reinterpret_cast<Group*>(at);
  at += sizes.groups;
  arena->summary = reinterpret_cast<Atomic<u64>*>(at);
  at += sizes.summary;
  arena->unit_maps = reinterpret_cast<u64*>(at);
  if (!commit_part(arena->summary, 0, divide_up(group_count(chunk_count), kSummaryRatio) * kOrders * sizeof(u64))) {
    return false;
  }
  os::advise_huge_pages(memory, bytes + sizes.total(), os::HugePages::forbid);
  os::name_mapping(memory, bytes, kArenaName);
  os::name_mapping(reinterpret_cast<void*>(start + bytes), sizes.total(), "coffer metadata");
  arena->base = start;
  arena->bytes = bytes;
  arena->reserved = bytes + sizes.total();
  arena->chunk_count = chunk_count;
  counters().reserved.fetch_add(arena->reserved, relaxed);  // relaxed: a statistic
  return true;
}

}  // namespace

bool make_arena(usize wanted, usize least, u32 chunks, u32 alignment_chunks) {
  // relaxed: under the growth lock, or before any second thread.
  const u32 index = g_arenas.count.load(relaxed);
  if (index >= kMaxArenas) return false;
  u32 first_slice_number = 0;
  if (index > 0) {
    const Arena& before = g_arenas.arenas[index - 1];
    first_slice_number = before.first_slice_number + before.chunk_count * kSlicesPerChunk;
  }
  // A further arena is wanted now, not perhaps: it may take half of what is left where the first takes a quarter.
  usize limit = os::reservation_limit(wanted);
  if (index > 0 && limit < wanted) limit = limit < wanted / 2 ? 2 * limit : wanted;
  if (limit < least) limit = least;  // the kernel may yet agree
  for (usize bytes = round_down(limit, kChunkBytes); bytes >= least; bytes = round_down(bytes / 2, kChunkBytes)) {
    const u64 slices = u64{first_slice_number} + bytes / kSliceBytes;
    if (slices >= ~u32{0}) continue;  // span numbers are 32 bits
    const usize total = bytes + metadata_sizes(static_cast<u32>(bytes / kChunkBytes)).total();
    void* memory = os::reserve(total, kChunkBytes);
    if (memory == nullptr) continue;
    const uptr first = round_up(reinterpret_cast<uptr>(memory), alignment_chunks * kChunkBytes);
    Arena* arena = &g_arenas.arenas[index];
    arena->first_slice_number = first_slice_number;
    if ((chunks != 0 && !os::commit(reinterpret_cast<void*>(first), chunks * kChunkBytes)) ||
        !set_up_arena(arena, memory, bytes)) {
      os::release(memory, total);
      return false;
    }
    // release: pairs with the acquire loads of count in arena_of_slow, take_chunks and the numbering functions.
    g_arenas.count.store(index + 1, release);
    return true;
  }
  return false;
}

bool has_room_for_arena() {
  const usize total = kSmallestArena + metadata_sizes(kSmallestArena / kChunkBytes).total();
  void* const memory = os::reserve(total, kChunkBytes);
  if (memory != nullptr) os::release(memory, total);
  return memory != nullptr;
}

bool advance_frontier(Arena* arena, u32 end) {
  const u32 from = static_cast<u32>(arena->frontier.load(relaxed) / kChunkBytes);  // relaxed: under the lock
  if (end <= from) return true;
  const u32 to = static_cast<u32>(round_up(end, kChunksPerGroup));
  const u32 to_chunk = to < arena->chunk_count ? to : arena->chunk_count;
  const Part parts[] = {
      part(arena->spans, usize{from} * kSlicesPerChunk * sizeof(Span),
           usize{to_chunk} * kSlicesPerChunk * sizeof(Span)),
      part(arena->chunks, from * sizeof(Chunk), to_chunk * sizeof(Chunk)),
      part(arena->groups, from / kChunksPerGroup * sizeof(Group), group_count(to_chunk) * sizeof(Group))};
  usize bytes = 0;
  for (const Part& each : parts) bytes += each.end - each.start;
  if (!charge(bytes)) return false;
  for (const Part& each : parts) {
    if (commit(each)) continue;
    uncharge(bytes);
    return false;
  }
  counters().metadata.fetch_add(bytes, relaxed);  // relaxed: a statistic
  // release: pairs with the load in arena_of_slow; whoever sees the new frontier can read the records behind it.
  arena->frontier.store(usize{to_chunk} * kChunkBytes, release);
  // relaxed: see arena_of. Without a barrier to issue on other processors each free needs a fence
  // (exchange/inside.hpp), and the fast path has none.
  if (os::has_barrier()) arena->fast_frontier.store(usize{to_chunk} * kChunkBytes, relaxed);
  return true;
}

bool commit_unit_maps(Arena* arena, u32 end) {
  LockGuard guard(arena->lock);
  const u32 before = arena->unit_maps_end.load(relaxed);  // relaxed, here and below: under the lock
  if (end <= before) return true;
  // Eight chunks at a time, so that little counts before it is used: one system call under the lock in 16 MiB.
  u64 to = round_up(end, 8 * kSlicesPerChunk);
  if (to > u64{arena->chunk_count} * kSlicesPerChunk) to = u64{arena->chunk_count} * kSlicesPerChunk;
  if (!commit_part(arena->unit_maps, before * kUnitMapBytes, to * kUnitMapBytes)) return false;
  arena->unit_maps_end.store(static_cast<u32>(to), relaxed);
  return true;
}

void give_back_unit_maps(const Arena* arena, u32 slice, u32 count) {
  // relaxed: a slice that ever had a table was the caller's since, and so came with this.
  if (slice >= arena->unit_maps_end.load(relaxed)) return;
  const uptr tables = reinterpret_cast<uptr>(arena->unit_maps);
  const uptr from = round_up(tables + slice * kUnitMapBytes, os::page_size());
  const uptr to = round_down(tables + (slice + count) * kUnitMapBytes, os::page_size());
  if (from < to) os::purge(reinterpret_cast<void*>(from), to - from);
}

}  // namespace coffer
