// SPDX-License-Identifier: MIT
// The bracket: how an owner says which span's line it is at work on. Whoever takes a span away (taking.hpp) first makes
// its owner none, then issues a barrier on every processor that runs a thread of the process (membarrier), and then
// looks for the span's name in the old owner's bracket:
//
//   owner:  bracket := span         taker:  owner := none
//           (compiler fence)                barrier everywhere
//           owner == self?                  bracket == span?  -> leave it for later
//           work                            else the line is the taker's
//           bracket := none (release)
//
// An owner whose look at `owner` came before the barrier had its bracket written before it, too, so the taker sees the
// name, or that the work is done. One that looks later sees that the span is gone. So the owner pays two plain stores,
// and no fence. deallocate (heap.hpp) does the same by hand.
//
// Model: models/settle.pml.
#pragma once

#include "heap/heap.hpp"

namespace coffer {

// What is not as usual, in one cell, so that usual paths look at it once.
//   kFenceBrackets   the kernel offers no such barrier: every bracket needs a fence, and the fast path of free is off
//                    (Arena::fast_frontier). Set once, before there is a span
//   kWatchLists      somebody wants to know what heaps take for malloc (watching.hpp): it takes its slow path for each
//                    list of blocks
//   kSampleLists     and asks, before it takes one, whether this block is to be sampled (profiling.hpp)
enum BracketFlag : u8 { kFenceBrackets = 1, kWatchLists = 2, kSampleLists = 4 };
extern Atomic<u8> g_bracket_flags __attribute__((visibility("hidden")));
// relaxed, here and for all later uses in this file: the first flag does not change, the second is a hint that may be
// late.
COFFER_INLINE bool is_unusual() { return g_bracket_flags.load(relaxed) != 0; }
inline bool only_samples() { return g_bracket_flags.load(relaxed) == (kSampleLists | kWatchLists); }
inline bool fences_brackets() { return (g_bracket_flags.load(relaxed) & kFenceBrackets) != 0; }
inline bool samples_lists() { return (g_bracket_flags.load(relaxed) & kSampleLists) != 0; }
inline bool watches_lists() { return (g_bracket_flags.load(relaxed) & kWatchLists) != 0; }

// seq_cst: stands for the barrier that the taker cannot issue; pairs with the same on its side (settle_unsettled).
COFFER_INLINE void bracket_fence() {
  compiler_fence();
  if (COFFER_UNLIKELY(is_unusual()) && fences_brackets()) full_fence();
}

// Not to be nested: a heap has one bracket.
class Bracket {
 public:
  COFFER_INLINE Bracket(Heap* heap, Span* span) : heap_(heap) {
    heap->bracket.store(span, relaxed);  // relaxed, and below: see above
    bracket_fence();
    owned_ = span->owner.load(relaxed) == heap;
  }
  // release: pairs with the taker's acquire; what was done here is seen before the name is gone.
  COFFER_INLINE ~Bracket() { heap_->bracket.store(nullptr, release); }
  Bracket(const Bracket&) = delete;
  Bracket& operator=(const Bracket&) = delete;

  bool owned() const { return owned_; }  // the span is still the heap's

 private:
  Heap* heap_;
  bool owned_;
};

}  // namespace coffer
