// SPDX-License-Identifier: MIT
#include "exchange/registry.hpp"

#include "base/hardening.hpp"
#include "budget/budget.hpp"
#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/inside.hpp"
#include "exchange/mail.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry_record.hpp"
#include "exchange/seizing.hpp"
#include "exchange/watch.hpp"
#include "mixed/idle.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"
#include "span/purge_span.hpp"

namespace coffer {

constinit Heap g_null_heap{&g_null_heap};
__thread Heap* t_heap = &g_null_heap;
__thread char t_lock_identity;
__thread u32 t_slow_paths;
// What every slow path reads and hardly anybody writes, apart from what starts and ends of threads write.
alignas(kCacheLine) constinit Atomic<u32> g_pending{kFastPathClosed};
alignas(kCacheLine) Atomic<u8> g_unusual;
Atomic<u32> g_heapless_at_work;
alignas(kCacheLine) Atomic<u32> g_attached_heaps;  // heaps that threads use
Atomic<usize> g_heaps_share;
Registry g_registry;

namespace {

// The calling thread gave its heap back; what it allocates from now on comes from the fallback heap. A destructor of
// thread-specific data that allocates would otherwise attach a heap that no later destructor gives back.
__thread bool t_ended;

constexpr usize kCommitStep = 64 * 1024;
constexpr u32 kMostHeaps = 1u << 20;
constexpr u32 kFewestHeaps = 1024;
constexpr u32 kTooFewHeaps = 16;
constexpr u32 kScarceShare = 8;  // of what address space is left, one part is for records where it is scarce

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
  const auto reserve = [&] {
    bytes = round_up(first_two + (capacity - 2) * sizeof(Heap), kCommitStep);
    return os::reserve(bytes, kCommitStep);
  };
  void* memory = reserve();
  if (memory == nullptr) {
    // Refused by a limit that reservation_limit does not see, as of memory that is locked as soon as it is mapped
    // (mlockall): what is left is for blocks.
    for (; memory == nullptr && capacity >= kTooFewHeaps; memory = reserve()) capacity /= 2;
    if (memory == nullptr) return false;
    if (capacity / kScarceShare >= kTooFewHeaps) {
      os::release(memory, bytes);
      capacity /= kScarceShare;
      memory = reserve();
      if (memory == nullptr) return false;
    }
  }
  registry.capacity = capacity;
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
  // relaxed: under the lock.
  for (usize done = registry.committed.load(relaxed); done < wanted; done += kCommitStep) {
    void* at = reinterpret_cast<void*>(registry.end - done - kCommitStep);
    if (!charge(kCommitStep)) return false;
    if (!os::commit(at, kCommitStep)) {
      uncharge(kCommitStep);
      return false;
    }
    registry.committed.store(done + kCommitStep, release);  // release: pairs with the acquire in is_readable
    counters().metadata.fetch_add(kCommitStep, relaxed);    // relaxed: a statistic
  }
  return true;
}

// acquire: pairs with the release in commit_record.
bool is_readable(u32 index) {
  return g_registry.committed.load(acquire) >= g_registry.end - reinterpret_cast<uptr>(record(index));
}

bool make_readable(u32 index) {
  if (is_readable(index)) return true;
  LockGuard guard(g_registry.lock);
  return commit_record(index);
}

// A record begins as zero bytes, and malloc follows what its lists begin with.
void empty_lists(Heap* heap) {
  for (BlockList& list : heap->blocks) list.set(nullptr);
}

// A new heap; nullptr: there can be no more. Between the CAS and its name the record is one that nobody can seize: its
// `self` is no heap.
Heap* make_record() {
  Registry& registry = g_registry;
  // relaxed, all: walks may miss the newest; what they find is readable.
  u32 index = registry.made.load(relaxed);
  do {
    if (index >= registry.capacity || !make_readable(index)) return nullptr;
  } while (!registry.made.compare_exchange(index, index + 1, relaxed, relaxed));
  Heap* heap = record(index);
  heap->index.set(index);
  empty_lists(heap);
  heap->self.store(heap, relaxed);
  return heap;
}

// The heap that was left last on this processor, or on one of those that follow.
Heap* take_waiting(u32 processor, u32 processors) {
  for (u32 i = 0; i < processors; ++i) {
    Atomic<u64>& newest = g_registry.waiting[(processor + i) % kMostProcessors].newest;
    // acquire, all: pairs with the release in wait_for_thread: the link, and what the heap's last thread did.
    u64 seen = newest.load(acquire);
    while (waiting_index(seen) != 0) {
      Heap* heap = record(waiting_index(seen));
      const u32 next = heap->next_waiting.get();  // if the heap is taken meanwhile, the CAS fails
      if (newest.compare_exchange(seen, waiting_word(seen, next), acquire, acquire)) return heap;
    }
  }
  return nullptr;
}

// A heap for a thread, which is counted already: one that was left on its processor; what other processors left is in
// their caches, so a new one is better, until there is one more for each processor than threads.
Heap* take_record() {
  const u32 processor = os::current_processor();
  if (Heap* heap = take_waiting(processor, 1)) return heap;
  if (heaps_ever() < attached_heaps() + os::processors()) {
    if (Heap* heap = make_record()) return heap;
  }
  return take_waiting(processor, kMostProcessors);
}

void open_heap(Heap* heap) {
  stamp(heap);
  heap->attached.store(1, seq_cst);  // seq_cst: before the thread's look at `self`; pairs with seize
  full_fence();
}

void leave_heap(Heap* heap) {
  heap->attached.store(0, seq_cst);  // seq_cst: see mail; release: what the thread did is seen by who seizes it
  wait_for_thread(heap, os::current_processor());
  count_attached(~u32{0});
  follow_attached();
}

// The destructor of the thread's key. The heap stays whole: a thread that starts may go on with it.
void thread_ended(void* value) {
  Heap* heap = static_cast<Heap*>(value);
  if (t_heap != heap) return;
  if constexpr (kHardening.rests) rests_end();
  const SlowPath path;
  if (enter(heap) == heap) {
    close_chains(heap);
  } else {
    heap->left_chains.store(1, seq_cst);  // seq_cst: before `attached`; see end in seizing.cpp
  }
  t_heap = &g_null_heap;
  t_ended = true;
  leave(heap);
  leave_heap(heap);
  take_late_mail(heap);
  if (heaps_may_keep_much()) want_reclaimer();
}

Heap* take_heap() {
  count_attached(1);
  Heap* heap = take_record();
  if (heap == nullptr) {
    count_attached(~u32{0});
    return nullptr;
  }
  open_heap(heap);
  follow_attached();
  return heap;
}

// Attaches a heap to the calling thread. nullptr: there is none.
Heap* attach() {
  Registry& registry = g_registry;
  Heap* heap = take_heap();
  if (heap == nullptr && make_room()) heap = take_heap();
  if (heap == nullptr) return nullptr;
  t_heap = heap;
  // A signal handler may have forked before: the child stamped the thread's heap, and there was none yet.
  compiler_fence();
  stamp(heap);
  // The heap is in place first: pthread_setspecific may allocate. If it fails the heap is kept until the process ends.
  if (registry.has_key) pthread_setspecific(registry.key, heap);
  if (several_heaps()) handle_forks();  // may allocate, too
  heap = enter(heap);
  // Its thread may sleep when it has worked for a while, and nobody comes by then.
  if (heaps_may_keep_much()) want_reclaimer();
  return heap != &g_null_heap ? heap : nullptr;
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
  g_pending.fetch_and(~u32{kFastPathClosed}, relaxed);  // relaxed: the thread's own variables
}

}  // namespace

