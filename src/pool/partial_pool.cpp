// SPDX-License-Identifier: MIT
#include "pool/partial_pool.hpp"

#include "os/os.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {

PartialPool g_partial_pool;

// relaxed, all in this file: under the shard's lock. The counts of inserts say otherwise.

u32 PartialPool::tick_now() { return static_cast<u32>(os::coarse_ns() / kTickNs) & kTickMask; }

void PartialPool::link(Shard& shard, Span* span, SpanNumber previous, SpanNumber next) {
  const SpanNumber number = span_number(span);
  span->previous.set(previous);
  span->next.set(next);
  if (next != 0) span_at(next)->previous.set(number);
  if (previous != 0) {
    span_at(previous)->next.set(number);
  } else {
    shard.heads[span->size_class.get()].store(number, relaxed);
  }
  span->listed.set(kLinked);
  shard.bytes.set(shard.bytes.get() + span->slices.get() * kSliceBytes);
}

// At the head, as the newest of those that wait.
void PartialPool::link_waiting(Shard& shard, Span* span, usize free_bytes) {
  const ClassIndex size_class = span->size_class.get();
  const u32 units = static_cast<u32>(free_bytes / (kQuantum * 2));
  span->pool_note.set((tick_now() << kNoteShift) | units);
  waiting_bytes_.fetch_add(note_bytes(units), relaxed);
  link(shard, span, 0, shard.heads[size_class].load(relaxed));
  if (shard.waiting[size_class].load(relaxed) == 0) shard.waiting[size_class].store(span_number(span), relaxed);
}

// After the span can be found. release: pairs with the acquire in inserts, for the head of the list. Whoever does not
// see it yet looked before the span's inserter went on, which counts the span as private until then (share_span).
void PartialPool::note_insert(Shard& shard, const Span* span) {
  Atomic<u32>& count = shard.inserts[span->size_class.get()];
  count.store(count.load(relaxed) + 1, release);
}

// None of the counts falls, so a sum that is the same twice is that of the same counts.
u32 PartialPool::inserts(ClassIndex size_class) const {
  u32 sum = 0;
  // acquire: pairs with the release in note_insert; the lists are looked at after the first sum and before the second.
  for (u32 i = 0, count = shard_count(); i < count; ++i) sum += shards_[i].inserts[size_class].load(acquire);
  return sum;
}

bool PartialPool::insert(Span* span, usize free_bytes) {
  Shard& shard = shards_[span->shard.get()];
  LockGuard guard(shard.lock);
  if (span->listed.get() == kAwaited) {
    span->listed.set(kNobody);
    return false;
  }
  link_waiting(shard, span, free_bytes);
  note_insert(shard, span);
  return true;
}

bool PartialPool::insert_looked_at(Span* span) {
  Shard& shard = shards_[span->shard.get()];
  LockGuard guard(shard.lock);
  if (span->listed.get() == kAwaited) {
    span->listed.set(kNobody);
    return false;
  }
  span->pool_note.set(0);
  const SpanNumber before = shard.waiting[span->size_class.get()].load(relaxed);
  const SpanNumber head = shard.heads[span->size_class.get()].load(relaxed);
  link(shard, span, before, before != 0 ? span_at(before)->next.get() : head);
  note_insert(shard, span);
  return true;
}

bool PartialPool::remove(Span* span) {
  Shard& shard = shards_[span->shard.get()];
  LockGuard guard(shard.lock);
  if (span->listed.get() != kLinked) {
    span->listed.set(kAwaited);
    return false;
  }
  unlink(shard, span);
  return true;
}

void PartialPool::unlink(Shard& shard, Span* span) {
  if (span->previous.get() == 0) shard.heads[span->size_class.get()].store(span->next.get(), relaxed);
  unlink_but_head(shard, span);
}

void PartialPool::unlink_but_head(Shard& shard, Span* span) {
  const ClassIndex size_class = span->size_class.get();
  const SpanNumber next = span->next.get();
  const SpanNumber previous = span->previous.get();
  if (next != 0) span_at(next)->previous.set(previous);
  if (previous != 0) span_at(previous)->next.set(next);
  if (shard.waiting[size_class].load(relaxed) == span_number(span)) shard.waiting[size_class].store(previous, relaxed);
  waiting_bytes_.fetch_sub(note_bytes(note_of(span)), relaxed);
  span->next.set(0);
  span->previous.set(0);
  span->listed.set(kNobody);
  shard.bytes.set(shard.bytes.get() - span->slices.get() * kSliceBytes);
}

void PartialPool::look_again() {
  for (u32 i = 0; i < shard_count(); ++i) {
    Shard& shard = shards_[i];
    LockGuard guard(shard.lock);
    for (ClassIndex c = 0; c < kClasses; ++c) {
      SpanNumber last = shard.heads[c].load(relaxed);
      if (last == 0) continue;
      while (const SpanNumber next = span_at(last)->next.get()) last = next;
      shard.waiting[c].store(last, relaxed);
    }
  }
}

usize PartialPool::listed_bytes() const {
  usize bytes = 0;
  for (u32 i = 0; i < shard_count(); ++i) bytes += shards_[i].bytes.get();
  return bytes;
}

bool PartialPool::forget_others() {
  bool any = false;
  for (Shard& shard : shards_) any = shard.lock.forget_others() || any;
  torn_ = torn_ || any;
  return any;
}

void PartialPool::drop_lists() {
  for (Shard& shard : shards_) {
    for (Atomic<SpanNumber>& head : shard.heads) head.store(0, relaxed);
    for (Atomic<SpanNumber>& last : shard.waiting) last.store(0, relaxed);
    shard.bytes.set(0);
  }
  waiting_bytes_.store(0, relaxed);
}

void PartialPool::forget(Span* span) {
  span->next.set(0);
  span->previous.set(0);
  span->listed.set(kNobody);
}

}  // namespace coffer
