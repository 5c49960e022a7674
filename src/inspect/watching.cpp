// SPDX-License-Identifier: MIT
#include "inspect/watching.hpp"

#include "budget/budget.hpp"
#include "config/config.hpp"
#include "exchange/inside.hpp"
#include "exchange/registry.hpp"
#include "inspect/profiling.hpp"
#include "inspect/signals.hpp"
#include "inspect/walk.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "os/os.hpp"
#include "pool/reclaimer.hpp"
#include "span/choices.hpp"
#include "span/purge_span.hpp"

namespace coffer {

namespace {

constexpr u64 kStep = 100'000'000;  // ns between two copies, at least
constexpr u64 kRest = 50;           // and so many times what a copy takes: at most 2 % of one processor

constexpr u32 kWatchedHeaps = 16 * 1024;
constexpr usize kCommitStep = 64 * 1024;
constexpr usize kTableBytes = (kWatchedHeaps * sizeof(Watch) + kCommitStep - 1) / kCommitStep * kCommitStep;

struct Watching {
  SpinLock writer;  // the page, and what follows; nobody waits for it
  SharedPage page;
  Statistics statistics = {};  // here and not on the stack: a handler may run on a small one
  Allocated allocated;
  Owned<u64> next_copy;  // monotonic time from which on
  u32 process = 0;       // whose page it is; 0: too early, or too late, for one
  Atomic<u64> large_blocks, large_bytes;
  // One Watch a heap. Made when the first is wanted.
  SpinLock table_lock;
  Atomic<Watch*> table;
  Atomic<usize> committed;
};

constinit Watching g_watching;

// The table's part for this heap is made writable. false: no memory, or too many heaps.
COFFER_NOINLINE bool reach_watch(usize end) {
  Watching& w = g_watching;
  if (end > kTableBytes) return false;
  LockGuard guard(w.table_lock);
  // relaxed, all: under the lock; readers are told by the release below.
  Watch* table = w.table.load(relaxed);
  if (table == nullptr) {
    table = static_cast<Watch*>(os::reserve(kTableBytes, kCommitStep));
    if (table == nullptr) return false;
    os::name_mapping(table, kTableBytes, "coffer watch");
    counters().reserved.fetch_add(kTableBytes, relaxed);
    w.table.store(table, release);  // release: pairs with the acquire in watch_of
  }
  for (usize done = w.committed.load(relaxed); done < end; done += kCommitStep) {
    if (!charge(kCommitStep)) return false;
    if (!os::commit(reinterpret_cast<char*>(table) + done, kCommitStep)) {
      uncharge(kCommitStep);
      return false;
    }
    counters().metadata.fetch_add(kCommitStep, relaxed);
    w.committed.store(done + kCommitStep, release);  // release: as above
  }
  return true;
}

// nullptr: there is none for this heap.
COFFER_INLINE Watch* find_watch(const Heap* heap) {
  Watching& w = g_watching;
  const usize end = (usize{heap->index.get()} + 1) * sizeof(Watch);
  if (w.committed.load(acquire) < end) return nullptr;  // acquire: pairs with the release in reach_watch
  return w.table.load(acquire) + heap->index.get();
}

void add_heaps() {
  Watching& w = g_watching;
  w.allocated = {};
  // relaxed, all: figures.
  w.allocated.large_blocks = w.large_blocks.load(relaxed);
  w.allocated.large_bytes = w.large_bytes.load(relaxed);
  w.allocated.blocks = w.allocated.large_blocks;
  w.allocated.bytes = w.allocated.large_bytes;
  for (u32 i = 0; i < heaps_ever(); ++i) {
    HeapStatistics figures;
    if (!collect_heap(i, figures)) continue;
    u64 blocks = 0;
    if (const Watch* watch = find_watch(heap_by_index(i))) {
      for (ClassIndex c = 0; c < kClasses; ++c) {
        const u64 taken = watch->blocks[c].get();
        blocks += taken;
        w.allocated.by_class[shape_class(c)] += taken;
        w.allocated.bytes += taken * class_layout(c).block_bytes;
      }
    }
    w.allocated.blocks += blocks;
    if (figures.attached != 0 || blocks != 0) w.page.add_heap(i, figures, blocks);
  }
}

// What is known of a span without its owner: blocks on the list of a hot one count as live.
SpanFigures figures_of(const Arena* arena, const Span* span, bool mixed) {
  const u64 held = span_bytes(span);
  const Heap* owner = span->owner.load(relaxed);                 // relaxed: heaps' records are never unmapped
  const u64 free = mixed ? 0 : u64{free_blocks(span, acquire)};  // acquire: as in count_span in walk.cpp
  const u64 capacity = span->capacity.get();
  const u64 used = capacity > free ? capacity - free : 0;
  const u64 absent = unbacked_bytes(span);
  // Where its record lies says where the span starts; what the record says of it is its owner's, and may just change.
  return {.address = arena->base + static_cast<uptr>(span - arena->spans) * kSliceBytes,
          .block_bytes = mixed ? 0 : u64{span->block_bytes.get()},
          .state = static_cast<u64>(life_of(span, owner)),
          .owner = owner != nullptr ? owner->index.get() : SpanFigures::kNoOwner,
          .held = held,
          .live = mixed ? MixedPool::live_bytes(span) : used * span->block_bytes.get(),
          .resident = held > absent ? held - absent : 0};
}

void add_spans() {
  for_each_chunk([](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [arena](const Span* span, SliceUse slice_use) {
      if (slice_use == SliceUse::large) return;
      g_watching.page.add_span(figures_of(arena, span, slice_use == SliceUse::mixed));
    });
  });
}

// Whether there is a page; a child of vfork, another process in the same memory, makes none.
bool open_page() {
  Watching& w = g_watching;
  if (w.page.is_open()) return true;
  if (w.process == 0 || w.process != os::process_number()) return false;
  if (w.page.open(config::options().share_signal)) return true;
  w.process = 0;  // said once, and not tried again
  constexpr char kFailed[] = "coffer: share: no page could be made in /dev/shm, /run/user or /tmp\n";
  os::write_error(kFailed, sizeof kFailed - 1);
  return false;
}

// A copy, if nobody is at it.
void write_copy() {
  Watching& w = g_watching;
  const u64 start = os::monotonic_ns();
  if (!try_statistics(w.statistics)) return;
  w.page.begin();
  add_heaps();
  add_spans();
  const u64 end = os::monotonic_ns();
  w.page.write(w.statistics, w.allocated, start, end - start);
  const u64 rest = (end - start) * kRest;
  w.next_copy.set(end + (rest > kStep ? rest : kStep));
}

// at_once: whether or not the last copy is old.
void come_by(bool at_once) {
  Watching& w = g_watching;
  if (!w.writer.try_lock()) return;
  if (open_page()) {
    w.page.write_now();
    if (at_once || os::coarse_ns() >= w.next_copy.get()) write_copy();
  }
  w.writer.unlock();
}

bool shows_page() { return config::options().share && g_watching.process != 0; }

void begin_watching() {
  // relaxed, both: hints that may be late.
  g_unusual.fetch_or(kWatchLists, relaxed);
  g_pending.fetch_or(kWatching, relaxed);
}

void share_signalled(int) { share_now(); }

}  // namespace

