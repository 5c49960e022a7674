// SPDX-License-Identifier: MIT
#include "exchange/ring.hpp"

namespace coffer {

namespace {

// Changes what the heap counts for the span.
void count(Heap* heap, Span* span, u32 slack) {
  const u32 before = span->ring_slack.get();
  const u32 whole = span_bytes(span);
  heap->slack.set(heap->slack.get() - before + slack);
  if (before == whole) heap->empties.set(heap->empties.get() - whole);
  if (slack == whole) heap->empties.set(heap->empties.get() + whole);
  span->ring_slack.set(slack);
}

}  // namespace

void push_ring(Heap* heap, Span* span, u32 slack) {
  Owned<SpanNumber>& newest = heap->reusable[span->size_class.get()];
  const SpanNumber number = span_number(span);
  span->ring_previous.set(number);
  Span* next = newest.get() != 0 ? span_at(newest.get()) : span;
  Span* previous = span_at(next->ring_previous.get());
  span->ring_next.set(span_number(next));
  span->ring_previous.set(span_number(previous));
  previous->ring_next.set(number);
  next->ring_previous.set(number);
  newest.set(number);
  count(heap, span, slack);
}

void set_ring_slack(Heap* heap, Span* span, u32 slack) { count(heap, span, slack); }

void leave_ring(Heap* heap, Span* span) {
  if (!stands_on_ring(span)) return;
  Owned<SpanNumber>& newest = heap->reusable[span->size_class.get()];
  const SpanNumber number = span_number(span);
  const SpanNumber next = span->ring_next.get();
  span_at(span->ring_previous.get())->ring_next.set(next);
  span_at(next)->ring_previous.set(span->ring_previous.get());
  if (newest.get() == number) newest.set(next == number ? 0 : next);
  count(heap, span, 0);
  span->ring_next.set(0);
}

Span* oldest_on_ring(const Heap* heap, ClassIndex size_class) {
  const SpanNumber newest = heap->reusable[size_class].get();
  return newest != 0 ? span_at(span_at(newest)->ring_previous.get()) : nullptr;
}

Span* newer_on_ring(const Heap* heap, const Span* span) {
  const bool newest = heap->reusable[span->size_class.get()].get() == span_number(span);
  return newest ? nullptr : span_at(span->ring_previous.get());
}

Span* pop_ring(Heap* heap, ClassIndex size_class) {
  Span* span = oldest_on_ring(heap, size_class);
  if (span != nullptr) leave_ring(heap, span);
  return span;
}

u32 ring_length(const Heap* heap, ClassIndex size_class, u32 most) {
  const SpanNumber newest = heap->reusable[size_class].get();
  if (newest == 0) return 0;
  u32 count = 1;
  for (SpanNumber n = span_at(newest)->ring_next.get(); n != newest && count < most; n = span_at(n)->ring_next.get()) {
    ++count;
  }
  return count;
}

}  // namespace coffer
