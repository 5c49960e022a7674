// SPDX-License-Identifier: MIT
#include "pool/tails.hpp"

#include "budget/budget.hpp"
#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

namespace {

constexpr usize kEverything = ~usize{0} / 2;

u64 bit_of(u32 chunk) { return u64{1} << (chunk % kChunksPerGroup); }

// Whether so much waits that the reclaimer should see to it; as free memory, which has to be over the option.
bool many_wait() {
  const usize free = counters().dirty.load(relaxed);  // relaxed: figures that may be late
  return free + resident_tails() > config::options().free_limit + kFreeBatch;
}

void store_tail(Arena* arena, u32 index, usize bytes) {
  Atomic<u32>& tail = arena->chunks[index].large_tail;
  Atomic<u64>& group = arena->groups[index / kChunksPerGroup].tails;
  // relaxed, all: where to look. Whoever finds the bit looks at the word; who misses it comes again.
  if (bytes != 0) {
    if ((group.load(relaxed) & bit_of(index)) == 0) group.fetch_or(bit_of(index), relaxed);
  } else if ((group.load(relaxed) & bit_of(index)) != 0) {
    group.fetch_and(~bit_of(index), relaxed);
  }
  // release: pairs with the acquires above.
  tail.store(static_cast<u32>(bytes / kCarvePage), release);
}

// The caller holds the tail. false: the kernel refused.
bool purge_held(Arena* arena, u32 index, usize bytes) {
  const Span* span = arena->spans + usize{index} * kSlotsPerChunk;
  const u32 chunks = arena->chunks[index].large_chunks.get();
  const usize page = os::page_size();
  const usize from = round_up(large_bytes(span), page);
  // Never beyond the run: in a fork child the size may be of one who vanished while he changed it.
  const usize run = chunks * kChunkBytes;
  const usize end = large_bytes(span) + bytes < run ? round_up(large_bytes(span) + bytes, page) : run;
  if (from >= end) return true;
  forbid_huge(arena, index + chunks - 1);
  return os::purge(reinterpret_cast<void*>(chunk_address(arena, index) + from), end - from);
}

// With `young`: one that was not yet seen is now, stays, and *young says so.
usize purge_tail(Arena* arena, u32 index, bool* young) {
  Chunk& chunk = arena->chunks[index];
  u32 seen = chunk.large_tail.load(relaxed);  // relaxed: the CAS checks it
  if (seen == 0 || (seen & kTailHeld) != 0) return 0;
  if (young != nullptr && (seen & kTailSeen) == 0) {
    // relaxed, both: publishes nothing. Who fails was overtaken by the block's holder.
    if (chunk.large_tail.compare_exchange(seen, seen | kTailSeen, relaxed, relaxed)) *young = true;
    return 0;
  }
  // acquire: pairs with the release in set_tail: the size of the block is the one that belongs to this tail.
  if (!chunk.large_tail.compare_exchange(seen, seen | kTailHeld, acquire, relaxed)) return 0;
  const usize bytes = tail_bytes(chunk);
  if (!purge_held(arena, index, bytes)) {
    chunk.large_tail.store(seen, release);  // release: pairs with the acquire of the next holder
    return 0;
  }
  tail_changes(bytes, 0);
  uncharge(bytes);
  store_tail(arena, index, 0);
  return bytes;
}

}  // namespace

void hold_tail(Arena* arena, u32 index) {
  Atomic<u32>& tail = arena->chunks[index].large_tail;
  for (;;) {
    u32 seen = tail.load(relaxed);  // relaxed: the CAS checks it
    // acquire: pairs with the release of who purged it.
    if ((seen & kTailHeld) == 0 && tail.compare_exchange(seen, seen | kTailHeld, acquire, relaxed)) return;
    if ((seen & kTailHeld) != 0) os::yield();
  }
}

void set_tail(Arena* arena, u32 index, usize bytes) {
  store_tail(arena, index, bytes);
  if (bytes != 0 && many_wait()) want_reclaimer();
}

void settle_tail(Arena* arena, u32 index, bool live) {
  store_tail(arena, index, live ? tail_bytes(arena->chunks[index]) : 0);
}

namespace {

usize purge_tails(usize bytes, bool* young) {
  if (resident_tails() == 0) return 0;
  usize done = 0;
  const u32 arenas = g_arenas.count.load(acquire);  // acquire: pairs with the release in make_arena
  for (u32 i = arenas; i-- > 0 && done < bytes;) {
    Arena* arena = &g_arenas.arenas[i];
    const u32 chunks = arena->highest_chunk.load(relaxed);  // relaxed: the newest chunk may be missed
    for (u32 group = static_cast<u32>(divide_up(chunks, kChunksPerGroup)); group-- > 0 && done < bytes;) {
      // relaxed: see store_tail.
      for (u64 left = arena->groups[group].tails.load(relaxed); left != 0 && done < bytes;) {
        const u32 bit = highest_bit(left);
        left &= ~(u64{1} << bit);
        done += purge_tail(arena, group * kChunksPerGroup + bit, young);
      }
    }
  }
  return done;
}

}  // namespace

usize purge_tails(usize bytes) { return purge_tails(bytes, nullptr); }

bool purge_tails_that_wait() {
  bool young = false;
  const usize done = purge_tails(kEverything, &young);
  // Where the kernel refuses, waiting does not help.
  return (young || done != 0) && many_wait();
}

}  // namespace coffer
