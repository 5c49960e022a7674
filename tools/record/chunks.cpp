// SPDX-License-Identifier: MIT
#include "record/chunks.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/session.hpp"

namespace coffer::record {

namespace {

constexpr timespec kPatience = {0, 20'000'000};
// So many looks without a sign of life, 3 s: looks and not time, most of which the program may have been stopped for.
constexpr u32 kSilentLooks = 150;
// And so many at a collector that lives and gives no chunk back, to anybody: the program has written over what both
// share.
constexpr u32 kFruitlessLooks = 500;
constexpr u32 kRoom = 4 * trace::kMaxRecord + 8;

std::atomic<u32>& chunk_link(u32 index) { return g_session.heads[index].next; }

// The chunks up to this one are accessible. Two threads may both do it: it is the same for both.
bool make_writable(u32 index) {
  // relaxed: mprotect itself is what must have happened, and a thread that sees an old value does it again.
  const u32 have = g_session.writable.load(std::memory_order_relaxed);
  if (index < have) return true;
  constexpr u32 kStep = 1024;
  u32 want = (index / kStep + 1) * kStep;
  if (want > g_session.capacity) want = g_session.capacity;
  if (syscall(SYS_mprotect, g_session.data + u64{have} * kChunkBytes, u64{want - have} * kChunkBytes,
              PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  u32 seen = have;
  while (seen < want && !g_session.writable.compare_exchange_weak(seen, want, std::memory_order_relaxed)) {
  }
  return true;
}

u32 try_take_chunk() {
  Area* const area = g_session.area;
  const u32 first = pop(area->free_list, g_session.capacity, chunk_link);
  if (first != 0) return first;
  // relaxed: limits may be a little late. The chunk is ours by the exchange alone.
  u64 allowed = kSpareChunks + u64{2} * area->attached.load(std::memory_order_relaxed);
  if (allowed > g_session.capacity) allowed = g_session.capacity;
  u32 fresh = area->fresh.load(std::memory_order_relaxed);
  while (fresh < allowed) {
    if (area->fresh.compare_exchange_weak(fresh, fresh + 1, std::memory_order_relaxed)) return fresh + 1;
  }
  return 0;
}

// Waits for the collector if it is behind. 0: it is gone, or has none to give.
u32 take_chunk() {
  Area* const area = g_session.area;
  u32 silent = 0, beat = 0, fruitless = 0;
  u64 given = 0;
  for (;;) {
    const u32 drained = area->drained.load(std::memory_order_acquire);  // pairs with the collector's, before it wakes
    if (area->closed.load(std::memory_order_acquire) != 0) return 0;    // pairs with the collector's store
    if (const u32 found = try_take_chunk(); found != 0) return found;
    const u32 now = area->beat.load(std::memory_order_relaxed);  // relaxed: a sign of life
    silent = now == beat ? silent + 1 : 0;
    beat = now;
    // relaxed: its tag rises with each chunk that is given, also one that another thread was quicker to take.
    const u64 now_given = area->free_list.load(std::memory_order_relaxed);
    fruitless = now_given == given ? fruitless + 1 : 0;
    given = now_given;
    if (silent > kSilentLooks || fruitless > kFruitlessLooks) return 0;
    // seq_cst: the collector raises `drained`, then looks here; we raise this, then futex looks at `drained`.
    area->waiting.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &area->drained, FUTEX_WAIT, drained, &kPatience, nullptr, 0);
    area->waiting.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace

void count_lost(trace::Lost why) {
  // relaxed: a count.
  g_session.area->lost[static_cast<u32>(why)].fetch_add(1, std::memory_order_relaxed);
}

void hand_in(Thread* thread) {
  if (thread->head == nullptr) return;
  // release: the collector owns the chunk with all its records.
  thread->head->state.store(static_cast<u32>(ChunkState::full), std::memory_order_release);
  thread->head = nullptr;
  thread->cursor = thread->limit = thread->resting = thread->real_limit = thread->data = nullptr;
}

bool next_chunk(Thread* thread) {
  hand_in(thread);
  const u32 taken = take_chunk();
  if (taken == 0 || !make_writable(taken - 1)) {
    // Nobody takes records any more; the program goes on without.
    g_session.state.store(State::off, std::memory_order_relaxed);  // relaxed: others may see it late
    count_lost(trace::Lost::no_buffer);
    return false;
  }
  ChunkHead& head = g_session.heads[taken - 1];
  thread->data = g_session.data + u64{taken - 1} * kChunkBytes;
  thread->head = &head;
  // relaxed: `state` publishes all of this.
  head.used.store(0, std::memory_order_relaxed);
  head.thread = thread->number;
  head.sequence = thread->sequence++;
  // Not the time now: the record that needs this chunk may be a realloc that began a while ago.
  thread->base.block = 0;
  head.base_time = thread->base.time;
  head.state.store(static_cast<u32>(ChunkState::active), std::memory_order_release);  // pairs with the collector's
  thread->cursor = thread->data;
  thread->real_limit = thread->data + kChunkBytes - kRoom;
  thread->limit = thread->resting = kCounts ? kAlwaysSlow : thread->real_limit;
  return true;
}

}  // namespace coffer::record
