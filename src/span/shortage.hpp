// SPDX-License-Identifier: MIT
// Memory is exhausted. A malloc that finds no free block looks at every span, and from then on, until a new span can be
// made, every block that is freed makes itself known: all thresholds are one block. So the next malloc neither looks at
// every span again nor fails while there is a block that such a look would find.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"

namespace coffer {

// Odd while memory is exhausted; grows with each beginning and each end. A heap that has seen to all its spans in one
// such time remembers its number (Heap::settled).
inline constinit Atomic<u32> g_shortage;

inline bool is_short() { return (g_shortage.load(relaxed) & 1) != 0; }  // relaxed: a threshold that may be late
// seq_cst: after the span was shared, see share_span.
inline bool is_short_after_sharing() { return (g_shortage.load(seq_cst) & 1) != 0; }

// Before a look at all spans. Returns the number of this time.
inline u32 begin_shortage() {
  // seq_cst, all: before the look, see share_span.
  u32 seen = g_shortage.load(seq_cst);
  while ((seen & 1) == 0 && !g_shortage.compare_exchange(seen, seen + 1, seq_cst, seq_cst)) {
  }
  return seen | 1;
}

// Grows, while memory is exhausted, with all that may serve a request which was in vain (heap/failure.hpp), once that
// can be found. What a thread with a heap of its own frees in the heap's spans is not counted: its heap tells.
inline constinit Atomic<u32> g_supply;

// release: pairs with the acquire in begin_search: who begins after this finds what came.
inline void note_supply() {
  if (COFFER_UNLIKELY(is_short())) g_supply.fetch_add(1, release);
}
// At the end of a block of code.
struct NotedSupply {
  ~NotedSupply() { note_supply(); }
};

// A span was made.
inline void end_shortage() {
  u32 seen = g_shortage.load(relaxed);  // relaxed, all: whoever is late with it meets thresholds that are too low
  if (COFFER_LIKELY((seen & 1) == 0)) return;
  g_supply.fetch_add(1, relaxed);
  g_shortage.compare_exchange(seen, seen + 1, relaxed, relaxed);
}

}  // namespace coffer
