// SPDX-License-Identifier: MIT
// Before and after fork: the handlers, and the child's registry. What else vanished threads left is vanished.cpp's.
// docs/design/fork.md has the argument.
#include "arena/arena.hpp"
#include "config/config.hpp"
#include "exchange/registry_record.hpp"
#include "exchange/watch.hpp"
#include "guard/guard.hpp"
#include "mixed/mixed.hpp"
#include "os/os.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/colour.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

__thread u32 t_fork_process;  // in which process the thread began its last fork

}  // namespace

// No lock is held across a fork: the C library and others take theirs after Coffer's handler, and who has one of those
// may be waiting for one of Coffer's. The child lets go of what vanished threads had, and resolve_vanished makes whole
// what they left half changed.

void fork_prepare() {
  // What an earlier fork left is resolved first, so that no thread vanishes in the middle of that. Not where a signal
  // handler forks that interrupted it: this thread goes on with it in the child. relaxed: made sure of under the lock.
  if ((g_pending.load(relaxed) & kVanished) != 0 && !g_registry.lock.is_mine()) resolve_vanished();
  t_fork_process = os::process_number();
  ++t_forks;
  g_pending.fetch_add(kForking, relaxed);  // relaxed: this thread's own business
}

void fork_parent() {
  --t_forks;
  g_pending.fetch_sub(kForking, relaxed);  // relaxed: as in fork_prepare
}

namespace {

// Lets go of all locks that other threads had; true if there were any.
bool forget_locks() {
  bool any = g_registry.lock.forget_others();
  any = g_mixed_pool.forget_others() || any;
  any = g_partial_pool.forget_others() || any;
  any = guard::forget_others() || any;
  return arenas_forget_others() || any;
}

void begin_child() {
  Registry& registry = g_registry;
  // relaxed, all here: the child has one thread.
  const u32 generation = registry.generation.load(relaxed) + 1;
  registry.generation.store(generation, relaxed);
  const u32 own = t_heap != &g_null_heap ? 1 : 0;
  if (own != 0) t_heap->generation.set(generation);
  os::note_process();
  t_fork_process = os::process_number();
  colours_after_fork();
  // Of those that fork, this thread alone is here.
  u32 pending = (g_pending.load(relaxed) & (kForking - 1)) + t_forks * kForking;
  // It may have had slots, a chunk or a span in hand.
  if (forget_reclaimer()) pending |= kVanished;
  // Who had the fallback heap vanished inside it: it is a heap without a thread, as all others.
  const bool fallback_lost = registry.fallback.forget_others();
  if (forget_locks() || fallback_lost) pending |= kVanished;
  if (registry.start.load(relaxed) == kStarted) {
    if (fallback_heap_used() && !fallback_lost) record(0)->generation.set(generation);
    // Other threads are gone, and whatever they held with them: those with a heap, those that had given theirs back and
    // were ending, and those that never had one. Resolved at the first slow call, for most children exec before that.
    const bool others = g_attached_heaps.load(relaxed) > own || registry.made.load(relaxed) > 2;
    if (others || g_heapless_at_work.load(relaxed) != 0) pending |= kVanished;
    os::forget_locking();
  } else if (registry.start.load(relaxed) != this_thread()) {
    // Whoever was starting is not here. What it had made whole is used, the rest is made anew.
    registry.start.store(kNotStarted, relaxed);
    config::forget_reading();
  }
  g_pending.store(pending, relaxed);
  watching_after_fork();  // last: it may start the child's reclaimer
}

}  // namespace

void begin_child_if_forked() {
  // relaxed: a child knows what this thread did as its parent. A child of vfork, which is another process in the same
  // memory, stops here: its thread is not between the handlers of a fork.
  if (t_forks == 0 || g_registry.start.load(relaxed) != kStarted || os::process_number() == t_fork_process) return;
  begin_child();
  g_registry.child_began = true;
}

void fork_child() {
  if (!g_registry.child_began) begin_child();
  g_registry.child_began = false;
  fork_parent();
}

SpinLock& registry_lock() { return g_registry.lock; }

void empty_mailboxes() {
  // relaxed, all: the child's other threads wait.
  for (u32 i = fallback_heap_used() ? 0 : 1; i < g_registry.made.load(relaxed); ++i) {
    Heap* heap = record(i);
    if (!has_vanished(heap)) heap->mailbox.store(0, relaxed);
  }
}

namespace {

void empty_record(Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    heap->blocks[c].set(nullptr);
    heap->hot[c].set(nullptr);
    heap->reusable[c].set(0);
  }
  heap->slack.set(0);
  heap->empties.set(0);
  heap->held.store(0, relaxed);  // relaxed, all: its thread is gone
  for (Chain& chain : heap->chains) chain.span.set(nullptr);
  heap->inside.store(kOutside, relaxed);
  heap->mailbox.store(0, relaxed);
  heap->self.store(heap, relaxed);
  if (heap != t_heap) heap->attached.store(0, relaxed);
}

}  // namespace

// The list of those that wait is made anew, and the heaps in use are counted: who vanished under the lock may have been
// at any of its steps. The fallback heap is no heap of a thread's: it is opened again when it is wanted.
void reclaim_vanished_records() {
  Registry& registry = g_registry;
  if (fallback_heap_used() && has_vanished(record(0))) empty_record(record(0));
  for (Waiting& waiting : registry.waiting) {
    // relaxed: the child's other threads wait. Written only where something is: most of it was never touched.
    const u64 word = waiting.newest.load(relaxed);
    if (word != 0) waiting.newest.store(waiting_word(word, 0), relaxed);
  }
  // Where their last threads ran is not known. Here the child's next ones start.
  const u32 processor = os::current_processor();
  u32 attached = 0;
  for (u32 i = 1; i < registry.made.load(relaxed); ++i) {  // relaxed: the child's other threads wait
    Heap* heap = record(i);
    if (has_vanished(heap)) empty_record(heap);
    if (heap->attached.load(relaxed) != 0) {
      ++attached;
      continue;
    }
    heap->index.set(i);
    heap->self.store(heap, relaxed);
    wait_for_thread(heap, processor);
  }
  g_attached_heaps.store(attached, relaxed);
  follow_attached();
  end_shortage();  // a span that was half shared is known to nobody
}

bool has_vanished(const Heap* heap) {
  // relaxed, all: see reclaim_vanished_records.
  if (heap->self.load(relaxed) == &g_null_heap) return true;
  return heap->attached.load(relaxed) != 0 && heap->generation.get() != g_registry.generation.load(relaxed);
}

}  // namespace coffer
