// SPDX-License-Identifier: MIT
// Frees of blocks in mixed spans, which belong to no heap (mixed/mixed.hpp).
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// A thread that freed so many blocks of a class in mixed spans, and asks for more, works with the class: it gets a span
// of its own, where that is fast.
inline constexpr u32 kChurn = 64;

// Any thread: frees a block of a mixed span; reports what is not the start of one, or of one smaller than `size`.
// heap: the thread's, or the null heap; it counts what its thread frees.
void free_mixed(Heap* heap, void* block, Span* span, usize size = 0);
// Any thread: frees what a push found to be blocks of a mixed span.
void free_mixed_list(Heap* heap, Block* first, u32 count, Span* span);

}  // namespace coffer
