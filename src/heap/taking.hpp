// SPDX-License-Identifier: MIT
// Spans that a remote free claimed, and how they get to somebody who can use them though their owner may sleep for
// ever. The claimant mails the span to its owner; where the owner does not collect its mail, it takes the span away:
//
//   claimed --mail--> owner's mailbox --owner, at its next slow path--> reusable or hot
//      |                    |
//      | mailbox full,      | robbed, by somebody who needs memory
//      | or closed          |
//      +--------------------+--take--> unsettled --settle_unsettled--> shared, listed or ended
//
// A span that was taken has no owner any more, but its old owner may be in the middle of a local free. So it waits,
// unsettled, until a barrier was issued on every processor (one membarrier for all that wait) and the old owner's
// bracket does not name it (bracket.hpp). Nobody waits for anybody: a span whose name is found stays unsettled, at most
// one a heap.
//
// A settler takes all spans that wait before it issues its barrier, so that no epoch has to say which barrier came
// after which span. Hoard (paper 1, section 3.2) moves superblocks to the global heap at the free that makes a heap too
// empty; here that free may be another thread's.
//
// Model: models/span_life.pml, models/mail.pml.
#pragma once

#include "heap/registry.hpp"

namespace coffer {

// An owner's mailbox: a stack of claimed spans. | slots in the box (32) | number of the first span (32) |
inline constexpr u64 kMailboxClosed = ~u64{0};  // the thread ended: everything is taken
inline SpanNumber mail_first(u64 box) { return static_cast<SpanNumber>(box); }
inline usize mail_bytes(u64 box) { return (box >> 32) * kSlotBytes; }

// What may wait unsettled before somebody issues a barrier for it.
inline constexpr usize kUnsettledLimit = usize{1} << 20;

// Bit of a span's taken_from: it was looked at before, and had to wait on.
inline constexpr u32 kHeldUp = 1u << 31;
inline bool is_held_up(const Span* span) { return (span->taken_from.get() & kHeldUp) != 0; }
inline Heap* taken_from(const Span* span) { return heap_by_index(span->taken_from.get() & ~kHeldUp); }

// Any thread, outside brackets. The claimant of a private span: mails or takes it.
void hand_on_claimed(Span* span);
// A claimed span that nobody else can be at work on (settled, or claimed by its owner): makes it shared, listed, or
// ends it. Its owner field is none already.
void share_claimed(Span* span);
// Settles what can be settled. true: something was.
bool settle_unsettled();
usize unsettled_bytes();
// Looks at a few heaps; takes all mail where it is more than the option `slack`, and of heaps that are idle all mail
// and all spans with room, hot ones too. For a heap that is about to take new memory. The caller settles.
void rob_idle_heaps(const Heap* but);
// Whether that is due. Of few heaps each would be looked at for every new span, many times in the microseconds in which
// its thread only frees or computes, and lose what it is about to use; so once for each step of the coarse clock.
bool look_is_due();
// Takes all mail, and the reusable spans without a live block, from every heap: for when memory is needed, or was not
// for a while. For malloc_trim also those of which a page may be idle. The caller settles.
enum class Idle : u8 { spans, pages };
void rob_heaps(Idle which = Idle::spans);

// The reclaimer's chore: a heap that keeps more than the option `slack` free on its rings, or has more of it in its
// mailbox, and stands still for a second is robbed as an idle one, whether or not there are others, so that the pages
// inside its spans go back. true: one that keeps more than the option `free_limit` is not quiet yet.
bool take_from_quiet_heaps();

// For fork children (vanished.cpp), while no other thread is inside.
void forget_unsettled();
// For coffer_check: whether a claimed span lies in its owner's mailbox or, without an owner, among the unsettled.
bool is_handed_on(const Span* span);

}  // namespace coffer
