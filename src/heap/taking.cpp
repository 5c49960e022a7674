// SPDX-License-Identifier: MIT
#include "heap/taking.hpp"

#include "config/config.hpp"
#include "heap/bracket.hpp"
#include "heap/registry.hpp"
#include "heap/walk.hpp"
#include "os/os.hpp"
#include "pool/reclaimer.hpp"
#include "span/emptiness.hpp"
#include "span/purge_span.hpp"
#include "span/sharing.hpp"

namespace coffer {

namespace {

struct Unsettled {
  alignas(kCacheLine) Atomic<SpanNumber> first;  // stack by mail_next; only ever taken whole
  Atomic<usize> bytes;
};
Unsettled g_unsettled;

constexpr u32 kLooks = 4;                 // heaps that one call looks at
constexpr u32 kIdleLooks = 4;             // looks that find a heap's ticks unchanged before it counts as idle
constexpr u32 kLooksAgain = 16;           // further ones before an idle heap is robbed again: others may have freed
constexpr u32 kRobbedOfRing = 64;         // of each class
constexpr u32 kRobbedOfQuietRing = 4096;  // where nobody waits for it
constexpr u32 kTicksBits = 24;
constexpr u32 kTicksMask = (1u << kTicksBits) - 1;
Atomic<u32> g_next_look;
Atomic<u64> g_last_look;

bool mail(Heap* owner, Span* span) {
  const u32 slots = span->slots.get();
  // relaxed: a figure for budgets. What waits for an owner that sleeps goes to whoever needs memory (rob_idle_heaps).
  const usize budget = mail_budget(config::options().slack, owner->held.load(relaxed));
  u64 box = owner->mailbox.load(relaxed);  // relaxed: the CAS below checks it
  do {
    if (box == kMailboxClosed) return false;
    // One span is taken in any case, so that a class with large ones is not cut off.
    if (mail_first(box) != 0 && !within_slack(mail_bytes(box), span_bytes(span), budget)) return false;
    span->mail_next.store(mail_first(box), relaxed);  // relaxed: published by the CAS
    // release: pairs with the acquire in take_mail and rob_mailbox.
  } while (!owner->mailbox.compare_exchange(box, (((box >> 32) + slots) << 32) | span_number(span), release, relaxed));
  return true;
}

void push_unsettled(Span* span) {
  SpanNumber first = g_unsettled.first.load(relaxed);  // relaxed: the CAS below checks it
  do {
    span->mail_next.store(first, relaxed);  // relaxed: published by the CAS
    // release: pairs with the acquire in settle_unsettled: the owner field is none before the settler's barrier.
  } while (!g_unsettled.first.compare_exchange(first, span_number(span), release, relaxed));
}

void take(Span* span, Heap* owner) {
  span->taken_from.set(owner->index.get());
  owner->held.fetch_sub(span_bytes(span), relaxed);        // relaxed: a figure for budgets
  span->owner.store(nullptr, relaxed);                     // relaxed: ordered by the settler's barrier (bracket.hpp)
  g_unsettled.bytes.fetch_add(span_bytes(span), relaxed);  // relaxed: a limit that may be late
  push_unsettled(span);
}

void rob_mailbox(Heap* heap) {
  u64 box = heap->mailbox.load(relaxed);  // relaxed: the CAS below checks it
  do {
    if (box == 0 || box == kMailboxClosed) return;
    // acquire: pairs with the release in mail.
  } while (!heap->mailbox.compare_exchange(box, 0, acquire, relaxed));
  for (SpanNumber number = mail_first(box); number != 0;) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the box
    take(span, heap);
  }
}

// More than the option waits for the heap's owner.
bool has_much_mail(const Heap* heap) {
  const u64 box = heap->mailbox.load(relaxed);  // relaxed: only whether to rob it
  return box != kMailboxClosed && mail_bytes(box) > config::options().slack;
}

// A look at fields that the owner may be changing: what the claim and the settler find decides. `heap` may name a span
// that was taken from it and has another owner since: that one is let be.
void rob_span(const Heap* heap, Span* span, SpanState from, u32 least) {
  // acquire: pairs with make_span; the fields are those of the span's life. relaxed: a look.
  const RemoteWord word = load_word(span, acquire);
  if (span->owner.load(relaxed) != heap) return;
  if (word.state() != from || local_count(span) + absent_count(span) + word.count() < least) return;
  if (!claim(span, from)) return;
  take(span, span->owner.load(acquire));  // acquire: as in hand_on_claimed
}

void rob_idle(Heap* heap, u32 most_of_ring) {
  rob_mailbox(heap);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (Span* hot = heap->hot[c].get()) rob_span(heap, hot, SpanState::hot, reuse_threshold(hot->capacity.get()));
    // The ring's links are its heap's, which may wake up and change them: whatever record they lead to, its claim
    // decides, and the walk ends.
    SpanNumber number = heap->reusable[c].get();
    for (u32 i = 0; number != 0 && i < most_of_ring; ++i) {
      Span* span = span_at(number);
      rob_span(heap, span, SpanState::reusable, 1);
      number = span->ring_next.get();
      if (number == heap->reusable[c].get()) break;
    }
  }
}

