// SPDX-License-Identifier: MIT
#include "pool/huge_pages.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/kept.hpp"
#include "policy/taken.hpp"
#include "pool/limit.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {

namespace {

// Chunks of an arena that may be advised for large blocks, 32 GiB: such a block and its neighbours may become mappings
// of their own, of which the kernel allows 65,530; and the records of a vast block are not to be written.
constexpr u32 kMostAdvised = 16 * 1024;

void advise(Arena* arena, u32 index, u32 count, os::HugePages advice) {
  os::advise_huge_pages(reinterpret_cast<void*>(chunk_address(arena, index)), usize{count} * kChunkBytes, advice);
  for (u32 i = 0; i < count; ++i) arena->chunks[index + i].huge.set(advice == os::HugePages::allow ? 1 : 0);
}

usize held_now() { return counters().held.load(relaxed); }  // relaxed: a threshold that may be late

bool always() { return config::options().huge == config::HugePolicy::always; }

// Under a limit never, for huge pages bring in what nobody paid for.
bool automatic() { return config::options().huge == config::HugePolicy::automatic && !is_limited(); }

// Whether the process holds so much that a chunk for each shard, which a huge page may bring in for nothing, is little.
bool is_large_process() { return automatic() && shard_count() * kChunkBytes <= held_now() / kHugeUnusedShare; }

enum class Density : u8 { dense, sparse, unknown };

// Adds the pages of these slices that were touched; false: the kernel does not tell. It does not where the chunk has
// huge pages, and not to those who may not ask.
bool add_touched(const Arena* arena, u32 index, u64 slices, u32* pages) {
  // Who sets both options has a filter that kills who asks for filters (docs/guide/using.md).
  const bool may_ask = config::options().cgroup || config::options().reclaimer;
  if (arena->chunks[index].huge.get() != 0 || !may_ask) return false;
  u8 resident[kChunkBytes / kCarvePage];
  if (!os::resident_pages(reinterpret_cast<void*>(chunk_address(arena, index)), kChunkBytes, resident)) return false;
  for (; slices != 0; slices &= slices - 1) {
    const u32 first = lowest_bit(slices) * kPagesPerSlice;
    for (u32 page = first; page < first + kPagesPerSlice; ++page) {
      *pages += resident[page * kCarvePage / os::page_size()] & 1;
    }
  }
  return true;
}

// Whether 7 of 8 pages of the chunk are in use. Records say which are of small blocks, and what lies in free slices and
// in holes of mixed spans; of blocks over a slice the kernel tells which pages were touched. It is asked where the
// records do not decide.
Density density_of(const Arena* arena, u32 index) {
  static_assert(kChunkBytes / kCarvePage == kSlicesPerChunk * kPagesPerSlice && kSlicesPerChunk <= 64);
  constexpr u32 kWanted = kSlicesPerChunk * kPagesPerSlice * (kSmallPart - 1) / kSmallPart;
  // relaxed, all: a guess about what others are doing.
  const u64 free = arena->chunks[index].free.load(relaxed);
  u32 used = 0;
  u64 unknown = 0;  // slices
  for (u32 i = 0; i < kSlicesPerChunk; ++i) {
    const Span* record = arena->spans + usize{index} * kSlicesPerChunk + i;
    const SliceUse use = record->use.load(relaxed);
    if (use == SliceUse::mixed) {
      used += record->live_units.get() / u32{kCarvePage / kQuantum};
      i += record->slices.get() - 1u;
    } else if (use == SliceUse::span && record->block_bytes.get() <= kSliceBytes) {
      used += record->slices.get() * kPagesPerSlice - count_bits(record->absent.get());
      i += record->slices.get() - 1u;
    } else if (((free >> i) & 1) == 0) {
      unknown |= u64{1} << i;
    }
  }
  if (used >= kWanted) return Density::dense;
  if (used + count_bits(unknown) * kPagesPerSlice < kWanted) return Density::sparse;
  if (!add_touched(arena, index, unknown, &used)) return Density::unknown;
  return used >= kWanted ? Density::dense : Density::sparse;
}

// Whether this chunk will fill up, too: the last two chunks of this shard of which it can be told did. (A process of
// many threads holds many spans and touches a page of each.) Where it cannot be told of all, one of kHugeUnusedShare
// gets no huge pages, so that there are some to be looked at.
bool will_be_dense(const Arena* arena, u32 index) {
  const u32 shards = shard_count();
  u32 dense = 0;
  bool all_told = true;
  for (u32 i = 1; i <= kLooks && i * shards <= index && dense < 2; ++i) {
    const u32 before = index - i * shards;
    if (arena->chunks[before].use.load(relaxed) != ChunkUse::spans) continue;  // relaxed: a guess
    const Density density = density_of(arena, before);
    if (density == Density::sparse) return false;
    if (density == Density::dense) {
      ++dense;
    } else {
      all_told = false;
    }
  }
  return dense == 2 && (all_told || index / shards % kHugeUnusedShare != kHugeUnusedShare - 1);
}

// Bytes of large blocks that may have huge pages before one that has none was looked at. What a program will touch of
// such a block nothing says, so it has huge pages on trust; a block for which there is not enough trust has none, and
// when the next one is allocated, or when it is freed, the kernel tells whether it was touched (density_of).
Atomic<usize> g_trust{kHugeTrust};
// The last whole chunk of such a block: its number + 1, and the bytes of the block. Both are hints: the block may be
// gone, and another one be there.
Atomic<u32> g_looked_at;
Atomic<usize> g_looked_at_bytes;

void look_at_untrusted(const Arena* arena) {
  // relaxed, all: hints.
  const u32 number = g_looked_at.exchange(0, relaxed);
  if (number == 0 || density_of(arena, number - 1) != Density::dense) return;
  g_trust.store(kHugeUnusedShare * g_looked_at_bytes.load(relaxed), relaxed);
}

bool trusts(const Arena* arena, u32 index, u32 whole, bool fresh) {
  if (always()) return true;
  if (!automatic() || arena != &g_arenas.arenas[0]) return false;
  look_at_untrusted(arena);
  const usize bytes = whole * kChunkBytes;
  usize trust = g_trust.load(relaxed);  // relaxed, and below: hints
  while (trust >= bytes) {
    if (g_trust.compare_exchange(trust, trust - bytes, relaxed, relaxed)) return true;
  }
  if (fresh) {
    g_looked_at_bytes.store(bytes, relaxed);
    g_looked_at.store(index + whole, relaxed);
  }
  return false;
}

}  // namespace

