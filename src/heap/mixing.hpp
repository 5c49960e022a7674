// SPDX-License-Identifier: MIT
// When a heap uses mixed spans (mixed/mixed.hpp), and what it keeps of them: a list of blocks of one class that were
// cut from holes, in heap->blocks of a class that has no hot span. Such blocks count as live. Everything here is called
// by the thread that uses `heap`, unless said.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

// Each fills heap->blocks of a class without a hot span; false: that is not wanted now, or no hole fits. size: what was
// asked for, for blocks that are cut exactly to it; 0: the blocks are the class's.
//
// Before anything else: the first blocks of a class in a small process. Sets heap->grown when the process is not small.
bool take_young(Heap* heap, ClassIndex size_class, usize size);
// Before a new span is made: from the holes there are.
bool take_holes(Heap* heap, ClassIndex size_class, usize size);
// Where there was none: from a span that is converted now, or a new mixed span.
bool make_holes(Heap* heap, ClassIndex size_class, usize size);

// Any thread: frees a block of a mixed span; reports what is not the start of one, or of one smaller than `size`.
// heap: the thread's, or the null heap; it counts what its thread frees.
void free_mixed(Heap* heap, void* block, Span* span, usize size = 0);
// Any thread: frees what a push found to be blocks of a mixed span.
void free_mixed_list(Heap* heap, Block* first, u32 count, Span* span);

// Gives back the whole pages of mixed spans in which nothing is live. Returns their bytes.
usize purge_mixed_spans();
// A chore of the reclaimer: the same for spans in which nothing happened for a second.
bool purge_mixed_that_wait();

}  // namespace coffer
