// SPDX-License-Identifier: MIT
#include "pool/tails.hpp"

#include "arena/each.hpp"
#include "budget/budget.hpp"
#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/huge_pages.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"

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
  const Span* span = arena->spans + usize{index} * kSlicesPerChunk;
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
  if (!live) return store_tail(arena, index, 0);
  // Who vanished may have changed the block's size and not yet all else. The walk goes by the chunk's record, so chunks
  // beyond are free.
  const Chunk& chunk = arena->chunks[index];
  Span* span = arena->spans + usize{index} * kSlicesPerChunk;
  const usize run = chunk.large_chunks.get() * kChunkBytes;
  span->large_chunks.set(chunk.large_chunks.get());
  if (large_bytes(span) > run) set_large_bytes(span, run);
  const usize room = run - large_bytes(span);
  const usize tail = tail_bytes(chunk);
  store_tail(arena, index, tail < room ? tail : room);
}

namespace {

// From `at` on, as walk_down; *done grows by what went, up to about `bytes`.
u32 purge_tails(u32 at, u32 looks, usize bytes, bool* young, usize* done) {
  if (resident_tails() == 0) return 0;
  return walk_down(
      at, looks, [](const Group& group) { return group.tails.load(relaxed); },  // relaxed: see store_tail
      [=](Arena* arena, u32 index) {
        *done += purge_tail(arena, index, young);
        return *done < bytes;
      });
}

u32 g_next;  // for calls; plain: one at a time is at the chores

}  // namespace

usize purge_tails(usize bytes) {
  usize done = 0;
  purge_tails(0, ~u32{0}, bytes, nullptr, &done);
  return done;
}

bool purge_tails_that_wait() {
  bool young = false;
  usize done = 0;
  purge_tails(0, ~u32{0}, kEverything, &young, &done);
  // Where the kernel refuses, waiting does not help.
  return (young || done != 0) && many_wait();
}

bool purge_tails_step() {
  bool young = false;
  usize done = 0;
  g_next = purge_tails(g_next, kStepLooks, 1, &young, &done);
  return g_next == 0;
}

}  // namespace coffer
