// The owner's side of spans: the lists of a heap, its mailbox, and handing spans on. Everything here is called by the
// thread that uses `heap` (or holds the fallback lock), unless said.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

// A span without an owner becomes the heap's, and the other way round (the latter before the span is shared or ended).
void take_in(Heap* heap, Span* span);
void let_go(Heap* heap, Span* span);

void push_floating(Heap* heap, Span* span);
void unlink_floating(Heap* heap, Span* span);
void push_reusable(Heap* heap, Span* span);
// The one that has been reusable for longest: it has gathered most free blocks, so it is worth most as a hot span.
Span* pop_reusable(Heap* heap, ClassIndex size_class);
void unlink_reusable(Heap* heap, Span* span);
u32 reusable_count(const Heap* heap, ClassIndex size_class);  // walks the ring

// A span in state reusable, on no list: keeps it, hands it to the partial pool, or gives it back, as emptiness and
// slack say.
void place_reusable(Heap* heap, Span* span);
// A span in state reusable, on no list: makes it nobody's, or ends it if it is empty.
void share(Span* span);

// Takes the spans that remote frees claimed for this heap.
void take_mail(Heap* heap);
// Pushes the open chain of remote frees.
void close_chain(Heap* heap);
// Hands on some of the spans that exceed the slack, a bounded number a call.
void shed_surplus(Heap* heap);

// Puts the blocks of the heap's list back on the hot span's local list. It walks that list: for rare occasions.
void merge_heap_list(Heap* heap, ClassIndex size_class, Span* span);
// Gives back what the heap keeps only for speed: spans without a live block, hot or reusable (for malloc_trim).
void release_idle(Heap* heap);

// Any thread: does what a push left to do. `heap` is the caller's; may be the null heap.
void do_duty(Heap* heap, Span* span, PushDuty duty);
// Any thread: a claimed span whose owner is none: makes it shared.
void share_orphan(Span* span);

}  // namespace coffer
