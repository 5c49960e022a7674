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
// of their own, of which the kernel allows 65,530; and the records of a vast block, of which little will be touched,
// are not to be written.
constexpr u32 kMostAdvised = 16 * 1024;

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

// Of a chunk of slots, the pages that nobody uses as yet: free slots, and what is not cut of its spans. What lies
// behind a large block nobody will ever use: it counts twice.
u32 absent_pages(Arena* arena, u32 index) {
  // relaxed, all: a guess about what others are doing.
  u32 absent = count_bits(arena->chunks[index].free.load(relaxed)) * kPagesPerSlot;
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    const Span* record = arena->spans + usize{index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(relaxed);
    if (use == SlotUse::span) absent += count_bits(record->absent.get());
    if (use == SlotUse::large) {
      absent += 2 * (record->slots.get() * kPagesPerSlot - static_cast<u32>(large_usable(record) / kCarvePage));
    }
  }
  return absent;
}

// Whether this chunk will fill up, too: 3 of 4 pages are in use of each of the last two chunks of this shard. (A
// process of many threads holds many spans and touches a page of each.)
bool will_be_dense(Arena* arena, u32 index) {
  if (config::options().huge == config::HugePolicy::always) return true;
  // relaxed: as above. Mixed spans in number are the sign of a process whose memory is full of holes: a whole chunk at
  // once is the worst unit for it to grow by.
  if (counters().mixed.load(relaxed) > held_now() / kSmallPart) return false;
  const u32 shards = shard_count();
  if (index < 2 * shards) return false;
  const auto is_dense = [arena](u32 chunk) {
    return arena->chunks[chunk].use.load(relaxed) == ChunkUse::spans &&  // relaxed: as above
           absent_pages(arena, chunk) < kSlotsPerChunk * kPagesPerSlot / 4;
  };
  return is_dense(index - shards) && is_dense(index - 2 * shards);
}

}  // namespace

void advise_slots(Arena* arena, u32 index) {
  if (arena->chunks[index].huge.get() != 0) return;
  if (may_be_huge(held_now(), shard_count() * kChunkBytes) && will_be_dense(arena, index)) {
    advise(arena, index, 1, os::HugePages::allow);
  }
}

bool advise_large(Arena* arena, u32 index, u32 count, usize size) {
  const usize behind = usize{count} * kChunkBytes - size;
  const bool huge = index + count <= kMostAdvised && behind <= size / kSmallPart && size <= held_now() &&
                    may_be_huge(held_now(), kChunkBytes);
  if (huge) {
    advise(arena, index, count, os::HugePages::allow);
  } else {
    forbid_huge_behind(arena, index, size);
  }
  return huge;
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
