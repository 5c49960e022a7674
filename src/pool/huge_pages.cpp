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

void advise(Arena* arena, u32 index, u32 count, os::HugePages advice) {
  os::advise_huge_pages(reinterpret_cast<void*>(chunk_address(arena, index)), usize{count} * kChunkBytes, advice);
  for (u32 i = 0; i < count; ++i) arena->chunks[index + i].huge.set(advice == os::HugePages::allow ? 1 : 0);
}

// Whether a process that holds so many bytes may have huge pages of which so many bytes may be for nothing. Under a
// limit it may not, for they bring in what nobody paid for.
bool may_be_huge(usize held, usize unused) {
  const auto wish = config::options().huge;
  return wish == config::HugePolicy::always ||
         (wish == config::HugePolicy::automatic && unused <= held / kHugeUnusedShare && !is_limited());
}

usize held_now() { return counters().held.load(relaxed); }  // relaxed: a threshold that may be late

// Pages of the chunk that nobody uses as yet: free slots, and what is not cut of its spans, or lies behind its large
// blocks.
u32 absent_pages(Arena* arena, u32 index) {
  const Chunk& chunk = arena->chunks[index];
  // relaxed, all: a guess about what others are doing.
  if (chunk.use.load(relaxed) != ChunkUse::spans) return 0;
  u32 absent = count_bits(chunk.free.load(relaxed)) * kPagesPerSlot;
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    const Span* record = arena->spans + usize{index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(relaxed);
    if (use == SlotUse::span) absent += count_bits(record->absent.get());
    if (use == SlotUse::large) {
      absent += record->slots.get() * kPagesPerSlot - static_cast<u32>(large_bytes(record) / kCarvePage);
    }
  }
  return absent;
}

// Whether this chunk will fill up, too: 3 of 4 pages are in use of the last two chunks of this shard, and of two older
// ones. (A process of many threads holds many spans and touches a page of each.)
bool will_be_dense(Arena* arena, u32 index) {
  if (config::options().huge == config::HugePolicy::always) return true;
  // relaxed: as above. Mixed spans in number are the sign of a process whose memory is full of holes: a whole chunk at
  // once is the worst unit for it to grow by.
  if (counters().mixed.load(relaxed) > held_now() / kSmallPart) return false;
  const u32 shards = shard_count();
  if (index < 2 * shards) return false;
  const u32 looked_at[] = {index - shards, index - 2 * shards, index / 2, index / 4};
  u32 absent = 0;
  u32 all = 0;
  for (const u32 chunk : looked_at) {
    absent += absent_pages(arena, chunk);
    all += kSlotsPerChunk * kPagesPerSlot;
  }
  return absent < all / 4;
}

}  // namespace

void advise_slots(Arena* arena, u32 index) {
  if (arena->chunks[index].huge.get() == 0 && may_be_huge(held_now(), shard_count() * kChunkBytes) && will_be_dense(arena, index)) {
    advise(arena, index, 1, os::HugePages::allow);
  }
}

bool advise_large(Arena* arena, u32 index, u32 count, usize size) {
  const usize behind = usize{count} * kChunkBytes - size;
  const bool huge = behind <= size / kSmallPart && may_be_huge(held_now() + size, kChunkBytes);
  if (huge) {
    advise(arena, index, count, os::HugePages::allow);
  } else if (behind != 0) {
    forbid_huge(arena, index + count - 1);
  }
  return huge;
}

void forbid_huge(Arena* arena, u32 index) {
  if (arena->chunks[index].huge.get() != 0) advise(arena, index, 1, os::HugePages::forbid);
}

}  // namespace coffer
