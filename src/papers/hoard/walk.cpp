// SPDX-License-Identifier: MIT
#include "papers/hoard/walk.hpp"

#include "papers/common/describe.hpp"
#include "papers/hoard/heap.hpp"
#include "papers/hoard/small.hpp"

namespace coffer::papers::hoard {

namespace {

Gauge g_live;

template <class Visit>
void for_each_superblock(const Heap* heap, u32 size_class, Visit visit) {
  for (u32 group = 0; group < kGroups; ++group) {
    for (Superblock* s = heap->bins[size_class].front[group]; s != nullptr; s = s->next) visit(s, group);
  }
}

// Whether all that a superblock says of itself is true, in a group of a heap.
bool is_sound(const Heap* heap, const Superblock* s, u32 size_class, u32 group) {
  u64 listed = 0;
  const uptr first = reinterpret_cast<uptr>(s) + head_bytes(g_hoard.word);
  for (const Block* block = s->free; block != nullptr && listed <= s->fresh; block = block->next) {
    const usize offset = reinterpret_cast<uptr>(block) - first;  // wraps for a block before the first
    if (offset % s->stride != 0 || offset / s->stride >= s->fresh) return false;
    ++listed;
  }
  // relaxed: the heap's lock is held.
  return s->owner.load(relaxed) == heap && s->size_class == size_class && s->group == group &&
         group == group_of(s->used, s->capacity) && s->used >= s->least && s->used <= s->most &&
         s->capacity == g_hoard.capacity[size_class] && s->fresh <= s->capacity && s->used + listed == s->fresh &&
         (s->next == nullptr || s->next->previous == s);
}

usize check_class(const Heap* heap, u32 size_class) {
  const Bin& bin = heap->bins[size_class];
  usize violations = 0;
  u64 used = 0;
  u64 blocks = 0;
  u32 superblocks = 0;
  u32 groups = 0;
  for_each_superblock(heap, size_class, [&](const Superblock* s, u32 group) {
    violations += is_sound(heap, s, size_class, group) ? 0 : 1;
    used += s->used;
    blocks += s->capacity;
    ++superblocks;
    groups |= 1u << group;
  });
  const bool empty_bit = (heap->empties[size_class / 64] >> (size_class % 64) & 1) != 0;
  violations += used != bin.used || blocks != bin.blocks || superblocks != bin.superblocks ? 1 : 0;
  violations += groups != bin.groups || empty_bit != ((groups & 1u << kEmptyGroup) != 0) ? 1 : 0;
  // Heap 0 takes what others give; malloc takes whatever it has with a free block, so nothing in it is full.
  const Threshold& t = g_hoard.threshold;
  const u32 capacity = g_hoard.capacity[size_class];
  const bool holds =
      heap == global_heap() ? (groups >> kFullGroup & 1) == 0 : t.holds_after_malloc(used, blocks, capacity);
  return violations + (holds ? 0 : 1);
}

}  // namespace

Gauge& live_gauge() { return g_live; }

usize check_heap(const Heap* heap) {
  usize violations = 0;
  for (u32 c = 0; c < g_hoard.classes.count(); ++c) violations += check_class(heap, c);
  return violations;
}

usize check_heaps() {
  usize violations = 0;
  for (u32 i = 0; i < heap_count(); ++i) {
    heap_at(i)->lock.lock();
    violations += check_heap(heap_at(i));
    heap_at(i)->lock.unlock();
  }
  return violations;
}

void collect(Statistics& statistics) {
  const u32 classes = g_hoard.classes.count();
  statistics.heaps = g_hoard.heaps;
  statistics.heaps_ever = g_hoard.heaps;
  statistics.classes = classes;
  for (u32 c = 0; c < classes; ++c) statistics.by_class[c] = {g_hoard.classes.usable(c), 0, 0, 0, 0};
  usize live = 0;
  for (u32 i = 0; i < heap_count(); ++i) {
    Heap* heap = heap_at(i);
    heap->lock.lock();
    for (u32 c = 0; c < classes; ++c) {
      ClassStatistics& entry = statistics.by_class[c];
      const Bin& bin = heap->bins[c];
      entry.spans += bin.superblocks;
      entry.held += usize{bin.superblocks} * g_hoard.superblock_bytes;
      entry.live += bin.used * g_hoard.classes.stride(c);
      live += bin.used * g_hoard.classes.stride(c);
      statistics.spans += bin.superblocks;
    }
    heap->lock.unlock();
  }
  statistics.live = live + totals().mapped.now();
}

void describe_heaps(Text& text) {
  Counts sum = {};
  u64 heap_locks = 0;
  for (u32 i = 0; i < heap_count(); ++i) {
    Heap* heap = heap_at(i);
    heap->lock.lock();
    const Counts& counts = heap->counts;
    sum.mallocs += counts.mallocs;
    sum.frees += counts.frees;
    sum.superblock_locks += counts.superblock_locks;
    sum.retries += counts.retries;
    sum.created += counts.created;
    sum.from_global += counts.from_global;
    sum.shared_blocks += counts.shared_blocks;
    sum.to_global += counts.to_global;
    sum.recycled += counts.recycled;
    heap_locks += i != 0 ? heap->lock.taken() : 0;
    heap->lock.unlock();
  }
  text.add("Hoard:\n");
  add_line(text, "mallocs", sum.mallocs);
  add_line(text, "frees", sum.frees);
  add_line(text, "heap locks", heap_locks);
  add_line(text, "global heap locks", global_heap()->lock.taken());
  add_line(text, "superblock locks", sum.superblock_locks);
  add_line(text, "owner retries", sum.retries);
  add_line(text, "superblocks made", sum.created);
  add_line(text, "from global heap", sum.from_global);
  add_line(text, "to global heap", sum.to_global);
  add_line(text, "recycled", sum.recycled);
  add_line(text, "falsely shared", sum.shared_blocks);
  add_line(text, "A bytes", totals().held.peak());
  if (g_hoard.peaks) add_line(text, "U bytes", g_live.peak());
}

// Heap i before heap 0, as everywhere. Nobody else ever holds two of the others.
void lock_heaps_for_fork() {
  for (u32 i = 1; i < heap_count(); ++i) heap_at(i)->lock.lock_for_fork();
  global_heap()->lock.lock_for_fork();
}

void unlock_heaps_after_fork() {
  global_heap()->lock.unlock_after_fork();
  for (u32 i = heap_count() - 1; i > 0; --i) heap_at(i)->lock.unlock_after_fork();
}

void forget_superblock_locks() {
  for (u32 i = 0; i < heap_count(); ++i) {
    for (u32 c = 0; c < g_hoard.classes.count(); ++c) {
      for_each_superblock(heap_at(i), c, [](Superblock* s, u32) { s->lock.forget_others(); });
    }
  }
}

}  // namespace coffer::papers::hoard
