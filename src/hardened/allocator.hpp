// SPDX-License-Identifier: MIT
// The hardened build as the API shim sees it (api/allocator.hpp): a layer over the heaps of the default build, which
// serve as they always do. It asks them for some bytes more, and gives back later what was freed.
//
//   size 0 ................. an address that nobody may touch (nothing.hpp)
//   up to 32 KiB and more .. a block of the heap with a canary behind the request (canary.hpp)
//   what needs a large block  pages of its own between inaccessible ones (fenced.hpp)
//
//   free    canary checked -> the block is zeroed -> quarantine (rest.hpp) -> malloc, or the heap
//   malloc  a block that is zero, as free left it or as it was carved: checked -> canary written
//
// So every block is zero when it is handed out, and calloc need not clear it. What it finds, and what that costs, says
// docs/guide/hardened.md.
#pragma once

#include "guard/guard.hpp"
#include "hardened/canary.hpp"
#include "hardened/report.hpp"
#include "hardened/rest.hpp"
#include "heap/plain_allocator.hpp"

namespace coffer {

namespace hardened {

using guard::kNoSize;

// Bytes that the heap is asked for.
COFFER_INLINE usize bytes_for(usize size) {
  const usize wanted = size + kCanaryBytes;
  return wanted < kLeastBlock ? kLeastBlock : wanted;
}

// nullptr: no block of the class is at hand.
COFFER_INLINE void* allocate_quick(Rest* rest, const Sized& sized, usize size) {
  void* const block = take_quick(rest, sized);
  if (COFFER_UNLIKELY(block == nullptr)) return nullptr;
  const usize have = sized.block_bytes();
  const u64 mac = mac_of(block, rest->key);
  if (COFFER_UNLIKELY(!begin_zero_block(block, have, size, mac))) report_touched(block, have);
  return block;
}

// The commonest calls, without a look at the span. nullptr: the others.
COFFER_INLINE void* allocate_fast(usize size) {
  Rest* const rest = t_heap->rest.get();
  if (COFFER_UNLIKELY(rest == nullptr) || COFFER_UNLIKELY(size - 1 >= rest->fast_sizes)) return nullptr;
  return allocate_quick(rest, sized_of(size), size);
}

void* allocate(usize size);
// The same, for what holds pointers: it shares no span with what does not. What needs a large block shares none.
void* allocate_pointers(usize size);
void* allocate_aligned(usize size, usize alignment);
void deallocate(void* block);
void deallocate_sized(void* block, usize given);
void* reallocate(void* block, usize size);
usize usable_size(void* block);
usize check();

}  // namespace hardened

struct Allocator : PlainAllocator {
  static COFFER_INLINE void* allocate_fast(usize size) { return hardened::allocate_fast(size); }
  static void* allocate(usize size) { return hardened::allocate(size); }
  static void* allocate_pointers(usize size) { return hardened::allocate_pointers(size); }
  static void* allocate_zeroed(usize size) { return hardened::allocate(size); }
  static void* allocate_aligned(usize size, usize alignment) { return hardened::allocate_aligned(size, alignment); }
  static void deallocate(void* block) { hardened::deallocate(block); }
  static void deallocate_sized(void* block, usize size) { hardened::deallocate_sized(block, size); }
  static void deallocate_object(void* block, usize size) { hardened::deallocate_sized(block, size); }
  static void* reallocate(void* block, usize size) { return hardened::reallocate(block, size); }
  static usize usable_size(void* block) { return hardened::usable_size(block); }
  static bool trim(usize keep);
  // What rests is not live.
  static void statistics(Statistics& statistics);
  static void figures(Figures& figures);
  static usize check() { return hardened::check(); }
};

}  // namespace coffer
