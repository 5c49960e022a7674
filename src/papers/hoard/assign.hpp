// SPDX-License-Identifier: MIT
// Which heap a thread uses (paper 1, section 3): by a hash of the thread, or of the processor it runs on; or so that
// threads that meet at a heap part (section 7, future work).
#pragma once

#include "papers/common/process.hpp"
#include "papers/hoard/heap.hpp"

namespace coffer::papers::hoard {

// For a thread that has none yet, or whose heap is to be looked for anew.
Heap* find_heap();

// The calling thread's heap, locked.
COFFER_INLINE Heap* lock_own_heap();

// The caller found its heap's lock held (assign:adaptive): the heap it goes on with.
Heap* after_collision(Heap* heap);

// The thread ends.
void leave_heap(Heap* heap);
// In a fork child: the other threads are gone.
void forget_other_threads();

COFFER_INLINE Heap* lock_own_heap() {
  // Set for hash and adaptive; by processor, it is looked for at each call.
  Heap* heap = static_cast<Heap*>(t_local);
  if (COFFER_UNLIKELY(heap == nullptr)) heap = find_heap();
  if (COFFER_LIKELY(g_hoard.assign != config::Assign::adaptive)) {
    heap->lock.lock();
    return heap;
  }
  if (heap->lock.try_lock()) return heap;
  heap = after_collision(heap);
  heap->lock.lock();
  return heap;
}

}  // namespace coffer::papers::hoard
