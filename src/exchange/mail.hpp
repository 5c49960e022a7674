// SPDX-License-Identifier: MIT
// Mail: how a span that a remote free claimed gets to somebody who can use it, though its owner may sleep for ever. The
// claimant puts it into its owner's mailbox; the owner takes it out at its next slow path, or whoever seizes the heap:
//
//   owned --push reaches claim_at--> claimed --mail--> owner's mailbox --take_mail--> owned, shared, listed or ended
//
// A box never closes. It belongs to the heap, not to its thread, and a heap without a thread does not keep mail: who
// puts some in seizes the heap and takes it out. So does whoever fills the box of a thread that does not come by
// (mail_budget). What waits is its owner's in any case; more than that budget, and a span, only where its owner was in
// a call when that was looked at.
//
// Hoard (paper 1, section 3.2) moves superblocks to the global heap at the free that makes a heap too empty; here that
// free may be another thread's.
//
// Model: models/mail.pml, models/span_life.pml.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// A box: a stack of claimed spans. | slots in the box (32) | number of the first span (32) |
inline SpanNumber mail_first(u64 box) { return static_cast<SpanNumber>(box); }
inline usize mail_bytes(u64 box) { return (box >> 32) * kSlotBytes; }
inline u64 box_with(u64 box, u32 slots, SpanNumber first) { return ((box >> 32) + slots) << 32 | first; }

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
