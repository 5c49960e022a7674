// SPDX-License-Identifier: MIT
// When a heap uses mixed spans (mixed/mixed.hpp), and what it keeps of them: a list of blocks of one class that were
// carved from holes, in heap->blocks of a class that has no hot span. Such blocks count as live. Everything here is
// called by the thread that uses `heap`, unless said.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// Each returns a block, and may leave others of the class in heap->blocks, where it has no hot span; nullptr: that is
// not wanted now, or no hole fits. size: what was asked for, for blocks that are carved exactly to it; 0: the blocks
// are the class's. used_up: the class had a span of its own until now, all of which is in use.
//
// Before a new span is made: from the holes there are.
Block* take_hole(Heap* heap, ClassIndex size_class, usize size, bool used_up);
// Where there was none: from a span that is converted now, or a new mixed span.
Block* make_hole(Heap* heap, ClassIndex size_class, usize size, bool used_up);

// Before a new span: where the process would grow by it, idle pages of mixed spans go back. Classes that came to spans
// of their own left them there, and the reclaimer waits for a tick.
void give_back_holes();

// Before malloc fails: a block of the class from any hole that there is, or from a new mixed span of the fewest slices:
// free ones may lie singly where the class's spans take several.
Block* last_hole(Heap* heap, ClassIndex size_class);

}  // namespace coffer
