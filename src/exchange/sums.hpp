// SPDX-License-Identifier: MIT
// What is counted as memory comes and goes, counted anew: for coffer_check, and for a fork child, whose vanished
// threads may have been between a change and its count.
#pragma once

#include "size_class/placement.hpp"

namespace coffer {

struct Span;

// Blocks that start in absent pages of the span, counted from its layout.
u32 count_absent_blocks(const Span* span);

// What the process-wide counters should say, counted anew. Other threads must be outside.
struct Sums {
  usize held = 0;
  usize dirty = 0;
  usize large = 0;
  usize large_blocks = 0;
  usize tails = 0;  // of large blocks: Chunk::large_tail in bytes
  void add_large(usize bytes) {
    large += bytes;
    large_blocks += 1;
  }
};
Sums sum_chunks();

// What each class uses (span/class_use.hpp), counted anew. Other threads must be outside.
struct ClassSums {
  usize used[kClasses] = {};
  usize held[kClasses] = {};
  u32 spans[kClasses] = {};
};
void sum_classes(ClassSums& sums);
// What the spans of a class hold at most (docs/design/bound.md, theorem 1). Other threads must be outside.
usize class_bound(ClassIndex size_class);

}  // namespace coffer
