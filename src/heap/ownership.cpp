// SPDX-License-Identifier: MIT
#include "heap/ownership.hpp"

#include "config/config.hpp"
#include "heap/bracket.hpp"
#include "heap/hot.hpp"
#include "heap/mixing.hpp"
#include "heap/registry.hpp"
#include "heap/ring.hpp"
#include "heap/taking.hpp"
#include "heap/watching.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"

namespace coffer {

namespace {

constexpr u32 kShedAtOnce = 2;

// Free blocks of a private span that is not hot: on both lists and in absent pages.
u32 free_blocks(const Span* span) {
  // acquire: pairs with push_remote; if all blocks are free the caller ends the span.
  return local_count(span) + absent_count(span) + load_word(span, acquire).count();
}

// The next event of a reusable span with `free` blocks: when the slack has to be counted anew, or when the frees that
// are missing were all local ones. Remote ones are counted at the event.
u32 frees_to_event(u32 capacity, u32 free) {
  if (free >= capacity) return kNever;
  const u32 missing = capacity - free;
  const u32 step = recount_step(capacity);
  return missing < step ? missing : step;
}

// What a heap may keep beyond its slack while there is no other that could use it: as much as may be free and resident.
// What is more is shared, for the pages inside shared spans go back.
usize lonely_slack() { return attached_heaps() <= 1 ? config::options().free_limit : 0; }

// A heap that is alone has that, and nobody to adopt what it hands on; more would only wait in it until it stands
// still.
usize budget_of(const Heap* heap) {
  const usize held = heap->held.load(relaxed);  // relaxed: the heap's own figure, but for what others take meanwhile
  return slack_budget(config::options().slack, held, several_heaps() && !is_crowded());
}

// Free bytes that the heap may keep in reusable spans, one that is empty among them or not. What a thread that frees
// everything keeps must not grow with what it had.
usize may_keep(const Heap* heap, bool empty) {
  return empty ? config::options().slack : budget_of(heap) + lonely_slack();
}

// What the heap keeps free on its ring beside this span.
usize kept_beside(const Heap* heap, const Span* span, bool stands) {
  return heap->slack.get() - (stands ? span->ring_slack.get() : 0);
}

// Puts the heap's list of the class back where it came from; the class has no hot span afterwards. Returns the span
// that was hot, which then is on no list, or nullptr.
template <class Visit>
void put_down_hot(Heap* heap, ClassIndex size_class, Visit&& visit) {
  Span* span = heap->hot[size_class].get();
  if (span == nullptr) return return_list(heap, size_class);
  {
    Bracket bracket(heap, span);
    if (still_hot(bracket, span, size_class)) {
      merge_heap_list(heap, size_class, span);
      forget_hot(heap, size_class);
      return visit(span);
    }
  }
  forget_hot(heap, size_class);
  return_list(heap, size_class);
}

}  // namespace

void return_list(Heap* heap, ClassIndex size_class) {
  Block* first = heap->blocks[size_class].get();
  if (first == nullptr) return;  // and nothing is written: a thread that ends asks for every class
  heap->blocks[size_class].set(nullptr);
  heap->zero[size_class].set(0);
  const auto [count, last] = measure_list(first, ~u32{0});
  if (COFFER_UNLIKELY(watches_lists())) blocks_returned(heap, size_class, count);
  const uptr address = reinterpret_cast<uptr>(first);
  Span* span = first_record(slot_record(arena_of(address), address));
  const PushDuty duty = push_remote(span, first, last, count);
  if (duty == PushDuty::mixed) return free_mixed_list(first, count, span);
  do_duty(heap, span, duty);
}

void let_go(Heap* heap, Span* span) {
  heap->held.fetch_sub(span_bytes(span), relaxed);  // relaxed: a figure for budgets
}

bool take_over(Heap* heap, Span* span) {
  // relaxed, both: a figure for budgets. Counted first: the span may be taken away as soon as it is the heap's, and
  // end.
  heap->held.fetch_add(span_bytes(span), relaxed);
  if (mark_adopted(span, heap)) return true;
  heap->held.fetch_sub(span_bytes(span), relaxed);
  return false;
}

void give_up(Heap* heap, Span* span, SpanState from) {
  if (from != SpanState::claimed && !claim(span, from)) return;
  leave_ring(heap, span);
  let_go(heap, span);
  // relaxed: published by mark_shared. The owner itself hands on, so there is nothing to settle.
  span->owner.store(nullptr, relaxed);
  share_claimed(span);
}

void place(Heap* heap, Span* span, SpanState from) {
  const u32 capacity = span->capacity.get();
  const u32 free = free_blocks(span);
  const bool empty = free >= capacity;
  const ClassIndex size_class = span->size_class.get();
  // One that is counted anew keeps its place: what is freed last is no better a choice than what was reusable first.
  const bool stands = stands_on_ring(heap, span);
  const u32 free_bytes = empty ? span_bytes(span) : free * span->block_bytes.get();
  const usize kept = kept_beside(heap, span, stands);
  const bool fits = within_slack(kept, free_bytes, may_keep(heap, empty));
  const bool keep = fits && (!empty || comes_back(heap, size_class));
  if (empty) class_is_gone(heap, size_class);
  if (!keep) return give_up(heap, span, from);
  if (from == SpanState::claimed) {
    receive_claimed(span, SpanState::reusable);
  } else if (!mark_reusable(span)) {
    leave_ring(heap, span);
    return set_countdown(span, local_count(span), kNever);
  }
  set_countdown(span, local_count(span), frees_to_event(capacity, free));
  // When the heap stands still, the pages inside go back (take_from_quiet_heaps).
  if (COFFER_UNLIKELY(kept > config::options().free_limit)) want_reclaimer();
  if (stands) return set_ring_slack(heap, span, free_bytes);
  if (!push_ring(heap, span, free_bytes)) give_up(heap, span, SpanState::reusable);
}

bool recount(Heap* heap, Span* span) {
  if (!stands_on_ring(heap, span)) return false;
  const u32 capacity = span->capacity.get();
  const u32 local = local_count(span);
  const u32 own = local + absent_count(span);
  // relaxed: remote frees make it more, and are counted at the next event.
  const u32 free = own + load_word(span, relaxed).count();
  // The blocks that others can still free, and have freed, are capacity - own. relaxed: the owner's own.
  if (free >= capacity || span->claim_at.load(relaxed) > capacity - own) return false;
  const u32 free_bytes = free * span->block_bytes.get();
  const usize kept = kept_beside(heap, span, true);
  if (!within_slack(kept, free_bytes, may_keep(heap, false)) || kept > config::options().free_limit) return false;
  set_countdown(span, local, frees_to_event(capacity, free));
  set_ring_slack(heap, span, free_bytes);
  return true;
}

void take_mail(Heap* heap) {
  // relaxed: only whether to look.
  const u64 seen = heap->mailbox.load(relaxed);
  if (seen == 0 || seen == kMailboxClosed) return;
  // acquire: pairs with the release in mail.
  SpanNumber number = mail_first(heap->mailbox.exchange(0, acquire));
  while (number != 0) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the box
    const Bracket bracket(heap, span);
    if (heap->hot[span->size_class.get()].get() == span) {
      receive_claimed(span, SpanState::hot);
    } else {
      place(heap, span, SpanState::claimed);
    }
  }
}

