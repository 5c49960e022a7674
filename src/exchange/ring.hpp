// SPDX-License-Identifier: MIT
// The rings of reusable spans, one a heap and class: the head is the newest, before it lies the oldest. All on a heap's
// rings are its own. One may be claimed, and come by mail: then it is placed anew.
//
// All spans on them count for `slack`, and those that are empty for `empties`: together within the budgets of
// policy/kept.hpp, but for what became free since a span was counted. Of one that is owned that is less than
// frees_to_recount of local frees and less than the threshold of others'.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// Puts the span on its heap's ring, `slack` free bytes of it counted; of an empty one all its bytes.
void push_ring(Heap* heap, Span* span, u32 slack);
// Whether it stands on a ring; if so, its place is kept and its free bytes are counted anew.
inline bool stands_on_ring(const Span* span) { return span->ring_next.get() != 0; }
void set_ring_slack(Heap* heap, Span* span, u32 slack);
// Takes the span off the heap's ring if it stands there.
void leave_ring(Heap* heap, Span* span);
// The span that has been there for longest; nullptr: the ring is empty. pop_ring takes it off.
Span* oldest_on_ring(const Heap* heap, ClassIndex size_class);
Span* newer_on_ring(const Heap* heap, const Span* span);  // than this one there; nullptr: it is the newest
Span* pop_ring(Heap* heap, ClassIndex size_class);
u32 ring_length(const Heap* heap, ClassIndex size_class, u32 most);  // walks; at most that

}  // namespace coffer