COFFER_NOINLINE void settle_all() {
  // relaxed, all: settle_fork acquired it.
  if ((g_pending.load(relaxed) & kFastPathClosed) != 0) open_fast_path();
  begin_child_once();
  const u32 pending = g_pending.load(relaxed);
  if ((pending & kVanished) != 0) resolve_vanished();
  if ((pending & kWatching) != 0) watching_comes_by();
}

// The reclaimer has no heap and never gets one: it frees and allocates as a thread past its end.
void enter_reclaimer() {
  t_heap = &g_null_heap;
  t_ended = true;
  settle_fork();
}

// What calls leave: heaps that sleep lose what others need (steal_from_idle_heaps), for to empty one costs a barrier
// and a walk over all that it keeps; and purge_after sweeps free memory in any case.
constexpr Chore kChores[] = {{&purge_spans_that_wait, &purge_spans_step},
                             {&purge_mixed_that_wait, &purge_mixed_step},
                             {&purge_tails_that_wait, &purge_tails_step},
                             {&begin_sweep},
                             {&empty_idle_heaps},
                             {&purge_what_waits}};

namespace {

// Before malloc's fast path is open. A thread that finds it open loaded what says so after the barrier, and the offset
// by the same instruction or a later one, so it sees the offset. false: there was no barrier.
bool keep_offset() {
  if constexpr (kKeepsOffset) {
    const auto offset = reinterpret_cast<uptr>(&t_heap) - reinterpret_cast<uptr>(__builtin_thread_pointer());
    g_arenas.arenas[0].heap_offset.store(offset, relaxed);  // relaxed: the barrier
    return os::barrier_everywhere();
  }
  return true;
}

// Before the thread's name is in g_registry.start, and after it is there no more, for whoever forks in a signal
// handler.
void set_starting(char value) {
  compiler_fence();
  t_lock_identity = value;
  compiler_fence();
}

}  // namespace

