// SPDX-License-Identifier: MIT
// Mail: how a span that a remote free claimed reaches a thread that can use it, even if its owner sleeps for ever. The
// claimant puts the span into its owner's mailbox. The owner takes it out at its next slow path, or a seizer does:
//
//   owned --push reaches claim_at--> claimed --mail--> owner's mailbox --take_mail--> owned, shared, listed or ended
//
// A box never closes: it belongs to the heap and not to the heap's thread. Two threads other than the owner empty it:
//   - A heap without a thread keeps no mail. The thread that puts mail in seizes the heap and takes the mail out.
//   - The thread that fills a box beyond mail_budget seizes the heap, if its owner does not come by.
// Waiting mail stays its owner's. More than the budget and one span can wait only if the owner was inside a call when
// the other thread tried.
//
// Hoard (paper 1, section 3.2) moves superblocks to the global heap at the free that makes a heap too empty. Here
// another thread may make that free.
//
// Model: models/mail.pml, models/span_life.pml.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// A box: a stack of claimed spans. | slices in the box (32) | number of the first span (32) |
inline SpanNumber mail_first(u64 box) { return static_cast<SpanNumber>(box); }
inline usize mail_bytes(u64 box) { return (box >> 32) * kSliceBytes; }
inline u64 box_with(u64 box, u32 slices, SpanNumber first) { return ((box >> 32) + slices) << 32 | first; }

// Puts a claimed span into the box. Returns what was in it before.
u64 put_in_box(Heap* owner, Span* span);
// Any thread. The claimant of an owned span puts it into its owner's mailbox.
void mail(Span* span);
// Takes what is in the box and places it, but for one span. The heap's thread, or who seized it.
void take_mail(Heap* heap, const Span* but = nullptr);
// Whether a heap without a thread has something to be done: mail, or chains that its thread could not close.
bool is_unfinished(const Heap* heap);
// Does it. Whoever has the heap.
void finish(Heap* heap);
// After the heap's thread has ended: what came while it did, and what it could not do, is done.
void take_late_mail(Heap* heap);
// For coffer_check: whether a claimed span lies in its owner's mailbox.
bool is_mailed(const Span* span);

}  // namespace coffer
