// SPDX-License-Identifier: MIT
#include "exchange/mail.hpp"

#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/ownership.hpp"
#include "exchange/seizing.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

void collect_mail(Heap* heap) { seize(&heap, 1, finish); }

}  // namespace

u64 put_in_box(Heap* owner, Span* span) {
  const u32 slices = span->slices.get();
  u64 box = owner->mailbox.load(relaxed);  // relaxed: the CAS below checks it
  do {
    span->mail_next.store(mail_first(box), relaxed);  // relaxed: published by the CAS
    // seq_cst: release pairs with the acquire in take_mail. With the load below and thread_ended's store and load: one
    // of the two sees the other, so that no mail stays unseen with a heap without a thread.
  } while (!owner->mailbox.compare_exchange(box, box_with(box, slices, span_number(span)), seq_cst, relaxed));
  return box;
}

void mail(Span* span) {
  const u32 slices = span->slices.get();
  // acquire: pairs with the release of the transition that made the span the owner's; only who takes the mail, or the
  // owner, changes it.
  Heap* owner = span->owner.load(acquire);
  const u64 box = put_in_box(owner, span);
  // seq_cst: see put_in_box.
  if (owner->attached.load(seq_cst) == 0) return collect_mail(owner);
  // Once for each time that the box has grown by what it may hold: a thread that is inside just now cannot be helped.
  const usize budget = mail_budget(config::options().slack, owner->held.load(relaxed));  // relaxed: a figure
  if (mail_bytes(box) / budget != (mail_bytes(box) + slices * kSliceBytes) / budget) collect_mail(owner);
}

void take_mail(Heap* heap, const Span* but) {
  // relaxed: only whether to look.
  if (heap->mailbox.load(relaxed) == 0) return;
  // acquire: pairs with the release in mail.
  SpanNumber number = mail_first(heap->mailbox.exchange(0, acquire));
  while (number != 0) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the box
    if (span == but) {
      put_in_box(heap, span);
    } else if (heap->hot[span->size_class.get()].get() == span) {
      receive_claimed(span);
    } else {
      place(heap, span, Claimed::yes, but);
    }
  }
}

// seq_cst, both: see mail; thread_ended stores the second as mail stores the first.
bool is_unfinished(const Heap* heap) {
  return heap->mailbox.load(seq_cst) != 0 || heap->left_chains.load(seq_cst) != 0;
}

void finish(Heap* heap) {
  // relaxed, both: who has the heap is alone with it.
  if (heap->left_chains.load(relaxed) != 0) {
    heap->left_chains.store(0, relaxed);
    close_chains(heap);
  }
  take_mail(heap);
}

void take_late_mail(Heap* heap) {
  if (is_unfinished(heap)) collect_mail(heap);
}

bool is_mailed(const Span* span) {
  const Heap* owner = span->owner.load(relaxed);  // relaxed, all: no other thread is inside
  if (owner == nullptr) return false;
  SpanNumber number = mail_first(owner->mailbox.load(relaxed));
  while (number != 0 && number != span_number(span)) number = span_at(number)->mail_next.load(relaxed);
  return number != 0;
}

}  // namespace coffer
