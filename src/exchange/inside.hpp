// SPDX-License-Identifier: MIT
// Inside: how a thread says that it uses its heap. While it does not, another thread can seize the heap: a thread may
// sleep for ever, and the memory that its heap keeps must not be lost to others.
//
// This is Dekker's algorithm with two flags. The thread's side needs no fence, because the seizer issues a barrier on
// every processor that runs a thread of the process (membarrier):
//
//   thread:  inside := what it is at work on   seizer:  self := null heap   (CAS from the heap: one seizer at a time)
//            (compiler fence)                           barrier everywhere
//            heap := self                               inside == outside?  the seizer has the heap: its lists, its
//            the null heap: no heap to use                rings, the owner's line of its spans, its mail
//            else its lists, its spans' lines           in a fast path?  it has the mail, except the span at work on
//            inside := outside (release)                in a slow path?  it has nothing
//                                                       self := heap (release)
//
// Why it is right: a thread that read `self` before the barrier stored `inside` before that, so the seizer sees
// `inside`, or the call is over. A thread that reads `self` later finds the null heap. After each change of `inside`
// the thread reads `self` again.
//
// No thread waits for another one. A thread whose heap is seized frees as a thread without a heap does, and allocates
// from the fallback heap. If a thread is stopped for ever in a fast path, others can still take what they free into
// its spans.
//
// Model: models/seize.pml.
#pragma once

#include "exchange/record.hpp"
#include "exchange/registry.hpp"

namespace coffer {

// What is not as usual, in one cell, so that usual paths look at it once.
//   kFenceCalls    the kernel offers no such barrier: every call needs a fence, and both fast paths are closed
//                  (Arena::fast_frontier, fast_sizes). Set once, before there is a span
//   kWatchLists    somebody wants to know what heaps take for malloc (watching.hpp): it takes its slow path for each
//                  list of blocks
//   kSampleLists   and asks, before it takes one, whether this block is to be sampled (profiling.hpp)
enum UnusualFlag : u8 { kFenceCalls = 1, kWatchLists = 2, kSampleLists = 4 };
extern Atomic<u8> g_unusual __attribute__((visibility("hidden")));
// relaxed, here and for all later uses in this file: the first flag does not change, the second is a hint that may be
// late.
COFFER_INLINE bool is_unusual() { return g_unusual.load(relaxed) != 0; }
inline bool only_samples() { return g_unusual.load(relaxed) == (kSampleLists | kWatchLists); }
inline bool fences_calls() { return (g_unusual.load(relaxed) & kFenceCalls) != 0; }
inline bool samples_lists() { return (g_unusual.load(relaxed) & kSampleLists) != 0; }
inline bool watches_lists() { return (g_unusual.load(relaxed) & kWatchLists) != 0; }

// Begins a slow path: the thread's heap; the null heap: it has none, or somebody has seized it.
COFFER_INLINE Heap* enter(Heap* own) {
  own->inside.store(kInSlowPath, relaxed);  // relaxed: the barrier is the seizer's
  compiler_fence();
  // Stands for the barrier that a seizer cannot issue; pairs with the same on its side (seizing.cpp).
  if (COFFER_UNLIKELY(is_unusual()) && fences_calls()) full_fence();
  return own->self.load(acquire);  // acquire: pairs with the release in seize; what the seizer did is seen
}
// release: pairs with the acquire in seize; what the call did is there before the heap can be had.
COFFER_INLINE void leave(Heap* own) { own->inside.store(kOutside, release); }

// A call, from here to the end of the object. Not to be nested: who is called inside gets the heap from its caller.
class Inside {
 public:
  COFFER_INLINE Inside() : heap_(enter(t_heap)) {}
  COFFER_INLINE ~Inside() { leave(t_heap); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  Heap* heap() const { return heap_; }  // may be the null heap
  // The same; a thread that never had a heap gets one. nullptr: none can be had now.
  COFFER_INLINE Heap* own() {
    if (COFFER_UNLIKELY(heap_ == &g_null_heap)) return attach();
    return heap_;
  }

 private:
  Heap* attach();
  Heap* heap_;
};

// A look at the thread's own heap from wherever it is, also in a signal handler inside a call.
class InsideAgain {
 public:
  InsideAgain() : own_(t_heap), before_(own_->inside.load(relaxed)), heap_(enter(own_)) {}  // relaxed: its own
  ~InsideAgain() {
    own_->inside.store(before_, release);  // release: as in leave
  }
  InsideAgain(const InsideAgain&) = delete;
  InsideAgain& operator=(const InsideAgain&) = delete;
  Heap* heap() const { return heap_; }

 private:
  Heap* own_;
  uptr before_;
  Heap* heap_;
};

}  // namespace coffer
