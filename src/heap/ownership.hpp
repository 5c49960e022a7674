// SPDX-License-Identifier: MIT
// The owner's side of spans: where they go when they have room, the heap's mail, and handing spans on. Everything here
// is called by the thread that uses `heap` (or holds the fallback lock), unless said.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

// Takes a span out of what the heap holds, before it is shared or ended.
void let_go(Heap* heap, Span* span);

// Makes a listed span the heap's hot one, and counts it. Under the pool's lock. false: its last block was freed.
bool take_over(Heap* heap, Span* span);

// A private span of the heap in state `from` (hot, floating, reusable; or claimed, if the caller is the claimant),
// which is nobody's hot span any more: keeps it as reusable, hands it on, or ends it, as emptiness and slack say. Does
// nothing if somebody else claims it first. Inside its bracket.
void place(Heap* heap, Span* span, SpanState from);
// The shortest way through place, and by far the commonest: a reusable span that stands on the ring, stays there, and
// whose claim needs no lowering, has its free bytes counted anew. false: place has to decide.
bool recount(Heap* heap, Span* span);
// As place, but it is handed on or ended in any case.
void give_up(Heap* heap, Span* span, SpanState from);

// Takes the spans that remote frees claimed for this heap.
void take_mail(Heap* heap);
// Pushes the open chain of remote frees.
void close_chain(Heap* heap);
// Hands on some of the spans that exceed the slack, a bounded number a call.
void shed_surplus(Heap* heap);

// Frees the heap's list of a class that has no hot span: blocks of one that was taken, or blocks from holes.
void return_list(Heap* heap, ClassIndex size_class);
// Gives back what the heap keeps only for speed: spans without a live block, hot or reusable (for malloc_trim).
void release_idle(Heap* heap);
// Hands on all reusable spans: the pages inside shared ones can go back.
void share_reusable(Heap* heap);
// Hands on every span of a heap whose thread ends, but the floating ones: they stay its record's, and their frees
// finds its mailbox closed. Afterwards its lists are empty.
void abandon_spans(Heap* heap);

// Any thread, outside brackets: does what a push left to do. `heap` is the caller's; may be the null heap.
void do_duty(Heap* heap, Span* span, PushDuty duty);

}  // namespace coffer
