// SPDX-License-Identifier: MIT
// Before and after fork: the handlers, and the child's registry. What else vanished threads left is vanished.cpp's.
// docs/design/fork.md has the argument.
#include "arena/arena.hpp"
#include "config/config.hpp"
#include "exchange/registry_record.hpp"
#include "exchange/watch.hpp"
#include "guard/guard.hpp"
#include "mixed/mixed.hpp"
#include "os/no_signals.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/colour.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

constinit Atomic<uptr> g_always_begun{kBegun};

}  // namespace

constinit Atomic<Atomic<uptr>*> g_begun{&g_always_begun};

// Two things tell that this is a fork child. The kernel wipes the page with g_begun's cell, whoever made the child and
// whatever the C library knows of it: the first slow call begins it. And handlers, as soon as two threads have heaps:
// in a child of such a process it must begin in the thread that forked, for nothing else says which heap is still used;
// and what an earlier fork left must be whole before the next. Handlers cost a small process 160 KiB of the C library,
// so one with one heap has none, but where they have to be registered at load (api/lifetime.cpp).

bool watch_for_forks() {
  Atomic<uptr>* unwatched = &g_always_begun;
  if (g_begun.load(acquire) != unwatched) return true;  // acquire: pairs with the release below
  const usize bytes = os::page_size();
  void* const page = os::map_wiped_in_children(bytes);
  if (page == nullptr) return false;
  auto* const cell = static_cast<Atomic<uptr>*>(page);
  cell->store(kBegun, relaxed);  // relaxed: published below
  // Who is overtaken by another thread takes that one's page.
  if (!g_begun.compare_exchange(unwatched, cell, acq_rel, acquire)) os::release(page, bytes);
  return true;
}

void handle_forks() {
  u32 seen = g_registry.handlers.load(relaxed);  // relaxed, both: nothing else is published
  if (seen != 0 || !g_registry.handlers.compare_exchange(seen, 1, relaxed, relaxed)) return;
  if (os::on_fork(&fork_prepare, &fork_parent, &fork_child)) return;
  constexpr char kFailed[] = "coffer: fork handlers could not be registered; do not fork while threads allocate\n";
  os::write_error(kFailed, sizeof kFailed - 1);
}

// No lock is held across a fork: the C library and others take theirs after Coffer's handler, and who has one of those
// may be waiting for one of Coffer's. The child lets go of what vanished threads had, and resolve_vanished makes whole
// what they left half changed.

void fork_prepare() {
  // What an earlier fork left is resolved first, so that no thread vanishes in the middle of that. Not where a signal
  // handler forks that interrupted a call: it has in hand what the walk would take for left behind, and goes on with
  // it. relaxed, both: the thread's own; made sure of under the lock.
  const bool in_call = t_slow_paths != 0 || at_work_on(t_heap, relaxed) != kOutside;
  if (!in_call && (g_pending.load(relaxed) & kVanished) != 0) resolve_vanished();
}

void fork_parent() {}

namespace {

// Lets go of all locks that other threads had; true if there were any.
bool forget_locks() {
  bool any = g_registry.lock.forget_others();
  any = g_mixed_pool.forget_others() || any;
  any = g_partial_pool.forget_others() || any;
  any = guard::forget_others() || any;
  return arenas_forget_others() || any;
}

// The heaps whose threads are here: of a child that began in the thread that forked, its own. Else that one has made a
// thread before it came by here, and there was one heap at most (or nearly two: the second began just then). Then all
// count as used: what a heap keeps that in truth has no thread is lost, and nothing else.
u32 stamp_heaps(bool forked) {
  Registry& registry = g_registry;
  if (forked) {
    if (t_heap == &g_null_heap) return 0;
    stamp(t_heap);
    return 1;
  }
  const u32 made = registry.made.load(relaxed);  // relaxed, both: the threads that changed it are gone
  for (u32 i = 1; i < made; ++i) stamp(record(i));
  return g_attached_heaps.load(relaxed);
}

void begin_child() {
  Registry& registry = g_registry;
  const bool forked = os::is_first_thread();
  // relaxed, all here: the child has one thread, or its others are on fast paths, which look at nothing of this.
  const u32 generation = registry.generation.load(relaxed) + 1;
  registry.generation.store(generation, relaxed);
  const u32 here = stamp_heaps(forked);
  os::note_process();
  colours_after_fork();
  // It may have had slices, a chunk or a span in hand.
  bool vanished = forget_reclaimer();
  // Who had the fallback heap vanished inside it: it is a heap without a thread, as all others.
  const bool fallback_lost = registry.fallback.forget_others();
  vanished = forget_locks() || fallback_lost || vanished;
  if (registry.start.load(relaxed) == kStarted) {
    // That an earlier child found it half changed, and has not walked, its generation tells.
    const bool whole = fallback_heap_used() && record(0)->generation.get() == generation - 1;
    if (whole && !fallback_lost) stamp(record(0));
    // Other threads are gone, and whatever they held with them: those with a heap, those that had given theirs back and
    // were ending, and those that never had one. Resolved at the first slow call, for most children exec before that.
    // Where it is not known whose heap there is, its thread may be gone, too.
    const bool others = !forked || g_attached_heaps.load(relaxed) > here || registry.made.load(relaxed) > 2;
    vanished = vanished || others || g_heapless_at_work.load(relaxed) != 0;
    os::forget_locking();
  } else if (!is_starting() || registry.start.load(relaxed) != this_thread()) {
    // Whoever was starting is not here; a new thread may lie in its place. What it had made whole is used, the rest is
    // made anew.
    registry.start.store(kNotStarted, relaxed);
    config::forget_reading();
  }
  if (vanished) g_pending.fetch_or(kVanished, relaxed);
  watching_after_fork();  // last: it may start the child's reclaimer
}

}  // namespace

void begin_child_once() {
  Atomic<uptr>& cell = *g_begun.load(acquire);  // acquire: see is_settled
  if (cell.load(acquire) == kBegun) return;     // acquire, all: pairs with the release below
  // A handler that forks would leave a child whose beginning is half done.
  const NoSignals quiet;
  for (;;) {
    uptr seen = cell.load(acquire);
    // Itself: a handler, where signals cannot be blocked. It goes on with what there is.
    if (seen == kBegun || seen == this_thread()) return;
    if (seen == kNotBegun && cell.compare_exchange(seen, this_thread(), acquire, acquire)) break;
    os::yield();
  }
  begin_child();
  cell.store(kBegun, release);  // release: pairs with the acquire above, and in is_settled
}

// Where the kernel has no such page, the handler is all there is.
void fork_child() {
  if (g_begun.load(relaxed) != &g_always_begun) return begin_child_once();  // relaxed: only compared
  const NoSignals quiet;
  begin_child();
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
  // The child's own was seized; its thread goes on with it, whatever thread makes the walk.
  if (!is_stamped(heap)) heap->attached.store(0, relaxed);
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
  // relaxed, all: see reclaim_vanished_records. Not its own: seized, or in the making, with lists of zero bytes.
  if (heap->self.load(relaxed) != heap) return true;
  return heap->attached.load(relaxed) != 0 && !is_stamped(heap);
}

}  // namespace coffer
