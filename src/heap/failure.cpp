// SPDX-License-Identifier: MIT
#include "heap/failure.hpp"

#include "arena/reservation.hpp"
#include "exchange/inside.hpp"
#include "exchange/ring.hpp"
#include "exchange/seizing.hpp"
#include "pool/limit.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

void expect_frees(Heap* heap) {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    SpanNumber number = heap->reusable[c].get();
    for (u32 left = ring_length(heap, c, ~u32{0}); left > 0; --left) {
      Span* span = span_at(number);
      number = span->ring_next.get();
      if (span->countdown.get() != kNever) set_countdown(span, local_count(span), 1);  // else it is empty
    }
  }
}

}  // namespace

void begin_search(Heap* heap) {
  note_all_heaps(heap);
  // acquire: pairs with the release in note_supply. Before the search: what comes during it came after it.
  heap->vain_supply.set(g_supply.load(acquire));
  heap->vain_class.set(0);
}

void remember_failure(Heap* heap, ClassIndex size_class) {
  // Somebody who counts what malloc takes goes by the countdowns, too. relaxed, both: what came since may be
  // seen late here, and is seen when it matters (fails_again).
  if (watches_lists() || heap->settled.get() != g_shortage.load(relaxed)) return;
  if (heap->vain_supply.get() != g_supply.load(relaxed)) return;
  expect_frees(heap);
  heap->vain_class.set(size_class + 1);
  heap->vain_turn.set(heap->chain_turn.get());
}

bool fails_again(const Heap* heap, ClassIndex size_class) {
  const u32 in_vain = heap->vain_class.get();
  if (in_vain == 0 || size_class + 1 < in_vain || heap->vain_turn.get() != heap->chain_turn.get()) return false;
  if (!are_all_noted(heap)) return false;
  // relaxed: what came by the program's order is seen. After the notes.
  if (heap->vain_supply.get() != g_supply.load(relaxed)) return false;
  // What failed at the limit would be served from free slices that there are, once the limit allows it.
  return is_limited() ? is_limit_reached() : !has_room_for_arena();
}

}  // namespace coffer
