// SPDX-License-Identifier: MIT
// The owner's side of spans: where they go when they have room, and handing them on. Everything here is called by the
// thread that uses `heap`, inside (inside.hpp), or by who has seized it or holds the fallback lock, unless said.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// Takes a span out of what the heap holds, before it is shared or ended.
void let_go(Heap* heap, Span* span);

// Whether the heap may keep so many more bytes in which nothing is live, of a span or of a large block.
bool may_keep_empty(const Heap* heap, usize bytes);

// Makes a listed span the heap's hot one, and counts it. Under the pool's lock. false: its last block was freed.
bool take_over(Heap* heap, Span* span);

// An owned span of the heap that is not hot (any more): keeps it as reusable, hands it on, or ends it, as emptiness and
// slack say. It may be claimed, if the caller has it from the mailbox. Does nothing if a push claims it first.
// but: a span that the heap's thread is just freeing into; nullptr: none. Nobody else may use its line (seizing.hpp).
enum class Claimed : u8 { no, yes };
void place(Heap* heap, Span* span, Claimed claimed = Claimed::no, const Span* but = nullptr);
// As place, but it is handed on or ended in any case.
void give_up(Heap* heap, Span* span, Claimed claimed = Claimed::no);

// Hands on a span of those that exceed the slack.
void shed_surplus(Heap* heap);
// Whether it keeps more in partly used spans than it might if it were not alone; and hands that on, the oldest first.
bool keeps_more_than_among_others(const Heap* heap);
void shed_as_among_others(Heap* heap);
// Bytes that it keeps in partly used spans over its budget: heaps came since, or it holds less.
usize over_budget(const Heap* heap);
// What a heap may keep in partly used spans falls with what it holds. Whoever made that less sees to it that the heap
// is over its budget by no more than before: so it keeps no more than was its budget when it placed or lost a span
// last, even if its thread sleeps for ever (docs/design/bound.md, lemma 4). What is over because heaps came,
// shed_surplus sheds.
void shed_down(Heap* heap, usize over, const Span* but = nullptr);

// Gives back what the heap keeps only for speed: spans without a live block, hot or reusable.
void release_idle(Heap* heap);
// Hands on half-empty spans: hot ones, and of so many of each ring. Lists of blocks from holes go back. false: there
// was no such span.
bool give_up_half_empty(Heap* heap, u32 most_of_ring);
// Hands on every span of the heap but the floating ones, which their frees find. Afterwards its lists are empty.
void empty_heap(Heap* heap);

// A claimed span without an owner that nobody else can be at work on: makes it shared, listed, or ends it.
void share_claimed(Span* span);
// Any thread: does what a push left to do.
void do_duty(Span* span, PushDuty duty);

}  // namespace coffer
