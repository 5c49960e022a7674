// SPDX-License-Identifier: MIT
// Which heap belongs to which thread: start of the process, start and end of threads, fork.
//
// Heaps outlive threads: a thread that ends leaves its heap whole, and a thread that starts takes the one that was left
// last. Records are numbered and never unmapped, so that an owner field can always be looked at. A thread past its end,
// one for which no record is left, and one whose heap another has seized allocate from the fallback heap under a lock
// and free as any stranger does.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// In a call (inside.hpp) that found the null heap: the thread gets a heap, if it never had one, and is inside it.
// nullptr: use the fallback heap.
Heap* own_heap_slow();

// Everything that must be ready before the first allocation; safe to call often. false: no memory at all.
bool start_process();

// Heaps that threads use now.
u32 attached_heaps();
extern Atomic<u32> g_attached_heaps __attribute__((visibility("hidden")));
inline bool several_heaps() { return g_attached_heaps.load(relaxed) > 1; }  // relaxed: a hint
// A heap's share of the half of the option `free_limit` that heaps may keep. Those count that have a thread, and as
// many as threads are likely to take next.
extern Atomic<usize> g_heaps_share __attribute__((visibility("hidden")));
inline usize heaps_share() { return g_heaps_share.load(relaxed); }  // relaxed: a hint
u32 heaps_ever();
Heap* heap_by_index(u32 index);
bool fallback_heap_used();  // record 0 exists

// The heap of threads without one, locked while this object lives.
class FallbackHeap {
 public:
  // not_at_all: another thread may have the heap (has_lock), and none is made.
  enum class Wait : u8 { as_needed, not_at_all };
  explicit FallbackHeap(Wait wait = Wait::as_needed);
  ~FallbackHeap();
  FallbackHeap(const FallbackHeap&) = delete;
  FallbackHeap& operator=(const FallbackHeap&) = delete;
  Heap* get() const { return heap_; }  // nullptr: no memory even for it; or, not waiting, there is none yet
  bool has_lock() const { return locked_; }

 private:
  Heap* heap_;
  bool locked_;
};

// Called first in every slow path: at the very first, opens the fast one; in a fork child, resolves what the threads
// that it does not have left behind; and shows what the process holds to those who watch it (inspect/watching.hpp).
enum Pending : u32 { kVanished = 1, kWatching = 2, kFastPathClosed = 4 };
extern Atomic<u32> g_pending __attribute__((visibility("hidden")));
// Whether a fork child has begun: not, which it finds so, for the cell is in a page that the kernel wipes
// (forking.cpp); or it has; or in between who begins it (as SpinLock's holder).
inline constexpr uptr kNotBegun = 0;
inline constexpr uptr kBegun = 1;
extern Atomic<Atomic<uptr>*> g_begun __attribute__((visibility("hidden")));
void resolve_vanished();
void settle_all();
// acquire, all: pairs with the release in resolve_vanished, and in begin_child_once; relaxed would do for the thread
// that forked. The first acquire, too: pairs with the release in watch_for_forks.
COFFER_INLINE bool is_settled() {
  return g_pending.load(acquire) == 0 && g_begun.load(acquire)->load(acquire) == kBegun;
}
COFFER_INLINE void settle_fork() {
  if (COFFER_UNLIKELY(!is_settled())) settle_all();
}

// A slow path that is not inside the thread's heap (Inside): settle_fork, and what tells a signal handler that forks,
// and forks again in the child, that it interrupted one (fork_prepare).
extern __thread u32 t_slow_paths __attribute__((visibility("hidden"), tls_model("initial-exec")));
class SlowPath {
 public:
  COFFER_INLINE SlowPath() {
    ++t_slow_paths;
    compiler_fence();
    settle_fork();
  }
  COFFER_INLINE ~SlowPath() {
    compiler_fence();
    --t_slow_paths;
  }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;
};

// A thread without a heap is about to change what the pools or large blocks have: the child of another thread's fork
// has to know of it, for no count of heaps tells. To be called after settle_fork.
extern Atomic<u32> g_heapless_at_work __attribute__((visibility("hidden")));
inline void note_if_heapless(const Heap* heap) {
  // relaxed: in a fork child, what a vanished thread did before the rest of its work is seen with it.
  if (COFFER_UNLIKELY(heap == &g_null_heap)) g_heapless_at_work.store(1, relaxed);
}

// Of the hardened build (hardened/rest.cpp): the calling thread ends, and its heap gets back what it freed.
void rests_end();

// For vanished.cpp, under registry_lock.
SpinLock& registry_lock();
bool has_vanished(const Heap* heap);  // its thread was not taken along by fork, or who had seized or made it
void empty_mailboxes();               // of the heaps that live on
void reclaim_vanished_records();      // makes such heaps empty, and what waits ready for new threads

// forking.cpp. Before the start: lays the cell of g_begun into a page that forks wipe. false: the kernel has none.
bool watch_for_forks();
// Registers the handlers, once.
void handle_forks();
// In a fork child that has not begun: begins it.
void begin_child_once();
void fork_prepare();
void fork_parent();
void fork_child();

}  // namespace coffer
