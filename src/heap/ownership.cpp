#include "heap/ownership.hpp"

#include "config/config.hpp"
#include "heap/registry.hpp"
#include "pool/partial_pool.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

constexpr u32 kShedAtOnce = 2;

void link(Owned<SpanNumber>& head, Span* span) {
  const SpanNumber number = span_number(span);
  const SpanNumber first = head.get();
  span->previous.set(0);
  span->next.set(first);
  if (first != 0) span_at(first)->previous.set(number);
  head.set(number);
}

void unlink(Owned<SpanNumber>& head, Span* span) {
  const SpanNumber next = span->next.get();
  const SpanNumber previous = span->previous.get();
  if (next != 0) span_at(next)->previous.set(previous);
  if (previous != 0) {
    span_at(previous)->next.set(next);
  } else {
    head.set(next);
  }
  span->next.set(0);
  span->previous.set(0);
}

// Free blocks of a private span that is not hot: on both lists and in absent pages.
u32 free_blocks(const Span* span) {
  // acquire: pairs with push_remote; if all blocks are free the caller ends the span.
  return local_count(span) + absent_count(span) + load_word(span, acquire).count();
}

// Mails a claimed span to its owner; false: the owner's thread ended, and the span is the caller's.
bool mail(Heap* owner, Span* span) {
  const SpanNumber number = span_number(span);
  SpanNumber first = owner->mailbox.load(acquire);  // acquire: see the failure order below
  do {
    if (first == kMailboxClosed) return false;
    span->mail_next.store(first, relaxed);  // relaxed: published by the CAS
    // release: pairs with the acquire in take_mail. acquire on failure: pairs with the release that closed the box, so
    // that what the ending thread wrote to the span is seen.
  } while (!owner->mailbox.compare_exchange(first, number, release, acquire));
  return true;
}

}  // namespace

void take_in(Heap* heap, Span* span) {
  span->owner.store(heap, relaxed);  // relaxed: a thread compares it with its own heap only; claimants use the word
  heap->held.set(heap->held.get() + span_bytes(span));
}

void let_go(Heap* heap, Span* span) { heap->held.set(heap->held.get() - span_bytes(span)); }

void push_floating(Heap* heap, Span* span) { link(heap->floating, span); }
void unlink_floating(Heap* heap, Span* span) { unlink(heap->floating, span); }

void push_reusable(Heap* heap, Span* span) {
  Owned<SpanNumber>& newest = heap->reusable[span->size_class.get()];
  const SpanNumber number = span_number(span);
  Span* next = newest.get() != 0 ? span_at(newest.get()) : span;
  Span* previous = newest.get() != 0 ? span_at(next->previous.get()) : span;
  span->next.set(newest.get() != 0 ? newest.get() : number);
  span->previous.set(newest.get() != 0 ? next->previous.get() : number);
  previous->next.set(number);
  next->previous.set(number);
  newest.set(number);
  heap->slack.set(heap->slack.get() + span->slack.get());
}

void unlink_reusable(Heap* heap, Span* span) {
  Owned<SpanNumber>& newest = heap->reusable[span->size_class.get()];
  const SpanNumber number = span_number(span);
  const SpanNumber next = span->next.get();
  span_at(span->previous.get())->next.set(next);
  span_at(next)->previous.set(span->previous.get());
  if (newest.get() == number) newest.set(next == number ? 0 : next);
  span->next.set(0);
  span->previous.set(0);
  heap->slack.set(heap->slack.get() - span->slack.get());
}

Span* pop_reusable(Heap* heap, ClassIndex size_class) {
  const SpanNumber newest = heap->reusable[size_class].get();
  if (newest == 0) return nullptr;
  Span* span = span_at(span_at(newest)->previous.get());
  unlink_reusable(heap, span);
  return span;
}

void share(Span* span) {
  switch (mark_shared(span)) {
    case ShareResult::shared:
      return;
    case ShareResult::empty:
      return end_span(span);
    case ShareResult::listed:
      if (!g_partial_pool.insert(span)) end_span(span);
      return;
  }
}

void place_reusable(Heap* heap, Span* span) {
  const u32 capacity = span->capacity.get();
  const u32 free = free_blocks(span);
  const u32 free_bytes = free >= capacity ? span_bytes(span) : free * span->block_bytes.get();
  const usize budget = slack_budget(config::options().slack, heap->held.get());
  const bool fits = within_slack(heap->slack.get(), free_bytes, budget);
  if (!fits && (free >= capacity || attached_heaps() > 1)) {
    let_go(heap, span);
    return free >= capacity ? end_span(span) : share(span);
  }
  // The next event: when the slack has to be counted anew, or when the frees that are missing were all local ones.
  // Remote ones are counted at the event.
  const u32 missing = free >= capacity ? kNever : capacity - free;
  const u32 step = recount_step(capacity);
  set_countdown(span, local_count(span), missing < step ? missing : (missing == kNever ? kNever : step));
  span->slack.set(free_bytes);
  push_reusable(heap, span);
}

