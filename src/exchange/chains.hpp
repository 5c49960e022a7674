// SPDX-License-Identifier: MIT
// Chains of remote frees: blocks of others' spans that a thread freed wait here, a chain for each span, and travel
// together by one CAS. The table is direct-mapped by span: who frees blocks of many sizes, or of many threads, has a
// chain open for most of the spans. (snmalloc keeps such a table, too.)
//
//   heap->chains   | span, first, last, count, limit | ...    kChains of them; a span has one place
//
// Blocks on a chain are live to all others. What waits is bounded: kMaxChain blocks and about kMaxChainBytes a chain;
// each slow refill closes one chain in turn, and who seizes the heap closes all.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

inline usize chain_place(const Span* span) {
  const usize number = reinterpret_cast<uptr>(span) / sizeof(Span);
  return number * 0x9e3779b97f4a7c15 >> (64 - kChainsLog2);
}
inline Chain& chain_of(Heap* heap, const Span* span) { return heap->chains[chain_place(span)]; }

// Puts a block before the first one on the open chain of its span. true: it takes no more.
COFFER_INLINE bool add_to_chain(Chain& chain, Block* block, Block* first) {
  const u32 count = chain.count.get() + 1;
  block->next = first;
  chain.first.set(block);
  chain.count.set(count);
  return count >= chain.limit.get();
}

// Puts a block of another's span on a chain, or pushes it. Inside; heap: the thread's, or the null heap.
void free_remote(Heap* heap, Span* span, Block* block);
// Pushes what is on a chain.
void close_chain(Heap* heap, Chain& chain);
void close_chains(Heap* heap);
void close_next_chain(Heap* heap);

}  // namespace coffer
