// SPDX-License-Identifier: MIT
#include "heap/registry.hpp"

#include <pthread.h>

#include "config/config.hpp"
#include "heap/bracket.hpp"
#include "heap/mixing.hpp"
#include "heap/ownership.hpp"
#include "heap/taking.hpp"
#include "heap/watching.hpp"
#include "mixed/mixed.hpp"
#include "observe/budget.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slot_pool.hpp"
#include "pool/tails.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"

namespace coffer {

Heap g_null_heap;
__thread Heap* t_heap = &g_null_heap;
__thread char t_lock_identity;
constinit Atomic<u32> g_pending{kFastPathClosed};
Atomic<u32> g_heapless_at_work;
Atomic<u8> g_bracket_flags;
Atomic<u32> g_attached_heaps;  // heaps that threads use

namespace {

// Under the registry's lock, or in a fork child's only thread.
void set_attached(u32 attached) {
  g_attached_heaps.store(attached, relaxed);  // relaxed: a hint
  g_crowded.set(attached > kFewHeaps ? 1 : 0);
}

// The calling thread gave its heap back; what it allocates from now on comes from the fallback heap. A destructor of
// thread-specific data that allocates would otherwise attach a heap that no later destructor gives back.
__thread bool t_ended;

// Forks that the thread is at (more than one: a signal handler forks between the handlers of another), and in which
// process it began the last one.
__thread u8 t_forks;
__thread u32 t_fork_process;

constexpr usize kCommitStep = 64 * 1024;
constexpr u32 kMostHeaps = 1u << 20;
constexpr u32 kFewestHeaps = 1024;
constexpr u32 kTooFewHeaps = 16;

// The state of the start is one word: these, or in between who makes it (as SpinLock's holder).
constexpr uptr kNotStarted = 0;
constexpr uptr kStarted = 1;

uptr this_thread() { return reinterpret_cast<uptr>(&t_lock_identity); }

struct Registry {
  Atomic<uptr> start;
  Atomic<u32> handlers;   // 1: a thread has registered the fork handlers, or is at it
  SpinLock lock;          // everything below, and the fields of heaps that no thread uses
  Heap* heaps = nullptr;  // record 0, which is the fallback heap; those of higher indexes lie below it
  u32 capacity = 0;
  uptr end = 0;            // of the records' memory
  usize committed = 0;     // bytes before it
  Atomic<u32> made;        // records in use or waiting
  u32 unused = 0;          // list of records that wait for a thread, by index; 0: none
  Atomic<u32> generation;  // grows in each fork child: heaps of an older one lost their thread
  pthread_key_t key = 0;
  bool has_key = false;
  SpinLock fallback;         // outermost of all locks: the fallback heap is used under it
  bool child_began = false;  // a fork child whose handler comes later has begun by itself
};

Registry g_registry;

// The first records, the ones that every process uses, lie at the upper end of the reservation: the kernel puts new
// mappings below older ones, so they share page tables with the libraries. At the lower end, gigabytes away, they would
// need two pages of tables of their own.
Heap* record(u32 index) { return g_registry.heaps - index; }

void thread_ended(void* heap);

bool start_registry() {
  Registry& registry = g_registry;
  // As many heaps as a process of this address space could have threads, so that the records' share of it stays small.
  const usize by_space = os::reservation_limit(config::options().arena) / (256 * 1024);
  u32 capacity = by_space > kMostHeaps ? kMostHeaps : static_cast<u32>(by_space);
  if (capacity < kFewestHeaps) capacity = kFewestHeaps;
  // The record of the first thread begins a page, so that it takes no second one.
  const usize first_two = round_up(2 * sizeof(Heap), os::page_size());
  usize bytes = 0;
  void* memory = nullptr;
  for (; memory == nullptr && capacity >= kTooFewHeaps; capacity /= 2) {
    bytes = round_up(first_two + (capacity - 2) * sizeof(Heap), kCommitStep);
    memory = os::reserve(bytes, kCommitStep);
    registry.capacity = capacity;
  }
  if (memory == nullptr) return false;
  os::advise_huge_pages(memory, bytes, os::HugePages::forbid);
  os::name_mapping(memory, bytes, "coffer heaps");
  counters().reserved.fetch_add(bytes, relaxed);  // relaxed: a statistic
  registry.made.store(1, relaxed);                // relaxed, here and below: under the lock; walks may miss the newest
  registry.has_key = pthread_key_create(&registry.key, &thread_ended) == 0;
  compiler_fence();  // a fork child that finds the table finds the key, too
  registry.end = reinterpret_cast<uptr>(memory) + bytes;
  registry.heaps = reinterpret_cast<Heap*>(registry.end - first_two) + 1;
  return true;
}

// Makes the record of an index readable. Under the lock.
bool commit_record(u32 index) {
  Registry& registry = g_registry;
  const usize wanted = registry.end - reinterpret_cast<uptr>(record(index));
  while (registry.committed < wanted) {
    void* at = reinterpret_cast<void*>(registry.end - registry.committed - kCommitStep);
    if (!charge(kCommitStep)) return false;
    if (!os::commit(at, kCommitStep)) {
      uncharge(kCommitStep);
      return false;
    }
    registry.committed += kCommitStep;
    counters().metadata.fetch_add(kCommitStep, relaxed);  // relaxed: a statistic
  }
  return true;
}

// A record for a thread: one that waits, else a new one. Under the lock.
Heap* take_record() {
  Registry& registry = g_registry;
  if (registry.unused != 0) {
    Heap* heap = record(registry.unused);
    registry.unused = heap->next_unused.get();
    return heap;
  }
  // relaxed, both: under the lock; walks may miss the newest.
  const u32 index = registry.made.load(relaxed);
  if (index >= registry.capacity || !commit_record(index)) return nullptr;
  registry.made.store(index + 1, relaxed);
  record(index)->index.set(index);
  return record(index);
}

void open_heap(Heap* heap) {
  // relaxed: grows in a fork child only, while it has one thread.
  heap->generation.set(g_registry.generation.load(relaxed));
  heap->attached.set(1);
  // relaxed: a claimant that does not see it takes the span instead.
  heap->mailbox.store(0, relaxed);
}

void return_record(Heap* heap) {
  Registry& registry = g_registry;
  LockGuard guard(registry.lock);
  heap->attached.set(0);
  heap->next_unused.set(registry.unused);
  registry.unused = heap->index.get();
  set_attached(attached_heaps() - 1);
}

// The destructor of the thread's key.
void thread_ended(void* value) {
  Heap* heap = static_cast<Heap*>(value);
  if (t_heap != heap) return;
  settle_fork();
  abandon_spans(heap);
  t_heap = &g_null_heap;
  t_ended = true;
  return_record(heap);
}

Heap* take_heap() {
  Registry& registry = g_registry;
  LockGuard guard(registry.lock);
  Heap* heap = take_record();
  if (heap == nullptr) return nullptr;
  open_heap(heap);
  set_attached(attached_heaps() + 1);
  return heap;
}

// Attaches a heap to the calling thread. nullptr: there is none.
Heap* attach() {
  Registry& registry = g_registry;
  Heap* heap = take_heap();
  if (heap == nullptr && make_room()) heap = take_heap();
  if (heap == nullptr) return nullptr;
  t_heap = heap;
  // The heap is in place first: pthread_setspecific may allocate. If it fails the heap is kept until the process ends.
  if (registry.has_key) pthread_setspecific(registry.key, heap);
  return heap;
}

}  // namespace

namespace {

// While the dynamic linker relocates a program it calls the resolvers of indirect functions (IFUNC), which may
// allocate. The thread-local variables of the main thread are there then, but all zero: their initial values are copied
// when everything is relocated. So malloc's fast path is closed at first, at no cost: what it compares a size with is
// 0. Who opens it gives the variables of such a thread values for the meantime: those of a thread past its end, which
// has no heap and never gets one. (A heap that it had would be forgotten by the copy.)
COFFER_COLD void open_fast_path() {
  if (t_heap == nullptr) {
    t_heap = &g_null_heap;
    t_ended = true;
  }
  g_arenas.arenas[0].fast_sizes.store(kLargestSmall + 1, relaxed);  // relaxed, both: see allocate_fast
  g_pending.fetch_and(~u32{kFastPathClosed}, relaxed);
}

}  // namespace

COFFER_NOINLINE void settle_all() {
  // relaxed: settle_fork acquired it.
  if ((g_pending.load(relaxed) & kFastPathClosed) != 0) open_fast_path();
  settle_pending();
}

namespace {

// At the first allocation and not in a constructor: a process that allocates nothing pays nothing, and the C library
// may allocate here: then that allocation makes the start, and this function is passed over. Before the start, so that
// the child of a fork meanwhile learns that it has to start by itself. Of handlers registered earlier than these, those
// in the child run before this one: begin_child_if_forked.
void handle_forks() {
  u32 seen = 0;
  if (!g_registry.handlers.compare_exchange(seen, 1, relaxed, relaxed)) return;  // relaxed: nothing else is published
  if (os::on_fork(&fork_prepare, &fork_parent, &fork_child)) return;
  constexpr char kFailed[] = "coffer: fork handlers could not be registered; do not fork while threads allocate\n";
  os::write_error(kFailed, sizeof kFailed - 1);
}

}  // namespace

// The reclaimer has no heap and never gets one: it frees and allocates as a thread past its end.
void enter_reclaimer() {
  t_heap = &g_null_heap;
  t_ended = true;
  settle_fork();
}

constexpr Chore kChores[] = {&take_from_quiet_heaps, &purge_spans_that_wait, &purge_mixed_that_wait,
                             &purge_tails_that_wait, &purge_what_waits};

bool start_process() {
  Registry& registry = g_registry;
  // acquire: pairs with the release below.
  if (COFFER_LIKELY(registry.start.load(acquire) == kStarted)) return true;
  open_fast_path();
  handle_forks();
  for (;;) {
    uptr seen = kNotStarted;
    // acquire, on failure, too: as above.
    if (registry.start.compare_exchange(seen, this_thread(), acquire, acquire)) break;
    if (seen == kStarted) return true;
    os::yield();
  }
  config::load();
  os::note_filter();
  os::prepare_barrier();
  // relaxed: before there is a span.
  if (!os::has_barrier()) g_bracket_flags.fetch_or(kFenceBrackets, relaxed);
  limit_start();
  span_choices_start();
  colours_start();
  const u32 wanted = config::options().shards;
  slot_pool_start(wanted != 0 ? wanted : os::processors());
  // The heap table may stand already, if an earlier start failed after it; both may in a fork child whose parent was
  // starting. relaxed: whoever made the arena was this thread, or has vanished.
  const bool ready = (registry.heaps != nullptr || start_registry()) &&
                     (g_arenas.count.load(relaxed) != 0 || arenas_start(config::options().arena));
  os::note_process();
  // In a static program these may lie on different sides of the program's own thread-local variables.
  const bool reclaimable =
      os::transient_reaches(&t_heap) && os::transient_reaches(&t_ended) && os::transient_reaches(&t_forks);
  set_chores(&enter_reclaimer, kChores, reclaimable ? sizeof kChores / sizeof kChores[0] : 0, &answer_readers);
  registry.start.store(ready ? kStarted : kNotStarted, release);  // release: pairs with the acquire above
  if (ready) watching_start();
  return ready;
}

Heap* own_heap_slow() {
  if (t_ended || !start_process()) return nullptr;
  return attach();
}

u32 attached_heaps() { return g_attached_heaps.load(relaxed); }  // relaxed: a hint
u32 heaps_ever() { return g_registry.made.load(relaxed); }       // relaxed: see start_registry
Heap* heap_by_index(u32 index) { return record(index); }

bool fallback_heap_used() { return g_registry.committed != 0; }

FallbackHeap::FallbackHeap(Wait wait) : heap_(nullptr), locked_(false) {
  Registry& registry = g_registry;
  if (wait == Wait::not_at_all) {
    // acquire: pairs with the release in start_process.
    locked_ = registry.start.load(acquire) == kStarted && registry.fallback.try_lock();
    if (locked_ && registry.committed != 0 && record(0)->attached.get() != 0) heap_ = record(0);
    return;
  }
  locked_ = start_process();
  if (!locked_) return;
  registry.fallback.lock();
  LockGuard guard(registry.lock);
  if (!commit_record(0)) return;
  heap_ = record(0);
  if (heap_->attached.get() == 0) open_heap(heap_);
}

FallbackHeap::~FallbackHeap() {
  if (locked_) g_registry.fallback.unlock();
}

// --- fork. ---

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
    if (registry.committed != 0 && !fallback_lost) record(0)->generation.set(generation);
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
    if (heap->attached.get() != 0 && !has_vanished(heap)) heap->mailbox.store(0, relaxed);
  }
}