Watch* watch_of(const Heap* heap) {
  Watch* watch = find_watch(heap);
  if (COFFER_LIKELY(watch != nullptr)) return watch;
  if (heap == &g_null_heap || !reach_watch((usize{heap->index.get()} + 1) * sizeof(Watch))) return nullptr;
  return find_watch(heap);
}

void watching_comes_by() {
  come_by(false);
  if (shows_page() && !reclaimer_lives()) want_reclaimer();
}

bool answer_readers() {
  Watching& w = g_watching;
  if (!config::options().share) return false;
  if (!w.writer.try_lock()) return true;
  if (open_page() && w.page.is_asked()) write_copy();
  const bool stay = w.process != 0;
  w.writer.unlock();
  return stay && os::has_process_rights();
}

u32 unwatched_blocks(const Heap* heap, ClassIndex size_class) {
  if (!samples_lists()) return kNever;
  Watch* watch = watch_of(heap);
  return watch != nullptr ? blocks_before_sample(watch, size_class) : kNever;
}

void blocks_taken(Heap* heap, ClassIndex size_class, u32 count) {
  Watch* watch = watch_of(heap);
  if (watch == nullptr) return;
  watch->blocks[size_class].set(watch->blocks[size_class].get() + count);
  if (samples_lists()) count_taken(watch, size_class, count);
}

void blocks_returned(Heap* heap, ClassIndex size_class, u32 count) {
  Watch* watch = find_watch(heap);
  if (watch == nullptr) return;
  // Lists that were taken before anybody watched may come back, too.
  const u64 taken = watch->blocks[size_class].get();
  watch->blocks[size_class].set(taken > count ? taken - count : 0);
  if (samples_lists()) count_returned(watch, size_class, count);
}

void large_taken(void* block, usize bytes) {
  if (samples_lists()) sample_large(block, bytes);
  g_watching.large_blocks.fetch_add(1, relaxed);  // relaxed, both: figures
  g_watching.large_bytes.fetch_add(bytes, relaxed);
}

COFFER_COLD void watching_prepare() {
  profiling_prepare();
  // A program that never allocates can be watched, too; and of one that does, the first block may be sampled.
  const config::Options& options = config::options();
  if (options.share || options.profile || options.leaks || options.guard_sample != 0) start_process();
  catch_signal("share_signal", options.share_signal, &share_signalled);
}

void watching_start() {
  const config::Options& options = config::options();
  const bool shares = options.share || options.share_signal != 0;
  if (shares) g_watching.process = os::process_number();
  // A child has a page and a profile of its own, also one that does not come by here.
  if (shares || options.profile || options.leaks || options.profile_signal != 0) handle_forks();
  if (options.share) share_now();
  if (shows_page()) want_reclaimer();
  profiling_start();
}

void watching_after_fork() {
  Watching& w = g_watching;
  // The page is the parent's. The table is made and grows by one store each, the last of those that do it.
  w.writer.forget_others();
  w.table_lock.forget_others();
  profiling_after_fork();
  w.page.forget();
  if (w.process != 0) w.process = os::process_number();
  w.next_copy.set(0);
  if (shows_page()) want_reclaimer();
}

COFFER_COLD void watching_end() {
  profiling_end();
  Watching& w = g_watching;
  // If somebody writes just now the page is left behind; whoever looks for pages removes it.
  if (!w.page.is_open() || !w.writer.try_lock()) return;
  w.page.close();
  w.process = 0;  // what allocates after this offers no page
  w.writer.unlock();
}

void begin_sampling() {
  g_unusual.fetch_or(kWatchLists | kSampleLists, relaxed);  // relaxed, here and below: see begin_watching
}

void end_sampling() {
  // relaxed, both: hints that may be late.
  const bool watching = (g_pending.load(relaxed) & kWatching) != 0;
  g_unusual.fetch_and(static_cast<u8>(watching ? ~kSampleLists : ~(kSampleLists | kWatchLists)), relaxed);
}

void share_now() {
  begin_watching();
  come_by(true);
}

const char* shared_path() { return g_watching.page.is_open() ? g_watching.page.path() : nullptr; }

}  // namespace coffer
