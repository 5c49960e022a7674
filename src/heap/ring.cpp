// SPDX-License-Identifier: MIT
#include "heap/ring.hpp"

namespace coffer {

bool push_ring(Heap* heap, Span* span, u32 slack) {
  // acquire: pairs with the release in leave_ring: the heap that the record stood with is through with its links.
  const u32 name = span->ring_of.load(acquire);
  if (name == ring_name(heap)) {
    leave_ring(heap, span);
  } else if (name != 0) {
    return false;
  }
  const ClassIndex size_class = span->size_class.get();
  Owned<SpanNumber>& newest = heap->reusable[size_class];
  const SpanNumber number = span_number(span);
  Span* next = newest.get() != 0 ? span_at(newest.get()) : span;
  Span* previous = newest.get() != 0 ? span_at(next->ring_previous.get()) : span;
  span->ring_next.set(span_number(next));
  span->ring_previous.set(span_number(previous));
  previous->ring_next.set(number);
  next->ring_previous.set(number);
  newest.set(number);
  span->ring_class.set(static_cast<u8>(size_class));
  span->ring_slack.set(slack);
  span->ring_of.store(ring_name(heap), relaxed);  // relaxed: others only see that it is not theirs
  heap->slack.set(heap->slack.get() + slack);
  return true;
}

bool stands_on_ring(const Heap* heap, const Span* span) {
  // relaxed: equal only if this heap wrote it. A record may have stood there since an earlier life, of another class.
  return span->ring_of.load(relaxed) == ring_name(heap) && span->ring_class.get() == span->size_class.get();
}

void set_ring_slack(Heap* heap, Span* span, u32 slack) {
  heap->slack.set(heap->slack.get() - span->ring_slack.get() + slack);
  span->ring_slack.set(slack);
}

void leave_ring(Heap* heap, Span* span) {
  // relaxed: equal only if this heap wrote it.
  if (span->ring_of.load(relaxed) != ring_name(heap)) return;
  Owned<SpanNumber>& newest = heap->reusable[span->ring_class.get()];
  const SpanNumber number = span_number(span);
  const SpanNumber next = span->ring_next.get();
  span_at(span->ring_previous.get())->ring_next.set(next);
  span_at(next)->ring_previous.set(span->ring_previous.get());
  if (newest.get() == number) newest.set(next == number ? 0 : next);
  heap->slack.set(heap->slack.get() - span->ring_slack.get());
  // release: pairs with the acquire in push_ring, by the next heap that owns the record's span.
  span->ring_of.store(0, release);
}

Span* pop_ring(Heap* heap, ClassIndex size_class) {
  const SpanNumber newest = heap->reusable[size_class].get();
  if (newest == 0) return nullptr;
  Span* span = span_at(span_at(newest)->ring_previous.get());
  leave_ring(heap, span);
  return span;
}

u32 ring_length(const Heap* heap, ClassIndex size_class) {
  const SpanNumber newest = heap->reusable[size_class].get();
  if (newest == 0) return 0;
  u32 count = 1;
  for (SpanNumber n = span_at(newest)->ring_next.get(); n != newest; n = span_at(n)->ring_next.get()) ++count;
  return count;
}

}  // namespace coffer