bool start_process() {
  Registry& registry = g_registry;
  // acquire: pairs with the release below.
  if (COFFER_LIKELY(registry.start.load(acquire) == kStarted)) return true;
  if (COFFER_UNLIKELY(os::support() != os::Support::yes)) return false;
  // relaxed: the thread's own variables. Many may come here at once, so each cell is looked at before it is written.
  if (t_heap == nullptr || (g_pending.load(relaxed) & kFastPathClosed) != 0) open_fast_path();
  // Before the start, so that a child that is forked in the middle of it learns that it has to start by itself.
  if (!watch_for_forks()) handle_forks();
  for (;;) {
    // Or it waits for a thread that was starting when another forked, or a signal handler in this one, and is not here.
    begin_child_once();
    // acquire, all: as above.
    uptr seen = registry.start.load(acquire);
    if (seen == kStarted) return true;
    set_starting(1);
    if (seen == kNotStarted && registry.start.compare_exchange(seen, this_thread(), acquire, acquire)) break;
    set_starting(0);
    os::yield();
  }
  config::load();
  os::note_filter();
  os::prepare_barrier();
  // relaxed, both: before there is a span. Here and nowhere else, so that nobody opens what has to stay closed.
  if (os::has_barrier() && keep_offset()) {
    g_arenas.arenas[0].fast_sizes.store(kPopping, relaxed);
  } else {
    g_unusual.fetch_or(kFenceCalls, relaxed);
  }
  limit_start();
  share_among(0);
  span_choices_start();
  colours_start();
  links_start();
  const u32 wanted = config::options().shards;
  slice_pool_start(wanted != 0 ? wanted : os::processors());
  // The heap table may stand already, if an earlier start failed after it; both may in a fork child whose parent was
  // starting. relaxed: whoever made the arena was this thread, or has vanished.
  const bool ready = (registry.heaps != nullptr || start_registry()) &&
                     (g_arenas.count.load(relaxed) != 0 || arenas_start(config::options().arena));
  os::note_process();
  // In a static program these may lie on different sides of the program's own thread-local variables.
  const bool reclaimable =
      os::transient_reaches(&t_heap) && os::transient_reaches(&t_ended) && os::transient_reaches(&t_slow_paths);
  set_chores(reclaimable ? &enter_reclaimer : nullptr, kChores, sizeof kChores / sizeof kChores[0], &answer_readers);
  registry.start.store(ready ? kStarted : kNotStarted, release);  // release: pairs with the acquire above
  set_starting(0);
  if (ready) watching_start();
  return ready;
}

Heap* own_heap_slow() {
  // With a heap of its own it is here because another has seized that.
  if (t_ended || t_heap != &g_null_heap || !start_process()) return nullptr;
  return attach();
}

Heap* Inside::attach() {
  Heap* heap = own_heap_slow();
  if (heap != nullptr) heap_ = heap;
  return heap;
}

u32 attached_heaps() { return g_attached_heaps.load(relaxed); }  // relaxed: a hint
u32 heaps_ever() { return g_registry.made.load(relaxed); }       // relaxed: see start_registry
Heap* heap_by_index(u32 index) { return record(index); }

// acquire: pairs with the release in commit_record: the record can be read.
bool fallback_heap_used() { return g_registry.committed.load(acquire) != 0; }

FallbackHeap::FallbackHeap(Wait wait) : heap_(nullptr), locked_(false) {
  Registry& registry = g_registry;
  if (wait == Wait::not_at_all) {
    // acquire: pairs with the release in start_process.
    locked_ = registry.start.load(acquire) == kStarted && registry.fallback.try_lock();
    // relaxed: under the lock.
    if (locked_ && fallback_heap_used() && record(0)->attached.load(relaxed) != 0) heap_ = record(0);
    return;
  }
  locked_ = start_process();
  if (!locked_) return;
  registry.fallback.lock();
  LockGuard guard(registry.lock);
  if (!commit_record(0)) return;
  heap_ = record(0);
  // relaxed, both: under the lock.
  if (heap_->attached.load(relaxed) == 0) {
    empty_lists(heap_);
    heap_->self.store(heap_, relaxed);
    open_heap(heap_);
  }
}

FallbackHeap::~FallbackHeap() {
  if (locked_) g_registry.fallback.unlock();
}

}  // namespace coffer