void advise_slices(Arena* arena, u32 index) {
  if (arena->chunks[index].huge.get() != 0) return;
  if (always() || (is_large_process() && will_be_dense(arena, index))) {
    advise(arena, index, 1, os::HugePages::allow);
  }
}

void advise_large(Arena* arena, u32 index, usize size, usize dirty) {
  const u32 whole = static_cast<u32>(size / kChunkBytes);
  if (whole != 0 && index + whole <= kMostAdvised && dirty <= size / kSmallPart &&
      trusts(arena, index, whole, dirty == 0)) {
    advise(arena, index, whole, os::HugePages::allow);
  }
  forbid_huge_behind(arena, index, size);
}

void large_ends(const Arena* arena, u32 index, u32 count) {
  const u32 number = g_looked_at.load(relaxed);  // relaxed: a hint
  if (number - 1 - index < count && arena == &g_arenas.arenas[0]) look_at_untrusted(arena);
}

void forbid_huge_behind(Arena* arena, u32 index, usize size) {
  if (size % kChunkBytes != 0) forbid_huge(arena, index + static_cast<u32>(size / kChunkBytes));
}

void move_advice(const Chunk* from, Chunk* to, u32 count) {
  for (u32 i = 0; i < count; ++i) {
    if (to[i].huge.get() != from[i].huge.get()) to[i].huge.set(from[i].huge.get());
  }
}

void forbid_huge(Arena* arena, u32 index) {
  if (arena->chunks[index].huge.get() != 0) advise(arena, index, 1, os::HugePages::forbid);
}

}  // namespace coffer
