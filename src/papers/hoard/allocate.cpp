// SPDX-License-Identifier: MIT
// malloc of figure 2. Locks: the thread's heap, then heap 0 if a superblock is wanted. No superblock's lock is taken
// under a heap's: free takes them in the other order.
#include "os/spin_lock.hpp"
#include "papers/hoard/assign.hpp"
#include "papers/hoard/small.hpp"

namespace coffer::papers::hoard {

namespace {

Pieces g_source;

// Line 6 to 14: a superblock of heap 0, partly used by others (then it is at least f empty) or empty.
Superblock* from_global(Heap* heap, u32 size_class) {
  Heap* global = global_heap();
  global->lock.lock();
  Superblock* superblock = fullest(global, size_class);
  if (superblock == nullptr) superblock = any_empty(global);
  if (superblock != nullptr) {
    detach(global, superblock);
    if (superblock->size_class != size_class) {
      format(superblock, size_class);
      ++heap->counts.recycled;
    }
    ++heap->counts.from_global;
    heap->counts.shared_blocks += superblock->used;
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

// "In order to reduce external fragmentation, we recycle completely empty superblocks for re-use by any size class"
// (section 3): one of this heap's own. The class that gives it had it as free memory, so its inequalities still hold.
Superblock* from_other_class(Heap* heap, u32 size_class) {
  Superblock* superblock = any_empty(heap);
  if (superblock == nullptr) return nullptr;
  detach(heap, superblock);
  format(superblock, size_class);
  ++heap->counts.recycled;
  attach(heap, superblock);
  return superblock;
}

COFFER_NOINLINE Superblock* find_superblock(Heap* heap, u32 size_class) {
  Superblock* superblock = from_other_class(heap, size_class);
  if (superblock == nullptr) superblock = from_global(heap, size_class);
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
