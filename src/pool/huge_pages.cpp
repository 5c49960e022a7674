// SPDX-License-Identifier: MIT
#include "pool/huge_pages.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "policy/kept.hpp"
#include "policy/taken.hpp"
#include "pool/limit.hpp"
#include "pool/slot_pool.hpp"

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

// Whether 7 of 8 pages of the chunk are in use, as far as can be told: the kernel knows which were touched (it must
// have no huge pages), records say which lie in free slots and in holes of mixed spans. Where the kernel may not be
// asked, of blocks over a slot nothing is known.
bool is_dense(const Arena* arena, u32 index) {
  static_assert(kChunkBytes / kCarvePage == kSlotsPerChunk * kPagesPerSlot);
  u8 resident[kChunkBytes / kCarvePage];
  // Who sets both options has a filter that kills who asks for filters (docs/guide/using.md).
  const bool may_ask = config::options().cgroup || config::options().reclaimer;
  void* const start = reinterpret_cast<void*>(chunk_address(arena, index));
  const bool told = may_ask && os::resident_pages(start, kChunkBytes, resident);
  // relaxed, both: a guess about what others are doing.
  const u64 free = arena->chunks[index].free.load(relaxed);
  u32 used = 0;
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    const Span* record = arena->spans + usize{index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(relaxed);
    if (use == SlotUse::mixed) {
      used += record->live_units.get() / u32{kCarvePage / kQuantum};
      i += record->slots.get() - 1u;
    } else if (!told) {
      const bool is_small = use == SlotUse::span && record->block_bytes.get() <= kSlotBytes;
      used += is_small ? record->slots.get() * kPagesPerSlot - count_bits(record->absent.get()) : 0;
    } else if (((free >> i) & 1) == 0) {
      for (u32 page = i * kPagesPerSlot; page < (i + 1) * kPagesPerSlot; ++page) {
        used += resident[page * kCarvePage / os::page_size()] & 1;
      }
    }
  }
  return used >= kSlotsPerChunk * kPagesPerSlot * (kSmallPart - 1) / kSmallPart;
}

// Whether this chunk will fill up, too: the last two chunks of this shard that have no huge pages did. (A process of
// many threads holds many spans and touches a page of each.) One of kHugeUnusedShare has none, so that there are some
// to be looked at.
bool will_be_dense(const Arena* arena, u32 index) {
  const u32 shards = shard_count();
  if (index / shards % kHugeUnusedShare == kHugeUnusedShare - 1) return false;
  u32 dense = 0;
  for (u32 i = 1; i <= kLooks && i * shards <= index && dense < 2; ++i) {
    const Chunk& chunk = arena->chunks[index - i * shards];
    if (chunk.use.load(relaxed) != ChunkUse::spans || chunk.huge.get() != 0) continue;  // relaxed: a guess
    if (!is_dense(arena, index - i * shards)) return false;
    ++dense;
  }
  return dense == 2;
}

// Bytes of large blocks that may have huge pages before one that has none was looked at. What a program will touch of
// such a block nothing says, so it has huge pages on trust; a block for which there is not enough trust has none, and
// when the next one is allocated, or when it is freed, the kernel tells whether it was touched (is_dense).
Atomic<usize> g_trust{kHugeTrust};
// The last whole chunk of such a block: its number + 1, and the bytes of the block. Both are hints: the block may be
// gone, and another one be there.
Atomic<u32> g_looked_at;
Atomic<usize> g_looked_at_bytes;

void look_at_untrusted(const Arena* arena) {
  // relaxed, all: hints.
  const u32 number = g_looked_at.exchange(0, relaxed);
  if (number == 0 || arena->chunks[number - 1].huge.get() != 0 || !is_dense(arena, number - 1)) return;
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

void advise_slots(Arena* arena, u32 index) {
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
