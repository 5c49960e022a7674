// SPDX-License-Identifier: MIT
#include "exchange/ownership.hpp"

#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "observe/counters.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"
#include "span/sharing.hpp"

namespace coffer {

namespace {

constexpr u32 kShedAtOnce = 2;

// acquire: pairs with push_remote; if all blocks are free the caller ends the span.
u32 free_blocks(const Span* span) { return free_of_private(span, acquire); }

// The next event of a reusable span with `free` blocks: when the slack has to be counted anew, or when the frees that
// are missing were all local ones. Remote ones are counted at the event.
u32 frees_to_event(u32 capacity, u32 free) {
  if (free >= capacity) return kNever;
  const u32 missing = capacity - free;
  const u32 step = recount_step(capacity);
  return missing < step ? missing : step;
}

usize budget_of_partly_used() {
  const config::Options& options = config::options();
  // relaxed: a figure for budgets.
  return slack_budget(options.slack, options.free_limit, counters().held.load(relaxed), sharing_heaps());
}

// Free bytes in partly used spans on its rings.
usize in_partly_used(const Heap* heap) { return heap->slack.get() - heap->empties.get(); }

// Whether the heap may keep the span with so many free bytes, beside what it keeps.
bool may_keep(const Heap* heap, const Span* span, u32 free_bytes) {
  const u32 counted = span->ring_slack.get();
  const u32 whole = span_bytes(span);
  if (free_bytes == whole) {
    const config::Options& options = config::options();
    const usize kept = heap->empties.get() - (counted == whole ? whole : 0);
    return within_slack(kept, whole, empties_budget(options.slack, options.free_limit, sharing_heaps()));
  }
  return within_slack(in_partly_used(heap) - (counted != whole ? counted : 0), free_bytes, budget_of_partly_used());
}

// Puts the heap's list of the class back where it came from; the class has no hot span afterwards. Returns the span
// that was hot, which is on no ring.
Span* put_down_hot(Heap* heap, ClassIndex size_class) {
  Span* span = heap->hot[size_class].get();
  if (span == nullptr) {
    free_list(heap, size_class);
    return nullptr;
  }
  put_back_list(heap, size_class, span);
  heap->hot[size_class].set(nullptr);
  return span;
}

}  // namespace

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

void share_claimed(Span* span) {
  if (share_span(span, insert_listed)) look_at_oldest();
}

void give_up(Heap* heap, Span* span, Claimed claimed) {
  if (claimed == Claimed::no && !claim(span)) return;
  leave_ring(heap, span);
  let_go(heap, span);
  span->owner.store(nullptr, relaxed);  // relaxed: published by mark_shared
  share_claimed(span);
}

void place(Heap* heap, Span* span, Claimed claimed) {
  const u32 capacity = span->capacity.get();
  const u32 free = free_blocks(span);
  // One that is counted anew keeps its place: what is freed last is no better a choice than what was reusable first.
  const bool stands = stands_on_ring(span);
  const u32 free_bytes = free >= capacity ? span_bytes(span) : free * span->block_bytes.get();
  if (!may_keep(heap, span, free_bytes)) return give_up(heap, span, claimed);
  if (claimed == Claimed::yes) {
    receive_claimed(span, Role::reusable);
  } else if (!mark_reusable(span)) {
    return set_countdown(span, local_count(span), kNever);  // it comes by mail
  }
  set_countdown(span, local_count(span), frees_to_event(capacity, free));
  // When the heap stands still, the pages inside go back (empty_idle_heaps).
  if (COFFER_UNLIKELY(heap->slack.get() > config::options().free_limit)) want_reclaimer();
  if (stands) return set_ring_slack(heap, span, free_bytes);
  push_ring(heap, span, free_bytes);
}

bool recount(Heap* heap, Span* span) {
  const u32 capacity = span->capacity.get();
  const u32 local = local_count(span);
  const u32 own = local + absent_count(span);
  // relaxed: remote frees make it more, and are counted at the next event.
  const u32 free = own + load_word(span, relaxed).count();
  // The blocks that others can still free, and have freed, are capacity - own. relaxed: the owner's own.
  if (free >= capacity || span->claim_at.load(relaxed) > capacity - own) return false;
  const u32 free_bytes = free * span->block_bytes.get();
  if (!may_keep(heap, span, free_bytes) || heap->slack.get() > config::options().free_limit) return false;
  set_countdown(span, local, frees_to_event(capacity, free));
  set_ring_slack(heap, span, free_bytes);
  return true;
}

void shed_surplus(Heap* heap) {
  const usize budget = budget_of_partly_used();
  if (COFFER_LIKELY(in_partly_used(heap) <= budget)) return;
  u32 shed = 0;
  for (u32 looked = 0; looked < kClasses && shed < kShedAtOnce && in_partly_used(heap) > budget; ++looked) {
    const u32 size_class = heap->shed_class.get() % kClasses;
    if (Span* span = pop_ring(heap, size_class)) {
      give_up(heap, span);
      ++shed;
    } else {
      heap->shed_class.set(size_class + 1);
    }
  }
}

void release_idle(Heap* heap) {
  const auto keep_if_used = [heap](Span* span) {
    free_blocks(span) >= span->capacity.get() ? give_up(heap, span) : place(heap, span);
  };
  close_chains(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = put_down_hot(heap, c)) keep_if_used(span);
    for (u32 left = ring_length(heap, c, ~u32{0}); left > 0; --left) keep_if_used(pop_ring(heap, c));
  }
}

void give_up_half_empty(Heap* heap, u32 most_of_ring) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = heap->hot[c].get()) {
      const u32 listed = measure_list(heap->blocks[c].get(), span->capacity.get()).count;
      if (free_blocks(span) + listed >= half_of(span->capacity.get())) give_up(heap, put_down_hot(heap, c));
    } else {
      free_list(heap, c);
    }
    SpanNumber number = heap->reusable[c].get();
    for (u32 left = ring_length(heap, c, most_of_ring); left > 0; --left) {
      Span* span = span_at(number);
      number = span->ring_next.get();
      if (free_blocks(span) >= half_of(span->capacity.get())) give_up(heap, span);
    }
  }
}

void empty_heap(Heap* heap) {
  close_chains(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = put_down_hot(heap, c)) give_up(heap, span);
    while (Span* span = pop_ring(heap, c)) give_up(heap, span);
  }
}

void do_duty(Span* span, PushDuty duty) {
  switch (duty) {
    case PushDuty::none:
    case PushDuty::mixed:        // its blocks were freed by whoever pushed
    case PushDuty::double_free:  // reported by them
      return;
    case PushDuty::claimed:
      return mail(span);
    case PushDuty::list:
      if (!insert_listed(span)) end_span(span);
      return look_at_oldest();
    case PushDuty::take_off:
      if (g_partial_pool.remove(span)) end_span(span);
      return;
    case PushDuty::give_back:
      return end_span(span);
  }
}

}  // namespace coffer
