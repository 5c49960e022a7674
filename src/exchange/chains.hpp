// SPDX-License-Identifier: MIT
// Chains of remote frees: blocks of others' spans that a thread freed wait here, a chain for each span, and travel
// together by one CAS. The table is direct-mapped by span: who frees blocks of many sizes, or of many threads, has a
// chain open for most of the spans. (snmalloc keeps such a table, too.)
//
//   heap->chains   | span, first, last, left, limit | ...    kChains of them; a span has one place
//
// Blocks on a chain are live to all others. What waits is bounded, as coffer_check verifies: at most kMaxChainBytes a
// chain, for one that is full is pushed. Each slow refill closes one chain in turn, and who seizes the heap closes all.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// The golden section of 2^25, by which numbers of records that follow each other, or lie 2, 4 or 8 apart, fall on
// different places: a record is 128 bytes, so the lowest 7 bits of its address say nothing.
inline usize chain_place(const Span* span) {
  static_assert(sizeof(Span) == 1 << 7);
  return static_cast<u32>(reinterpret_cast<uptr>(span)) * u32{0x13c6ef7} >> (32 - kChainsLog2);
}
inline Chain& chain_of(Heap* heap, const Span* span) { return heap->chains[chain_place(span)]; }

// Puts a block before the first one on the open chain of its span. true: it takes no more.
COFFER_INLINE bool add_to_chain(Chain& chain, Block* block, Block* first) {
  set_link(block, first);
  chain.first.set(block);
  return chain.left.decrement();
}

// Puts a block of another's span on a chain, or pushes it. Inside; heap: the thread's, or the null heap.
void free_remote(Heap* heap, Span* span, Block* block);
// Pushes what is on a chain.
void close_chain(Heap* heap, Chain& chain);
void close_chains(Heap* heap);
void close_next_chain(Heap* heap);

}  // namespace coffer
