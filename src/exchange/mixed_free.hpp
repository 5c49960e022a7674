// SPDX-License-Identifier: MIT
// Frees of blocks in mixed spans, which belong to no heap (mixed/mixed.hpp).
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// Any thread: frees a block of a mixed span; reports what is not the start of one, or of one of another size.
// heap: the thread's, or the null heap; it counts what its thread frees.
void free_mixed(Heap* heap, void* block, Span* span, usize least = 0, usize most = ~usize{0});
// Any thread: frees what a push found to be blocks of a mixed span.
void free_mixed_list(Heap* heap, Block* first, u32 count, Span* span);

// What the thread freed in mixed spans of blocks like these. It is counted for the class of what was carved: of whole
// lines, where there are several heaps, and not for the class of the request. Blocks of the largest class are a line
// longer than any request (docs/design/placement.md).
inline Owned<u8>& churn_of(Heap* heap, u32 bytes) {
  return heap->churn[class_of(bytes < kLargestSmall ? bytes : kLargestSmall)];
}
// Who has the heap: counts blocks of about so many bytes that its thread works with in mixed spans (Heap::churn). What
// was counted in longer than churn_ns is forgotten, of all classes.
void count_churn(Heap* heap, u32 bytes, u32 count);

}  // namespace coffer
