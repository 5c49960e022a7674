#include "pool/partial_pool.hpp"

namespace coffer {

PartialPool g_partial_pool;

bool PartialPool::insert(Span* span) {
  Shard& shard = shards_[span->shard.get()];
  LockGuard guard(shard.lock);
  if (span->listed.get() == kAwaited) {
    span->listed.set(kNobody);
    return false;
  }
  Atomic<SpanNumber>& head = shard.heads[span->size_class.get()];
  const SpanNumber number = span_number(span);
  const SpanNumber first = head.load(relaxed);  // relaxed, all in this file: under the lock
  span->previous.set(0);
  span->next.set(first);
  if (first != 0) span_at(first)->previous.set(number);
  head.store(number, relaxed);
  span->listed.set(kLinked);
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
  const SpanNumber next = span->next.get();
  const SpanNumber previous = span->previous.get();
  if (next != 0) span_at(next)->previous.set(previous);
  if (previous != 0) {
    span_at(previous)->next.set(next);
  } else {
    shard.heads[span->size_class.get()].store(next, relaxed);
  }
  span->next.set(0);
  span->previous.set(0);
  span->listed.set(kNobody);
}

void PartialPool::lock_for_fork() {
  for (Shard& shard : shards_) shard.lock.lock_for_fork();
}

void PartialPool::unlock_after_fork() {
  for (Shard& shard : shards_) shard.lock.unlock_after_fork();
}

}  // namespace coffer
