// SPDX-License-Identifier: MIT
// Partly used spans without an owner, by class. A heap adopts from here before it takes new memory (Hoard's global
// heap, paper 1, section 3.1). The lists are doubly linked, under one small lock a shard, because a span can leave
// from the middle.
//
// The thread that listed a span puts it in. An adopter takes it off, or the thread that freed its last block does, and
// that thread can come before the inserter. Both work under the shard's lock, and the second one finishes. `listed` in
// the record of the span says who was there:
//   0           neither
//   kLinked     it is on the list
//   kAwaited    its last block was freed before it was linked: the inserter must give the span back
//
// A list has the spans whose pages were not looked at yet (span/purge_span.hpp) at its head, newest first, then those
// that were looked at. `waiting` is the oldest span that was not looked at.
//
// Model: models/partial_pool.pml.
#pragma once

#include "arena/arena.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {

class PartialPool {
 public:
  // Puts a listed span in. false: it became empty meanwhile, and the caller has to give it back.
  // `free_bytes` of it are free and perhaps resident.
  bool insert(Span* span, usize free_bytes = 0);
  // The same for a span whose pages were looked at.
  bool insert_looked_at(Span* span);
  // Takes a returning span off. false: it was not in yet; who inserts it gives it back.
  bool remove(Span* span);

  // The first span of the class for which claim(span) holds, taken off; from `shard`'s list, else from the others.
  // nullptr: there was a moment during the call at which no shard had one (docs/design/bound.md, lemma 1). `looks`:
  // spans of a list that are looked at.
  template <class Claim>
  Span* adopt(ClassIndex size_class, u32 shard, Claim&& claim, u32 looks = ~0u);
  usize listed_bytes() const;  // of all spans in the pool; a figure that may be late

  // The oldest span of the list that waits for a look and is as old as that (in ticks), for which claim(span) holds,
  // taken off.
  template <class Claim>
  Span* take_waiting(ClassIndex size_class, u32 shard, u32 least_age, Claim&& claim);
  // Makes all spans wait for a look again.
  void look_again();
  // Free bytes, not counting absent pages, of spans that wait for a look, as of when they were put in.
  usize waiting_bytes() const { return waiting_bytes_.load(relaxed); }  // relaxed: a figure

  // In a fork child: lets go of locks that vanished threads had. True if there were any; then lists may be half
  // changed, and is_torn() holds until they are made anew: drop_lists(), forget(span) for every span there is, insert()
  // for those that are listed, and mark_whole().
  bool forget_others();
  bool is_torn() const { return torn_; }
  void drop_lists();
  static void forget(Span* span);
  void mark_whole() { torn_ = false; }

  // Whether a listed span is linked; for walks, while no other thread is inside.
  static bool is_linked(const Span* span) { return span->listed.get() == kLinked; }

  // For walks that check the lists.
  template <class Visit>
  void for_each(Visit&& visit);

 private:
  enum Listed : u8 { kNobody = 0, kLinked = 1, kAwaited = 2 };
  struct alignas(kCacheLine) Shard {
    SpinLock lock;
    Atomic<SpanNumber> heads[kClasses];    // written under the lock, read without it to skip empty lists
    Atomic<SpanNumber> waiting[kClasses];  // the same
    Atomic<u32> inserts[kClasses];         // grows with each span that is put in; the same
    Owned<usize> bytes;                    // of all spans in it
  };

  // What a linked span's pool_note holds: when it was put in, and what waiting_bytes_ counts for it.
  static constexpr u32 kNoteShift = 14;
  static constexpr u32 kTickMask = ~u32{0} >> kNoteShift;
  static u32 note_of(const Span* span) { return span->pool_note.get(); }
  static u32 note_bytes(u32 note) { return (note & ((1u << kNoteShift) - 1)) * kQuantum * 2; }
  static u32 note_tick(u32 note) { return note >> kNoteShift; }
  static u32 tick_now();

  void link(Shard& shard, Span* span, SpanNumber previous, SpanNumber next);
  void link_waiting(Shard& shard, Span* span, usize free_bytes);
  void note_insert(Shard& shard, const Span* span);
  u32 inserts(ClassIndex size_class) const;
  void unlink(Shard& shard, Span* span);
  void unlink_but_head(Shard& shard, Span* span);
  template <class Claim>
  bool take_off_if(Shard& shard, Span* span, Claim&& claim);

  Shard shards_[kMaxShards];
  Atomic<usize> waiting_bytes_;
  bool torn_ = false;
};

extern PartialPool g_partial_pool __attribute__((visibility("hidden")));

// Off the list first: as soon as the claim is made the span may go on to a next life, where the record's links are
// another list's (model: UNLINK_LATE). Where the claim fails it goes back to its place. The head follows after the
// claim: who finds a list empty without the lock may rely on it that what stood there is counted as somebody's.
template <class Claim>
bool PartialPool::take_off_if(Shard& shard, Span* span, Claim&& claim) {
  const ClassIndex size_class = span->size_class.get();
  const SpanNumber previous = span->previous.get(), next = span->next.get();
  const SpanNumber waiting = shard.waiting[size_class].load(relaxed);  // relaxed, here and below: under the lock
  unlink_but_head(shard, span);
  if (claim(span)) {
    // release: pairs with the acquire in adopt.
    if (previous == 0) shard.heads[size_class].store(next, release);
    return true;
  }
  link(shard, span, previous, next);
  shard.waiting[size_class].store(waiting, relaxed);
  waiting_bytes_.fetch_add(note_bytes(note_of(span)), relaxed);
  return false;
}

template <class Claim>
Span* PartialPool::adopt(ClassIndex size_class, u32 shard, Claim&& claim, u32 looks) {
  // A walk over the shards is no look at one moment: what is put in behind it is missed. So it is made again until none
  // was put in meanwhile. Each further walk is another thread's span, which that thread went on from.
  const u32 count = shard_count();
  for (u32 before = inserts(size_class);;) {
    for (u32 i = 0; i < count; ++i) {
      Shard& from = shards_[(shard + i) & (count - 1)];
      // acquire: before the second count; pairs with the release in take_off_if.
      if (from.heads[size_class].load(acquire) == 0) continue;
      LockGuard guard(from.lock);
      u32 left = looks;
      // relaxed: under the lock.
      for (SpanNumber number = from.heads[size_class].load(relaxed); number != 0 && left > 0; --left) {
        Span* span = span_at(number);
        number = span->next.get();
        if (take_off_if(from, span, claim)) return span;
      }
    }
    const u32 now = inserts(size_class);
    if (now == before) return nullptr;
    before = now;
  }
}

template <class Claim>
Span* PartialPool::take_waiting(ClassIndex size_class, u32 shard, u32 least_age, Claim&& claim) {
  Shard& from = shards_[shard];
  // relaxed: as in adopt.
  if (from.waiting[size_class].load(relaxed) == 0) return nullptr;
  const u32 now = tick_now();
  LockGuard guard(from.lock);
  for (SpanNumber number = from.waiting[size_class].load(relaxed); number != 0;) {
    Span* span = span_at(number);
    number = span->previous.get();
    // Those before it are younger.
    if (((now - note_tick(note_of(span))) & kTickMask) < least_age) return nullptr;
    if (take_off_if(from, span, claim)) return span;
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
