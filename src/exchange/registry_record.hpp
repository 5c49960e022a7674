// SPDX-License-Identifier: MIT
// The registry's own record, for its two halves: registry.cpp (threads, start) and forking.cpp (fork).
#pragma once

#include <pthread.h>

#include "exchange/registry.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"
#include "span/emptiness.hpp"

namespace coffer {

// The state of the start is one word: these, or in between who makes it (as SpinLock's holder).
inline constexpr uptr kNotStarted = 0;
inline constexpr uptr kStarted = 1;

inline uptr this_thread() { return reinterpret_cast<uptr>(&t_lock_identity); }

// Processors that have a stack of waiting heaps each; beyond, some share one.
inline constexpr u32 kMostProcessors = 256;

struct alignas(kCacheLine) Registry {
  Atomic<uptr> start;
  Atomic<u32> handlers;   // 1: a thread has registered the fork handlers, or is at it
  SpinLock lock;          // everything below, and the fields of heaps that no thread uses
  Heap* heaps = nullptr;  // record 0, which is the fallback heap; those of higher indexes lie below it
  u32 capacity = 0;
  uptr end = 0;             // of the records' memory
  Atomic<usize> committed;  // bytes before it; read without the lock
  Atomic<u32> made;         // records in use or waiting
  // Heaps that wait for a thread, by the processor on which their last one ended: the index of the newest; 0: none.
  u32 waiting[kMostProcessors] = {};
  Atomic<u32> generation;  // grows in each fork child: heaps of an older one lost their thread
  pthread_key_t key = 0;
  bool has_key = false;
  SpinLock fallback;         // outermost of all locks: the fallback heap is used under it
  bool child_began = false;  // a fork child whose handler comes later has begun by itself
};

extern Registry g_registry __attribute__((visibility("hidden")));

// Forks that the thread is at (more than one: a signal handler forks between the handlers of another).
extern __thread u8 t_forks __attribute__((visibility("hidden"), tls_model("initial-exec")));

// The first records, the ones that every process uses, lie at the upper end of the reservation: the kernel puts new
// mappings below older ones, so they share page tables with the libraries. At the lower end, gigabytes away, they would
// need two pages of tables of their own.
inline Heap* record(u32 index) { return g_registry.heaps - index; }

// Under the registry's lock, or in a fork child's only thread.
inline void wait_for_thread(Heap* heap, u32 processor) {
  u32& waiting = g_registry.waiting[processor % kMostProcessors];
  heap->next_waiting.set(waiting);
  waiting = heap->index.get();
}

// The same.
inline void set_attached(u32 attached) {
  // What ended threads left counts, too, as far as it is used again: a heap for each processor.
  const u32 made = g_registry.made.load(relaxed) - 1;  // relaxed, all here: hints
  const u32 used = attached + os::processors();
  const u32 heaps = made < used ? made : used;
  if (g_sharing_heaps.load(relaxed) != heaps) g_sharing_heaps.store(heaps, relaxed);
  g_attached_heaps.store(attached, relaxed);  // relaxed: a hint
  const u32 log2 = attached > 1 ? ceil_log2(attached) : 0;
  const u8 sharing = static_cast<u8>(log2 < kMostSharingLog2 ? log2 : kMostSharingLog2);
  if (g_sharing_log2.get() != sharing) g_sharing_log2.set(sharing);  // all threads read its line
}

}  // namespace coffer
