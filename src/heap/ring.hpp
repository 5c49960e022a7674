// SPDX-License-Identifier: MIT
// The rings of reusable spans, one a heap and class: the head is the newest, before it lies the oldest.
//
// A span can be taken away from its heap while it stands on a ring, for its links are nobody's but that heap's: its
// record stays there, perhaps describing another's span by now, until the heap meets it. Whether a record on a ring is
// (still) a reusable span of the heap is decided by the CAS that makes it hot (mark_hot). A record on one heap's ring
// cannot be put on another's: such a span is shared instead of kept.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

inline u32 ring_name(const Heap* heap) { return heap->index.get() + 1; }

// Puts the span on the heap's ring, `slack` free bytes of it counted. false: its record stands on another heap's.
bool push_ring(Heap* heap, Span* span, u32 slack);
// Whether it stands on the heap's ring of its class; if so, its place is kept and its free bytes are counted anew.
bool stands_on_ring(const Heap* heap, const Span* span);
void set_ring_slack(Heap* heap, Span* span, u32 slack);
// Takes the record off the heap's ring if it stands there.
void leave_ring(Heap* heap, Span* span);
// Takes off the record that has been there for longest; nullptr: the ring is empty. It may be a reusable span of the
// heap, or no longer: mark_hot or claim tells.
Span* pop_ring(Heap* heap, ClassIndex size_class);
u32 ring_length(const Heap* heap, ClassIndex size_class);  // walks

}  // namespace coffer
