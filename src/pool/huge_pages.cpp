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

// Whether the process holds so much that a chunk for each shard, which a huge page may bring in for nothing, is little.
// Under a limit never, for huge pages bring in what nobody paid for.
bool is_large_process() {
  return config::options().huge == config::HugePolicy::automatic && !is_limited() &&
         shard_count() * kChunkBytes <= held_now() / kHugeUnusedShare;
}

// Of a chunk of slots, the pages of which nothing says that they are used: free slots, what is not cut of spans, and
// blocks over a slot, of which a program may touch a page here and there.
u32 absent_pages(Arena* arena, u32 index) {
  // relaxed, all: a guess about what others are doing.
  u32 absent = count_bits(arena->chunks[index].free.load(relaxed)) * kPagesPerSlot;
  for (u32 i = 0; i < kSlotsPerChunk; ++i) {
    const Span* record = arena->spans + usize{index} * kSlotsPerChunk + i;
    const SlotUse use = record->use.load(relaxed);
    if (use == SlotUse::span && record->block_bytes.get() <= kSlotBytes) {
      absent += count_bits(record->absent.get());
    } else if (use == SlotUse::span || use == SlotUse::large) {
      absent += record->slots.get() * kPagesPerSlot;
    }
  }
  return absent;
}

// Whether this chunk will fill up, too: 3 of 4 pages are in use of each of the last two chunks of this shard. (A
// process of many threads holds many spans and touches a page of each.)
bool will_be_dense(Arena* arena, u32 index) {
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
  if (always() || (is_large_process() && will_be_dense(arena, index))) {
    advise(arena, index, 1, os::HugePages::allow);
  }
}

bool advise_large(Arena* arena, u32 index, u32 count, usize size) {
  const usize behind = usize{count} * kChunkBytes - size;
  const bool huge = always() && index + count <= kMostAdvised && behind <= size / kSmallPart;
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