// Counts a look at the heap; true at the first one after its ticks stood still for so many, and again after `again`.
bool stands_still(const Heap* heap, Atomic<u32>& watched, u32 looks, u32 again) {
  const u32 ticks = heap->ticks.get() & kTicksMask;
  const u32 seen = watched.load(relaxed);  // relaxed, all: a guess, and each look is as good as another's
  if ((seen & kTicksMask) != ticks) {
    watched.store(ticks, relaxed);
    return false;
  }
  const u32 before = seen >> kTicksBits;
  const u32 last = looks + again;
  watched.store(ticks | (before < last ? before + 1 : looks + 1) << kTicksBits, relaxed);
  return before == looks || before == last;
}

}  // namespace

bool look_is_due() {
  if (is_crowded()) return true;
  const u64 now = os::coarse_ns();
  if (g_last_look.load(relaxed) == now) return false;  // relaxed, both: two who look at once do no harm
  g_last_look.store(now, relaxed);
  return true;
}

void rob_idle_heaps(const Heap* but) {
  if (!several_heaps()) return;
  const u32 first = fallback_heap_used() ? 0 : 1;
  const u32 count = heaps_ever() - first;
  // relaxed: where to go on looking.
  u32 at = g_next_look.fetch_add(kLooks, relaxed);
  for (u32 i = 0; i < kLooks && i < count; ++i) {
    Heap* heap = heap_by_index(first + at++ % count);
    if (heap == but || heap->attached.get() == 0) continue;  // without a thread it has no such span
    if (has_much_mail(heap)) rob_mailbox(heap);
    if (!stands_still(heap, heap->watched, kIdleLooks, kLooksAgain)) continue;
    rob_idle(heap, kRobbedOfRing);
  }
}

bool take_from_quiet_heaps() {
  bool wait = false;
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    Heap* heap = heap_by_index(i);
    if (heap->slack.get() <= config::options().slack && !has_much_mail(heap)) continue;
    if (stands_still(heap, heap->rested, kQuietSteps, 1)) {
      rob_idle(heap, kRobbedOfQuietRing);
      settle_unsettled();
    } else {
      wait = wait || heap->slack.get() > config::options().free_limit;
    }
  }
  return wait;
}

void share_claimed(Span* span) {
  if (share_span(span, insert_listed)) look_at_oldest();
}

void hand_on_claimed(Span* span) {
  // acquire: pairs with the release of the transition that made the span the owner's; only a claimant changes it.
  Heap* owner = span->owner.load(acquire);
  if (mail(owner, span)) return;
  take(span, owner);
  // relaxed: a limit that may be late.
  if (g_unsettled.bytes.load(relaxed) > kUnsettledLimit) settle_unsettled();
}

bool settle_unsettled() {
  // relaxed: only whether to look.
  if (g_unsettled.first.load(relaxed) == 0) return false;
  // acquire: pairs with the release in push_unsettled.
  SpanNumber number = g_unsettled.first.exchange(0, acquire);
  if (number == 0) return false;
  bool barrier = true;
  if (fences_brackets()) {
    full_fence();  // pairs with bracket_fence
  } else {
    barrier = os::barrier_everywhere();
  }
  bool settled = false;
  while (number != 0) {
    Span* span = span_at(number);
    number = span->mail_next.load(relaxed);  // relaxed: acquired with the stack
    // Counted once: what has to wait on is at most one span a heap, and each of them would have every later taker issue
    // a barrier. relaxed: a limit that may be late.
    if (!is_held_up(span)) g_unsettled.bytes.fetch_sub(span_bytes(span), relaxed);
    const Heap* old_owner = taken_from(span);
    // acquire: pairs with the release that cleared the bracket: what the old owner did last is seen.
    if (!barrier || old_owner->bracket.load(acquire) == span) {
      span->taken_from.set(span->taken_from.get() | kHeldUp);
      push_unsettled(span);
      continue;
    }
    share_claimed(span);
    settled = true;
  }
  return settled;
}

usize unsettled_bytes() { return g_unsettled.bytes.load(relaxed); }  // relaxed: a figure

void rob_heaps(Idle which) {
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) rob_mailbox(heap_by_index(i));
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SlotUse slot_use) {
      if (slot_use != SlotUse::span) return;
      const bool pages = which == Idle::pages && may_have_idle_page(span);
      // relaxed: whoever it is.
      rob_span(span->owner.load(relaxed), span, SpanState::reusable, pages ? 1 : span->capacity.get());
    });
  });
}

void forget_unsettled() {
  g_unsettled.first.store(0, relaxed);  // relaxed, both: other threads are gone
  g_unsettled.bytes.store(0, relaxed);
}

bool is_handed_on(const Span* span) {
  const SpanNumber wanted = span_number(span);
  // relaxed, all: no other thread is inside.
  const Heap* owner = span->owner.load(relaxed);
  const u64 box = owner != nullptr ? owner->mailbox.load(relaxed) : 0;
  if (box == kMailboxClosed) return false;
  SpanNumber number = owner != nullptr ? mail_first(box) : g_unsettled.first.load(relaxed);
  while (number != 0) {
    if (number == wanted) return true;
    number = span_at(number)->mail_next.load(relaxed);
  }
  return false;
}

}  // namespace coffer