namespace {

void empty_record(Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    heap->blocks[c].set(nullptr);
    heap->hot[c].set(nullptr);
    heap->reusable[c].set(0);
    heap->zero[c].set(0);
    heap->relaxed_class[c].set(0);
    heap->patience[c].set(0);
    heap->comeback[c].set(0);
  }
  heap->relaxed_bytes.set(0);
  heap->slack.set(0);
  heap->held.store(0, relaxed);  // relaxed, all: its thread is gone
  heap->chain_count.set(0);
  heap->chain_span.set(nullptr);
  heap->bracket.store(nullptr, relaxed);
  heap->mailbox.store(kMailboxClosed, relaxed);
  heap->attached.set(0);
}

}  // namespace

// The list of those that wait is made anew, and the heaps in use are counted: who vanished under the lock may have been
// at any of its steps. The fallback heap is no heap of a thread's: it is opened again when it is wanted.
void reclaim_vanished_records() {
  Registry& registry = g_registry;
  if (fallback_heap_used() && has_vanished(record(0))) empty_record(record(0));
  registry.unused = 0;
  u32 attached = 0;
  for (u32 i = 1; i < registry.made.load(relaxed); ++i) {  // relaxed: the child's other threads wait
    Heap* heap = record(i);
    if (has_vanished(heap)) empty_record(heap);
    if (heap->attached.get() != 0) {
      ++attached;
      continue;
    }
    heap->index.set(i);
    heap->next_unused.set(registry.unused);
    registry.unused = i;
  }
  set_attached(attached);
}

bool has_vanished(const Heap* heap) {
  // relaxed: see reclaim_vanished_records.
  return heap->attached.get() != 0 && heap->generation.get() != g_registry.generation.load(relaxed);
}

}  // namespace coffer
