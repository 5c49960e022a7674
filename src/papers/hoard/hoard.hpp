// SPDX-License-Identifier: MIT
// Hoard (Berger, McKinley, Blumofe, Wilson; ASPLOS 2000): per-processor heaps that own superblocks, and a global heap
// that gets a superblock from each of them that becomes too empty. docs/papers.md maps the paper to these files:
//
//   options.hpp     the paper's parameters             heap.cpp       superblocks by class and fullness, u and a
//   parameters.cpp  ... as the code wants them         allocate.cpp   malloc of figure 2
//   sizes.cpp       size classes a factor b apart      release.cpp    free of figure 2
//   threshold.hpp   f, K and the fullness groups       assign.cpp     which heap a thread uses
//   superblock.hpp  the record of a superblock         walk.cpp       figures, checks, fork
#pragma once

#include "papers/common/adapter.hpp"

namespace coffer {

namespace papers {

struct Hoard {
  static bool start();
  static void thread_ended(void* local);
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

}  // namespace papers

using Allocator = papers::Adapter<papers::Hoard>;

}  // namespace coffer
