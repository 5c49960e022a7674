// SPDX-License-Identifier: MIT
// The reusable spans of one LAB and class: a deque under a lock (section 5), with removal from the middle in constant
// time. The newest is taken first: its blocks are the likeliest to be in the cache.
//
// A span is in the set exactly while it is reusable: the lock covers transition and link together (see Span).
#pragma once

#include "os/spin_lock.hpp"
#include "papers/scalloc/span.hpp"

namespace coffer::scalloc {

class ReusableSet {
 public:
  void open(Owner owner) {
    LockGuard guard(lock_);
    owner_.set(owner);
  }

  // From now on nobody can put. Spans stay until drain.
  void close() {
    LockGuard guard(lock_);
    owner_.set(kTerminated);
  }

  enum class Put : u8 { done, changed, closed };
  // Makes a floating span reusable. `changed`: its epoch was not `old` any more. `closed`: the set is not `owner`'s.
  Put put(Owner owner, Span* span, Epoch old) {
    LockGuard guard(lock_);
    if (owner_.get() != owner) return Put::closed;
    if (!try_mark_reusable(span, old)) return Put::changed;
    insert(span);
    return Put::done;
  }

  // Takes a span out and makes it hot, or what else `to` says. nullptr: the set is empty.
  Span* get(State to) {
    if (first_.get() == nullptr) return nullptr;  // a span that is put meanwhile is for the next time
    LockGuard guard(lock_);
    Span* span = first_.get();
    if (span == nullptr) return nullptr;
    remove(span);
    // Nobody else can move a reusable span without this lock.
    const bool marked = try_mark(span, load_epoch(span), to);
    COFFER_ASSERT(marked);
    return span;
  }

  // Makes a reusable span free, if its epoch is still `old`; then it was in this set.
  bool try_remove(Span* span, Epoch old) {
    LockGuard guard(lock_);
    if (!try_mark_free(span, old)) return false;
    remove(span);
    return true;
  }

  SpinLock& lock() { return lock_; }
  // Under the lock.
  Span* first() const { return first_.get(); }

 private:
  void insert(Span* span) {
    Span* before = first_.get();
    span->newer.set(nullptr);
    span->older.set(before);
    if (before != nullptr) before->newer.set(span);
    first_.set(span);
  }

  void remove(Span* span) {
    Span* newer = span->newer.get();
    Span* older = span->older.get();
    if (newer != nullptr) {
      newer->older.set(older);
    } else {
      first_.set(older);
    }
    if (older != nullptr) older->newer.set(newer);
  }

  SpinLock lock_;
  Owned<Owner> owner_;
  Owned<Span*> first_;
};

}  // namespace coffer::scalloc
