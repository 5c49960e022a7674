// SPDX-License-Identifier: MIT
// The least that is an allocator over papers/common: blocks up to 1/4 of a piece are cut from pieces and never used
// again, larger ones are mapped. For tests of the ground itself, and a pattern for allocators of papers.
#pragma once

#include "papers/common/adapter.hpp"

namespace coffer {

namespace papers {

struct Plain {
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

// Threads that had a local and have ended.
u32 plain_threads_ended();

}  // namespace papers

using Allocator = papers::Adapter<papers::Plain>;

}  // namespace coffer
