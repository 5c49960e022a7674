// SPDX-License-Identifier: MIT
#include "span/class_use.hpp"

#include "span/span.hpp"

namespace coffer {

namespace {

// `high` in one word: | writes (16) | units of 16 bytes (48) |. Every span that is made or adopted writes it, if only
// by one more write, so that whoever sets it back (the class has no span any more) notices that one came meanwhile.
constexpr u32 kUnitBits = 48;
constexpr u64 kUnits = (u64{1} << kUnitBits) - 1;

struct alignas(kCacheLine) ClassUse {
  Atomic<usize> used;
  Atomic<u64> high;
  Atomic<u32> spans;
  Atomic<u32> makers, most_makers;
};
ClassUse g_use[kClasses];

usize high_bytes(u64 word) { return (word & kUnits) * kQuantum; }

void raise(ClassUse& use, usize used) {
  u64 seen = use.high.load(relaxed);  // relaxed: the CAS below checks it
  u64 wanted;
  do {
    const u64 units = used > high_bytes(seen) ? divide_up(used, kQuantum) : seen & kUnits;
    wanted = ((seen >> kUnitBits) + 1) << kUnitBits | units;
    // acq_rel: orders the count of spans before the write; pairs with the CAS in span_ended.
  } while (!use.high.compare_exchange(seen, wanted, acq_rel, relaxed));
}

}  // namespace

void span_made(const Span* span) {
  ClassUse& use = g_use[span->size_class.get()];
  use.spans.fetch_add(1, acq_rel);  // acq_rel: before the write of `high`; pairs with the decrement in span_ended
  raise(use, use.used.fetch_add(span_bytes(span), relaxed) + span_bytes(span));  // relaxed: a sum
}

void span_adopted(ClassIndex size_class, usize bytes) {
  ClassUse& use = g_use[size_class];
  raise(use, use.used.fetch_add(bytes, relaxed) + bytes);  // relaxed: a sum
}

void span_shared(ClassIndex size_class, usize bytes) {
  g_use[size_class].used.fetch_sub(bytes, relaxed);  // relaxed: a sum
}

void span_ended(const Span* span, usize bytes) {
  ClassUse& use = g_use[span->size_class.get()];
  use.used.fetch_sub(span_bytes(span) - bytes, relaxed);  // relaxed: a sum
  u64 seen = use.high.load(acquire);                      // acquire: read before the count falls; pairs with raise
  // acq_rel: pairs with the increment in span_made. Whoever makes a span after this sees it and writes `high` after it.
  if (use.spans.fetch_sub(1, acq_rel) != 1) return;
  // The class has no span. If one was made since `high` was read, it was written, and stays.
  use.high.compare_exchange(seen, (seen & ~kUnits), acq_rel, relaxed);  // acq_rel: pairs with raise
}

Maker::Maker(ClassIndex size_class) : size_class_(size_class) {
  ClassUse& use = g_use[size_class];
  const u32 now = use.makers.fetch_add(1, relaxed) + 1;  // relaxed, all: a count, and its highest
  u32 most = use.most_makers.load(relaxed);
  while (now > most && !use.most_makers.compare_exchange(most, now, relaxed, relaxed)) {
  }
}
Maker::~Maker() { g_use[size_class_].makers.fetch_sub(1, relaxed); }  // relaxed: as above

// relaxed, all: figures.
usize class_used(ClassIndex size_class) { return g_use[size_class].used.load(relaxed); }
usize class_high(ClassIndex size_class) {
  return high_bytes(g_use[size_class].high.load(relaxed));  // relaxed: as above
}

u32 most_makers(ClassIndex size_class) { return g_use[size_class].most_makers.load(relaxed); }  // relaxed: as above
u32 class_spans(ClassIndex size_class) { return g_use[size_class].spans.load(relaxed); }        // relaxed: as above

void set_class_used(ClassIndex size_class, usize bytes, u32 spans) {
  ClassUse& use = g_use[size_class];
  use.used.store(bytes, relaxed);  // relaxed, both: other threads wait
  use.spans.store(spans, relaxed);
  raise(use, bytes);
}

}  // namespace coffer
