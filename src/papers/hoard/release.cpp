// SPDX-License-Identifier: MIT
// free of figure 2. Locks: the superblock, its owner, then heap 0 if a superblock is given up. Figure 2 leaves open
// that the owner may change between the first two: another thread's malloc takes the superblock out of heap 0, or
// another thread's free gives it there. So the owner is read again under its lock, and all begins anew if it is another
// one. (models/hoard.pml explores these locks.)
#include "papers/common/process.hpp"
#include "papers/hoard/small.hpp"

namespace coffer::papers::hoard {

namespace {

// Locks the heap that owns the superblock. The caller holds the superblock's lock, but between fork's handlers.
COFFER_INLINE Heap* lock_owner(Superblock* superblock) {
  for (;;) {
    // relaxed, both: the first is checked by the second, which stands under the lock of the heap that it names. Who
    // changes it from that heap holds that lock, so what is read there is the latest.
    Heap* heap = superblock->owner.load(relaxed);
    heap->lock.lock();
    if (COFFER_LIKELY(superblock->owner.load(relaxed) == heap)) return heap;
    ++heap->counts.retries;
    heap->lock.unlock();
  }
}

// An empty superblock in heap 0 goes to the system, if that is wished: out of the heap, and onto a list of those that
// the caller gives back without locks.
void release_ihalf_of(Heap* global, Superblock* superblock, Superblock** released) {
  if (!g_hoard.release || superblock->used != 0) return;
  detach(global, superblock);
  superblock->next = *released;
  *released = superblock;
}

// Lines 9 to 12. One superblock restores the invariant, but for rounding: where (1 - f) n is no whole number, a heap
// can be short of it by less than one block after the first, and then gives a second.
COFFER_NOINLINE void give_to_global(Heap* heap, u32 size_class, Superblock** released) {
  Heap* global = global_heap();
  global->lock.lock();
  while (is_crossed(heap, size_class)) {
    Superblock* superblock = half_of(heap, size_class);
    COFFER_ASSERT(superblock != nullptr);  // of blocks that are more than f free in all, some superblock is
    detach(heap, superblock);
    attach(global, superblock);
    ++heap->counts.to_global;
    release_ihalf_of(global, superblock, released);
  }
  global->lock.unlock();
}

bool give_back(Superblock* released) {
  const bool any = released != nullptr;
  while (released != nullptr) {
    Superblock* next = released->next;
    superblock_source().give_back(released);
    released = next;
  }
  return any;
}

}  // namespace

void free_small(Superblock* superblock, void* block) {
  // The thread that forks holds every heap's lock until fork is done, and others may wait for them with a superblock's
  // lock held: so its handlers' frees do without that one.
  const bool forking = is_forking();
  if (COFFER_LIKELY(!forking)) superblock->lock.lock();
  Heap* heap = lock_owner(superblock);
  const u32 size_class = superblock->size_class;
  Superblock* released = nullptr;
  put_block(heap, superblock, block);
  ++heap->counts.frees;
  if (COFFER_LIKELY(!forking)) ++heap->counts.superblock_locks;
  if (heap == global_heap()) {
    release_ihalf_of(heap, superblock, &released);
  } else if (COFFER_UNLIKELY(is_crossed(heap, size_class))) {
    give_to_global(heap, size_class, &released);
  }
  COFFER_DEBUG_ASSERT(heap == global_heap() || !is_crossed(heap, size_class));  // section 3.1
  // Line 13, the superblock first: once its last owner's lock is free, an empty superblock may be gone.
  if (COFFER_LIKELY(!forking)) superblock->lock.unlock();
  heap->lock.unlock();
  if (COFFER_UNLIKELY(released != nullptr)) give_back(released);
}

bool release_empties() {
  bool any = false;
  for (u32 i = 0; i < heap_count(); ++i) {
    Heap* heap = heap_at(i);
    Superblock* released = nullptr;
    heap->lock.lock();
    while (Superblock* superblock = any_empty(heap)) {
      detach(heap, superblock);
      superblock->next = released;
      released = superblock;
    }
    heap->lock.unlock();
    any |= give_back(released);
  }
  return any;
}

}  // namespace coffer::papers::hoard
