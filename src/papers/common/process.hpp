// SPDX-License-Identifier: MIT
// Life of process and threads, which no paper describes and every allocator needs: the start at the first allocation,
// what a thread has of its own from its first allocation to its end, and fork.
#pragma once

#include "base/atomic.hpp"
#include "base/base.hpp"
#include "os/spin_lock.hpp"

namespace coffer::papers {

// What a paper does at these events.
struct Hooks {
  // Once, when the options are read, before the first allocation. false: no memory; it is tried again at the next
  // allocation. In a child that was forked during it, it runs again from its beginning.
  bool (*start)();
  // The calling thread ends; `local` is what it set. Its later calls find t_local null and thread_has_ended().
  void (*thread_ended)(void* local);
  // fork: prepare takes every lock of the paper in its order, parent and child let them go. The child has one thread.
  // Called only once the process has started.
  void (*fork_prepare)();
  void (*fork_parent)();
  void (*fork_child)();
};

// What the calling thread has in its paper's allocator. nullptr: nothing, before the first allocation and after the
// thread's end. Read with one instruction (initial-exec), so that it may be read on every path.
extern __thread void* t_local __attribute__((visibility("hidden"), tls_model("initial-exec")));

// Sets it, and has thread_ended called for it when the thread ends.
void set_local(void* local);
// The thread's end has come, though destructors of its other data still run: they may free, and even allocate. No
// later destructor would end what were set now, so such a thread must do without.
bool thread_has_ended();

// The calling thread's number: 1, 2, 3 ... in the order in which threads first ask. (Solaris, where the papers' thread
// ids come from, numbers threads so, too.)
u32 thread_number();

// Between prepare and the end of fork, in the thread that forks: other handlers may allocate then. The thread's
// identity; 0: nobody forks.
extern Atomic<uptr> g_forking __attribute__((visibility("hidden")));
COFFER_INLINE bool is_forking() {
  // relaxed: the thread that forks reads what it wrote; others read anything but their own identity.
  const uptr forking = g_forking.load(relaxed);
  return COFFER_UNLIKELY(forking != 0) && forking == reinterpret_cast<uptr>(&t_lock_identity);
}

// Registers the fork handlers, once. May allocate.
void handle_forks();

extern Atomic<u32> g_started __attribute__((visibility("hidden")));  // 1: started
bool start_process_slow(const Hooks& hooks);
// Everything that must be ready before the first allocation. false: no memory.
COFFER_INLINE bool start_process(const Hooks& hooks) {
  // acquire: pairs with the release in start_process_slow.
  return COFFER_LIKELY(g_started.load(acquire) != 0) || start_process_slow(hooks);
}

}  // namespace coffer::papers
