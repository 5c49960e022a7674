// SPDX-License-Identifier: MIT
// What the heaps and all below them offer, as the API shim wants it (api/allocator.hpp). The default build offers this
// and nothing else (heap/allocator.hpp); the hardened build has a layer over it (hardened/allocator.hpp).
#pragma once

#include "heap/heap.hpp"

namespace coffer {

struct Figures;
struct Statistics;
struct HeapStatistics;

struct PlainAllocator {
  static COFFER_INLINE void* allocate_fast(usize size) { return coffer::allocate_fast(size); }
  static COFFER_INLINE void deallocate(void* block) { coffer::deallocate(block); }
  static COFFER_INLINE void deallocate_sized(void* block, usize size) { deallocate_as<Claim::size>(block, size); }
  static COFFER_INLINE void deallocate_object(void* block, usize size) { deallocate_as<Claim::object>(block, size); }

  static void* allocate(usize size) { return allocate_any(size); }
  static void* allocate_zeroed(usize size);
  static void* allocate_aligned(usize size, usize alignment);
  static void* reallocate(void* block, usize size);
  static usize usable_size(void* block);
  static bool trim(usize keep);
  static void set_limit(usize bytes);
  static usize limit();
  static void read_options();
  static void handle_forks();

  // Inspection (inspect/allocator.cpp).
  static void statistics(Statistics& statistics);
  static void figures(Figures& figures);
  static bool heap_statistics(u32 index, HeapStatistics& statistics);
  static usize check();
  static void profile_start(usize mean);
  static void profile_stop();
  static bool profile_dump(const char* path);
  static void loaded();
  static void ending();
};

}  // namespace coffer