void take_mail(Heap* heap) {
  // relaxed: only whether to look.
  const SpanNumber seen = heap->mailbox.load(relaxed);
  if (seen == 0 || seen == kMailboxClosed) return;
  // acquire: pairs with the release in mail.
  SpanNumber number = heap->mailbox.exchange(0, acquire);
  while (number != 0) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the box
    if (span->owner.load(relaxed) == heap) {
      unlink_floating(heap, span);
    } else {
      // Claimed from the thread that had this heap before, which ended in between: a new owner for an orphan.
      take_in(heap, span);
    }
    receive_claimed(span);
    place_reusable(heap, span);
  }
}

void close_chain(Heap* heap) {
  const u32 count = heap->chain_count.get();
  if (count == 0) return;
  Span* span = heap->chain_span.get();
  heap->chain_count.set(0);
  heap->chain_span.set(nullptr);
  const PushDuty duty = push_remote(span, heap->chain_first.get(), heap->chain_last.get(), count);
  do_duty(heap, span, duty);
}

void shed_surplus(Heap* heap) {
  const usize budget = slack_budget(config::options().slack, heap->held.get());
  if (COFFER_LIKELY(heap->slack.get() <= budget) || attached_heaps() <= 1) return;
  u32 shed = 0;
  for (u32 looked = 0; looked < kClasses && shed < kShedAtOnce && heap->slack.get() > budget; ++looked) {
    const u32 size_class = heap->shed_class.get() % kClasses;
    if (Span* span = pop_reusable(heap, size_class)) {
      let_go(heap, span);
      share(span);
      ++shed;
    } else {
      heap->shed_class.set(size_class + 1);
    }
  }
}

void merge_heap_list(Heap* heap, ClassIndex size_class, Span* span) {
  Block* list = heap->blocks[size_class].get();
  heap->blocks[size_class].set(nullptr);
  heap->zero[size_class].set(0);
  if (list == nullptr || list == span->local_free.get()) return;
  u32 count = 1;
  Block* last = list;
  for (; last->next != nullptr; last = last->next) ++count;
  last->next = span->local_free.get();
  const u32 before = local_count(span);
  span->local_free.set(list);
  set_countdown(span, before + count, kNever);
}

u32 reusable_count(const Heap* heap, ClassIndex size_class) {
  const SpanNumber newest = heap->reusable[size_class].get();
  if (newest == 0) return 0;
  u32 count = 1;
  for (SpanNumber n = span_at(newest)->next.get(); n != newest; n = span_at(n)->next.get()) ++count;
  return count;
}

void release_idle(Heap* heap) {
  close_chain(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* hot = heap->hot[c].get();
    if (hot != nullptr) merge_heap_list(heap, c, hot);
    if (hot != nullptr && free_blocks(hot) == hot->capacity.get()) {
      heap->hot[c].set(nullptr);
      mark_reusable(hot);
      let_go(heap, hot);
      end_span(hot);
    }
    u32 left = reusable_count(heap, c);
    for (SpanNumber number = heap->reusable[c].get(); left > 0; --left) {
      Span* span = span_at(number);
      number = span->next.get();
      if (free_blocks(span) < span->capacity.get()) continue;
      unlink_reusable(heap, span);
      let_go(heap, span);
      end_span(span);
    }
  }
}

void share_orphan(Span* span) {
  receive_claimed(span);
  share(span);
}

void do_duty(Heap* heap, Span* span, PushDuty duty) {
  switch (duty) {
    case PushDuty::none:
      return;
    case PushDuty::mail: {
      // acquire: pairs with the release in abandon_spans (registry.cpp): an owner that let go wrote the span before.
      Heap* owner = span->owner.load(acquire);
      if (owner == nullptr || !mail(owner, span)) share_orphan(span);
      return;
    }
    case PushDuty::list:
      if (!g_partial_pool.insert(span)) end_span(span);
      return;
    case PushDuty::take_off:
      if (g_partial_pool.remove(span)) end_span(span);
      return;
    case PushDuty::give_back:
      return end_span(span);
    case PushDuty::double_free:
      harden::bad_pointer("free", heap->chain_first.get(), harden::BadPointer::already_free, span->block_bytes.get());
  }
}

}  // namespace coffer
