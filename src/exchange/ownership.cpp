// SPDX-License-Identifier: MIT
#include "exchange/ownership.hpp"

#include "config/config.hpp"
#include "exchange/chains.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "observe/counters.hpp"
#include "policy/kept.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"
#include "span/sharing.hpp"

namespace coffer {

namespace {

// acquire: pairs with push_remote; if all blocks are free the caller ends the span.
u32 all_free(const Span* span) { return free_blocks(span, acquire); }

// The next event of a reusable span with `free` blocks: when the slack has to be counted anew, or when the frees that
// are missing were all local ones. Remote ones are counted at the event.
u32 frees_to_event(u32 capacity, u32 free) { return free >= capacity ? kNever : frees_to_recount(capacity, free); }

// Whether no other heap has a thread that could use what it keeps. relaxed, both: a hint.
bool is_alone(const Heap* heap) { return !several_heaps() && heap->attached.load(relaxed) != 0; }

usize budget_of_partly_used(const Heap* heap, bool alone) {
  // relaxed: a figure for budgets.
  return slack_budget(config::options().slack, heaps_share(), heap->held.load(relaxed), alone);
}
usize budget_of_partly_used(const Heap* heap) { return budget_of_partly_used(heap, is_alone(heap)); }

usize budget_of_empties() { return empties_budget(config::options().slack, heaps_share()); }

// Free bytes in partly used spans on its rings.
usize in_partly_used(const Heap* heap) { return heap->slack.get() - heap->empties.get(); }

// Whether the heap may keep the span with so many free bytes, beside what it keeps.
bool may_keep(const Heap* heap, const Span* span, u32 free_bytes) {
  const u32 counted = span->ring_slack.get();
  const u32 whole = span_bytes(span);
  if (free_bytes == whole) return may_keep_empty(heap, counted == whole ? 0 : whole);
  return within_slack(in_partly_used(heap) - (counted != whole ? counted : 0), free_bytes, budget_of_partly_used(heap));
}

// Gives up the oldest span of the next ring that has one for which choose(span) holds; false: none has. It passes
// `but`, and what is in the mail: that comes to the heap, and is no reason to keep what stands behind it.
template <class Choose>
bool shed_one(Heap* heap, const Span* but, Choose&& choose) {
  for (u32 looked = 0; looked < kClasses; ++looked) {
    const u32 size_class = heap->shed_class.get() % kClasses;
    for (Span* span = oldest_on_ring(heap, size_class); span != nullptr; span = newer_on_ring(heap, span)) {
      if (span == but) continue;
      if (!choose(span)) break;
      if (!claim(span)) continue;
      give_up(heap, span, Claimed::yes);
      return true;
    }
    heap->shed_class.set(size_class + 1);
  }
  return false;
}

// Bytes that it keeps in partly used spans over the budget.
usize bytes_over(const Heap* heap, bool alone) {
  const usize kept = in_partly_used(heap), budget = budget_of_partly_used(heap, alone);
  return kept > budget ? kept - budget : 0;
}

// Gives up spans, the oldest of the rings, as long as there are some and too_much().
template <class TooMuch>
void shed_while(TooMuch&& too_much, Heap* heap, const Span* but) {
  while (COFFER_UNLIKELY(too_much()) && shed_one(heap, but, [](const Span*) { return true; })) {
  }
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

bool may_keep_empty(const Heap* heap, usize bytes) {
  return within_slack(heap->empties.get() + kept_bytes(heap), bytes, budget_of_empties());
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

void share_claimed(Span* span) {
  const NotedSupply noted;
  if (share_span(span, insert_listed)) look_at_oldest();
}

void give_up(Heap* heap, Span* span, Claimed claimed) {
  if (claimed == Claimed::no && !claim(span)) return;
  leave_ring(heap, span);
  let_go(heap, span);
  span->owner.store(nullptr, relaxed);  // relaxed: published by mark_shared
  share_claimed(span);
}

void place(Heap* heap, Span* span, Claimed claimed, const Span* but) {
  const u32 capacity = span->capacity.get();
  // One that is counted anew keeps its place: what is freed last is no better a choice than what was reusable first.
  const bool stands = stands_on_ring(span);
  const u32 local = local_count(span), base = local + absent_count(span);
  const auto count_free = [=] { return base + load_word(span, acquire).count(); };  // acquire: as in all_free
  u32 free_bytes = 0;
  // Others may free while it is counted, all of it even, and none of their pushes claims what is claimed already.
  for (u32 free = count_free(), counted = free + 1; free != counted;) {
    counted = free;
    free_bytes = counted >= capacity ? span_bytes(span) : counted * span->block_bytes.get();
    if (!may_keep(heap, span, free_bytes)) {
      if (claimed == Claimed::no && !claim(span)) return;  // it comes by mail
      // Its own share of what the rings keep goes with it: it is no reason to keep others beyond the budget.
      leave_ring(heap, span);
      const usize over = over_budget(heap);
      give_up(heap, span, Claimed::yes);
      return shed_down(heap, over, but);
    }
    if (claimed == Claimed::yes) {
      receive_claimed(span);
      claimed = Claimed::no;
    } else if (!mark_reusable(span)) {
      return set_countdown(span, local, kNever);  // it comes by mail
    }
    free = count_free();
    set_countdown(span, local, frees_to_event(capacity, free));
  }
  // When the heap sleeps, the pages inside go back (empty_idle_heaps).
  if (COFFER_UNLIKELY(heap->slack.get() > config::options().free_limit)) want_reclaimer();
  if (stands) return set_ring_slack(heap, span, free_bytes);
  push_ring(heap, span, free_bytes);
}

usize over_budget(const Heap* heap) { return bytes_over(heap, is_alone(heap)); }

void shed_down(Heap* heap, usize over, const Span* but) {
  shed_while([=] { return over_budget(heap) > over; }, heap, but);
}

bool keeps_more_than_among_others(const Heap* heap) { return bytes_over(heap, false) != 0; }

void shed_as_among_others(Heap* heap) {
  shed_while([=] { return keeps_more_than_among_others(heap); }, heap, nullptr);
}

// Budgets shrink when heaps are added. Of each kind, partly used and empty, what is too much of it; one that stands
// behind spans of the other kind waits for its turn.
void shed_surplus(Heap* heap) {
  const usize partly_used = budget_of_partly_used(heap), empties = budget_of_empties();
  const auto are_too_many = [=](bool empty) {
    return empty ? heap->empties.get() > empties : in_partly_used(heap) > partly_used;
  };
  if (COFFER_LIKELY(!are_too_many(false) && !are_too_many(true))) return;
  const usize over = over_budget(heap);
  shed_one(heap, nullptr, [=](const Span* span) { return are_too_many(span->ring_slack.get() == span_bytes(span)); });
  shed_down(heap, over);
}

void release_idle(Heap* heap) {
  const auto keep_if_used = [heap](Span* span) {
    all_free(span) >= span->capacity.get() ? give_up(heap, span) : place(heap, span);
  };
  give_back_kept(heap);
  close_chains(heap);
  take_mail(heap);
  const usize over = over_budget(heap);  // now: what was over by spans that came by mail is not
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = put_down_hot(heap, c)) keep_if_used(span);
    for (u32 left = ring_length(heap, c, ~u32{0}); left > 0; --left) {
      if (Span* span = pop_ring(heap, c)) keep_if_used(span);  // shed_down may have been quicker
    }
  }
  shed_down(heap, over);
}

bool give_up_half_empty(Heap* heap, u32 most_of_ring) {
  const usize over = over_budget(heap);
  give_back_kept(heap);
  bool found = false;
  // Of what was carved: the rest is worth no more to others than a new span, and where the heap's thread has begun a
  // span they would get its neighbours. Of the heap's list no more is read than decides.
  const auto is_half_empty = [](const Span* span, Block* listed) {
    const u32 half = half_of(span->carved.get()), free = all_free(span) - absent_count(span);
    return free >= half || free + measure_list(listed, half - free).count >= half;
  };
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = heap->hot[c].get()) {
      if (is_half_empty(span, heap->blocks[c].get())) {
        give_up(heap, put_down_hot(heap, c));
        found = true;
      }
    } else {
      free_list(heap, c);
    }
    SpanNumber number = heap->reusable[c].get();
    for (u32 left = ring_length(heap, c, most_of_ring); left > 0; --left) {
      Span* span = span_at(number);
      number = span->ring_next.get();
      if (!is_half_empty(span, nullptr)) continue;
      give_up(heap, span);
      found = true;
    }
  }
  shed_down(heap, over);
  return found;
}

void empty_heap(Heap* heap) {
  give_back_kept(heap);
  close_chains(heap);
  take_mail(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* span = put_down_hot(heap, c)) give_up(heap, span);
    while (Span* span = pop_ring(heap, c)) give_up(heap, span);
  }
}

void do_duty(Span* span, PushDuty duty) {
  const NotedSupply noted;  // also of blocks that make no duty: a hot span's
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
