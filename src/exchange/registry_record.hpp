// SPDX-License-Identifier: MIT
// The registry's own record, for its two halves: registry.cpp (threads, start) and forking.cpp (fork).
#pragma once

#include <pthread.h>

#include "config/config.hpp"
#include "exchange/registry.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"
#include "span/emptiness.hpp"

namespace coffer {

// The state of the start is one word: these, or in between who makes it (as SpinLock's holder).
inline constexpr uptr kNotStarted = 0;
inline constexpr uptr kStarted = 1;

inline uptr this_thread() { return reinterpret_cast<uptr>(&t_lock_identity); }
// Its value is 1 while the thread tries to start the process. A thread of a fork child that lies where one lay that was
// starting, and so has its name, is told by this.
inline bool is_starting() { return t_lock_identity != 0; }

// Processors that have a stack of waiting heaps each; beyond, some share one.
inline constexpr u32 kMostProcessors = 256;

// Heaps that wait for a thread, of those whose last one ended on this processor: a stack, linked by next_waiting.
//
//   newest  | changes (32) | index of the newest, 0: none (32) |
//
// Pushed and popped by CAS, so threads start and end without a lock. Records are never unmapped, so whoever pops may
// read the link of one that another thread takes meanwhile; then the number of changes makes its CAS fail. Model:
// models/waiting.pml.
struct alignas(kCacheLine) Waiting {
  Atomic<u64> newest;
};
constexpr u32 waiting_index(u64 word) { return static_cast<u32>(word); }
constexpr u64 waiting_word(u64 before, u32 index) { return ((before >> 32) + 1) << 32 | index; }

struct alignas(kCacheLine) Registry {
  // --- What every thread reads at its start, and hardly anybody writes. ---
  Atomic<uptr> start;
  Atomic<u32> handlers;   // 1: a thread has registered the fork handlers, or is at it
  Heap* heaps = nullptr;  // record 0, which is the fallback heap; those of higher indexes lie below it
  u32 capacity = 0;
  uptr end = 0;             // of the records' memory
  Atomic<usize> committed;  // bytes before it; written under the lock
  Atomic<u32> generation;   // grows in each fork child: heaps of an older one lost their thread
  pthread_key_t key = 0;
  bool has_key = false;

  // --- What threads write. ---
  alignas(kCacheLine) Atomic<u32> made;  // records in use or waiting
  alignas(kCacheLine) SpinLock lock;     // making records readable, and the walk of a fork child
  SpinLock fallback;                     // outermost of all locks: the fallback heap is used under it
  Waiting waiting[kMostProcessors];
};

extern Registry g_registry __attribute__((visibility("hidden")));

// The first records, the ones that every process uses, lie at the upper end of the reservation: the kernel puts new
// mappings below older ones, so they share page tables with the libraries. At the lower end, gigabytes away, they would
// need two pages of tables of their own.
inline Heap* record(u32 index) { return g_registry.heaps - index; }

// The heap's thread is of this process, not of one that forked it: its generation is the process's. A child stamps the
// heap of the thread that forked, or all heaps, if it does not know that thread; the others have lost theirs.
// relaxed: the process's generation grows in a fork child only, while it has one thread.
inline void stamp(Heap* heap) { heap->generation.set(g_registry.generation.load(relaxed)); }
// relaxed: as above.
inline bool is_stamped(const Heap* heap) { return heap->generation.get() == g_registry.generation.load(relaxed); }

// The heap waits for a thread on this processor.
inline void wait_for_thread(Heap* heap, u32 processor) {
  Atomic<u64>& newest = g_registry.waiting[processor % kMostProcessors].newest;
  u64 seen = newest.load(relaxed);  // relaxed: the CAS checks it
  do {
    heap->next_waiting.set(waiting_index(seen));
    // release: pairs with the acquire in take_waiting: the link, and what the heap's last thread did.
  } while (!newest.compare_exchange(seen, waiting_word(seen, heap->index.get()), release, relaxed));
}

// What heaps may keep is divided among so many.
inline void share_among(u32 heaps) {
  // relaxed, all here: hints. Stored where they change, for all threads read their lines.
  if (counters().heaps.load(relaxed) != heaps) counters().heaps.store(heaps, relaxed);
  const usize share = heaps_share_of(config::options().free_limit, heaps);
  if (g_heaps_share.load(relaxed) != share) g_heaps_share.store(share, relaxed);
}

// Sets what follows from the number of heaps that threads use.
inline void follow_attached() {
  for (u32 attached = g_attached_heaps.load(relaxed);;) {  // relaxed, all here: hints
    // What ended threads left counts, too, as far as it is used again: a heap for each processor.
    const u32 made = g_registry.made.load(relaxed) - 1;
    const u32 used = attached + os::processors();
    share_among(made < used ? made : used);
    const u32 log2 = attached > 1 ? ceil_log2(attached) : 0;
    const u8 sharing = static_cast<u8>(log2 < kMostSharingLog2 ? log2 : kMostSharingLog2);
    if (g_sharing_log2.get() != sharing) g_sharing_log2.set(sharing);  // all threads read its line
    // Of two threads at work here the one whose stores come last looks again, and finds what the other counted.
    full_fence();
    const u32 now = g_attached_heaps.load(relaxed);
    if (now == attached) return;
    attached = now;
  }
}

// A thread that gets a heap is counted before it takes one, and one that ends until its heap waits: a fork child that
// counts only its own thread has lost no heap.
inline void count_attached(u32 more) {
  g_attached_heaps.fetch_add(more, acq_rel);  // acq_rel: what comes after stays there, and what came before
}

}  // namespace coffer
