// SPDX-License-Identifier: MIT
// CIF, cache-index friendly (Afek, Dice and Morrison, "Cache Index-Aware Memory Allocation", ISMM 2011): a Hoard whose
// blocks, superblock headers and superblocks are spread over the indices of the first-level cache. docs/papers.md maps
// the paper to these files.
//
//   size_classes.hpp   which sizes blocks have; which of them reach every index by themselves
//   array.hpp          where blocks lie, with spacers where they would not
//   superblock.hpp     colour, header, array
//   heap.hpp           processors' heaps and the global one
//   options.hpp        CIF_CONF
#pragma once

#include "papers/common/adapter.hpp"

namespace coffer {

namespace cif {

// See PaperConcept for what each does.
struct Cif {
  static bool start();
  static void thread_ended(void*) {}
  static void fork_prepare();
  static void fork_parent();
  static void fork_child();
  static void* allocate(usize size);
  static void* allocate_aligned(usize size, usize alignment);
  static void deallocate(void* block);
  static usize usable_size(void* block);
  static bool is_zero(void* block);
  static void* resize(void* block, usize size);
  static bool trim();
  static void statistics(Statistics& statistics);
  static void describe(Text& text);
  static usize check();
};

}  // namespace cif

using Allocator = papers::Adapter<cif::Cif>;

}  // namespace coffer