void close_chain(Heap* heap) {
  const u32 count = heap->chain_count.get();
  if (count == 0) return;
  Span* span = heap->chain_span.get();
  heap->chain_count.set(0);
  heap->chain_span.set(nullptr);
  const PushDuty duty = push_remote(span, heap->chain_first.get(), heap->chain_last.get(), count);
  if (duty == PushDuty::mixed) return free_mixed_list(heap->chain_first.get(), count, span);
  do_duty(heap, span, duty);
}

void shed_surplus(Heap* heap) {
  const usize budget = budget_of(heap);
  if (COFFER_LIKELY(heap->slack.get() <= budget) || heap->slack.get() - budget <= lonely_slack()) return;
  u32 shed = 0;
  for (u32 looked = 0; looked < kClasses && shed < kShedAtOnce && heap->slack.get() > budget; ++looked) {
    const u32 size_class = heap->shed_class.get() % kClasses;
    if (Span* span = pop_ring(heap, size_class)) {
      const Bracket bracket(heap, span);
      if (bracket.owned()) give_up(heap, span, SpanState::reusable);
      ++shed;
    } else {
      heap->shed_class.set(size_class + 1);
    }
  }
}

void release_idle(Heap* heap) {
  close_chain(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (heap->hot[c].get() != nullptr) {
      put_down_hot(heap, c, [&](Span* span) {
        if (free_blocks(span) >= span->capacity.get()) return give_up(heap, span, SpanState::hot);
        set_countdown(span, local_count(span), kNever);
        place(heap, span, SpanState::hot);
      });
    } else {
      return_list(heap, c);  // of blocks from holes
    }
    for (u32 left = ring_length(heap, c); left > 0; --left) {
      Span* span = pop_ring(heap, c);
      const Bracket bracket(heap, span);
      if (!bracket.owned()) continue;
      // relaxed: what is no longer reusable was claimed, or is a record of another life.
      if (load_word(span, relaxed).state() != SpanState::reusable) continue;
      if (free_blocks(span) >= span->capacity.get()) {
        give_up(heap, span, SpanState::reusable);
      } else {
        place(heap, span, SpanState::reusable);
      }
    }
  }
}

void share_reusable(Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (heap->reusable[c].get() == 0) continue;
    while (Span* span = pop_ring(heap, c)) {
      const Bracket bracket(heap, span);
      if (bracket.owned()) give_up(heap, span, SpanState::reusable);
    }
  }
}

void abandon_spans(Heap* heap) {
  close_chain(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    put_down_hot(heap, c, [&](Span* span) { give_up(heap, span, SpanState::hot); });
    heap->patience[c].set(0);
    heap->comeback[c].set(0);
  }
  share_reusable(heap);
  // acquire: pairs with the release in mail.
  SpanNumber number = mail_first(heap->mailbox.exchange(kMailboxClosed, acquire));
  while (number != 0) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the box
    give_up(heap, span, SpanState::claimed);
  }
}

void do_duty(Heap* heap, Span* span, PushDuty duty) {
  switch (duty) {
    case PushDuty::none:
    case PushDuty::mixed:  // its blocks were freed by whoever pushed
      return;
    case PushDuty::claimed:
      return hand_on_claimed(span);
    case PushDuty::list:
      if (!insert_listed(span)) end_span(span);
      return look_at_oldest();
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
