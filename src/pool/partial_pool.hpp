// Partly used spans that belong to nobody, by class: any heap adopts from here before it takes new memory (Hoard's
// global heap, paper 1, section 3.1). Doubly linked lists under one small lock a shard, for a span may leave from the
// middle.
//
// A span is put in by whoever listed it and taken off either by an adopter or by whoever freed its last block, and the
// latter can arrive before the former. Both work under the shard's lock: the one who comes second finishes. `listed` of
// the span's record tells who was there:
//   0           nobody
//   kLinked     it is on the list
//   kAwaited    its last block was freed before it was linked: the inserter has to give it back
//
// Model: models/partial_pool.pml.
#pragma once

#include "arena/arena.hpp"
#include "pool/slot_pool.hpp"

namespace coffer {

class PartialPool {
 public:
  // Puts a listed span in. false: it became empty meanwhile, and the caller has to give it back.
  bool insert(Span* span);
  // Takes a returning span off. false: it was not in yet; who inserts it gives it back.
  bool remove(Span* span);

  // The first span of the class for which claim(span) holds, taken off; from `shard`'s list, else from the others.
  template <class Claim>
  Span* adopt(ClassIndex size_class, u32 shard, Claim&& claim);

  void lock_for_fork();
  void unlock_after_fork();

  // Whether a listed span is linked; for walks, while no other thread is inside.
  static bool is_linked(const Span* span) { return span->listed.get() == kLinked; }

  // For walks that check the lists.
  template <class Visit>
  void for_each(Visit&& visit);

 private:
  enum Listed : u8 { kNobody = 0, kLinked = 1, kAwaited = 2 };
  struct alignas(kCacheLine) Shard {
    SpinLock lock;
    Atomic<SpanNumber> heads[kClasses];  // written under the lock, read without it to skip empty lists
  };

  void unlink(Shard& shard, Span* span);

  Shard shards_[kMaxShards];
};

extern PartialPool g_partial_pool __attribute__((visibility("hidden")));

template <class Claim>
Span* PartialPool::adopt(ClassIndex size_class, u32 shard, Claim&& claim) {
  for (u32 i = 0; i < shard_count(); ++i) {
    Shard& from = shards_[(shard + i) & (shard_count() - 1)];
    // relaxed: only whether to look; the list is read under the lock.
    if (from.heads[size_class].load(relaxed) == 0) continue;
    LockGuard guard(from.lock);
    for (SpanNumber number = from.heads[size_class].load(relaxed); number != 0;) {
      Span* span = span_at(number);
      number = span->next.get();
      if (claim(span)) {
        unlink(from, span);
        return span;
      }
    }
  }
  return nullptr;
}

template <class Visit>
void PartialPool::for_each(Visit&& visit) {
  for (u32 i = 0; i < shard_count(); ++i) {
    LockGuard guard(shards_[i].lock);
    for (const Atomic<SpanNumber>& head : shards_[i].heads) {
      // relaxed: under the lock.
      for (SpanNumber number = head.load(relaxed); number != 0; number = span_at(number)->next.get()) {
        visit(span_at(number));
      }
    }
  }
}

}  // namespace coffer
