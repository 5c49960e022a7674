// SPDX-License-Identifier: MIT
// malloc of figure 2. Locks: the thread's heap, then heap 0 if a superblock is wanted. No superblock's lock is taken
// under a heap's: free takes them in the other order.
#include "os/spin_lock.hpp"
#include "papers/hoard/assign.hpp"
#include "papers/hoard/small.hpp"

namespace coffer::papers::hoard {

namespace {

Pieces g_source;

// "In order to reduce external fragmentation, we recycle completely empty superblocks for re-use by any size class"
// (section 3).
void recycle(Heap* heap, Superblock* superblock, u32 size_class) {
  if (superblock->size_class == size_class) return;
  format(superblock, size_class);
  ++heap->counts.recycled;
}

// Line 6 to 14: a superblock of the class from heap 0, partly used by others (then it is at least f empty); or an empty
// one, of this heap's own before heap 0's. The class that gives it had it as free memory, so its inequalities still
// hold. Heap 0's of the class come before all empty ones: else a class would get more superblocks while some of its own
// have room there, and nothing would bound their number (theorem_test.cpp).
Superblock* from_heaps(Heap* heap, u32 size_class) {
  Heap* global = global_heap();
  global->lock.lock();
  Superblock* superblock = fullest(global, size_class);
  Heap* from = global;
  if (superblock == nullptr) {
    superblock = any_empty(heap);
    from = superblock != nullptr ? heap : global;
    if (superblock == nullptr) superblock = any_empty(global);
  }
  if (superblock != nullptr) {
    detach(from, superblock);
    recycle(heap, superblock, size_class);
    if (from == global) {
      ++heap->counts.from_global;
      heap->counts.shared_blocks += superblock->used;
    }
    attach(heap, superblock);
  }
  global->lock.unlock();
  return superblock;
}

// Line 8. The heap stays locked meanwhile, as in figure 2; others who want it give their processors away.
Superblock* from_system(Heap* heap, u32 size_class) {
  void* memory = g_source.take();
  if (memory == nullptr) return nullptr;
  // It is zero: an unlocked lock.
  Superblock* superblock = static_cast<Superblock*>(memory);
  format(superblock, size_class);
  ++heap->counts.created;
  attach(heap, superblock);
  return superblock;
}

COFFER_NOINLINE Superblock* find_superblock(Heap* heap, u32 size_class) {
  Superblock* superblock = from_heaps(heap, size_class);
  return superblock != nullptr ? superblock : from_system(heap, size_class);
}

}  // namespace

Pieces& superblock_source() { return g_source; }

void* allocate_small(u32 size_class) {
  Heap* heap = lock_own_heap();
  Superblock* superblock = fullest(heap, size_class);
  if (COFFER_UNLIKELY(superblock == nullptr)) superblock = find_superblock(heap, size_class);
  void* block = nullptr;
  if (COFFER_LIKELY(superblock != nullptr)) {
    block = take_block(heap, superblock);
    ++heap->counts.mallocs;
    COFFER_DEBUG_ASSERT(holds_after_malloc(heap, size_class));  // section 3.1
  }
  heap->lock.unlock();
  return block;
}

}  // namespace coffer::papers::hoard
