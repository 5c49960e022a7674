// SPDX-License-Identifier: MIT
// The figures an allocator reports, for coffer_stats, mallinfo2, malloc_info and malloc_stats. Bytes unless said; the
// meaning of each is documented at struct coffer_stats in include/coffer/coffer.h, whose order this follows.
#pragma once

#include "base/base.hpp"

namespace coffer {

struct ClassStatistics {
  usize block_bytes;  // bytes of a block
  usize spans;        // spans of the class in use
  usize held;         // bytes of those spans
  usize live;         // bytes of blocks in use (see coffer_stats::live)
  usize bound;        // what `held` of the class stays within (see coffer_stats::bound)
};

struct HeapStatistics {
  usize attached;  // 1: a thread uses the heap
  usize held;      // bytes of the spans that are private to it
  usize slack;     // free bytes in its reusable spans, as counted at their last event
  usize mailed;    // bytes of the spans in its mailbox
};

// Without classes: little enough for the stack of any thread, beside all that a call of malloc needs.
struct Figures {
  usize live = 0;
  usize held = 0;
  usize resident = 0;
  usize free_resident = 0;
  usize committed = 0;
  usize reserved = 0;
  usize metadata = 0;
  usize large = 0;
  usize heaps = 0;
  usize heaps_ever = 0;
  usize spans = 0;
  usize chunks = 0;
  usize system_calls = 0;
  usize limit = 0;
  usize bound = 0;
  usize page_tables = 0;
  usize free_blocks = 0;     // number of free blocks in spans of a class
  usize large_blocks = 0;    // number of live blocks over 64 KiB
  usize peak_held = 0;       // highest sum of held + free_resident seen
  usize mixed_spans = 0;     // spans that hold blocks of any size; they belong to no class
  usize mixed_held = 0;      // bytes of those spans
  usize mixed_live = 0;      // bytes of blocks in use in them, and of free ones on other threads' lists
  usize mixed_resident = 0;  // bytes of their pages that may be backed
  usize mixed_bound = 0;     // what mixed_held cannot pass (see coffer_stats::bound)
};

// With classes: 5 KiB. A thread's whole stack may have 16 (PTHREAD_STACK_MIN).
struct Statistics : Figures {
  usize classes = 0;              // entries used in by_class
  ClassStatistics by_class[128];  // one a size class
};

}  // namespace coffer
